"""What `cua setup` does: find a browser and a virtual display, or get them by the first way that works."""

import asyncio
from collections.abc import Sequence

from apps.setup.command import Say
from apps.setup.packages import Need, find_package_manager, install_need, is_root
from apps.setup.report import Report, Row
from apps.setup.verify import Verdict, verify_browser, verify_desktop
from apps.setup.ways import WAYS, Way
from envs.browser.find import BrowserBinary, find_browser
from envs.desktop.find import find_window_manager, find_xvfb


async def run_setup(
    say: Say = print, *, browser: bool = True, desktop: bool = True, ways: Sequence[Way] = WAYS
) -> Report:
    """Make sure that a browser, fonts, a virtual display and a window manager are there and work.

    What is there already is only tried out, without any network. Nothing is installed system-wide unless
    this process is root; what it may not do is in the report as the command to type.

    Args:
        say: Gets progress, one line a call.
        browser: Whether to look after the browser and fonts.
        desktop: Whether to look after the virtual display.
        ways: How to get a browser, in order.

    Returns:
        One row for each thing.
    """
    browser_rows, desktop_rows = await asyncio.gather(
        _trying_browser(say) if browser else _nothing(), _trying_desktop() if desktop else _nothing()
    )
    if browser and browser_rows is None:
        browser_rows = await _get_browser(say, ways)
    if desktop and desktop_rows is None:
        desktop_rows = await _get_desktop(say)
    return Report(rows=(*(browser_rows or ()), *(desktop_rows or ())))


async def _nothing() -> tuple[Row, ...]:
    return ()


async def _trying_browser(say: Say) -> tuple[Row, ...] | None:
    """Rows when the browser that is there is good, else None."""
    found = find_browser()
    if found is None:
        say("no browser found")
        return None
    verdict = await verify_browser(found)
    if verdict.works and verdict.has_fonts:
        return (_to_browser_row(found, verdict), Row(name="fonts", level="ok", found="text is drawn"))
    say(f"{_name_of(found)}: {verdict.detail}" + ("" if verdict.has_fonts else ", but there are no fonts"))
    return None


async def _get_browser(say: Say, ways: Sequence[Way]) -> tuple[Row, ...]:
    reasons: list[str] = []
    found, verdict = find_browser(), None
    if found is not None:
        verdict = await verify_browser(found)
    for way in ways:
        if found is not None and verdict is not None and verdict.works:
            break
        obstacle = way.find_obstacle()
        if obstacle is None:
            say(f"getting a browser by {way.name}")
            obstacle = await way.get(say)
        if obstacle is not None:
            say(f"  not by {way.name}: {obstacle}")
            reasons.append(f"{way.name}: {obstacle}")
            continue
        found = find_browser()
        verdict = await verify_browser(found) if found is not None else None
        if verdict is not None and not verdict.works:
            say(f"  {verdict.detail}")
            reasons.append(f"{way.name}: {verdict.detail}")
    if found is None or verdict is None or not verdict.works:
        return (_no_browser(reasons, ways),)
    if not verdict.has_fonts:
        verdict = await _get_fonts(say, found)
    return (_to_browser_row(found, verdict), _to_font_row(verdict))


async def _get_fonts(say: Say, found: BrowserBinary) -> Verdict:
    manager = find_package_manager()
    if manager is not None and is_root():
        say("getting fonts, for without any a page is a row of boxes")
        await install_need(manager, "fonts", say)
    return await verify_browser(found)


async def _trying_desktop() -> tuple[Row, ...] | None:
    """Rows when the display that is there is good, else None."""
    server, window_manager = find_xvfb(), find_window_manager()
    if server is None or window_manager is None:
        return None
    verdict = await verify_desktop()
    if not verdict.works:
        return (Row(name="display", level="warn", found=verdict.detail, expected="a private X display"),)
    return (
        Row(name="display", level="ok", found=f"{server}: {verdict.detail}"),
        Row(name="window manager", level="ok", found=window_manager),
    )


async def _get_desktop(say: Say) -> tuple[Row, ...]:
    manager = find_package_manager()
    if manager is not None and is_root():
        say(f"getting a virtual display by {manager.name}")
        result = await install_need(manager, "display", say)
        if result.code != 0:
            say(f"  {result.why}")
    rows = await _trying_desktop()
    return rows if rows is not None else (_no_display(),)


def _no_browser(reasons: Sequence[str], ways: Sequence[Way]) -> Row:
    lines = [line for way in ways if (line := way.line_to_type()) is not None]
    return Row(
        name="browser",
        level="fail",
        found="\n".join(("none that works", *reasons)),
        expected="Chromium or Chrome, on PATH or named by $K25_BROWSER",
        mend=" or ".join(reversed(lines)),
    )


def _no_display() -> Row:
    missing = [
        name for name, path in (("Xvfb", find_xvfb()), ("a window manager", find_window_manager())) if path is None
    ]
    return Row(
        name="display",
        level="warn",
        found=f"{' and '.join(missing)} missing: browser tasks work, desktop tasks need --display",
        expected="Xvfb and openbox",
        mend=_line_for("display"),
    )


def _to_browser_row(found: BrowserBinary, verdict: Verdict) -> Row:
    return Row(name="browser", level="ok", found=f"{_name_of(found)}: {verdict.detail}")


def _to_font_row(verdict: Verdict) -> Row:
    if verdict.has_fonts:
        return Row(name="fonts", level="ok", found="text is drawn")
    return Row(
        name="fonts", level="warn", found="none: text is drawn as boxes", expected="a font", mend=_line_for("fonts")
    )


def _line_for(need: Need) -> str:
    manager = find_package_manager()
    return manager.line_to_type(manager.packages[need][0]) if manager else ""


def _name_of(found: BrowserBinary) -> str:
    return f"{found.path or found.kind} ({found.how})"
