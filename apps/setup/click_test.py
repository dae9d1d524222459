"""Test that a click arrives at the intended position, in browsers and on private displays, at odd sizes and scales.

The whole coordinate path is tested: position in the image, fractions as text, `cua.gui_agent.interpreter.run`,
`ScreenGeometry`, `env.step`, the device, and back from the program that received the click. On a private display that
is `python -m apps.setup.click_test FILE WIDTH HEIGHT`, a window with targets; it writes one JSON line per click to
FILE: [x, y] in screen px, as the X server reports them.
"""

import asyncio
import io
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from apps.setup.command import Say
from apps.setup.report import DoctorRow
from cua.gui_agent.interpreter import run
from envs import Env, EnvError, InstructionTask, Observation
from envs.errors import require

TARGET_SIDE_PX = 9  # small, so that a click that is off by more than half of it misses
_MAX_OBSERVATIONS = 20  # a page that never shows all targets is an error
_FRACTIONS = (
    (0.01, 0.02),
    (0.5, 0.02),
    (0.97, 0.02),
    (0.02, 0.5),
    (0.5, 0.5),
    (0.37, 0.73),
    (0.02, 0.96),
    (0.97, 0.96),
)

Point = tuple[float, float]
ReadHits = Callable[[int], Awaitable[Sequence[Point]]]
"""Function that returns all received clicks in screen px; waits a bounded time for the given number of clicks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSquare:
    """Square of one unique colour; its centre is in screen px."""

    middle_px: Point
    rgb: tuple[int, int, int]


def make_targets(size_px: tuple[int, int]) -> tuple[TargetSquare, ...]:
    """Make targets at the edges, in the middle and at odd positions of a screen."""
    half = TARGET_SIDE_PX // 2
    return tuple(
        TargetSquare(
            middle_px=(round(x * size_px[0]) + half, round(y * size_px[1]) + half), rgb=(201, 17 + 23 * number, 67)
        )
        for number, (x, y) in enumerate(_FRACTIONS)
    )


async def click_all(env: Env, targets: Sequence[TargetSquare], read_hits: ReadHits) -> list[float | None]:
    """Click each target once; return the error of each in px, None if no click arrived.

    Args:
        env: Environment that shows the targets.
        targets: Targets to click; `middle_px` is where the click should arrive.
        read_hits: Returns the clicks that the clicked program received.
    """
    observation = await _wait_until_drawn(env, targets)
    errors: list[float | None] = []
    for target in targets:
        before = len(await read_hits(0))
        await env.step(run(_code_for(target, observation), observation.geometry))
        hits = (await read_hits(before + 1))[before:]
        errors.append(_distance(hits[0], target.middle_px) if len(hits) == 1 else None)
    return errors


async def reset_and_close(env: Any, work: Callable[[], Awaitable[list[float | None]]]) -> list[float | None]:
    """Start an environment, run `work`, and close the environment in any case."""
    try:
        await env.reset(InstructionTask(instruction="Click every target."))
        return await work()
    finally:
        await env.close()


async def _wait_until_drawn(env: Env, targets: Sequence[TargetSquare]) -> Observation:
    """Return the first observation that shows every target.

    Raises:
        EnvError: If a target is still missing after `_MAX_OBSERVATIONS` observations.
    """
    for _ in range(_MAX_OBSERVATIONS):
        observation = (await env.step(())).observation
        places = [_find(target, observation.screenshot) for target in targets]
        if None not in places:
            return observation
    raise EnvError(f"target {places.index(None) + 1} does not show in the screenshot")


def _code_for(target: TargetSquare, observation: Observation) -> str:
    """Return the code of a model that sees the target."""
    x, y = _find(target, observation.screenshot) or (0.0, 0.0)
    width, height = observation.geometry.sent_px
    return f"pyautogui.click(x={x / width:.4f}, y={y / height:.4f})"


def _find(target: TargetSquare, png: bytes) -> Point | None:
    """Return the centre of the target in the image in px; None if the image does not show it."""
    import numpy as np
    from PIL import Image

    image = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    rows, columns = np.nonzero((image == target.rgb).all(axis=2))
    if rows.size == 0:
        return None
    return float(columns.mean()), float(rows.mean())


def _distance(hit: Point, wanted: Point) -> float:
    return max(abs(hit[0] - wanted[0]), abs(hit[1] - wanted[1]))


MAX_ERROR_PX = 1.0  # rounding of scaled coordinates
BROWSER_CASES: tuple[tuple[tuple[int, int], float], ...] = (
    ((1280, 720), 1.0),
    ((1023, 767), 1.0),
    ((801, 601), 2.0),
    ((1366, 768), 1.5),
)
"""Viewport in CSS px, and device px per CSS px."""

_NOTE_CLICKS = "() => { window.hits = []; onmousedown = event => hits.push([event.clientX, event.clientY]); }"

DESKTOP_SIZES: tuple[tuple[int, int], ...] = ((1920, 1080), (1366, 768), (1023, 769))
"""Screen sizes in px."""

_ROOT = Path(__file__).parents[2]
_ARRIVAL_TIMEOUT_S = 2.0  # events arrive in milliseconds unless the machine is busy


async def measure_clicks(say: Say, *, with_browser: bool = True, with_desktop: bool = True) -> tuple[DoctorRow, ...]:
    """Click targets in browsers and on displays of odd sizes; return one row for each."""
    rows: list[DoctorRow] = []
    for size_px, scale in BROWSER_CASES if with_browser else ():
        name = f"clicks, browser {size_px[0]}x{size_px[1]} at {scale:g}x"
        rows.append(await _measure(say, name, partial(click_in_browser, size_px, scale)))
    for size_px in DESKTOP_SIZES if with_desktop else ():
        name = f"clicks, display {size_px[0]}x{size_px[1]}"
        rows.append(await _measure(say, name, partial(click_on_desktop, size_px)))
    return tuple(rows)


async def click_in_browser(size_px: tuple[int, int], scale: float) -> list[float | None]:
    """Return the errors in px for all targets on a page of this size."""
    from envs.browser.env import BrowserEnv
    from envs.browser.options import BrowserOptions

    env = BrowserEnv(BrowserOptions(viewport_px=size_px, device_scale=scale))
    targets = make_targets(size_px)

    async def read_hits(at_least: int) -> Sequence[Point]:
        return [(float(x), float(y)) for x, y in await env.page.evaluate("hits")]

    async def work() -> list[float | None]:
        await env.page.set_content(_render_page(targets))
        await env.page.evaluate(_NOTE_CLICKS)
        return await click_all(env, targets, read_hits)

    return await reset_and_close(env, work)


def _render_page(targets: Sequence[TargetSquare]) -> str:
    half = TARGET_SIDE_PX // 2
    squares = "".join(
        f'<div style="left:{x - half:g}px;top:{y - half:g}px;background:rgb{rgb}"></div>'
        for (x, y), rgb in ((target.middle_px, target.rgb) for target in targets)
    )
    side = f"width:{TARGET_SIDE_PX}px;height:{TARGET_SIDE_PX}px"
    return f"<style>html{{overflow:hidden;background:#fff}}div{{position:absolute;{side}}}</style>{squares}"


async def click_on_desktop(size_px: tuple[int, int]) -> list[float | None]:
    """Return the errors in px for all targets on a screen of this size."""
    from envs.desktop.env import DesktopEnv
    from envs.desktop.options import DesktopOptions

    with tempfile.TemporaryDirectory(prefix="k25-clicks-") as folder:
        file = Path(folder) / "clicks.jsonl"
        file.touch()
        width, height = size_px
        app = (sys.executable, "-m", "apps.setup.click_test", str(file), str(width), str(height))
        env = DesktopEnv(DesktopOptions(screen_px=size_px, app=app, draw_cursor=False, env={"PYTHONPATH": str(_ROOT)}))

        async def work() -> list[float | None]:
            return await click_all(env, make_targets(size_px), partial(_read_hits, file))

        return await reset_and_close(env, work)


async def _read_hits(file: Path, at_least: int) -> Sequence[Point]:
    """Return all clicks so far, waiting a bounded time for the last one."""
    deadline = time.monotonic() + _ARRIVAL_TIMEOUT_S
    while True:
        hits = await asyncio.to_thread(_load_hits, file)
        if len(hits) >= at_least or time.monotonic() > deadline:
            return hits
        await asyncio.sleep(0.01)


def _load_hits(file: Path) -> list[Point]:
    lines = file.read_text("utf-8").splitlines(keepends=True)
    return [(float(x), float(y)) for x, y in (json.loads(line) for line in lines if line.endswith("\n"))]


async def _measure(say: Say, name: str, work: Callable[[], Awaitable[list[float | None]]]) -> DoctorRow:
    say(name)
    try:
        errors = await work()
    except EnvError as error:
        return DoctorRow(name=name, level="fail", actual=str(error), expected="every target clicked")
    for number, off_px in enumerate(errors, 1):
        say(f"  target {number}: " + ("no click arrived" if off_px is None else f"{off_px:.1f} px off"))
    arrived = [off_px for off_px in errors if off_px is not None]
    actual = f"{len(arrived)} of {len(errors)} arrived, at most {max(arrived, default=0.0):.1f} px off"
    good = len(arrived) == len(errors) and max(arrived, default=0.0) <= MAX_ERROR_PX
    expected = "" if good else f"all, at most {MAX_ERROR_PX:g} px off"
    return DoctorRow(name=name, level="ok" if good else "fail", actual=actual, expected=expected)


def show_targets(file: Path, size_px: tuple[int, int]) -> None:
    """Cover the screen with targets and write clicks to a file until the display closes."""
    xlib = require("Xlib.display", "desktop")
    from Xlib import X, Xatom
    from Xlib.error import ConnectionClosedError

    display = xlib.Display()
    screen = display.screen()
    window = screen.root.create_window(
        0,
        0,
        *size_px,
        0,
        screen.root_depth,
        background_pixel=screen.white_pixel,
        event_mask=X.ButtonPressMask | X.ExposureMask,
    )
    window.set_wm_name("click test")
    full = display.intern_atom("_NET_WM_STATE_FULLSCREEN")
    window.change_property(display.intern_atom("_NET_WM_STATE"), Xatom.ATOM, 32, [full])
    window.map()
    pen = window.create_gc()
    with file.open("a", encoding="utf-8") as lines:
        try:
            while True:
                event = display.next_event()
                if event.type == X.Expose:
                    _draw(window, pen, size_px)
                    display.flush()
                elif event.type == X.ButtonPress:
                    lines.write(json.dumps([event.root_x, event.root_y]) + "\n")
                    lines.flush()
        except ConnectionClosedError:
            return


def _draw(window: Any, pen: Any, size_px: tuple[int, int]) -> None:
    half = TARGET_SIDE_PX // 2
    for target in make_targets(size_px):
        red, green, blue = target.rgb
        pen.change(foreground=red << 16 | green << 8 | blue)
        x, y = (round(side) for side in target.middle_px)
        window.fill_rectangle(pen, x - half, y - half, TARGET_SIDE_PX, TARGET_SIDE_PX)


if __name__ == "__main__":
    show_targets(Path(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3])))
