"""Input that was decided on an outdated screenshot is refused; a page that does not answer is shown as such."""

import asyncio
import itertools

import pytest

from cua.gui_agent.agent import Agent
from cua.models.scripted import ScriptedModel
from envs.actions import Action, Click, Hotkey, KeyDown, MouseDown, Move, PressKey, Scroll, TypeText, Wait
from envs.browser import BrowserEnv
from envs.observation import Observation
from tests.envs.browser.driving import OpenPage, do, picture
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
BUTTON = "<button style='width:600px;height:400px' onclick='document.title += \"!\"'>go</button>"
MIDDLE = Click(x_px=300, y_px=200)


async def decide(env: BrowserEnv, on: Observation, *actions: Action) -> Observation:
    """A step decided on an observation."""
    assert on.generation is not None
    env.expect(on.generation)
    return (await env.step(actions)).observation


@pytest.mark.long
async def test_a_page_that_went_elsewhere_after_the_screenshot_gets_no_click(
    env: BrowserEnv, pages: PageServer
) -> None:
    new = pages.serve(BUTTON, title="new")
    old = pages.serve(f"<meta http-equiv=refresh content='1; url={new}'>{BUTTON}", title="old")
    seen = await env.reset(OpenPage(old))
    await asyncio.sleep(1.5)
    observation = await decide(env, seen, MIDDLE)
    assert observation.last_action_error == (
        "the tab went to another page after the screenshot, so nothing was done. Decide on the new screenshot"
    )
    assert observation.title == "new"
    assert (await decide(env, observation, MIDDLE)).title == "new!"
    seen = await env.reset(OpenPage(old))
    assert "another page" in ((await decide(env, seen, Wait(duration_s=1.5), MIDDLE)).last_action_error or "")
    seen = await env.reset(OpenPage(old))
    assert (await decide(env, seen, Wait(duration_s=1.5))).last_action_error is None


@pytest.mark.long
async def test_what_a_step_does_itself_is_no_change(env: BrowserEnv, pages: PageServer) -> None:
    new = pages.serve(BUTTON, title="new")
    old = pages.serve(f"<a style='display:block;height:400px' href='{new}'>go</a>", title="old")
    seen = await env.reset(OpenPage(old))
    observation = await decide(env, seen, MIDDLE, Wait(duration_s=0.5), MIDDLE)
    assert (observation.last_action_error, observation.title) == (None, "new!")
    address = Hotkey(keys=("ctrl", "l"))
    observation = await decide(env, observation, address, TypeText(text=f"{new}\n"), Wait(duration_s=0.3), MIDDLE)
    assert (observation.last_action_error, observation.title) == (None, "new!")


@pytest.mark.long
async def test_a_page_that_changes_itself_all_the_time_is_used(env: BrowserEnv, pages: PageServer) -> None:
    tick = "() => { t.textContent = Date.now(); history.pushState(1, '', '#' + Date.now()) }"
    ticking = f"<b id=t></b><script>setInterval({tick}, 20)</script>"
    seen = await env.reset(OpenPage(pages.serve(BUTTON + ticking, title="page")))
    await asyncio.sleep(0.3)
    observation = await decide(env, seen, MIDDLE)
    assert (observation.last_action_error, observation.title) == (None, "page!")


CHANGED = "what is at (300, 200) has changed since the screenshot, so nothing was done. Decide on the new screenshot"
DELETE = "<button style='width:600px;height:400px' onclick='top.document.title += \"DELETE\"'>DELETE</button>"
INNER = f"<iframe id=f style='width:600px;height:400px' srcdoc=\"{BUTTON.replace(chr(34), '&quot;')}\"></iframe>"


@pytest.mark.parametrize(
    ("body", "change"),
    [
        (BUTTON, f"document.body.innerHTML = `{DELETE}`"),
        (BUTTON, f"history.pushState(0, '', '/other'); document.body.innerHTML = `{DELETE}`"),
        (INNER, f"f.srcdoc = `{DELETE}`"),
        (f"{BUTTON}<dialog id=d style='margin:0;width:600px;height:400px'>DELETE?</dialog>", "d.showModal()"),
        (f"{BUTTON}<dialog id=d style='margin:auto'>DELETE?</dialog>", "d.showModal()"),  # dims the rest of the page
        (f"{BUTTON}<div style='height:3000px'>", "scrollTo(0, 40)"),
    ],
    ids=["swap", "push_state", "frame", "dialog", "backdrop", "scroll"],
)
async def test_a_place_that_changed_gets_no_press(env: BrowserEnv, pages: PageServer, body: str, change: str) -> None:
    seen = await env.reset(OpenPage(pages.serve(body, title="page")))
    await env.page.evaluate(f"() => {{ {change} }}")
    await asyncio.sleep(0.4)
    observation = await decide(env, seen, MIDDLE)
    assert (observation.last_action_error, observation.title) == (CHANGED, "page")
    assert (await decide(env, observation, MIDDLE)).last_action_error is None


