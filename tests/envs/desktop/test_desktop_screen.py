"""What the agent sees: pixels, pointer, monitors, titles."""

import asyncio
import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image
from Xlib import display as xlib
from Xlib.ext import randr
from Xlib.protocol import rq

from envs import Action, ActionError, Click, LiveFrame, Move, PressKey, ScreenGeometry, Target, TypeText
from envs.desktop import DesktopEnv
from tests.envs.desktop.conftest import MakeEnv, needs_display, needs_program, picture
from tests.envs.desktop.test_desktop_input import Record, without_motion

pytestmark = needs_display
BLUE = (0x33, 0x66, 0x99)  # the recorder's window


async def test_the_screenshot_shows_the_screen_and_the_pointer(make_env: MakeEnv) -> None:
    env = await make_env()
    await Record.start(env)
    image = picture((await env.step([Move(x_px=300, y_px=200)])).observation)
    assert image.size == (800, 600)
    changed = [(x, y) for x in range(800) for y in range(600) if image.getpixel((x, y)) != BLUE]
    assert changed, "no pointer in the image"
    assert (300, 200) in {(x + dx, y + dy) for x, y in changed for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
    assert all(abs(x - 300) < 40 and abs(y - 200) < 40 for x, y in changed)


async def test_the_pointer_can_be_left_out_and_may_hang_over_the_edge(make_env: MakeEnv) -> None:
    bare = await make_env(draw_cursor=False)
    await Record.start(bare)
    image = picture((await bare.step([Move(x_px=300, y_px=200)])).observation)
    assert image.getcolors() == [(800 * 600, BLUE)]
    shown = await make_env()
    for x_px, y_px in ((0, 0), (799, 599)):
        observation = (await shown.step([Move(x_px=x_px, y_px=y_px)])).observation
        assert (observation.pointer_px, picture(observation).size) == ((x_px, y_px), (800, 600))


class SetMonitor(rq.Request):
    """RandR 1.5 RRSetMonitor for a monitor 600 px high; python-xlib's own cannot be sent."""

    _request = rq.Struct(
        *(rq.Card8("opcode"), rq.Opcode(43), rq.RequestLength(), rq.Window("window"), rq.Card32("name")),
        *(rq.Bool("primary", 0), rq.Bool("automatic", 0), rq.LengthOf("outputs", 2)),
        *(rq.Int16("x"), rq.Int16("y", 0), rq.Card16("width"), rq.Card16("height", 600)),
        *(rq.Card32("width_mm", 100), rq.Card32("height_mm", 150), rq.List("outputs", rq.Card32Obj)),
    )


@pytest.fixture
async def two_monitors(make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> DesktopEnv:
    """A display of 800x600 with two logical monitors side by side, 500 and 300 px wide."""
    owner = await make_env()
    monkeypatch.setenv("XAUTHORITY", owner.environment["XAUTHORITY"])
    server = xlib.Display(owner.display)
    root = server.screen().root
    outputs = root.xrandr_get_screen_resources().outputs
    for name, left, width, used in (("LEFT", 0, 500, outputs), ("RIGHT", 500, 300, [])):
        SetMonitor(
            display=server.display,
            opcode=server.display.get_extension_major(randr.extname),
            window=root,
            name=server.intern_atom(name),
            x=left,
            width=width,
            outputs=used,
        )
    server.sync()
    found = [(monitor.x, monitor.width_in_pixels) for monitor in root.xrandr_get_monitors().monitors]
    server.close()
    assert found == [(0, 500), (500, 300)]
    return owner


async def test_one_of_two_monitors(two_monitors: DesktopEnv, make_env: MakeEnv) -> None:
    record = await Record.start(two_monitors)
    env = await make_env(display=two_monitors.display, monitor=1)
    observation = (await env.step([])).observation
    assert observation.geometry == ScreenGeometry(native_px=(300, 600), sent_px=(300, 600), offset_px=(500, 0))
    assert picture(observation).size == (300, 600)
    x_px, y_px = observation.geometry.from_model(0.5, 0.25)
    observation = (await env.step([Click(x_px=x_px, y_px=y_px)])).observation
    assert observation.pointer_px == (650, 150)
    assert without_motion(await record.take()) == [["down", 1, 650, 150], ["up", 1, 650, 150]]
    image = picture(observation)
    drawn = [(x, y) for x in range(300) for y in range(600) if image.getpixel((x, y)) != BLUE]
    assert drawn
    assert all(abs(x - 150) < 40 and abs(y - 150) < 40 for x, y in drawn), "the pointer is not where it is on monitor 1"
    outside = await env.step([Click(x_px=499, y_px=10)])
    assert outside.observation.last_action_error == (
        "the point (499, 10) is outside of the screen, which spans (500, 0) to (799, 599)"
    )
    whole = await make_env(display=two_monitors.display)
    assert (await whole.step([])).observation.geometry == ScreenGeometry(native_px=(800, 600), sent_px=(800, 600))


@needs_program("mousepad")
async def test_titles_and_what_is_under_a_point(make_env: MakeEnv) -> None:
    env = await make_env(app="mousepad")
    observation = (await env.step([])).observation
    assert observation.title == "Untitled 1 - Mousepad"
    assert await env.describe_point(400, 300) == 'window "Untitled 1 - Mousepad"'
    assert await env.describe_point(2, 2) == "the desktop"
    column = [await env.describe_point(400, y_px) for y_px in range(0, 300, 4)]
    assert list(dict.fromkeys(column)) == [
        "the desktop",
        'frame of window "Untitled 1 - Mousepad"',
        'window "Untitled 1 - Mousepad"',
    ]
    await env.step([Click(x_px=400, y_px=300, button="right")])
    assert await env.describe_point(410, 310) == 'popup of "Mousepad"'


@needs_program("mousepad")
async def test_keys_that_may_press_a_button_are_the_active_windows_and_are_asked_about(make_env: MakeEnv) -> None:
    env = await make_env(app="mousepad")
    asked: list[tuple[int, Target]] = []

    async def check(number: int, action: Action, targets: Sequence[Target]) -> None:
        asked.extend((number, target) for target in targets)
        if isinstance(action, PressKey):
            raise ActionError("no Enter")

    window = Target(role="window", names=("*Untitled 1 - Mousepad",), is_element=False)
    actions = (TypeText(text="a b"), TypeText(text="c\n"), PressKey(key="enter"), TypeText(text="d"))
    after = (await env.step(actions, check)).observation
    assert after.last_action_error == "no Enter"
    assert asked == [(1, window), (2, window)]
    assert await env.find_targets(TypeText(text="d")) == ()
    for key in ("f8", "esc"):
        (found,) = await env.find_targets(PressKey(key=key))
        assert found.role == "window"


async def test_without_a_window_there_is_no_title(make_env: MakeEnv) -> None:
    env = await make_env(window_manager=None)
    assert (await env.step([])).observation.title is None
    assert await env.describe_point(5, 5) == "the desktop"


@needs_program("galculator")
async def test_a_calculator_without_a_window_manager(make_env: MakeEnv) -> None:
    env = await make_env(window_manager=None, app="galculator")
    assert await env.describe_point(20, 100) == 'window "galculator"'


@pytest.mark.long
async def test_live_frames_come_while_the_screen_changes_and_not_at_rest(make_env: MakeEnv) -> None:
    env = await make_env()
    frames: list[LiveFrame] = []

    async def watch() -> None:
        async for frame in env.live_frames(10):
            frames.append(frame)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(1.5)
    at_rest = len(frames)
    assert at_rest <= 2
    await env.launch([sys.executable, str(Path(__file__).with_name("flicker.py")), "300", "200"], wait_for_window=False)
    began = time.monotonic()
    while len(frames) < at_rest + 8:
        await asyncio.sleep(0.02)
        assert time.monotonic() - began < 20
    assert Image.open(io.BytesIO(frames[-1].image)).size == (800, 600)
    watching.cancel()
