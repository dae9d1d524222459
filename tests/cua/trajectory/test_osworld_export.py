import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import TrajectoryError
from cua.gui_agent.interpreter import run
from cua.run.end import End
from cua.step import Turn
from cua.trajectory import TrajectoryWriter, load_run
from cua.trajectory.osworld_export import OSWorldNames, export_osworld
from envs import Click, Hotkey, Terminate, TypeText, Wait
from tests.cua.trajectory import samples

NAMES = OSWorldNames(domain="chrome", task_id="bb5e4c0d", model="kimi-k2.5")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "traj.jsonl").read_text().splitlines()]


def test_a_run_in_the_harness_layout(tmp_path: Path) -> None:
    wait = Turn(thought="", action_text="Wait", code="computer.wait()")
    steps = [
        samples.make_step(1, actions=(Click(x_px=3, y_px=4), TypeText(text="it's"), Hotkey(keys=("ctrl", "s")))),
        samples.make_step(2, turn=wait, actions=(Wait(duration_s=20),)),
        samples.make_step(3, error="refused"),
        samples.make_step(4, actions=(Click(x_px=1, y_px=1), Terminate(status="success", answer="42"))),
    ]
    with TrajectoryWriter.create(tmp_path / "runs", samples.HEADER) as writer:
        for step in steps:
            writer.observed(step.index, step.observation)
            writer.replied(step.index, step.reply)
            if step.error is None:
                writer.acting(step.index, step.turn, step.actions)
            writer.acted(step, 1.0 if step.index == 4 else 0.0, {})
        writer.observed(5, samples.make_observation(5))
        writer.ended(samples.ENDED)
    folder = export_osworld(load_run(writer.run_dir), tmp_path / "results", NAMES)
    assert folder == tmp_path / "results/pyautogui/screenshot/kimi-k2.5/chrome/bb5e4c0d"
    assert (folder / "result.txt").read_text() == "1.0\n"
    written = lines(folder)
    assert [(line["step_num"], line["action"], line["reward"], line["done"]) for line in written] == [
        (1, written[0]["action"], 0.0, False),
        (2, "WAIT", 0.0, False),
        (4, written[2]["action"], 0.0, False),
        (4, "DONE", 1.0, True),
    ]
    assert run(written[0]["action"], samples.GEOMETRY, mode="absolute") == list(steps[0].actions)
    assert written[0].keys() == {
        "step_num", "action", "natural_language_action", "action_timestamp", "response", "reward", "done", "info",
        "screenshot_file",
    }  # fmt: skip
    assert written[0]["natural_language_action"] == "Act 1"
    assert written[0]["response"] == {"role": "assistant", "content": "reply 1", "reasoning_content": ""}
    shown = [(folder / line["screenshot_file"]).read_bytes() for line in written]
    assert shown == [samples.png(f"screen {number}") for number in (2, 3, 5, 5)]  # the screen after each action
    names = [line["screenshot_file"] for line in written]
    assert len(set(names)) == 4 and {path.name for path in folder.iterdir()} == {"traj.jsonl", "result.txt", *names}
    assert all(re.fullmatch(r"step_\d+_\d{8}@\d{12}\.png", name) for name in names)


@pytest.mark.parametrize(
    ("end", "result", "last"),
    [
        (End(status="failed", reason="r", score=0.25), "0.25\n", None),
        (End(status="unverified", reason="r"), None, None),
        (End(status="capped", cap="steps", reason="r", score=0.0), "0.0\n", None),
        (End(status="error", source="env", reason="X died"), None, {"Error": "chrome/bb5e4c0d - X died"}),
        (None, None, None),
    ],
)
def test_only_a_verdict_becomes_a_result(
    tmp_path: Path, end: End | None, result: str | None, last: dict[str, str] | None
) -> None:
    run_dir = samples.write_run(tmp_path / "runs", result=replace(samples.ENDED, end=end) if end else None)
    folder = export_osworld(load_run(run_dir), tmp_path / "results", NAMES)
    path = folder / "result.txt"
    assert (path.read_text() if path.exists() else None) == result
    assert len(lines(folder)) == (3 if last else 2)
    if last:
        assert lines(folder)[-1] == last


def test_giving_up_is_fail(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path / "runs", samples.HEADER) as writer:
        samples.write_step(writer, samples.make_step(1, actions=(Terminate(status="failure"),)))
    (line,) = lines(export_osworld(load_run(writer.run_dir), tmp_path / "results", NAMES))
    assert (line["action"], line["done"]) == ("FAIL", True)
    assert line["screenshot_file"].startswith("step_1_")


@pytest.mark.parametrize("name", ["", "..", "/etc", "a/../../b", "a\0b"])
def test_names_that_leave_the_tree_are_refused(tmp_path: Path, name: str) -> None:
    record = load_run(samples.write_run(tmp_path / "runs"))
    with pytest.raises(TrajectoryError, match="cannot name a folder"):
        export_osworld(record, tmp_path / "results", OSWorldNames(domain="x", task_id=name, model="m"))
    assert not (tmp_path / "results").exists()
