"""Driver and browser end with the process that started them, however that ends."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.browser

CHILD = """
import asyncio
from envs.browser import BrowserEnv
from envs.env import InstructionTask

async def main():
    env = BrowserEnv()
    await env.reset(InstructionTask(instruction="test"))
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_its_parent(number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        family = psutil.Process(child.pid).children(recursive=True)
        assert len(family) > 2  # driver, browser, its processes
        os.kill(child.pid, number)
        child.wait(15)
        _, alive = psutil.wait_procs(family, timeout=15)
        assert [process.name() for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        child.kill()