@pytest.mark.parametrize(
    "actions", [(Move(x_px=300, y_px=200), MouseDown()), (KeyDown(key="ctrl"), MIDDLE), (Wait(duration_s=0.3), MIDDLE)]
)
@pytest.mark.long
async def test_each_kind_of_press_is_refused_whole(
    env: BrowserEnv, pages: PageServer, actions: tuple[Action, ...]
) -> None:
    seen = await env.reset(OpenPage(pages.serve(BUTTON)))
    await env.page.evaluate(f"document.body.innerHTML = `{DELETE}`")
    await asyncio.sleep(0.3)
    assert (await decide(env, seen, *actions)).last_action_error == CHANGED
    assert not env.held


@pytest.mark.long
async def test_a_page_that_loads_itself_again_and_looks_the_same_is_used(env: BrowserEnv, pages: PageServer) -> None:
    again = "<meta http-equiv=refresh content=1>"
    for body in (BUTTON, BUTTON + "<b id=t></b><script>t.textContent = Date.now()</script>"):
        seen = await env.reset(OpenPage(pages.serve(again + body, title="page")))
        await env.page.wait_for_event("framenavigated")
        await asyncio.sleep(0.2)
        observation = await decide(env, seen, MIDDLE)
        assert (observation.last_action_error, observation.title) == (None, "page!")
    seen = await env.reset(OpenPage(pages.serve(BUTTON, title="page")))
    await env.page.reload()
    await env.page.evaluate(f"document.body.innerHTML = `{DELETE}`")
    assert "another page" in ((await decide(env, seen, MIDDLE)).last_action_error or "")
    seen = await do(env)
    await env.page.reload()
    assert "another page" in ((await decide(env, seen, PressKey(key="enter"))).last_action_error or "")


@pytest.mark.long
async def test_a_place_that_always_changes_is_refused_only_once(env: BrowserEnv, pages: PageServer) -> None:
    moving = """<style>button { animation: move 2s linear infinite alternate }
      @keyframes move { from { background: red; color: white } to { background: blue; color: yellow } }</style>"""
    seen = await env.reset(OpenPage(pages.serve(moving + BUTTON, title="page")))
    refusals = []
    for _ in range(4):
        await asyncio.sleep(0.9)
        seen = await decide(env, seen, MIDDLE)
        refusals.append(seen.last_action_error)
    assert all(None in pair for pair in itertools.pairwise(refusals))
    assert CHANGED in refusals
    assert seen.title == "page" + "!" * refusals.count(None)
    elsewhere = moving.replace("button", "i") + "<i style='display:block;height:200px'>x</i>"
    seen = await env.reset(OpenPage(pages.serve(BUTTON + elsewhere, title="page")))
    for _ in range(4):
        await asyncio.sleep(0.4)
        seen = await decide(env, seen, MIDDLE)
        assert seen.last_action_error is None


@pytest.mark.long
async def test_a_caret_that_blinks_and_a_scroll_that_is_asked_for(env: BrowserEnv, pages: PageServer) -> None:
    field = "<textarea id=t autofocus style='width:600px;height:400px;font-size:40px'></textarea>"
    seen = await env.reset(OpenPage(pages.serve(field)))
    for _ in range(3):
        await asyncio.sleep(0.5)
        seen = await decide(env, seen, Click(x_px=20, y_px=35))
        assert seen.last_action_error is None
    await env.page.evaluate("t.style.background = 'red'")
    await asyncio.sleep(0.4)
    assert (await decide(env, seen, Scroll(dy=-1, x_px=300, y_px=200))).last_action_error is None


