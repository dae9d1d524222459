"""Other people's input on a display that is attached: another XTEST client stands for them, on a real Xvfb.

The server reports both in one way, so what tells them apart is only that we did not send it.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from envs import Click, Drag, InputDevice, InstructionTask, Move, Scroll, SharedScreen, TypeText
from envs.desktop import DesktopEnv, DesktopOptions
from envs.desktop.x11.connection import Connection
from tests.envs.desktop.conftest import MakeEnv, needs_display

pytestmark = needs_display


class Guest:
    """An env attached to the display of another one, a person beside it, and what it tells of them."""

    def __init__(self, env: DesktopEnv, person: Connection) -> None:
        self.env = env
        self.person = person
        self.told: list[InputDevice] = []

    async def listen(self) -> None:
        async for touch in self.env.user_inputs():
            self.told.append(touch)

    async def take(self) -> list[InputDevice]:
        """What was told within three rounds of looking, once each."""
        self.person.display.sync()
        await asyncio.sleep(0.35)
        told, self.told = self.told, []
        return list(dict.fromkeys(told))


@pytest.fixture
async def guest(make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guest]:
    host = await make_env()
    monkeypatch.setenv("XAUTHORITY", host.environment["XAUTHORITY"])
    env = DesktopEnv(DesktopOptions(display=host.display))
    await env.reset(InstructionTask(instruction="Look."))
    person = Connection(host.display, None)
    guest = Guest(env, person)
    listening = asyncio.create_task(guest.listen())
    await asyncio.sleep(0.3)
    yield guest
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    person.close()
    await env.close()


@pytest.mark.long
async def test_our_own_input_is_nobodys_and_a_persons_is_told(guest: Guest) -> None:
    env, person = guest.env, guest.person
    assert isinstance(env, SharedScreen)
    ours: list[Any] = [Move(x_px=9000, y_px=9), Click(x_px=50, y_px=60, clicks=2), TypeText(text="Añ漢!"), Scroll(dy=3)]
    await env.step([*ours, Drag(x_px=300, y_px=300, duration_s=0.2)])
    assert await guest.take() == []
    person.send_motion(40, 40)
    assert await guest.take() == []  # one alone may be a table that shakes
    for x_px in range(100, 140, 10):
        person.send_motion(x_px, 40)
    assert await guest.take() == ["mouse"]
    person.send_key(38, down=True)
    person.send_key(38, down=False)
    assert await guest.take() == ["keyboard"]


@pytest.mark.long
async def test_a_person_is_noticed_while_we_are_busy_too(guest: Guest) -> None:
    busy = asyncio.ensure_future(guest.env.step([Drag(x_px=700, y_px=500, duration_s=1.0), TypeText(text="abc" * 20)]))
    await asyncio.sleep(0.4)
    guest.person.send_button(1, down=True)
    guest.person.send_button(1, down=False)
    await busy
    assert await guest.take() == ["mouse"]
    await guest.env.step([Click(x_px=10, y_px=10)])
    assert await guest.take() == []


async def test_on_a_private_display_nobody_is_told_of(make_env: MakeEnv) -> None:
    env = await make_env()
    desktop = env._session.desktop if env._session else None
    assert desktop is not None and desktop.open_input_sensor() is None
