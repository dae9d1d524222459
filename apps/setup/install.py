"""What `cua setup` does: find a browser and a virtual display, or get them by the first way that works."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from apps.setup.command import Say
from apps.setup.packages import Need, find_package_manager, install_need, is_root
from apps.setup.report import Report, Row
from apps.setup.sandbox import check_backends, missing_packages
from apps.setup.verify import Verdict, find_driver_obstacle, verify_browser, verify_desktop
from apps.setup.ways import WAYS, Way
from envs.browser.find import BrowserBinary, find_browser
from envs.desktop.find import find_window_manager, find_xvfb
from visual_tools.sandbox.bubblewrap import find_bubblewrap

_WORDS: dict[Need, str] = {
    "driver": "what Playwright's driver needs",
    "browser": "a browser",
    "display": "a virtual display",
    "fonts": "fonts",
    "sandbox": "bubblewrap, which isolates code that a model writes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserTrial:
    """The browser that was found, if any, and how trying it went."""

    binary: BrowserBinary | None
    verdict: Verdict

    @property
    def name(self) -> str:
        """For people: the program and how it was found."""
        return f"{self.binary.path or self.binary.kind} ({self.binary.how})" if self.binary else "no browser"


async def run_setup(
    say: Say = print, *, browser: bool = True, desktop: bool = True, sandbox: bool = True, ways: Sequence[Way] = WAYS
) -> Report:
    """Make sure that a browser, fonts, a virtual display, a window manager and a sandbox are there and work.

    What is there already is only tried out, without any network. Nothing is installed system-wide unless
    this process is root; what it may not do is in the report as the command to type.

    Args:
        say: Gets progress, one line a call.
        browser: Whether to look after the browser and fonts.
        desktop: Whether to look after the virtual display.
        sandbox: Whether to look after what isolates code.
        ways: How to get a browser, in order.

    Returns:
        One row for each thing.
    """
    trial, display_row = await asyncio.gather(
        try_browser() if browser else _nothing(), try_desktop() if desktop else _nothing()
    )
    rows: list[Row] = []
    if trial is not None:
        rows += await _mend_browser(trial, say, ways)
    if display_row is not None:
        rows.append(await _mend_desktop(display_row, say))
    if sandbox:
        rows.append(await _mend_sandbox(say))
    return Report(rows=tuple(rows))


async def try_browser() -> BrowserTrial:
    """Find a browser and start it."""
    binary = find_browser()
    if binary is not None:
        return BrowserTrial(binary=binary, verdict=await verify_browser(binary))
    named = os.environ.get("K25_BROWSER")
    detail = f"$K25_BROWSER names {named!r}, and there is no such program" if named else "none found"
    return BrowserTrial(binary=None, verdict=Verdict(works=False, detail=detail))


async def try_desktop() -> Row:
    """Find a virtual display and a window manager and start them."""
    server, window_manager = find_xvfb(), find_window_manager()
    missing = [name for name, path in (("Xvfb", server), ("a window manager", window_manager)) if path is None]
    if missing:
        found = f"{' and '.join(missing)} not found: browser tasks work, desktop tasks need --display"
    else:
        verdict = await verify_desktop()
        if verdict.works:
            return Row(name="display", level="ok", found=f"{server} and {window_manager}: {verdict.detail}")
        found = verdict.detail
    return Row(name="display", level="warn", found=found, expected="Xvfb and openbox", mend=_line_for("display") or "")


def browser_rows(trial: BrowserTrial, reasons: Sequence[str] = (), ways: Sequence[Way] = WAYS) -> tuple[Row, ...]:
    """What a report says about a browser; `reasons` are why it could not be mended."""
    if not trial.verdict.works:
        broken = trial.verdict.is_driver_broken
        return (_no_driver_row(trial.verdict.detail) if broken else _no_browser_row(trial, reasons, ways),)
    row = Row(name="browser", level="ok", found=f"{trial.name}: {trial.verdict.detail}")
    fault = trial.verdict.font_fault
    if not fault:
        return row, Row(name="fonts", level="ok", found="text is drawn as text")
    return row, Row(name="fonts", level="warn", found=fault, expected="any text font", mend=_line_for("fonts") or "")


async def _nothing() -> None:
    return None


async def _mend_browser(trial: BrowserTrial, say: Say, ways: Sequence[Way]) -> tuple[Row, ...]:
    obstacle = await find_driver_obstacle()
    if obstacle is not None:
        say(obstacle)
        if not await _install_as_root("driver", say) or await find_driver_obstacle() is not None:
            return (_no_driver_row(obstacle),)
        trial = await try_browser()
    reasons: list[str] = []
    if not trial.verdict.works:
        say(f"browser: {trial.name}, {trial.verdict.detail}")
        if not os.environ.get("K25_BROWSER"):
            trial, reasons = await _get_browser(trial, say, ways)
    if trial.verdict.works and trial.verdict.font_fault and await _install_as_root("fonts", say):
        trial = await try_browser()
    return browser_rows(trial, reasons, ways)


async def _get_browser(trial: BrowserTrial, say: Say, ways: Sequence[Way]) -> tuple[BrowserTrial, list[str]]:
    """Go through the ways until a browser works."""
    reasons: list[str] = []
    for way in ways:
        obstacle = way.find_obstacle()
        if obstacle is None:
            say(f"getting a browser by {way.name}")
            obstacle = await way.get(say)
        if obstacle is None:
            trial = await try_browser()
            if trial.verdict.works:
                say(f"  {trial.name} works")
                return trial, []
            obstacle = f"{trial.name} {trial.verdict.detail}"
        say(f"  not by {way.name}: {obstacle}")
        reasons.append(f"{way.name}: {obstacle}")
    return trial, reasons


async def _mend_desktop(row: Row, say: Say) -> Row:
    if row.level == "ok" or (find_xvfb() and find_window_manager()):
        return row
    return await try_desktop() if await _install_as_root("display", say) else row


async def _mend_sandbox(say: Say) -> Row:
    if find_bubblewrap() is None and not missing_packages():
        await _install_as_root("sandbox", say)
    return await asyncio.to_thread(check_backends)


async def _install_as_root(need: Need, say: Say) -> bool:
    """Install packages for a need if this process may; returns whether anything was installed."""
    manager = find_package_manager()
    if manager is None or not is_root():
        return False
    say(f"getting {_WORDS[need]} by {manager.name}")
    result = await install_need(manager, need, say)
    return result.code == 0


def _no_driver_row(obstacle: str) -> Row:
    is_there = "not installed" not in obstacle
    mend = (_line_for("driver") or "") if is_there else "pip install 'cua-k25[browser]'"
    return Row(name="playwright", level="fail", found=obstacle, expected="a driver that starts", mend=mend)


def _no_browser_row(trial: BrowserTrial, reasons: Sequence[str], ways: Sequence[Way]) -> Row:
    lines = [line for way in ways if (line := way.line_to_type()) is not None]
    mend = "unset K25_BROWSER && cua setup" if os.environ.get("K25_BROWSER") else "   or   ".join(lines)
    return Row(
        name="browser",
        level="fail",
        found="\n".join((f"{trial.name}: {trial.verdict.detail}", *reasons)),
        expected="Chromium or Chrome, on PATH or named by $K25_BROWSER",
        mend=mend,
    )


def _line_for(need: Need) -> str | None:
    manager = find_package_manager()
    return manager.line_to_type(manager.packages[need][0]) if manager else None
