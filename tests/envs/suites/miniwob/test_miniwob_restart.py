"""A page that is restarted in place is the page that is loaded anew, whatever was done to it before."""

import random
from pathlib import Path
from typing import Any

import pytest

from envs import Action, Click, Drag, Move, PressKey, Scroll, TypeText
from envs.suites.miniwob.env import RESTARTABLE, MiniWobEnv
from envs.suites.miniwob.tasks import FAMILY_OF, MiniWobTask

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
SNAPSHOT = (Path(__file__).parent / "snapshot.js").read_text("utf-8")
POINTS = """() => [...document.querySelectorAll('#area *, .ui-widget *')].filter(e => e.children.length === 0)
    .map(e => [e.getBoundingClientRect(), e.tagName])
    .filter(([r]) => r.width > 2 && r.height > 2 && r.x >= 0 && r.y >= 0)
    .map(([r, tag]) => [Math.round(r.x + r.width / 2), Math.round(r.y + r.height / 2), tag])
    .filter(([x, y]) => x < 332 && y < 214)"""
QUICK = ("click-checkboxes", "email-inbox", "enter-time")


async def look(env: MiniWobEnv, name: str, seed: int) -> dict[str, Any]:
    seen = await env.reset(MiniWobTask(name, seed))
    session = await env.page.context.new_cdp_session(env.page)
    listeners = []
    for target in ("window", "document"):
        found = await session.send("Runtime.evaluate", {"expression": target})
        asked = {"objectId": found["result"]["objectId"], "depth": -1, "pierce": True}
        answer = await session.send("DOMDebugger.getEventListeners", asked)
        listeners += [(e["type"], e["useCapture"], e["lineNumber"], e["columnNumber"]) for e in answer["listeners"]]
    await session.detach()
    page = await env.page.evaluate(SNAPSHOT)
    return {**page, "listeners": sorted(listeners), "image": seen.screenshot, "instruction": await env.page.title()}


async def meddle(env: MiniWobEnv, draw: random.Random) -> None:
    """Click, type, drag and scroll at random until the page ends the episode."""
    for _ in range(7):
        points = await env.page.evaluate(POINTS) or [[80, 100, ""]]
        x, y, tag = draw.choice(points)
        actions: list[Action] = [Click(x_px=x, y_px=y)]
        kind = draw.random()
        if tag in ("INPUT", "TEXTAREA"):
            actions.append(TypeText(text="ab1"))
        if kind < 0.15:
            actions.append(Scroll(dy=-2, x_px=x, y_px=y))
        elif kind < 0.3:
            actions = [Move(x_px=x, y_px=y), Drag(x_px=draw.randrange(5, 155), y_px=draw.randrange(55, 205))]
        elif kind < 0.4:
            actions.append(PressKey(key="down"))
        if (await env.step(actions)).terminated:
            break


async def is_restarted(env: MiniWobEnv, name: str, seed: int) -> bool:
    """Whether the next reset keeps the document."""
    env._num_renewed = 1  # after many episodes a fresh context is due, and with it another document
    await env.page.evaluate("window.sameDocument = true")
    await env.reset(MiniWobTask(name, seed))
    return bool(await env.page.evaluate("window.sameDocument === true"))


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sorted(RESTARTABLE)]
)
async def test_a_restart_is_the_same_as_a_load(env: MiniWobEnv, name: str) -> None:
    await env.reset(MiniWobTask("click-dialog", 0))  # another page: the next is loaded
    loaded = await look(env, name, 11)
    draw = random.Random(name)
    for _ in range(2):
        await meddle(env, draw)
        was_left = env._is_left
        assert await look(env, name, 11) == loaded
        if not was_left:
            assert await is_restarted(env, name, 12)


@pytest.mark.long
async def test_a_page_that_keeps_something_is_loaded(env: MiniWobEnv) -> None:
    for name in ("social-media", "click-menu", "stock-market"):
        assert name in set(FAMILY_OF) - RESTARTABLE
        await env.reset(MiniWobTask(name, 0))
        assert not await is_restarted(env, name, 1)
