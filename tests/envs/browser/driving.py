"""Short words for browser tests."""

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from PIL import Image

from envs.actions import Action, Click
from envs.browser import BrowserEnv
from envs.env import Task
from envs.observation import Observation


@dataclass(frozen=True, slots=True)
class OpenPage(Task):
    """A task that opens a page."""

    url: str
    instruction: str = "test"

    async def setup(self, env: Any) -> None:
        await env.goto(self.url)


async def middle(env: BrowserEnv, expression: str) -> tuple[int, int]:
    """Middle of an element, given as a JavaScript expression or a CSS selector that starts with # or [."""
    if expression[0] in "#[":
        expression = f"document.querySelector('{expression}')"
    rect = f"({expression}).getBoundingClientRect()"
    box = await env.page.evaluate(f"(box => [box.x, box.y, box.width, box.height])({rect})")
    return round(box[0] + box[2] / 2), round(box[1] + box[3] / 2)


async def do(env: BrowserEnv, *actions: Action) -> Observation:
    """One step that has to work."""
    observation = (await env.step(actions)).observation
    assert observation.last_action_error is None
    return observation


async def click(env: BrowserEnv, expression: str, **more: Any) -> Observation:
    """Click the middle of an element."""
    x_px, y_px = await middle(env, expression)
    return await do(env, Click(x_px=x_px, y_px=y_px, **more))


async def until(condition: Callable[[], Awaitable[Any]], timeout_s: float = 5.0) -> Any:
    """Wait, but not for ever, until something is so; returns it."""
    end_s = time.monotonic() + timeout_s
    while not (found := await condition()):
        assert time.monotonic() < end_s, "it did not come to pass"
        await asyncio.sleep(0.02)
    return found


def picture(observation: Observation) -> Image.Image:
    return Image.open(io.BytesIO(observation.screenshot)).convert("RGB")


class CountedPage:
    """A page, and the DevTools sessions that were opened for it."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._sessions: list[Any] = []
        self.context = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._page, name)

    async def new_cdp_session(self, where: Any) -> Any:
        session = await self._page.context.new_cdp_session(self._page if where is self else where)
        self._sessions.append(session)
        return session

    async def num_sessions(self) -> tuple[int, int]:
        """How many were opened, and how many of them are open still."""
        answers = [session.send("Page.getFrameTree") for session in self._sessions]
        found = await asyncio.gather(*answers, return_exceptions=True)
        return len(found), sum(isinstance(answer, dict) for answer in found)
