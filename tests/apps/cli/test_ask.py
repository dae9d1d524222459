"""`cua ask` as a person or a program uses it."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.apps.cli.running import cua, descendants, names_below, start, wait_until, wait_until_gone

COUNT = "import visual_tools as vt\nprint((vt.load_image('dots.png')[..., 0] < 128).sum())"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    image = Image.new("RGB", (60, 40), "white")
    image.paste("black", (5, 5, 35, 25))
    image.save(tmp_path / "dots.png")
    return tmp_path / "dots.png"


def script(folder: Path, *replies: Any) -> str:
    """A `--model` value that replays replies; a list is one reply with a cell for each text."""
    lines = []
    for reply in replies:
        if isinstance(reply, list):
            calls = [
                {"id": f"c{i}", "name": "ipython", "arguments": json.dumps({"code": code})}
                for i, code in enumerate(reply)
            ]
            reply = {"content": "", "tool_calls": calls}
        lines.append(json.dumps(reply) + "\n")
    path = folder / "replies.jsonl"
    path.write_text("".join(lines))
    return f"scripted:{path}"


@pytest.mark.long
def test_the_answer_is_on_stdout_and_progress_on_stderr(tmp_path: Path, picture: Path) -> None:
    model = script(tmp_path, [COUNT], "600 are dark [^0^].")
    done = cua(tmp_path / "runs", "ask", "How many dark pixels?", str(picture), "-m", model)
    assert (done.code, done.stdout) == (0, "600 are dark [^0^].\n")
    assert "[0] 600" in done.stderr
    assert "answer.json" in done.stderr
    (run_dir,) = (tmp_path / "runs").iterdir()
    assert {"answer.json", "notebook.ipynb", "report.html", "files", "inputs", "images", "trajectory.jsonl"} <= {
        path.name for path in run_dir.iterdir()
    }


@pytest.mark.slow
def test_json_and_verify_in_one_go_and_later(tmp_path: Path, picture: Path) -> None:
    model = script(tmp_path, [COUNT], "600 are dark [^0^].")
    done = cua(
        tmp_path / "runs", "ask", "?", str(picture), "-m", model, "--verify", "--output-format", "json", timeout_s=120
    )
    assert done.code == 0
    assert done.result["status"] == "unverified"
    assert done.result["verification"]["is_reproduced"] is True
    assert json.loads(Path(done.result["evidence"]).read_text())["verification"]["num_reproduced"] == 1
    again = cua(tmp_path / "runs", "ask", "--verify")
    assert again.code == 0
    assert "reproduced: 1 cells, 1 of 1 cited statements" in again.stderr
    fingerprint = done.result["fingerprint"]
    assert f"fingerprint: {fingerprint}" in again.stderr
    folder = Path(done.result["evidence"]).parent
    record = folder / "trajectory.jsonl"
    record.write_text(record.read_text().replace("600 are dark", "700 are dark"))
    edited = cua(tmp_path / "runs", "ask", "--verify", "--expect", fingerprint, "--output-format", "json")
    assert edited.code == 1
    assert edited.result["is_reproduced"] is False
    assert edited.result["findings"][0] == f"the fingerprint is lost, {fingerprint} was expected"
    assert "not reproduced" in edited.stderr
    assert "answer.json does not say what the record says" in edited.stderr


@pytest.mark.slow
def test_a_run_that_comes_out_otherwise_has_its_own_exit_code(tmp_path: Path, picture: Path) -> None:
    model = script(tmp_path, ["import time; print(time.time_ns())"], "now [^0^]")
    done = cua(tmp_path / "runs", "ask", "?", str(picture), "-m", model, "--verify", timeout_s=120)
    assert done.code == 1
    assert "not reproduced" in done.stderr


@pytest.mark.slow
def test_a_stream_of_events(tmp_path: Path, picture: Path) -> None:
    model = script(tmp_path, [COUNT, "1/0"], "600 [^0^]")
    done = cua(tmp_path / "runs", "ask", "?", str(picture), "-m", model, "--output-format", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        *("run_started", "calls_started", "call_returned", "call_returned", "step_done", "step_done", "result")
    ]
    returned = {event["id"]: event for event in events if event["event"] == "call_returned"}
    assert returned["functions.ipython:0"]["text"] == "600"
    assert returned["functions.ipython:1"]["is_error"] is True


@pytest.mark.slow
def test_schema_and_capped(tmp_path: Path, picture: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "object", "required": ["count"]}))
    model = script(tmp_path, [COUNT], '```json\n{"count": 600}\n```\n[^0^]')
    done = cua(tmp_path / "runs", "ask", "?", str(picture), "-m", model, "--schema", str(schema))
    assert json.loads(done.stdout) == {"count": 600}
    capped = cua(
        tmp_path / "runs", "ask", "?", str(picture), "-m", script(tmp_path, *[[COUNT]] * 5), "--max-steps", "2"
    )
    assert capped.code == 3
    assert "2 of 2 steps used" in capped.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ask"], "a question is needed"),
        (["ask", "?"], "the embedded literal model"),
        (["ask", "?", "-m", "scripted:x"], "the script x cannot be read"),
        (["ask", "?", "--sandbox", "jail"], "jail"),
        (["ask", "--verify"], "there are no runs"),
    ],
)
@pytest.mark.long
def test_wrong_usage_is_one_line(tmp_path: Path, arguments: list[str], told: str) -> None:
    done = cua(tmp_path / "runs", *arguments)
    assert done.code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_without_isolation_a_person_is_asked_and_nobody_is_there(tmp_path: Path, picture: Path) -> None:
    model = script(tmp_path, [COUNT], "I could not look.")
    done = cua(tmp_path / "runs", "ask", "?", str(picture), "-m", model, "--sandbox", "none")
    assert "runs without any isolation (--sandbox none); there is no person to approve it" in done.stderr
    allowed = cua(
        tmp_path / "runs", "ask", "?", str(picture), "-m", script(tmp_path, [COUNT], "ok"), "--sandbox", "none", "-y"
    )
    assert "[0] 600" in allowed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_agent(tmp_path: Path, picture: Path, number: int) -> None:
    """The kernel is in the middle of a cell when its agent goes."""
    model = script(tmp_path, ["import subprocess\nsubprocess.run(['sleep', '600'])"], "never")
    process = start(tmp_path / "runs", "ask", "?", str(picture), "-m", model, "--set", "cell_timeout=900")
    wait_until(lambda: "sleep" in names_below(process), timeout_s=60)
    family = descendants(process)
    os.kill(process.pid, number)
    wait_until_gone(family, tmp_path)
    process.communicate(timeout=30)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)


@pytest.mark.slow
def test_shown_runs_and_replay(tmp_path: Path, picture: Path) -> None:
    cua(tmp_path / "runs", "ask", "How many?", str(picture), "-m", script(tmp_path, [COUNT], "600 [^0^]"))
    listed = cua(tmp_path / "runs", "runs")
    assert "How many?" in listed.stdout
    assert "2 steps" in listed.stdout
    replayed = cua(tmp_path / "runs", "replay", "last")
    assert "  [0] 600" in replayed.stdout.splitlines()


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_right_answer(tmp_path: Path, picture: Path) -> None:
    runs, flag = tmp_path / "runs", 'import os, time\nwhile not os.path.exists("never"): time.sleep(0.05)'
    model = script(tmp_path, ["total = 600\nopen('out.txt', 'a').write('x')"], [flag], "never")
    process = start(runs, "ask", "How many?", str(picture), "-m", model)
    wait_until(lambda: list(runs.glob("*/trajectory.jsonl")), timeout_s=60)
    (record,) = runs.glob("*/trajectory.jsonl")
    wait_until(lambda: record.read_text().count('"event":"calling"') == 2, timeout_s=60)
    family = descendants(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    wait_until_gone(family, tmp_path)
    read = "print(total, open('out.txt').read(), os.path.exists('never') if 'os' in globals() else 'no os')"
    resumed = cua(runs, "ask", "--resume", "last", "-m", script(tmp_path, [read], "600 are dark [^2^]."))
    assert (resumed.code, resumed.stdout) == (0, "600 are dark [^2^].\n")
    assert "resumed: 1 cells were run again, all as before" in resumed.stderr
    assert "[1] The run broke off while this call was being carried out" in resumed.stderr
    assert "[2] 600 x no os" in resumed.stderr
    run_dir = record.parent.rename(tmp_path / "elsewhere")
    foreign = cua(runs, "ask", "--resume", str(run_dir), "And?", "-m", model)
    assert (foreign.code, "is not in your folder of runs" in foreign.stderr) == (2, True)


@pytest.mark.slow
def test_a_chat_keeps_variables_from_line_to_line(tmp_path: Path, picture: Path) -> None:
    runs = tmp_path / "runs"
    model = script(tmp_path, ["kept = 6"], "Six.", ["print(2 * kept)"], "Twelve [^1^].", "Bye.")
    talk = cua(runs, "ask", "--chat", "Remember", str(picture), "-m", model, stdin="\nAnd twice that?\n\nBye\n")
    assert (talk.code, talk.stdout) == (0, "Six.\nTwelve [^1^].\nBye.\n")
    assert "[1] 12" in talk.stderr
    (run_dir,) = runs.glob("20*")
    assert json.loads((run_dir / "answer.json").read_text())["question"] == "Bye"
    assert "And twice that?" in (run_dir / "report.html").read_text()
    wrong = cua(runs, "task", "--resume", "last")
    assert (wrong.code, "resume it with: cua ask --resume" in wrong.stderr) == (2, True)
    folder = Path(cua(runs, "export", "last", "results").stdout.strip())
    assert {path.name for path in (runs / folder).iterdir()} == {"conversation.jsonl", "notebook.ipynb"}
    nothing = cua(runs, "ask", "--chat", "-m", model, stdin="\n")
    assert (nothing.code, "standard input has no question" in nothing.stderr) == (2, True)
