"""The click test on private displays: targets in a window that notes where it was clicked."""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from apps.setup.click_test import Point, click_all, make_targets, reset_and_close

DESKTOP_SIZES: tuple[tuple[int, int], ...] = ((1920, 1080), (1366, 768), (1023, 769))
"""Screens in px."""

_ROOT = Path(__file__).parents[2]
_ARRIVAL_TIMEOUT_S = 2.0


async def click_on_desktop(size_px: tuple[int, int]) -> list[float | None]:
    """Errors in px for all targets on a screen of this size."""
    from envs.desktop import DesktopEnv, DesktopOptions

    with tempfile.TemporaryDirectory(prefix="k25-clicks-") as folder:
        file = Path(folder) / "clicks.jsonl"
        file.touch()
        width, height = size_px
        app = (sys.executable, "-m", "apps.setup.click_window", str(file), str(width), str(height))
        env = DesktopEnv(DesktopOptions(screen_px=size_px, app=app, draw_cursor=False, env={"PYTHONPATH": str(_ROOT)}))

        async def work() -> list[float | None]:
            return await click_all(env, make_targets(size_px), partial(_read_hits, file))

        return await reset_and_close(env, work)


async def _read_hits(file: Path, at_least: int) -> Sequence[Point]:
    """All clicks so far, waiting a bounded time for the one that was just sent."""
    deadline = time.monotonic() + _ARRIVAL_TIMEOUT_S
    while True:
        hits = await asyncio.to_thread(_load_hits, file)
        if len(hits) >= at_least or time.monotonic() > deadline:
            return hits
        await asyncio.sleep(0.01)


def _load_hits(file: Path) -> list[Point]:
    lines = file.read_text("utf-8").splitlines(keepends=True)
    return [(float(x), float(y)) for x, y in (json.loads(line) for line in lines if line.endswith("\n"))]
