"""Risky steps on a real terminal (a pty), and without one."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.apps.cli.running import CLICK, CUA, DONE, cua, environment, script

pytestmark = pytest.mark.browser
PAGE = (
    "data:text/html,<body style='margin:0'><button style='width:100vw;height:100vh' "
    "onclick='document.title=%22gone%22'>Delete everything</button>"
)


def titles(stdout: str) -> list[str]:
    events = [json.loads(line) for line in stdout.splitlines()]
    return [event["title"] for event in events if event["event"] == "observed"]


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "last_title"), [("y", "gone"), ("n", ""), ("", "")])
def test_a_person_at_the_terminal_decides(tmp_path: Path, answer: str, last_title: str) -> None:
    terminal, side = pty.openpty()
    command = [CUA, "task", "Clean up", "--url", PAGE, "-m", script(tmp_path, CLICK, DONE)]
    process = subprocess.Popen(
        [*command, "--output-format", "stream-json", "--no-report"],
        stdin=side,
        stderr=side,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    os.close(side)
    seen = b""
    while b"Allow this step?" not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, f"{answer}\n".encode())
    stdout, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert b'risky (delete): button "Delete everything"' in seen
    assert titles(stdout)[-1] == last_title


@pytest.mark.long
def test_without_a_terminal_risky_steps_are_refused_and_yolo_lets_them_pass(tmp_path: Path) -> None:
    arguments = ["task", "Clean up", "--url", PAGE, "--output-format", "stream-json", "--no-report"]
    refused = cua(tmp_path, *arguments, "-m", script(tmp_path, CLICK, DONE))
    assert "there is no person to approve it" in refused.stdout
    assert titles(refused.stdout)[-1] == ""
    allowed = cua(tmp_path, *arguments, "-m", script(tmp_path, CLICK, DONE), "--approve", "yolo")
    assert titles(allowed.stdout)[-1] == "gone"


@pytest.mark.long
def test_a_deny_rule_holds_in_yolo_mode(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(
        '[[rule]]\ndecision = "deny"\ntarget = "(?i)delete"\nreason = "never delete"\n'
    )
    arguments = ["task", "Clean up", "--url", PAGE, "-m", script(tmp_path, CLICK, DONE), "--yolo", "--no-report"]
    ended = cua(tmp_path, *arguments, "--policy", "policy.toml", "--output-format", "stream-json")
    assert "never delete" in ended.stdout
    assert titles(ended.stdout)[-1] == ""
