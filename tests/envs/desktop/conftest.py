import asyncio
import io
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from envs import InstructionTask, Observation
from envs.desktop import DesktopEnv, DesktopOptions
from envs.desktop.private_display import find_window_manager, find_xvfb

HERE = Path(__file__).parent
TASK = InstructionTask(instruction="Look at the desktop.")
MakeEnv = Callable[..., Awaitable[DesktopEnv]]

needs_display = [
    pytest.mark.desktop,
    pytest.mark.skipif(find_xvfb() is None, reason="Xvfb is not installed"),
    pytest.mark.skipif(find_window_manager("openbox") is None, reason="openbox is not installed"),
]


def needs_program(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")


@pytest.fixture
async def make_env() -> AsyncIterator[MakeEnv]:
    """Makes envs that are reset and get closed at the end."""
    envs: list[DesktopEnv] = []

    async def make(**options: Any) -> DesktopEnv:
        env = DesktopEnv(DesktopOptions(**{"screen_px": (800, 600)} | options))
        envs.append(env)
        await env.reset(TASK)
        return env

    yield make
    await asyncio.gather(*(env.close() for env in envs))


async def until(is_true: Callable[[], Any], timeout_s: float = 10.0, what: str = "it") -> Any:
    """The first true value of a function that is asked again and again."""
    deadline = time.monotonic() + timeout_s
    while not (value := is_true()):
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        await asyncio.sleep(0.02)
    return value


def picture(observation: Observation) -> Image.Image:
    return Image.open(io.BytesIO(observation.screenshot)).convert("RGB")
