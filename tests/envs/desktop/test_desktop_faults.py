"""What goes wrong with a display is told once, in time, and without noise."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from envs import EnvDiedError, EnvError, EnvSetupError, Move, TypeText, Wait
from envs.desktop import DesktopEnv, DesktopOptions
from tests.envs.desktop.conftest import TASK, MakeEnv, needs_display

pytestmark = needs_display


def find_server() -> psutil.Process:
    """The one X server below this process."""
    [server] = [p for p in psutil.Process(os.getpid()).children(recursive=True) if p.name() == "Xvfb"]
    return server


def write_script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def expect_setup_error(match: str, **options: object) -> None:
    env = DesktopEnv(DesktopOptions(**{"screen_px": (640, 480)} | options))  # type: ignore[arg-type]
    with pytest.raises(EnvSetupError, match=match):
        await env.reset(TASK)
    with pytest.raises(EnvError, match="call reset first"):
        await env.step([])
    await env.close()


async def test_no_xvfb_names_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K25_XVFB", "/no/such/Xvfb")
    await expect_setup_error("found no virtual X server.*`cua setup`.*apt-get install .*xvfb openbox.*display=':0'")


async def test_a_server_that_ends_at_once_gives_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "for n in 1 2 3 4 5 6 7; do echo line $n >&2; done; exit 9"
    monkeypatch.setenv("K25_XVFB", write_script(tmp_path / "Xvfb", script))
    words = "line 3\nline 4\nline 5\nline 6\nline 7$"
    await expect_setup_error(f"the X server ended at once with exit code 9; its last output:\n{words}")


async def test_a_server_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K25_XVFB", write_script(tmp_path / "Xvfb", "exec sleep 1000"))
    begin = time.monotonic()
    await expect_setup_error(r"the X server did not start within 0\.5 s; it said nothing", start_timeout_s=0.5)
    assert time.monotonic() - begin < 5


async def test_an_unknown_window_manager_names_an_installed_one() -> None:
    await expect_setup_error("found no window manager 'openbix'; installed is 'openbox'", window_manager="openbix")


async def test_a_display_that_does_not_exist_cannot_be_attached() -> None:
    await expect_setup_error("cannot connect to the X display ':4711'.*check DISPLAY and XAUTHORITY", display=":4711")


async def test_a_foreign_display_refuses_without_the_cookie(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = await make_env()
    monkeypatch.setenv("XAUTHORITY", str(tmp_path / "none"))
    await expect_setup_error("cannot connect to the X display", display=env.display)


async def test_a_monitor_that_does_not_exist() -> None:
    await expect_setup_error("there is no monitor 2: display ':[0-9]+' has 1, counted from 0 to 0", monitor=2)


@pytest.mark.parametrize("options", [{"screen_px": (10, 10)}, {"max_clients": 300}, {"monitor": -1}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="got"):
        DesktopOptions(**options)  # type: ignore[arg-type]


async def test_a_killed_server_ends_the_env_as_died(make_env: MakeEnv, capfd: pytest.CaptureFixture[str]) -> None:
    env = await make_env()
    find_server().kill()
    for _ in range(2):
        begin = time.monotonic()
        with pytest.raises(EnvDiedError, match=r"the X server of display ':[0-9]+' ended with code -9"):
            await env.step([Move(x_px=5, y_px=5), TypeText(text="abc")])
        assert time.monotonic() - begin < 3
    with pytest.raises(EnvDiedError):
        await env.describe_point(5, 5)
    with pytest.raises(EnvError):
        await env.get_clipboard()
    await env.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
async def test_a_server_killed_during_a_step(make_env: MakeEnv) -> None:
    env = await make_env()
    await env.set_clipboard("some text")
    step = asyncio.create_task(env.step([Wait(duration_s=0.3), Move(x_px=5, y_px=5)]))
    await asyncio.sleep(0.1)
    find_server().kill()
    with pytest.raises(EnvDiedError):
        await asyncio.wait_for(step, 5)
    await env.reset(TASK)
    assert (await env.step([Move(x_px=5, y_px=6)])).observation.pointer_px == (5, 6)


async def test_a_frozen_server_is_given_up(make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    env = await make_env(answer_timeout_s=0.5)
    server = find_server()
    server.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    with pytest.raises(EnvDiedError, match="does not answer any more"):
        await env.step([Move(x_px=5, y_px=5)])
    await env.close()
    assert time.monotonic() - begin < 10
    assert not server.is_running()


async def test_a_cancelled_step_lets_go_and_the_next_one_works(make_env: MakeEnv) -> None:
    env = await make_env()
    step = asyncio.create_task(env.step([Wait(duration_s=100)]))
    await asyncio.sleep(0.1)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert (await asyncio.wait_for(env.step([Move(x_px=5, y_px=6)]), 5)).observation.pointer_px == (5, 6)


def test_python_ends_although_a_display_hangs_and_nobody_closed_it() -> None:
    code = """
import asyncio, psutil, signal
from envs import InstructionTask, Move
from envs.desktop import DesktopEnv, DesktopOptions

async def main():
    env = DesktopEnv(DesktopOptions(screen_px=(640, 480), answer_timeout_s=0.3))
    await env.reset(InstructionTask(instruction="x"))
    [server] = [p for p in psutil.Process().children(recursive=True) if p.name() == "Xvfb"]
    server.send_signal(signal.SIGSTOP)
    try:
        await env.step([Move(x_px=5, y_px=5)])
    except Exception as error:
        print(type(error).__name__)

asyncio.run(main())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "EnvDiedError\n", "")


async def test_a_step_that_is_cancelled_ends_in_the_middle(make_env: MakeEnv) -> None:
    env = await make_env()
    actions = [action for x_px in range(400) for action in (Move(x_px=x_px, y_px=5), Wait(duration_s=0.02))]
    step = asyncio.ensure_future(env.step(actions))
    await asyncio.sleep(0.3)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(step, 5)
    stopped_at = (await env.step([])).observation.pointer_px
    assert stopped_at is not None and stopped_at[0] < 399
    assert (await env.step([Wait(duration_s=0.1)])).observation.pointer_px == stopped_at


@pytest.mark.long
async def test_a_step_of_actions_without_pauses_can_be_cancelled(make_env: MakeEnv) -> None:
    env = await make_env(screen_px=(1200, 600))
    step = asyncio.ensure_future(env.step([Move(x_px=number % 1000, y_px=5) for number in range(200_000)]))
    await asyncio.sleep(0.3)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(step, 5)
    async with asyncio.timeout(10):
        assert (await env.step([Move(x_px=1100, y_px=7)])).observation.pointer_px == (1100, 7)


async def test_a_step_that_takes_too_long_ends_and_says_how_far_it_came(make_env: MakeEnv) -> None:
    env = await make_env(step_timeout_s=0.2)
    result = await env.step([Wait(duration_s=0.15)] * 20)
    assert result.observation.last_action_error == (
        "this step took longer than 0.2 s: 2 of its 20 actions were carried out, the others were not. "
        "Do less in one step"
    )
