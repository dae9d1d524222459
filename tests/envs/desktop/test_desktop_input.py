"""What a program gets when the env acts: exact events, as a program on the display records them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from Xlib import XK

from envs import Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, Scroll
from envs.actions import KEY_NAMES
from envs.desktop import DesktopEnv
from envs.desktop.x11.keyboard import keysym_of_key
from tests.envs.desktop.conftest import HERE, TASK, MakeEnv, needs_display, until

pytestmark = needs_display
XK.load_keysym_group("xf86")
NAMES = {value: name.removeprefix("XK_") for name, value in reversed(vars(XK).items()) if name.startswith("XK_")}


class Record:
    """The recorder program of an env."""

    def __init__(self, env: DesktopEnv, path: Path) -> None:
        self.env = env
        self._path = path
        self._seen = 0

    @classmethod
    async def start(cls, env: DesktopEnv) -> "Record":
        path = env.home / "events.jsonl"
        width, height = env.options.screen_px
        command = [sys.executable, str(HERE / "recorder.py"), str(path), str(width), str(height)]
        await env.launch(command, wait_for_window=False)
        await until(
            lambda: path.exists() and path.read_text().startswith('["other", "ready"]\n'), what="the recorder's start"
        )
        await env.step([Move(x_px=1, y_px=1)])
        record = cls(env, path)
        await record.take()
        return record

    async def take(self) -> list[list[Any]]:
        """Events since the last call. A key that means nothing ends them, so that none is missed."""
        await self.env.step([PressKey(key="pause")])
        mark = ["release", "Pause", 0]
        await until(lambda: mark in self._read()[self._seen :], what="the end mark")
        events = self._read()[self._seen :]
        self._seen += len(events)
        return [event for event in events if event[0] != "other" and event[1] != "Pause"]

    def _read(self) -> list[list[Any]]:
        return [json.loads(line) for line in self._path.read_text().split("\n")[:-1]]


@pytest.fixture
async def record(make_env: MakeEnv) -> Record:
    return await Record.start(await make_env())


def without_motion(events: list[list[Any]]) -> list[list[Any]]:
    return [event for event in events if event[0] != "motion"]


async def test_clicks_reach_the_program_with_button_place_and_count(record: Record) -> None:
    result = await record.env.step(
        [
            Click(x_px=10, y_px=20),
            Click(x_px=799, y_px=599, button="right"),
            Click(x_px=400, y_px=0, button="middle", clicks=2, interval_s=0.01),
            Click(clicks=3),
        ]
    )
    assert result.observation.last_action_error is None
    assert result.observation.pointer_px == (400, 0)
    assert without_motion(await record.take()) == [
        *(["down", 1, 10, 20], ["up", 1, 10, 20]),
        *(["down", 3, 799, 599], ["up", 3, 799, 599]),
        *(["down", 2, 400, 0], ["up", 2, 400, 0]) * 2,
        *(["down", 1, 400, 0], ["up", 1, 400, 0]) * 3,
    ]


async def test_scroll_turns_the_wheel_in_four_directions(record: Record) -> None:
    await record.env.step([Scroll(dy=2, x_px=50, y_px=60), Scroll(dy=-1), Scroll(dx=1), Scroll(dx=-3)])
    events = without_motion(await record.take())
    assert [event for event in events if event[0] == "down"] == [
        *[["down", 4, 50, 60]] * 2,
        ["down", 5, 50, 60],
        ["down", 7, 50, 60],
        *[["down", 6, 50, 60]] * 3,
    ]


async def test_drag_moves_through_points_with_the_button_down(record: Record) -> None:
    await record.env.step([Move(x_px=100, y_px=100), Drag(x_px=300, y_px=200)])
    events = await record.take()
    assert without_motion(events) == [["down", 1, 100, 100], ["up", 1, 300, 200]]
    dragged = [event[2:] for event in events if event[0] == "motion" and event[1] == 1]
    assert len(dragged) >= 10
    assert dragged[-1] == [300, 200]
    assert dragged == sorted(dragged)
    assert all(abs((x_px - 100) / 2 - (y_px - 100)) <= 1 for x_px, y_px in dragged), "not on the straight line"


async def test_move_takes_its_duration(record: Record) -> None:
    await record.env.step([Move(x_px=0, y_px=0)])
    await record.take()
    result = await record.env.step([Move(x_px=400, y_px=400, duration_s=0.2)])
    assert 0.2 <= result.info["timings"]["act"] < 2.0
    points = [event[2:] for event in await record.take()]
    assert points[-1] == [400, 400]
    assert len(points) >= 10


async def test_keys_and_buttons_stay_down_over_steps_until_let_go(record: Record) -> None:
    await record.env.step([KeyDown(key="shift"), MouseDown(x_px=5, y_px=5)])
    await record.env.step([Move(x_px=50, y_px=5)])
    assert record.env.held == {"shift", "left button"}
    await record.env.step([MouseUp(), KeyUp(key="shift")])
    assert record.env.held == frozenset()
    events = [event for event in await record.take() if event[0] != "motion" or event[2:] == [50, 5]]
    assert events == [
        ["press", "Shift_L", 0],
        ["down", 1, 5, 5],
        ["motion", 1, 50, 5],
        ["up", 1, 50, 5],
        ["release", "Shift_L", 1],
    ]


async def test_hotkey_presses_in_order_and_releases_in_reverse(record: Record) -> None:
    await record.env.step([Hotkey(keys=("ctrl", "shift", "t"))])
    assert await record.take() == [
        ["press", "Control_L", 0],
        ["press", "Shift_L", 4],
        ["press", "T", 5],
        ["release", "T", 5],
        ["release", "Shift_L", 5],
        ["release", "Control_L", 4],
    ]


async def test_close_releases_what_is_held_on_an_attached_display(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await make_env()
    record = await Record.start(owner)
    monkeypatch.setenv("XAUTHORITY", owner.environment["XAUTHORITY"])
    guest = await make_env(display=owner.display)
    await guest.step([KeyDown(key="ctrl"), MouseDown(x_px=30, y_px=30, button="right")])
    await guest.close()
    assert without_motion(await record.take()) == [
        ["press", "Control_L", 0],
        ["down", 3, 30, 30],
        ["up", 3, 30, 30],
        ["release", "Control_L", 4],
    ]
    assert (await owner.step([])).observation.last_action_error is None


async def test_points_outside_and_unknown_keys_stop_the_step(record: Record) -> None:
    result = await record.env.step([Click(x_px=800, y_px=10), Click(x_px=1, y_px=1)])
    assert result.observation.last_action_error == (
        "the point (800, 10) is outside of the screen, which spans (0, 0) to (799, 599)"
    )
    result = await record.env.step([Hotkey(keys=("ctrl", "entre")), Click(x_px=1, y_px=1)])
    assert result.observation.last_action_error == "unknown key 'entre'; did you mean 'enter'?"
    assert without_motion(await record.take()) == []
    assert record.env.held == frozenset()


async def test_a_second_reset_starts_a_fresh_display(make_env: MakeEnv) -> None:
    env = await make_env()
    (env.home / "left-over").write_text("x")
    await env.launch(["xterm"], wait_for_window=True)
    await env.set_clipboard("left over")
    first_home = env.home
    await env.reset(TASK)
    assert not first_home.exists()
    assert (await env.get_clipboard(), await env.describe_point(400, 300)) == ("", "the desktop")


@pytest.mark.long
async def test_every_named_key_arrives_as_itself(record: Record) -> None:
    names = sorted(name for name in KEY_NAMES - {"pause"} if len(name) > 1)
    result = await record.env.step([PressKey(key=name) for name in names])
    assert result.observation.last_action_error is None
    # Locks are toggled back, for they change what the recorder hears next.
    await record.env.step([PressKey(key="capslock"), PressKey(key="numlock")])
    pressed = [event[1] for event in await record.take() if event[0] == "press" and event[1] != "Shift_L"]
    expected = [
        NAMES.get(keysym_of_key(name), hex(keysym_of_key(name)))
        for name in names
        if not name.startswith("shift") or name == "shiftright"
    ]
    assert pressed[: len(expected)] == expected
