"""`cua eval` as a person runs it: to the end, interrupted, gone on with, compared, and told what is wrong."""

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envs.browser.launch import find_browser
from tests.apps.cli import running
from tests.apps.cli.running import cua, start

SUITE = str(Path(__file__).parents[1] / "evals" / "canvas_suite.py")
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "results.schema.json").read_text("utf-8"))
CLICK = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.25, 0.5)\n```"


@pytest.fixture
def script(tmp_path: Path) -> str:
    return running.script(tmp_path, CLICK, running.DONE)


def results_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text("utf-8"))
    jsonschema.validate(content, SCHEMA)
    return content


def ended_keys(folder: Path) -> Counter[tuple[str, int, int]]:
    lines = map(json.loads, (folder / "episodes.jsonl").read_text("utf-8").splitlines())
    return Counter((line["task_id"], line["seed"], line["repeat"]) for line in lines if line["event"] == "ended")


@pytest.mark.long
def test_a_suite_is_run_to_its_end(tmp_path: Path, script: str) -> None:
    options = ("--suite-option", "odd=true", "--tasks", "click-*", "--tasks", "canvas/broken", "--repeats", "2")
    out = tmp_path / "found"
    ended = cua(tmp_path, "eval", SUITE, "--model", script, "--parallel", "2", "--out", str(out), *options)
    assert ended.code == 0, ended.stderr
    assert "[16/16]" in ended.stderr
    assert "evaluator: ZeroDivisionError: in the task's own code" in ended.stderr
    assert "score      56.2 %" in ended.stdout  # (6 * 1 + 6 * 0.5 + 4 * 0) / 16
    assert "success    37.5 %" in ended.stdout
    assert "null       12.5 %  an agent that does nothing" in ended.stdout
    found = results_of(out)
    assert (found["status"], found["num_planned"], found["plan"]["revision"]) == ("finished", 16, "7")
    assert found["plan"]["task_ids"] == ["canvas/click-0", "canvas/click-1", "canvas/click-2", "canvas/broken"]
    whole = found["figures"]["all"]
    assert (whole["num_scored"], whole["num_succeeded"], whole["errors"]) == (12, 6, {"evaluator_error": 4})
    assert (whole["mean_full"], whole["mean_scored"]) == (0.5625, 0.75)
    assert set(ended_keys(out).values()) == {1}
    page = (out / "index.html").read_text("utf-8")
    reports = {str(path.relative_to(out)) for path in out.glob("runs/*/report.html")}
    assert set(re.findall(r"runs/[^\"]+/report\.html", page)) == reports
    assert len(reports) == 16  # also of the four that broke
    assert len(list((out / "runs").iterdir())) == 16
    shown = cua(tmp_path, "eval", "show", str(out))
    assert shown.stdout == ended.stdout


@pytest.mark.long
def test_ctrl_c_keeps_what_is_over_and_resume_runs_exactly_the_rest(tmp_path: Path, script: str) -> None:
    gate, out = tmp_path / "gate", tmp_path / "found"
    gate.touch()
    words = [
        "eval",
        SUITE,
        "--suite-option",
        f"wait_for={gate}",
        "--model",
        script,
        "--parallel",
        "2",
        "--max-steps",
        "4",
    ]
    process = start(tmp_path, *words, "--out", str(out))
    assert process.stderr is not None
    while "[4/6]" not in (line := process.stderr.readline()):
        assert line, "it ended by itself"
    running.press_ctrl_c(process)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "unfinished: 2 of 6 episodes are not over: stopped by the user" in stdout
    assert f"--resume {out}" in stderr
    first = results_of(out)
    assert (first["status"], first["figures"]["all"]["num_episodes"]) == ("unfinished", 4)
    assert "2 of 6 episodes are not over" in (out / "index.html").read_text("utf-8")
    gate.unlink()
    other = cua(tmp_path, *words, "--resume", str(out), "--repeats", "2")
    assert (other.code, other.stdout) == (2, "")
    assert "has another plan: repeats was 1, and is now 2" in other.stderr
    second = cua(tmp_path, *words, "--resume", str(out))
    assert second.code == 0, second.stderr
    assert "[5/6]" in second.stderr
    assert "[4/6]" not in second.stderr
    assert set(ended_keys(out).values()) == {1}
    assert results_of(out)["status"] == "finished"


@pytest.mark.slow
def test_kill_9_and_a_second_go(tmp_path: Path, script: str) -> None:
    gate, out = tmp_path / "gate", tmp_path / "found"
    gate.touch()
    words = ["eval", SUITE, "--suite-option", f"wait_for={gate}", "--model", script]
    process = start(tmp_path, *words, "--out", str(out))
    assert process.stderr is not None
    while "[2/6]" not in (line := process.stderr.readline()):
        assert line, "it ended by itself"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    gate.unlink()
    ended = cua(tmp_path, *words, "--resume", str(out), "--output-format", "json")
    assert ended.code == 0, ended.stderr
    assert set(ended_keys(out).values()) == {1}
    told = json.loads(ended.stdout)
    assert (told["status"], told["figures"]["all"]["num_episodes"]) == ("finished", 6)


@pytest.mark.slow
def test_what_differs_is_told_and_nothing_is_run(tmp_path: Path, script: str) -> None:
    out = tmp_path / "found"
    assert cua(tmp_path, "eval", SUITE, "-m", script, "--limit", "1", "--out", str(out)).code == 0
    before = (out / "results.json").read_bytes()
    for more, text in (
        (["--model", "baseline:null"], "model was 'scripted:"),
        (["--max-steps", "3"], "max_steps was 5, and is now 3"),
        (["--tasks", "click-1"], "it had 1 task, and now has 1, for one task 'canvas/click-1'"),
        (["--set", "max_images=2"], "the setting max_images was 3, and is now 2"),
        (["--suite-option", "tasks=2"], "suite_options was {}, and is now {'tasks': 2}"),
    ):
        refused = cua(tmp_path, "eval", SUITE, "--resume", str(out), *more)
        assert (refused.code, refused.stdout) == (2, "")
        assert "has another plan" in refused.stderr
        assert text in refused.stderr
    nameless = cua(tmp_path, "eval", "--resume", str(out))
    assert nameless.code == 2
    assert "pass it again" in nameless.stderr
    assert (out / "results.json").read_bytes() == before


@pytest.mark.long
def test_a_limit_of_the_whole_evaluation_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "dear.jsonl"
    reply = {"content": running.DONE, "usage": {"input_tokens": 60}}
    file.write_text(json.dumps(reply), "utf-8")
    out = tmp_path / "found"
    ended = cua(tmp_path, "eval", SUITE, "-m", f"scripted:{file}", "--max-tokens", "100", "--out", str(out))
    assert ended.code == 3, ended.stderr
    assert "of 100 tokens used" in ended.stdout
    assert 1 <= results_of(out)["figures"]["all"]["num_episodes"] < 6


@pytest.mark.long
def test_a_task_that_exits_and_a_damaged_one_are_rows_of_errors(tmp_path: Path, script: str) -> None:
    out = tmp_path / "found"
    words = ("--suite-option", "hostile=true", "--suite-option", "tasks=1", "--seeds", "1", "--no-report")
    ended = cua(tmp_path, "eval", SUITE, "--model", script, "--out", str(out), *words)
    assert ended.code == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "canvas/exits, seed 1: evaluator: SystemExit: 0 (canvas_suite.py, line " in ended.stderr
    assert "canvas/damaged, seed 1: evaluator: ValueError: line 3 of its file is torn" in ended.stderr
    found = results_of(out)
    assert (found["status"], found["figures"]["all"]["errors"]) == ("finished", {"evaluator_error": 2})
    assert [task["endings"] for task in found["tasks"]] == [{"succeeded": 1}, *[{"evaluator_error": 1}] * 2]
    assert found["tasks"][0]["instruction"] == "Click 1 times"


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("cancel", "it cancelled all tasks of the event loop"),
        ("stop", "it stopped the event loop"),
        ("exit", "SystemExit: 0 (canvas_suite.py, line "),
        ("interrupt", "KeyboardInterrupt (canvas_suite.py, line "),
    ],
)
def test_a_task_that_ends_the_event_loop_is_named_and_nothing_is_lost(
    tmp_path: Path, script: str, how: str, text: str
) -> None:
    out, words = tmp_path / "found", ("eval", SUITE, "--model", script, "--seeds", "1", "--no-report")
    more = ("--suite-option", f"last=canvas/ends-{how}", "--suite-option", "tasks=2")
    ended = cua(tmp_path, *words, *more, "--out", str(out))
    assert ended.code == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert f"code of a task ended the evaluation: {text}" in ended.stderr
    assert (
        f"it was running: canvas/ends-{how}, seed 1\n" in ended.stderr
        and "canvas/click-1, seed 1\n" not in ended.stderr
    )
    assert "--executor process" in ended.stderr and f"--resume {out}" in ended.stderr
    found = results_of(out)
    assert (found["status"], found["figures"]["all"]["num_succeeded"]) == ("unfinished", 2)
    assert text in found["why_stopped"] and text in (out / "index.html").read_text("utf-8")


@pytest.mark.long
@pytest.mark.parametrize(("how", "form"), [("closes", "text"), ("closes-stream", "stream-json")])
def test_a_task_that_closes_stdout_loses_no_output(tmp_path: Path, script: str, how: str, form: str) -> None:
    words = ("--suite-option", f"first=canvas/{how}", "--seeds", "1", "--output-format", form)
    ended = cua(tmp_path, "eval", SUITE, "--model", script, *words)
    assert ended.code == 0, ended.stderr
    assert "Traceback" not in ended.stderr and "ignored" not in ended.stderr
    events = [json.loads(line)["event"] for line in ended.stdout.splitlines()] if form != "text" else []
    assert "score     100.0 %" in ended.stdout or events == ["eval_started", *["episode"] * 4, "result"]


@pytest.mark.long
@pytest.mark.parametrize("num_parallel", [1, 3])
def test_a_task_that_changes_the_working_directory_harms_no_other(tmp_path: Path, num_parallel: int) -> None:
    running.script(tmp_path, CLICK, running.DONE)
    words = ("--suite-option", "first=canvas/moves", "--seeds", "1", "--parallel", str(num_parallel))
    ended = cua(tmp_path, "eval", os.path.relpath(SUITE, tmp_path), "-m", "scripted:replies.jsonl", "-o", "e", *words)
    assert ended.code == 0, ended.stderr
    assert results_of(tmp_path / "e")["figures"]["all"]["num_succeeded"] == 4, ended.stderr
    again = cua(tmp_path, "eval", SUITE, "-m", "scripted:replies.jsonl", "--resume", "e", *words)
    assert again.code == 0, again.stderr


@pytest.mark.long
def test_tasks_that_cannot_be_evaluated_are_listed_before_anything_starts(tmp_path: Path, script: str) -> None:
    out = tmp_path / "found"
    words = ("eval", SUITE, "--model", script, "--suite-option", "missing=it needs LibreOffice", "--seeds", "1")
    refused = cua(tmp_path, *words, "--out", str(out))
    assert (refused.code, refused.stdout, out.exists()) == (2, "", False)
    assert "1 of 3 tasks cannot be evaluated on this machine:" in refused.stderr
    assert "1 task: it needs LibreOffice (canvas/click-0)" in refused.stderr and "--skip-unavailable" in refused.stderr
    ended = cua(tmp_path, *words, "--skip-unavailable", "--out", str(out))
    assert ended.code == 0, ended.stderr
    assert "1 task of 3 left out: cannot be evaluated here" in ended.stdout
    plan = results_of(out)["plan"]
    assert plan["unavailable"] == {"canvas/click-0": "it needs LibreOffice"}
    assert plan["task_ids"] == ["canvas/click-1", "canvas/click-2"]
    assert cua(tmp_path, *words, "--resume", str(out)).code == 0  # nothing is left, and nobody is asked again


@pytest.mark.slow
def test_two_evaluations_are_compared_by_episode(tmp_path: Path, script: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert cua(tmp_path, "eval", SUITE, "--baseline", "null", "--out", str(first)).code == 0
    streamed = cua(tmp_path, "eval", SUITE, "-m", script, "--output-format", "stream-json", "--out", str(second))
    events = [json.loads(line) for line in streamed.stdout.splitlines()]
    assert [event["event"] for event in events] == ["eval_started", *["episode"] * 6, "result"]
    ended = cua(tmp_path, "eval", "compare", str(first), str(second))
    assert ended.code == 0
    assert "B - A, mean score, no score counted 0: +75.0 points (+" in ended.stdout
    assert "3 flips: 3 won, 0 lost" in ended.stdout
    assert "+ canvas/click-0, seed 1: 0 -> 1" in ended.stdout
    assert ended.stdout.count(f"B: {second}/runs/") == 3
    told = json.loads(cua(tmp_path, "eval", "compare", str(first), str(second), "--json").stdout)
    assert (told["num_pairs"], told["mcnemar_p"], len(told["flips"])) == (6, 0.25, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing"], "there is no suite 'nothing'"),
        (["nothing.py"], "there is no file 'nothing.py'"),
        (["--model", "literal"], "no suite is given; expected for example: cua eval examples"),
        ([SUITE, "--tasks", "drag-*"], "no task of 'canvas' matches 'drag-*'"),
        ([SUITE, "--baseline", "nul"], "did you mean 'null'"),
        ([SUITE, "--baseline", "null", "-m", "literal"], "leave out --model"),
        ([SUITE, "--executor", "rya"], "did you mean 'ray'"),
        ([SUITE, "--suite-option", "x"], "is not NAME=VALUE"),
        ([SUITE, "--suite-option", "x=1"], "unexpected keyword argument 'x'"),
        ([SUITE, "--out", "{folder}"], "is not empty"),
        ([SUITE, "--resume", "{folder}"], "there is no results.json"),
        (["show", "nowhere"], "there is no folder 'nowhere'"),
        (["compare", "nowhere", "here"], "there is no folder 'nowhere'"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").touch()
    words = [word.replace("{folder}", str(tmp_path / "full")) for word in arguments]
    ended = cua(tmp_path, "eval", *words)
    assert (ended.code, ended.stdout) == (2, "")
    assert text in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_the_embedded_model_is_pointed_to_plain_steps(tmp_path: Path, script: str) -> None:
    def told(*words: str) -> str:
        ended = cua(tmp_path, "eval", SUITE, "--limit", "1", "--seeds", "1", "--no-report", *words)
        assert ended.code == 0, ended.stderr
        return ended.stderr

    hint = "--suite-option wording=steps words them as steps"
    assert hint in told("--model", "literal")
    assert hint not in told("--model", "literal", "--suite-option", "wording=steps")
    assert hint not in told("--model", script)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
def test_the_examples_with_the_literal_model(tmp_path: Path) -> None:
    out = tmp_path / "found"
    ended = cua(tmp_path, "eval", "examples", "--seeds", "1", "--model", "literal", "--out", str(out))
    assert ended.code == 0, ended.stderr
    found = results_of(out)
    assert (found["status"], found["figures"]["all"]["mean_full"]) == ("finished", 1.0), ended.stdout
    assert (out / "index.html").read_text("utf-8").count("report.html") == 5
    assert "examples" in cua(tmp_path, "eval", "list").stdout
