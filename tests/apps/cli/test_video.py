"""`cua video` from the outside: what it prints, what it writes, and one line for what it cannot use."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apps.cli.main import app
from apps.cli.running import exit_code_of
from apps.video_showcase.events import VideoEvent
from benchmarks.made_videos import Recipe, make_video
from tests.apps.cli.running import Ended, cua


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[VideoEvent]]:
    """Forty seconds with flashes and beeps; its name must not break a page."""
    recipe = Recipe(name="<b>odd & 'name'.mp4", seconds=40, seed=2, mean_gap_s=10, kinds=("flash", "beep"))
    return make_video(recipe, tmp_path_factory.mktemp("videos"))


def ask(folder: Path, *words: str) -> Ended:
    return cua(folder, "video", *words, "--model", "literal")


@pytest.mark.long
def test_the_answer_cites_and_the_showcase_is_written(tmp_path: Path, short: tuple[Path, list[VideoEvent]]) -> None:
    path, truth = short
    done = ask(tmp_path, str(path), "When are there flashes and beeps?", "-o", "show")
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{len(truth)} events in 1 file of 00:00:40")
    cited = [event.citation for event in truth]
    assert [line.split(" flash:")[0].split(" beep:")[0].removeprefix("- ") for line in lines[1:]] == cited
    assert "detectors: flash, sound" in done.stderr
    folder = tmp_path / "show"
    events = json.loads((folder / "events.json").read_text())
    assert [event["citation"] for event in events] == cited
    assert len(list((folder / "clips").iterdir())) == len(list((folder / "thumbnails").iterdir())) == len(truth)
    page = (folder / "index.html").read_text()
    assert "<b>odd" not in page
    assert "&lt;b&gt;odd &amp; &#39;name&#39;.mp4@" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.long
def test_json_has_events_and_figures(tmp_path: Path, short: tuple[Path, list[VideoEvent]]) -> None:
    done = ask(tmp_path, str(short[0]), "Any beeps?", "--output-format", "json")
    kinds = [event.kind for event in short[1]]
    assert [event["kind"] for event in done.result["events"]] == ["beep"] * kinds.count("beep")
    assert done.result["measures"]["critical_steps"] == 7  # make, assign and watch (3), merge, answer
    assert done.result["missing"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name videos and a question"),
        (["a.txt", "When?"], "a.txt cannot be read as a video"),
        (["none.mp4", "When?"], "no such file"),
        (["empty.mp4", "When?"], "is empty (0 bytes)"),
        (["a.txt"], "name the videos first and then the question"),
        (["x.mp4", " "], "the question is empty"),
        (["x.mp4", "When?", "--detect", "flsh"], "'flsh'"),
        (["x.mp4", "When?", "--template", "a.txt"], "a.txt"),
        (["x.mp4", "When?", "-o", "full"], "already exists and is not a showcase"),
        (["--resume", "last"], "no run"),
    ],
)
def test_bad_input_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path / "runs"))
    (tmp_path / "a.txt").write_text("only words\n")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    result = CliRunner().invoke(app, ["video", *words, "--model", "literal"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        code, text = exit_code_of(result.exception), str(result.exception)  # type: ignore[arg-type]
    else:
        code, text = result.exit_code, result.output
    assert code == 2
    assert said in " ".join(text.split())


@pytest.mark.long
def test_the_showcase_of_a_finished_run_is_made_later(tmp_path: Path, short: tuple[Path, list[VideoEvent]]) -> None:
    first = ask(tmp_path, str(short[0]), "Any beeps?")
    done = cua(tmp_path, "video", "--resume", "last", "-o", "late")
    assert (done.code, done.stdout) == (0, first.stdout)
    assert (tmp_path / "late" / "index.html").is_file()
    assert "nothing to resume" in cua(tmp_path, "video", "--resume", "last").stderr


@pytest.mark.long
def test_a_model_that_cites_what_nobody_noted_is_told_on(tmp_path: Path, short: tuple[Path, list[VideoEvent]]) -> None:
    name = short[0].name
    lines = [
        {"for": "span-001:", "content": "Nothing is to be seen."},
        {"for": "Any cats?", "content": f"A cat at {name}@00:00:07, no dog."},
    ]
    script = tmp_path / "replies.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = cua(tmp_path, "video", str(short[0]), "Any cats?", "--model", f"scripted:{script}")
    assert done.code == 0, done.stderr
    assert done.stdout == f"A cat at {name}@00:00:07, no dog.\n"
    assert f"the answer cites times without a recorded event: {name}@00:00:07" in done.stderr
