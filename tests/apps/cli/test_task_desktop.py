"""`cua task` on a private X11 desktop, as a process."""

import io
import json
import os
import signal
from pathlib import Path

import pytest
from PIL import Image

from cua.trajectory import load_run
from envs.desktop.private_display import find_window_manager, find_xvfb
from tests.apps.cli.running import DONE, WAIT, cua, descendants, press_ctrl_c, script, start, wait_until_gone
from tests.apps.cli.test_task_browser import only_run

pytestmark = [
    pytest.mark.desktop,
    pytest.mark.skipif(not (find_xvfb() and find_window_manager()), reason="needs Xvfb and a window manager"),
]
XTERM = "xterm -geometry 60x12+50+50 -fa monospace -fs 18"


def type_text(text: str) -> str:
    return f"## Action:\nType\n## Code:\n```python\npyautogui.click(0.1, 0.2)\npyautogui.write({text!r})\n```"


@pytest.mark.long
def test_a_program_is_worked_and_everything_is_gone_afterwards(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    model = script(tmp_path, type_text(f"echo 'héllo <ok> 世界' > {proof}\n"), DONE)
    arguments = ["task", "Type", "--app", XTERM, "-m", model, "--screen", "1024x768", "--output-format", "json"]
    ended = cua(tmp_path, *arguments)
    assert (ended.code, ended.result["status"]) == (0, "unverified"), ended.stderr
    assert proof.read_text() == "héllo <ok> 世界\n"
    wait_until_gone([], tmp_path)


@pytest.mark.long
def test_a_secret_is_typed_and_cannot_be_read_from_any_file_of_the_run(tmp_path: Path) -> None:
    import numpy as np

    from visual_tools.ocr import read_text

    (tmp_path / "secrets.toml").write_text('pin = "Sunflower-719"\n')
    proof = tmp_path / "proof"
    model = script(tmp_path, type_text(f"echo {{{{pin}}}} > {proof}\n"), type_text("echo visible words\n"), DONE)
    arguments = ["task", "Type", "--app", XTERM, "-m", model, "--screen", "1024x768"]
    ended = cua(tmp_path, *arguments, "--secrets", "secrets.toml", "--yolo")
    assert ended.code == 0, ended.stderr
    assert proof.read_text() == "Sunflower-719\n"
    pictures = [path.read_bytes() for path in only_run(tmp_path).glob("images/*.png")]
    texts = " ".join(
        line.text
        for picture in pictures
        for line in read_text(np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")))
    )
    assert "visible words" in texts
    assert "Sunfl" not in texts
    for path in only_run(tmp_path).rglob("*"):
        assert path.is_dir() or b"Sunflower-719" not in path.read_bytes(), path


@pytest.mark.slow
def test_an_x_server_that_is_killed_ends_the_run_as_an_error_of_the_world(tmp_path: Path) -> None:
    model = script(tmp_path, type_text("x"), WAIT.replace("computer.wait()", "time.sleep(5)"), type_text("y"), DONE)
    process = start(tmp_path, "task", "Type", "--app", XTERM, "-m", model, "--output-format", "stream-json")
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()
    below = descendants(process)
    servers = [child for child in below if child.name() == "Xvfb"]
    assert len(servers) == 1
    servers[0].kill()
    stdout, stderr = process.communicate(timeout=60)
    result = json.loads(stdout.splitlines()[-1])
    assert (process.returncode, result["status"], result["source"]) == (75, "error", "env"), stderr
    assert "Traceback" not in stderr
    wait_until_gone(below, tmp_path)


@pytest.mark.long
def test_ctrl_c_leaves_a_readable_record_and_no_process(tmp_path: Path) -> None:
    model = script(tmp_path, type_text("x"), WAIT, DONE)
    process = start(tmp_path, "task", "Type", "--app", XTERM, "-m", model, "--output-format", "stream-json")
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    below = descendants(process)
    press_ctrl_c(process)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    end = load_run(only_run(tmp_path)).end
    assert end is not None and end.status == "stopped"
    wait_until_gone(below, tmp_path)


@pytest.mark.long
def test_kill_9_leaves_no_process(tmp_path: Path) -> None:
    model = script(tmp_path, type_text("x"), WAIT, DONE)
    process = start(tmp_path, "task", "Type", "--app", XTERM, "-m", model, "--output-format", "stream-json")
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    below = descendants(process)
    assert {"Xvfb", "xterm"} <= {child.name() for child in below}
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)
    wait_until_gone(below, tmp_path)
    assert load_run(only_run(tmp_path)).end is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["--app", "no-such-program"], "no-such-program"), (["--display", ":987"], ":987")],
)
def test_a_desktop_that_cannot_be_started_is_an_error_of_the_world(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    ended = cua(tmp_path, "task", "Type", *arguments, "-m", script(tmp_path, DONE), "--output-format", "json")
    assert (ended.code, ended.result["status"], ended.result["source"]) == (1, "error", "env")  # the same next time
    assert text in ended.result["reason"]
