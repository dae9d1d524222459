"""Start of Playwright's driver before a browser is asked for."""

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from envs import InstructionTask
from envs.browser import BrowserEnv
from envs.playwright_driver import early_driver
from tests.apps.cli.running import DONE, PAGE, environment, script

pytestmark = pytest.mark.browser


def drivers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "run-driver" in child.cmdline()]


def test_the_first_browser_of_the_loop_takes_the_early_driver() -> None:
    async def reset_twice() -> list[list[psutil.Process]]:
        seen = []
        for _ in range(2):
            env = BrowserEnv()
            await env.reset(InstructionTask(instruction="look"))
            seen.append(drivers())
            await env.close()
        return seen

    with asyncio.Runner() as runner:
        with early_driver(runner):
            early = drivers()
            assert len(early) == 1
            first, second = runner.run(reset_twice())
        assert first == early
        assert len(second) == 1
        assert second != early
    assert drivers() == []


def test_an_early_driver_without_a_browser_ends_with_its_context() -> None:
    with asyncio.Runner() as runner, early_driver(runner):
        assert len(drivers()) == 1
    assert drivers() == []


@pytest.mark.long
@pytest.mark.parametrize(("env", "is_early"), [("browser", True), ("desktop", False)])
def test_a_command_starts_the_driver_of_its_browser_before_it_imports_the_agent(
    tmp_path: Path, env: str, is_early: bool
) -> None:
    watched = """
import sys
import psutil

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "cua.api":
            print(any("run-driver" in child.cmdline() for child in psutil.Process().children()), file=sys.stderr)

sys.meta_path.insert(0, Finder())
from apps.cli.main import main
main()
"""
    model = script(tmp_path, DONE)
    command = ["task", "Look", "--env", env, *(("--url", PAGE) if is_early else ()), "--model", model, "--no-report"]
    done = subprocess.run(
        [sys.executable, "-c", watched, *command],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr.splitlines()[0] == str(is_early)