@pytest.mark.long
async def test_a_tab_that_closed_itself_and_an_older_screenshot(env: BrowserEnv, pages: PageServer) -> None:
    popup = pages.serve(f"{BUTTON}<script>setTimeout(close, 1500)</script>", title="popup")
    start = pages.serve(f"{BUTTON}<script>setTimeout(() => window.open('{popup}'), 800)</script>", title="start")
    first = await env.reset(OpenPage(start))
    assert first.title == "start"
    seen = await do(env, Wait(duration_s=1.0))
    assert (seen.title, "another tab" in str((await decide(env, first, MIDDLE)).last_action_error)) == ("popup", True)
    seen = await do(env)
    await asyncio.sleep(2.0)
    for keys in (("ctrl", "w"), ("f5",)):
        refused = await decide(env, seen, Hotkey(keys=keys))
        assert refused.last_action_error == (
            "another tab came to the front after the screenshot, so nothing was done. Decide on the new screenshot"
        )
    first_tab = Hotkey(keys=("ctrl", "1"))
    assert (await decide(env, seen, first_tab, MIDDLE)).title == "start"  # where the click goes was not seen
    assert (await decide(env, seen, first_tab)).last_action_error is None
    assert (await decide(env, await do(env), first_tab, MIDDLE)).title == "start!"
    current = await do(env)
    await do(env)
    assert "older screenshot" in str((await decide(env, current, MIDDLE)).last_action_error)


@pytest.mark.long
async def test_a_dialog_that_came_up_after_the_screenshot_is_not_answered(env: BrowserEnv, pages: PageServer) -> None:
    body = "<script>setTimeout(() => { document.title = confirm('sure?') }, 300)</script>"
    seen = await env.reset(OpenPage(pages.serve(body, title="asks")))
    await asyncio.sleep(0.8)
    observation = await decide(env, seen, PressKey(key="enter"))
    assert observation.last_action_error == (
        "a dialog came up after the screenshot, so nothing was done. Decide on the new screenshot"
    )
    assert observation.dialog is not None
    assert (await decide(env, observation, PressKey(key="enter"))).title == "true"


@pytest.mark.long
async def test_a_page_that_does_not_answer_is_shown_as_such(env: BrowserEnv, pages: PageServer) -> None:
    style, loop = "body { background: #c81e1e }", "setTimeout(() => { for (;;); }, 1500)"
    before = await env.reset(OpenPage(pages.serve(f"<style>{style}</style>{BUTTON}<script>{loop}</script>")))
    await asyncio.sleep(1.5)
    seen = (await env.step([])).observation
    assert picture(before).getpixel((1000, 600)) == (200, 30, 30)
    assert picture(seen).getpixel((1000, 600)) == (241, 243, 244)
    assert seen.notes == ("the page does not respond; it may be busy",)
    assert seen.generation is not None
    assert seen.generation.frame == 0
    refused = await decide(env, seen, MIDDLE)
    assert "did not respond to the screenshot" in (refused.last_action_error or "")
    closed = await decide(env, refused, Hotkey(keys=("ctrl", "w")))
    assert (closed.last_action_error, closed.url) == (None, "about:blank")


def say(code: str) -> str:
    return f"## Action:\nAct\n## Code:\n```python\n{code}\n```"


@pytest.mark.long
async def test_an_agent_is_told_that_its_screen_was_outdated(env: BrowserEnv, pages: PageServer) -> None:
    new = pages.serve(BUTTON, title="new")
    old = pages.serve(f"<meta http-equiv=refresh content='1; url={new}'>{BUTTON}", title="old")
    replies = [say("pyautogui.click(0.2, 0.2)"), say("computer.terminate(status='failure')")]
    model = ScriptedModel(replies, latency_s=2.0)
    result = await Agent(model=model, env=env).run(OpenPage(old))
    assert (result.end.status, result.num_steps) == ("failed", 2)
    assert "the tab went to another page after the screenshot" in str(model.received[1][-1])
    assert await env.page.title() == "new"


@pytest.mark.long
async def test_refused_input_is_no_loop(env: BrowserEnv, pages: PageServer) -> None:
    body = f"{BUTTON}<script>setTimeout(() => location = '?' + Date.now(), 400)</script>"
    replies = [*[say("pyautogui.click(0.2, 0.2)")] * 7, say("computer.terminate(status='failure')")]
    result = await Agent(model=ScriptedModel(replies, latency_s=0.7), env=env).run(OpenPage(pages.serve(body)))
    assert (result.end.status, result.num_steps) == ("failed", 8)
