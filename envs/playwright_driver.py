"""Playwright's driver, a process that takes half a second to start."""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envs.errors import EnvSetupError, MissingDependencyError, require

if TYPE_CHECKING:
    from playwright.async_api import Playwright

_early: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Playwright]]" = weakref.WeakKeyDictionary()
"""Drivers that were started early and that no browser has taken, by event loop."""


@contextlib.contextmanager
def early_driver(runner: asyncio.Runner) -> Iterator[None]:
    """Start the driver for the first browser of a loop, so that it starts while this process imports modules.

    Args:
        runner: Runner of the loop in which the browser will be launched.
    """
    runner.run(_begin())
    try:
        yield
    finally:
        runner.run(_stop_unused())


async def start_driver() -> "Playwright":
    """Return the driver that was started early for this loop, else start one.

    Raises:
        MissingDependencyError: If Playwright is not installed.
        EnvSetupError: If the driver does not start.
    """
    begun = _early.pop(asyncio.get_running_loop(), None)
    try:
        return await (begun or _start())
    except MissingDependencyError:
        raise
    except Exception as error:  # Playwright has no exception class for a driver that cannot run
        raise EnvSetupError(
            f"Playwright's driver does not start: {error}. A library may be missing (such as libatomic1). "
            "Check and install what is missing with: cua setup"
        ) from error


async def _start() -> "Playwright":
    api = require("playwright.async_api", "browser")
    import platformdirs

    # a variable of Node.js, the driver's interpreter: the compiled driver is kept, which saves a quarter of its start
    compiled = platformdirs.user_cache_path("k25", appauthor=False) / "driver"
    os.environ.setdefault("NODE_COMPILE_CACHE", str(compiled))
    playwright: Playwright = await api.async_playwright().start()
    return playwright


async def _begin() -> None:
    _early[asyncio.get_running_loop()] = asyncio.ensure_future(_start())
    for _ in range(3):  # its process is started in the second task
        await asyncio.sleep(0)


async def _stop_unused() -> None:
    begun = _early.pop(asyncio.get_running_loop(), None)
    if begun is not None:
        with contextlib.suppress(Exception):
            await (await begun).stop()
