"""The mouse of a browser page, by viewport coordinates."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from envs.actions import Button, Click
from envs.errors import ActionError

if TYPE_CHECKING:
    from playwright.async_api import Page

NOTCH_PX = 100
_DRAG_STEP_PX = 25
_MOVE_S = 0.016
_AWAY = (-1, -1)

Ask = Callable[[int, int], Awaitable[None]]
"""Asked before a button goes down or up at a point of the viewport; raises `ActionError` to object."""


class Mouse:
    """Moves and clicks in the active page.

    Attributes:
        pointer_px: Where the pointer is, viewport CSS pixels.
        held: Buttons that are down, with the page that they went down in.
    """

    def __init__(self, active_page: "Callable[[], Page]", viewport_px: tuple[int, int]) -> None:
        self.pointer_px = (viewport_px[0] // 2, viewport_px[1] // 2)
        self.held: dict[Button, Page] = {}
        self._active_page = active_page
        self._viewport_px = viewport_px
        self._moved_in: Page | None = None

    def target(self, x_px: int | None, y_px: int | None) -> tuple[int, int]:
        """The point meant: `None` is where the pointer is.

        Raises:
            ActionError: It is outside of the viewport.
        """
        x_px = self.pointer_px[0] if x_px is None else x_px
        y_px = self.pointer_px[1] if y_px is None else y_px
        width, height = self._viewport_px
        if not (0 <= x_px < width and 0 <= y_px < height):
            raise ActionError(f"({x_px}, {y_px}) is outside of the screen of {width}x{height} px")
        return x_px, y_px

    async def move(self, x_px: int, y_px: int, duration_s: float = 0.0) -> None:
        """Move the pointer, on the way for `duration_s`."""
        await self._glide(self.target(x_px, y_px), duration_s, least_steps=1)

    async def click(self, action: Click, ask: Ask | None = None) -> None:
        """Press and release a button; clicks close together count up to a double or triple click."""
        page = await self._go(action.x_px, action.y_px)
        for number in range(1, action.clicks + 1):
            if number > 1 and action.interval_s:
                await asyncio.sleep(action.interval_s)
            count = number if action.interval_s < 0.5 else 1
            if ask is not None:
                await ask(*self.pointer_px)
            await page.mouse.down(button=action.button, click_count=count)
            await self._release(page, action.button, count, ask)

    async def drag(self, x_px: int, y_px: int, button: Button, duration_s: float, ask: Ask | None = None) -> None:
        """Hold a button down from here to there; pages see the way between."""
        goal = self.target(x_px, y_px)
        page = await self._go(None, None)
        steps = math.dist(self.pointer_px, goal) / _DRAG_STEP_PX
        await page.mouse.down(button=button)
        self.held[button] = page
        try:
            await self._glide(goal, duration_s, least_steps=min(max(math.ceil(steps), 4), 12))
        finally:
            self.held.pop(button, None)
            await self._release(page, button, 1, ask)

    async def scroll(self, dx: int, dy: int, x_px: int | None, y_px: int | None) -> None:
        """Turn the wheel at a point: `dy` notches up, `dx` notches right."""
        page = await self._go(x_px, y_px)
        await page.mouse.wheel(dx * NOTCH_PX, -dy * NOTCH_PX)

    async def down(self, x_px: int | None, y_px: int | None, button: Button, ask: Ask | None = None) -> None:
        """Put a button down until `up`."""
        page = await self._go(x_px, y_px)
        if ask is not None:
            await ask(*self.pointer_px)
        await page.mouse.down(button=button)
        self.held[button] = page

    async def up(self, x_px: int | None, y_px: int | None, button: Button, ask: Ask | None = None) -> None:
        """Let a button up, in the page that it went down in."""
        page = await self._go(x_px, y_px)
        pressed_in = self.held.pop(button, page)
        if not pressed_in.is_closed():
            await self._release(pressed_in, button, 1, ask)

    async def _release(self, page: "Page", button: Button, count: int, ask: Ask | None) -> None:
        """Let a button up here; where that is objected to, outside of the page, so that nothing is clicked."""
        if ask is None:
            await page.mouse.up(button=button, click_count=count)
            return
        try:
            await ask(*self.pointer_px)
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
