"""From actions to input: overlays first, then the browser's own shortcuts, then the page."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from envs.actions import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    TypeText,
    Wait,
)
from envs.browser.checking import Gate
from envs.browser.interrupts import Interrupted
from envs.browser.keyboard import Ask, Keyboard, canonical
from envs.browser.mouse import Mouse
from envs.browser.options import BrowserOptions
from envs.browser.shortcuts import Shortcuts, shortcut_of
from envs.browser.world import World
from envs.errors import ActionError, EnvDiedError

_MAX_WAIT_S = 300.0
_KEY_S = 0.03


class Actor:
    """Hands and fingers of one episode."""

    def __init__(self, world: World, options: BrowserOptions) -> None:
        self.keyboard = Keyboard(lambda: world.tabs.active)
        self.mouse = Mouse(lambda: world.tabs.active, options.viewport_px)
        self._world = world
        self._options = options
        self._shortcuts = Shortcuts(world, options.viewport_px, options.start_url, options.navigation_timeout_s)

    @property
    def held(self) -> frozenset[str]:
        """Keys and buttons that are down."""
        return frozenset([*self.keyboard.held, *self.mouse.held])

    async def act(self, action: Action, gate: Gate | None = None) -> None:
        """Carry out one action (not `Terminate`).

        Args:
            action: What to do.
            gate: Asked before each input of it that activates something.

        Raises:
            ActionError: It did not work, or was objected to.
            EnvDiedError: The browser is gone.
        """
        action = _with_canonical_keys(action)
        point_px = self._point_of(action)
        await self._guard(self._world.ensure_page(), action)
        if await self._to_overlay(action, point_px, gate):
            return
        shortcut = shortcut_of(action, self.keyboard.held)
        if shortcut is None:
            await self._guard(self._input(action, gate), action, gate)
            return
        for _ in range(action.presses if isinstance(action, PressKey) else 1):
            await self._guard(self._shortcuts.run(shortcut), action)

    async def _to_overlay(self, action: Action, point_px: tuple[int, int], gate: Gate | None) -> bool:
        """Offer an action to what stands over the page; whether it was taken."""
        overlay = self._world.overlay
        if overlay is None or isinstance(action, Wait):
            return False
        if gate is not None:
            await gate.whole(action, point_px, self.keyboard.held)
        # None: what the overlay did was overtaken by the next dialog, so it was taken
        is_taken = await self._guard(overlay.act(action, point_px), action) is not False
        self._world.clear_overlay()
        if is_taken:
            self.mouse.pointer_px = point_px
        return is_taken

    async def release_all(self) -> None:
        """Let go of every key and button, because the episode ends."""
        from playwright.async_api import Error

        for key in list(self.keyboard.held):
            try:
                await asyncio.wait_for(self.keyboard.let_go(key), 1.0)
            except (Error, ActionError, TimeoutError):
                continue
        self.keyboard.held.clear()
        self.mouse.held.clear()

    def _point_of(self, action: Action) -> tuple[int, int]:
        match action:
            case Click() | Move() | Drag() | Scroll() | MouseDown() | MouseUp():
                return self.mouse.target(action.x_px, action.y_px)
        return self.mouse.pointer_px

    async def _guard(self, work: Coroutine[Any, Any, Any], action: Action, gate: Gate | None = None) -> Any:
        """Do something that a dialog, a crash or death may overtake; time spent in the gate does not count."""
        from playwright.async_api import Error

        try:
            waiting = gate.is_asking if gate is not None else None
            return await self._world.interrupts.race(work, self._limit_s(action), waiting)
        except Interrupted as up:
            if up.reason == "died":
                raise EnvDiedError("the browser process is gone") from up
            if up.reason == "crash":
                raise ActionError("the page crashed") from up
            return None  # the dialog is part of the next observation
        except TimeoutError as error:
            raise ActionError(f"the page did not take the input within {self._limit_s(action):.0f} s") from error
        except Error as error:
            if not self._world.is_connected:
                raise EnvDiedError("the browser process is gone") from error
            if "closed" in error.message:  # the input closed the page
                return None
            raise ActionError(error.message.splitlines()[0]) from error

    def _limit_s(self, action: Action) -> float:
        limit_s = max(self._options.action_timeout_s, self._options.navigation_timeout_s + 1.0)
        match action:
            case TypeText(text=text, interval_s=interval_s):
                return limit_s + len(text) * (_KEY_S + interval_s)
            case PressKey(presses=number, interval_s=interval_s) | Click(clicks=number, interval_s=interval_s):
                return limit_s + number * (_KEY_S + interval_s)
            case Move(duration_s=duration_s) | Drag(duration_s=duration_s) | Wait(duration_s=duration_s):
                return limit_s + duration_s
        return limit_s

    async def _input(self, action: Action, gate: Gate | None) -> None:
        ask = gate.point if gate is not None else None
        match action:
            case Click():
                await self.mouse.click(action, ask)
            case Move(x_px=x, y_px=y, duration_s=duration_s):
                await self.mouse.move(x, y, duration_s)
            case Drag(x_px=x, y_px=y, button=button, duration_s=duration_s):
                await self.mouse.drag(x, y, button, duration_s, ask)
            case Scroll(dx=dx, dy=dy, x_px=x, y_px=y):
                await self.mouse.scroll(dx, dy, x, y)
            case MouseDown(x_px=x, y_px=y, button=button):
                await self.mouse.down(x, y, button, ask)
            case MouseUp(x_px=x, y_px=y, button=button):
                await self.mouse.up(x, y, button, ask)
            case Wait(duration_s=duration_s):
                await asyncio.sleep(min(duration_s, _MAX_WAIT_S))
            case _:
                await self._keys(action, gate.key if gate is not None else None)

    async def _keys(self, action: Action, ask: Ask | None) -> None:
        match action:
            case TypeText(text=text, interval_s=interval_s):
                await self.keyboard.type(text, interval_s, ask)
            case PressKey(key=key, presses=presses, interval_s=interval_s):
                for number in range(presses):
                    if number and interval_s:
                        await asyncio.sleep(interval_s)
                    await self.keyboard.press(key, ask)
            case Hotkey(keys=keys):
                await self.keyboard.hotkey(keys, ask)
            case KeyDown(key=key):
                await self.keyboard.hold(key, ask)
            case KeyUp(key=key):
                await self.keyboard.let_go(key, ask)


def _with_canonical_keys(action: Action) -> Action:
    match action:
        case PressKey(key=key) | KeyDown(key=key) | KeyUp(key=key):
            return replace(action, key=canonical(key))
        case Hotkey(keys=keys):
            return replace(action, keys=tuple(canonical(key) for key in keys))
    return action
