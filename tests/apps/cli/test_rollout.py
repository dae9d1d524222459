"""`cua rollout`: what was recorded, and samples as JSON lines."""

import json
from pathlib import Path

import pytest

from cua.rollouts.journal import RolloutJournal
from cua.rollouts.rollout import RolloutEnd
from cua.rollouts.samples import SampleWriter
from tests.apps.cli.running import Ended, cua
from tests.cua.rollouts.test_samples import MEDIA, make_rollout, make_sample


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    writer = SampleWriter(folder, media_token_id=MEDIA)
    journal = RolloutJournal(folder, writer)
    for number, reward in enumerate((0.0, 1.0)):
        writer.append(make_rollout(writer, make_sample(), rollout=f"g/{number}", group="g", reward=reward))
        journal.ended(f"g/{number}", RolloutEnd(kind="scored", score=reward))
    writer.append(make_rollout(writer, make_sample(), rollout="g/1#1.0", group="g/1", reward=0.0))
    journal.ended("g/1#1.0", RolloutEnd(kind="scored", score=0.0))  # a sub-task is not a member of the group
    journal.ended("h/0", RolloutEnd(kind="error", reason="the browser ended", num_attempts=3))
    journal.submitted("g", size=2, draws={})
    await journal.close()
    writer.close()
    return folder


def rollout(run: Path, *arguments: str) -> Ended:
    return cua(run.parent, "rollout", *arguments)


def test_show(run: Path) -> None:
    shown = rollout(run, "show", str(run))
    assert (shown.code, shown.stderr) == (0, "")
    assert "4 ended (3 scored, 1 error)" in shown.stdout
    assert "0.500" in next(line for line in shown.stdout.splitlines() if line.startswith("g "))
    assert "1 x the browser ended" in shown.stdout
    summary = json.loads(rollout(run, "show", str(run), "--json").stdout)
    assert summary["groups"]["g"] == {"size": 2, "num_scored": 2, "mean_score": 0.5, "is_taken": False}
    assert summary["samples"]["num_samples"] == 3
    page = rollout(run, "show", str(run), "--html")
    assert (page.code, page.stdout) == (0, f"page: {run / 'index.html'}\n")
    assert "<td" in (run / "index.html").read_text()


def test_export(run: Path, tmp_path: Path) -> None:
    for form, field in (("jsonl", "ids"), ("verl", "response_ids"), ("slime", "rollout_log_probs")):
        target = tmp_path / f"{form}.jsonl"
        assert rollout(run, "export", str(run), "--format", form, "-o", str(target)).code == 0
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        assert [field in row for row in rows] == [True] * 3
        again = rollout(run, "export", str(run), "--format", form, "-o", str(target))
        assert (again.code, "exists" in again.stderr) == (2, True)


def test_scored_rollouts_without_samples_are_noticed(run: Path, tmp_path: Path) -> None:
    samples, target = run / "samples.jsonl", tmp_path / "new.jsonl"
    samples.write_bytes(samples.read_bytes()[:-200])
    message = f"{{}} rollouts that ended as scored have no samples in {samples}"
    shown = rollout(run, "show", str(run), "--json")
    assert (shown.code, shown.stderr.strip()) == (0, message.format(1))
    assert json.loads(shown.stdout)["samples"]["num_samples"] == 2
    exported = rollout(run, "export", str(run), "--format", "jsonl", "-o", str(target))
    assert (exported.code, exported.stderr.splitlines()) == (1, [f"2 samples in {target}", message.format(1)])
    assert len(target.read_text().splitlines()) == 2
    target.unlink()
    samples.unlink()
    shown = rollout(run, "show", str(run))
    assert (shown.code, shown.stderr.strip()) == (0, message.format(3))
    exported = rollout(run, "export", str(run), "--format", "jsonl", "-o", str(target))
    assert (exported.code, "cannot read samples" in exported.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("form", ["jsonl", "verl", "slime"])
def test_an_export_that_fails_leaves_no_file(run: Path, tmp_path: Path, form: str) -> None:
    samples = run / "samples.jsonl"
    *lines, last = samples.read_bytes().splitlines(keepends=True)
    samples.write_bytes(b"".join(lines) + last.replace(b'"weight":1.0', b'"weight":0.5'))
    exported = rollout(run, "export", str(run), "--format", form, "-o", str(tmp_path / "new.jsonl"))
    assert (exported.code, "line 4" in exported.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    nowhere = rollout(run, "export", str(run), "--format", form, "-o", str(samples / "new.jsonl"))
    assert (nowhere.code, "cannot be written" in nowhere.stderr, "Traceback" in nowhere.stderr) == (2, True, False)


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--html",)])
def test_a_damaged_journal_is_one_line(run: Path, arguments: tuple[str, ...]) -> None:
    with (run / "rollouts.jsonl").open("a") as file:
        file.write('{"event": "group", "group": "g", "size": 10000000000000, "draws": {}}\n')
    shown = rollout(run, "show", str(run), *arguments)
    assert (shown.code, shown.stdout, len(shown.stderr.splitlines())) == (2, "", 1)
    assert "line 7, is not a line of a journal (size: " in shown.stderr


def test_wrong_use_is_one_line(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.jsonl"
    form = rollout(run, "export", str(run), "--format", "parquet", "-o", str(target))
    assert (form.code != 0, "jsonl, verl, slime" in form.stderr, target.exists()) == (True, True, False)
    nowhere = rollout(run, "score", str(tmp_path / "none"))
    assert (nowhere.code, (tmp_path / "none").exists(), "Traceback" in nowhere.stderr) == (2, False, False)
    nothing = rollout(run, "show", str(tmp_path))
    assert (nothing.code, "neither rollouts.jsonl nor samples.jsonl" in nothing.stderr) == (2, True)
    page = rollout(run, "show", str(tmp_path), "--html")
    assert (page.code, "has no rollouts.jsonl" in page.stderr) == (2, True)
    (tmp_path / "samples.jsonl").write_text("{}\n")
    damaged = rollout(run, "show", str(tmp_path))
    assert (damaged.code != 0, "Traceback" in damaged.stderr) == (True, False)
