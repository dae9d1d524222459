import contextlib
import sys
import time
from pathlib import Path

import psutil
import pytest

from apps.setup.command import CommandResult, run_command


async def test_output_is_passed_on_line_by_line(tmp_path: Path) -> None:
    said: list[str] = []
    script = (
        "import os, sys; print('one'); print(os.environ['COLOUR'], os.getcwd());"
        " sys.stderr.write('E: bad'); sys.exit(3)"
    )
    argv = (sys.executable, "-u", "-c", script)
    result = await run_command(argv, timeout_s=30, say=said.append, environment={"COLOUR": "red"}, folder=tmp_path)
    assert said == ["    one", f"    red {tmp_path}", "    E: bad"]
    assert result == CommandResult(code=3, tail=("one", f"red {tmp_path}", "E: bad"))
    assert result.why == "E: bad"


async def test_why_without_any_output() -> None:
    result = await run_command(("false",), timeout_s=30, say=print)
    assert result.why == "exit status 1"


@pytest.mark.parametrize(("ending", "is_timeout"), [("wait", True), ("exit 0", False)])
async def test_children_end_with_a_command_that_takes_too_long_and_with_one_that_ends(
    tmp_path: Path, ending: str, is_timeout: bool
) -> None:
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    command = ("sh", "-c", f"setsid sleep 60 & echo $! > {pid_file}; {ending}")
    result = await run_command(command, timeout_s=2, say=print)
    assert (result.is_timeout, result.why) == (is_timeout, "it took too long" if is_timeout else "exit status 0")
    assert time.monotonic() - started < 20
    with contextlib.suppress(psutil.NoSuchProcess):
        _, alive = psutil.wait_procs([psutil.Process(int(pid_file.read_text()))], timeout=20)
        assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


async def test_stdin_is_closed() -> None:
    result = await run_command(("cat",), timeout_s=30, say=print)
    assert result == CommandResult(code=0, tail=())
