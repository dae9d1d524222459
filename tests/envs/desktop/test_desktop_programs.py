"""Nothing outlives an env, however it ends."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from envs import EnvSetupError, Observation, Task
from envs.desktop import DesktopEnv, DesktopOptions
from envs.desktop.programs import Programs
from tests.envs.desktop.conftest import TASK, MakeEnv, needs_display, needs_program, until

pytestmark = [*needs_display, needs_program("mousepad"), needs_program("xterm")]

# A parent that opens programs in several ways, tells where they are, and waits to be killed.
PARENT = """
import asyncio, sys
from envs import InstructionTask
from envs.desktop import DesktopEnv, DesktopOptions
from envs.desktop.programs import Programs

async def main():
    env = DesktopEnv(DesktopOptions(screen_px=(800, 600), app="mousepad"))
    await env.reset(InstructionTask(instruction="x"))
    await env.launch(["xterm", "-e", "sh", "-c", "trap '' TERM HUP; sleep 1000; sleep 1000"])
    background = "setsid nohup sleep 1000 & setsid sh -c 'sleep 1000 & exit' & exit"
    await env.launch(["sh", "-c", background], wait_for_window=False)
    await asyncio.sleep(0.3)
    print(env.display, env.home.parent, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_sleep(process: psutil.Process) -> bool:
    try:
        return process.name() == "sleep"
    except psutil.NoSuchProcess:
        return False


def start_parent() -> tuple["subprocess.Popen[str]", int, Path]:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    display, folder = parent.stdout.readline().split()
    return parent, int(display.removeprefix(":")), Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_killing_the_parent_ends_everything(number: signal.Signals) -> None:
    parent, display, folder = await asyncio.to_thread(start_parent)
    try:
        started = below(parent.pid)
        names = {process.name() for process in started}
        assert {"Xvfb", "openbox", "mousepad", "xterm", "sleep", "dbus-daemon"} <= names
        assert sum(process.name() == "sleep" for process in started) == 3, "two of them went to the background"
        socket = socket_of(display)
        assert socket is not None
        parent.send_signal(number)
        await asyncio.to_thread(parent.wait, 10)
        await until(lambda: not any(map(is_alive, started)), what="the end of all programs")
        await until(lambda: not folder.exists(), what="the removal of the folder")
        assert socket_of(display) != socket
    finally:
        parent.kill()
        parent.stdout.close()  # type: ignore[union-attr]


def socket_of(display: int) -> tuple[int, int] | None:
    """Which socket a display has, None for none: another server may take the number once it is free."""
    try:
        found = Path(f"/tmp/.X11-unix/X{display}").stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


async def test_close_ends_everything(make_env: MakeEnv) -> None:
    before = set(below(os.getpid()))
    env = await make_env(app="mousepad")
    await env.launch(["xterm", "-e", "sh", "-c", "setsid nohup sleep 1000 & sleep 1000"])
    number, folder = int(env.display.removeprefix(":")), env.home.parent
    started = set(below(os.getpid())) - before
    assert {"Xvfb", "openbox", "mousepad", "xterm"} <= {process.name() for process in started}
    socket = socket_of(number)
    assert socket is not None
    await env.close()
    await env.close()
    assert [process for process in started if is_alive(process)] == []
    assert not folder.exists()
    assert socket_of(number) != socket


async def test_a_task_whose_setup_fails_leaves_nothing() -> None:
    class Broken(Task):
        instruction = "Break."

        async def setup(self, env: DesktopEnv) -> None:
            await env.launch(["xterm"])
            raise RuntimeError("no such data")

    before = set(below(os.getpid()))
    env = DesktopEnv(DesktopOptions(screen_px=(640, 480)))
    with pytest.raises(RuntimeError, match="no such data"):
        await env.reset(Broken())
    assert set(below(os.getpid())) - before == set()


async def test_cancelling_a_reset_leaves_nothing() -> None:
    before = set(below(os.getpid()))
    env = DesktopEnv(DesktopOptions(screen_px=(640, 480), app="sleep 1000", app_window_timeout_s=60))
    reset: asyncio.Task[Observation] = asyncio.create_task(env.reset(TASK))
    await until(lambda: any(map(is_sleep, below(os.getpid()))), what="the program's start")
    reset.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reset, 10)
    assert set(below(os.getpid())) - before == set()


async def test_killing_the_supervisor_ends_the_server(make_env: MakeEnv) -> None:
    before = set(below(os.getpid()))
    env = await make_env(app="mousepad")
    started = set(below(os.getpid())) - before
    supervisor = next(p for p in started if p.ppid() == os.getpid())
    supervisor.kill()
    await until(lambda: not any(map(is_alive, started)), what="the programs' end")
    await env.close()


async def test_run_gives_exit_code_and_output(make_env: MakeEnv) -> None:
    env = await make_env()
    result = await env.run(["sh", "-c", 'echo "$HOME $DISPLAY"; echo oops >&2; exit 3'])
    assert (result.returncode, result.stdout, result.stderr) == (3, f"{env.home} {env.display}\n", "oops\n")
    assert (await env.run("echo 'a b' ~/c")).stdout == f"a b {env.home}/c\n"
    assert (await env.step([])).observation.notes == ()


async def test_run_that_takes_too_long_is_ended(make_env: MakeEnv) -> None:
    env = await make_env()
    with pytest.raises(Exception, match=r"'sleep' took longer than 0.2 s and was ended"):
        await env.run(["sleep", "1000"], timeout_s=0.2)
    assert not any(map(is_sleep, below(os.getpid())))


async def test_the_end_of_a_program_is_told_once(make_env: MakeEnv) -> None:
    env = await make_env()
    program = await env.launch(["sh", "-c", "exit 7"], wait_for_window=False)
    await asyncio.wrap_future(program.ended)
    assert (await env.step([])).observation.notes == ("the program 'sh' ended with exit code 7",)
    assert (await env.step([])).observation.notes == ()


async def test_programs_that_cannot_start_say_why(make_env: MakeEnv) -> None:
    env = await make_env(app_window_timeout_s=0.3)
    with pytest.raises(EnvSetupError, match=r"cannot start 'no-such-program': .*No such file.* Is it installed"):
        await env.launch("no-such-program --flag")
    with pytest.raises(EnvSetupError, match=r"'sh' ended at once with exit code 4; its last output:\nno luck"):
        await env.launch(["sh", "-c", "echo no luck >&2; exit 4"])
    with pytest.raises(EnvSetupError, match=r"'sleep' showed no window within 0.3 s; it said nothing"):
        await env.launch(["sleep", "1000"])
    with pytest.raises(EnvSetupError, match="cannot read the command line"):
        await env.launch("echo 'open")
    with pytest.raises(EnvSetupError, match="empty"):
        await env.launch("")


def test_what_a_dead_program_left_running_ends_with_it(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        worker = tmp_path / "worker"
        argv = ["sh", "-c", f"sleep 1000 & echo $! > {worker}; kill -9 $$"]
        program = programs.start(argv, os.environ, tmp_path)
        assert program.ended.result(10) == -signal.SIGKILL
        process = psutil.Process(int(worker.read_text()))
        other = programs.start(["sleep", "1000"], os.environ, tmp_path)
        assert is_alive(process)
        programs.kill(program.pid)
        assert not is_alive(process)
        assert is_alive(psutil.Process(other.pid))
    finally:
        programs.close()
