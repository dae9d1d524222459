"""Execution of actions: overlays first, then browser shortcuts, then mouse and keyboard of the page."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envs.actions import (
    RECIPIENT_UNKNOWN,
    Action,
    Button,
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
    TypeSecret,
    TypeText,
    Wait,
)
from envs.browser.checking import InputCheck
from envs.browser.keyboard import KeyCheck, PageKeyboard, Shortcuts, canonical, shortcut_of
from envs.browser.options import BrowserOptions
from envs.browser.overlays.address_bar import AddressBar
from envs.browser.overlays.suggestions import Suggestions
from envs.browser.session import BrowserSession
from envs.browser.settle import Interrupted
from envs.errors import ActionError, EnvDiedError

if TYPE_CHECKING:
    from playwright.async_api import Page

NOTCH_PX = 100  # what Chromium scrolls per notch of a wheel on Linux
_DRAG_STEP_PX = 25  # pages with drag and drop need several moves on the way; fewer steps are faster
_MOVE_S = 0.016  # one frame at 60 Hz: pages see each move
_AWAY = (-1, -1)  # outside of the viewport, so that nothing is hovered

PointCheck = Callable[[int, int], Awaitable[None]]
"""Callback before a button goes down or up at a point of the viewport; raises `ActionError` to reject the input."""
_MAX_WAIT_S = 300.0  # bounds a step whose code waits
_KEY_S = 0.03  # time that a key may take on a busy machine, for the limit of an action
_CHECK_TIMEOUT_S = 0.5  # for each check before an action (pop-ups, typed text); skipped if the page does not answer


class PageMouse:
    """Mouse in the active page.

    Attributes:
        pointer_px: Pointer position, viewport CSS pixels.
        held: Buttons that are down, with the page in which they were pressed.
    """

    def __init__(self, active_page: "Callable[[], Page]", viewport_px: tuple[int, int]) -> None:
        self.pointer_px = (viewport_px[0] // 2, viewport_px[1] // 2)
        self.held: dict[Button, Page] = {}
        self._active_page = active_page
        self._viewport_px = viewport_px
        self._moved_in: Page | None = None

    def target(self, x_px: int | None, y_px: int | None) -> tuple[int, int]:
        """Return a point of the viewport; `None` is the pointer position.

        Raises:
            ActionError: If it is outside of the viewport.
        """
        x_px = self.pointer_px[0] if x_px is None else x_px
        y_px = self.pointer_px[1] if y_px is None else y_px
        width, height = self._viewport_px
        if not (0 <= x_px < width and 0 <= y_px < height):
            raise ActionError(f"({x_px}, {y_px}) is outside of the screen of {width}x{height} px")
        return x_px, y_px

    async def move(self, x_px: int, y_px: int, duration_s: float = 0.0) -> None:
        """Move the pointer to a point within `duration_s`."""
        await self._glide(self.target(x_px, y_px), duration_s, least_steps=1)

    async def click(self, action: Click, check: PointCheck | None = None) -> None:
        """Press and release a button; clicks in quick succession count as a double or triple click."""
        page = await self._go(action.x_px, action.y_px)
        for number in range(1, action.clicks + 1):
            if number > 1 and action.interval_s:
                await asyncio.sleep(action.interval_s)
            count = number if action.interval_s < 0.5 else 1
            if check is not None:
                await check(*self.pointer_px)
            await page.mouse.down(button=action.button, click_count=count)
            await self._release(page, action.button, count, check)

    async def drag(
        self, x_px: int, y_px: int, button: Button, duration_s: float, check: PointCheck | None = None
    ) -> None:
        """Drag with a button from the pointer to a point, with intermediate mouse moves.

        `check` is called before the release, which decides what the drag does.
        """
        goal = self.target(x_px, y_px)
        page = await self._go(None, None)
        steps = math.dist(self.pointer_px, goal) / _DRAG_STEP_PX
        await page.mouse.down(button=button)
        self.held[button] = page
        try:
            await self._glide(goal, duration_s, least_steps=min(max(math.ceil(steps), 4), 12))
        finally:
            self.held.pop(button, None)
            await self._release(page, button, 1, check)

    async def scroll(self, dx: int, dy: int, x_px: int | None, y_px: int | None) -> None:
        """Scroll at a point: `dy` notches up, `dx` notches right."""
        page = await self._go(x_px, y_px)
        await page.mouse.wheel(dx * NOTCH_PX, -dy * NOTCH_PX)

    async def down(self, x_px: int | None, y_px: int | None, button: Button, check: PointCheck | None = None) -> None:
        """Press a button until `up`."""
        page = await self._go(x_px, y_px)
        if check is not None:
            await check(*self.pointer_px)
        await page.mouse.down(button=button)
        self.held[button] = page

    async def up(self, x_px: int | None, y_px: int | None, button: Button, check: PointCheck | None = None) -> None:
        """Release a button in the page in which it was pressed."""
        page = await self._go(x_px, y_px)
        pressed_in = self.held.pop(button, page)
        if not pressed_in.is_closed():
            await self._release(pressed_in, button, 1, check)

    async def _release(self, page: "Page", button: Button, count: int, check: PointCheck | None) -> None:
        """Release a button; if the check rejects that, release it outside of the page, so that nothing is clicked."""
        if check is None:
            await page.mouse.up(button=button, click_count=count)
            return
        try:
            await check(*self.pointer_px)
        except BaseException:
            await page.mouse.move(*_AWAY)
            await page.mouse.up(button=button, click_count=count)
            self._moved_in = None
            raise
        await page.mouse.up(button=button, click_count=count)

    async def _go(self, x_px: int | None, y_px: int | None) -> "Page":
        goal = self.target(x_px, y_px)
        page = self._active_page()
        if x_px is not None or y_px is not None or page is not self._moved_in:
            await self._glide(goal, 0.0, least_steps=1)
        return page

    async def _glide(self, goal: tuple[int, int], duration_s: float, *, least_steps: int) -> None:
        page = self._active_page()
        start = self.pointer_px
        steps = max(least_steps, min(round(duration_s / _MOVE_S), 200))
        for number in range(1, steps + 1):
            part = number / steps
            x_px = start[0] + (goal[0] - start[0]) * part
            y_px = start[1] + (goal[1] - start[1]) * part
            await page.mouse.move(x_px, y_px)
            self.pointer_px = (round(x_px), round(y_px))
            if duration_s:
                await asyncio.sleep(max(0.0, duration_s / steps - _MOVE_S))
        self._moved_in = page


class BrowserActionExecutor:
    """Executor of the actions of one episode."""

    def __init__(self, session: BrowserSession, options: BrowserOptions) -> None:
        self.keyboard = PageKeyboard(
            lambda: session.tabs.active, session.clipboard, session.typing_check, session.bound_texts
        )
        self.mouse = PageMouse(lambda: session.tabs.active, options.viewport_px)
        self._session = session
        self._options = options
        self._shortcuts = Shortcuts(session, options.viewport_px, options.start_url, options.navigation_timeout_s)

    @property
    def held(self) -> frozenset[str]:
        """Keys and buttons that are down."""
        return frozenset([*self.keyboard.held, *self.mouse.held])

    async def act(self, action: Action, input_check: InputCheck | None = None) -> None:
        """Execute one action other than `Terminate`.

        Args:
            action: Action to execute.
            input_check: Called before each input of it that activates something.

        Raises:
            ActionError: If it failed or was rejected.
            EnvDiedError: If the browser is gone.
        """
        action = _with_canonical_keys(action)
        if isinstance(action, TypeSecret):
            self._session.bound_texts.learn(action.bound)  # secrets that may be typed on their own sites only
        point_px = self._point_of(action)
        await self._run_interruptible(self._session.ensure_page(), action)
        if not isinstance(action, Wait):
            self._session.held_requests.on_input(is_by_person=input_check is None)  # no check: also "allow all"
            await self._update_popups()
        if await self._to_overlay(action, point_px, input_check):
            return
        self._session.popups.on_input(action)
        shortcut = shortcut_of(action, self.keyboard.held)
        if shortcut is None:
            await self._run_interruptible(self._input(action, input_check), action, input_check)
            return
        for _ in range(action.presses if isinstance(action, PressKey) else 1):
            await self._run_interruptible(self._shortcuts.run(shortcut), action)

    async def _update_popups(self) -> None:
        """Update the pop-ups, and check that earlier typed text went to the field that it was meant for."""
        from playwright.async_api import Error

        session = self._session
        with contextlib.suppress(Error, Interrupted, TimeoutError):  # the next input reports the same problem
            await session.interrupts.race(session.update_popups(), _CHECK_TIMEOUT_S)
            await session.interrupts.race(session.check_typing(), _CHECK_TIMEOUT_S)

    async def _to_overlay(self, action: Action, point_px: tuple[int, int], input_check: InputCheck | None) -> bool:
        """Offer an action to the overlay over the page; return True if it was handled."""
        overlay = self._session.overlay
        if overlay is None or isinstance(action, Wait):
            return False
        if isinstance(action, TypeSecret) and not isinstance(overlay, AddressBar | Suggestions):
            raise ActionError(RECIPIENT_UNKNOWN)
        if input_check is not None:
            await input_check.check_action(action, point_px, self.keyboard.held)
        # None: a new dialog interrupted the overlay's action, so it was handled
        is_taken = await self._run_interruptible(overlay.act(action, point_px), action) is not False
        self._session.clear_overlay()
        if is_taken:
            self.mouse.pointer_px = point_px
        return is_taken

    async def release_all(self) -> None:
        """Release every key and button at the end of the episode."""
        from playwright.async_api import Error

        for key in list(self.keyboard.held):
            try:
                await asyncio.wait_for(self.keyboard.key_up(key), 1.0)
            except (Error, ActionError, TimeoutError):
                continue
        self.keyboard.held.clear()
        self.mouse.held.clear()

    def _point_of(self, action: Action) -> tuple[int, int]:
        match action:
            case Click() | Move() | Drag() | Scroll() | MouseDown() | MouseUp():
                return self.mouse.target(action.x_px, action.y_px)
        return self.mouse.pointer_px

    async def _run_interruptible(
        self, work: Coroutine[object, object, Any], action: Action, input_check: InputCheck | None = None
    ) -> object:
        """Await work until it ends or is interrupted; its time limit excludes the time spent in `input_check`."""
        from playwright.async_api import Error

        def is_asking() -> bool:
            return self._session.is_asking() or (input_check is not None and input_check.is_asking())

        try:
            return await self._session.interrupts.race(work, self._limit_s(action), is_asking)
        except Interrupted as interrupt:
            if interrupt.reason == "died":
                raise EnvDiedError("the browser process is gone") from interrupt
            if interrupt.reason == "crash":
                raise ActionError("the page crashed") from interrupt
            return None  # the dialog is part of the next observation
        except TimeoutError as error:
            raise ActionError(f"the page did not take the input within {self._limit_s(action):.0f} s") from error
        except Error as error:
            if not self._session.is_connected:
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

    async def _input(self, action: Action, input_check: InputCheck | None) -> None:
        check = input_check.check_point if input_check is not None else None
        match action:
            case Click():
                await self.mouse.click(action, check)
            case Move(x_px=x, y_px=y, duration_s=duration_s):
                await self.mouse.move(x, y, duration_s)
            case Drag(x_px=x, y_px=y, button=button, duration_s=duration_s):
                await self.mouse.drag(x, y, button, duration_s, check)
            case Scroll(dx=dx, dy=dy, x_px=x, y_px=y):
                await self.mouse.scroll(dx, dy, x, y)
            case MouseDown(x_px=x, y_px=y, button=button):
                await self.mouse.down(x, y, button, check)
            case MouseUp(x_px=x, y_px=y, button=button):
                await self.mouse.up(x, y, button, check)
            case Wait(duration_s=duration_s):
                await asyncio.sleep(min(duration_s, _MAX_WAIT_S))
            case _:
                await self._keys(action, input_check.check_key if input_check is not None else None)

    async def _keys(self, action: Action, check: KeyCheck | None) -> None:
        match action:
            case TypeSecret():
                await self.keyboard.type_secret(action, check)
            case TypeText(text=text, interval_s=interval_s):
                await self.keyboard.type(text, interval_s, check)
            case PressKey(key=key, presses=presses, interval_s=interval_s):
                for number in range(presses):
                    if number and interval_s:
                        await asyncio.sleep(interval_s)
                    await self.keyboard.press(key, check)
            case Hotkey(keys=keys):
                await self.keyboard.hotkey(keys, check)
            case KeyDown(key=key):
                await self.keyboard.key_down(key, check)
            case KeyUp(key=key):
                await self.keyboard.key_up(key, check)


def _with_canonical_keys(action: Action) -> Action:
    match action:
        case PressKey(key=key) | KeyDown(key=key) | KeyUp(key=key):
            return replace(action, key=canonical(key))
        case Hotkey(keys=keys):
            return replace(action, keys=tuple(canonical(key) for key in keys))
    return action
