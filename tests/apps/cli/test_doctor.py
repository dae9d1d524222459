"""`cua doctor` and `cua setup` as processes: nothing that they start outlives them, and no pipe stays open."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.apps.cli.running import descendants, names_below, start, wait_until, wait_until_gone
from visual_tools.sandbox.backends import find_bubblewrap

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)


def end(process: "subprocess.Popen[str]", number: int, folder: Path) -> None:
    """End a command and wait until it, all below it, and its pipes are gone."""
    family = descendants(process)
    os.kill(process.pid, number)
    process.communicate(timeout=30)  # waits for the end of its output, whoever holds it
    wait_until_gone(family, folder)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)


def has_victim(process: "subprocess.Popen[str]") -> bool:
    """True when the process is there that the sandbox's attacks try to end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(word.startswith("victim-") for one in descendants(process) for word in one.cmdline())
    return False


@pytest.mark.slow
@pytest.mark.skipif(find_bubblewrap() is None, reason="no bubblewrap")
@pytest.mark.parametrize("number", SIGNALS)
def test_nothing_outlives_the_check_of_the_sandbox(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, "doctor", "--sandbox", HOME=str(tmp_path))
    wait_until(lambda: has_victim(process), timeout_s=60)

    end(process, number, tmp_path)

    assert not list(tmp_path.glob("check-sandbox-*"))


@pytest.mark.browser
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.long
def test_nothing_outlives_what_setup_runs(tmp_path: Path, number: int) -> None:
    program = tmp_path / "node"
    program.write_text("#!/bin/sh\nsetsid sleep 600 &\nwait\n")
    program.chmod(0o755)
    process = start(tmp_path, "setup", "--no-desktop", "--no-sandbox", PLAYWRIGHT_NODEJS_PATH=str(program))
    wait_until(lambda: "sleep" in names_below(process), timeout_s=60)

    end(process, number, tmp_path)
