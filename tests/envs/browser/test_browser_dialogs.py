"""Dialogs are seen, block the page, and are answered with mouse and keyboard."""

import time

import pytest

from envs.actions import Action, Click, Hotkey, MouseDown, MouseUp, PressKey, TypeText
from envs.browser import BrowserEnv
from envs.observation import Dialog
from tests.envs.browser.driving import OpenPage, click, do, middle, picture
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

BODY = """<button id=ask onclick="window.answer = confirm('Really delete Taxi?')">Delete</button>
<button id=tell onclick="alert('Saved.'); window.told = true">Save</button>
<button id=name onclick="window.answer = prompt('Your name?', 'Anna')">Name</button>
<button id=later onclick="setTimeout(() => { window.answer = confirm('Later?') }, 150)">Later</button>
<button id=twice onclick="window.answer = [confirm('One?'), confirm('Two?')]">Twice</button>"""
BLUE = (11, 87, 208)


async def button(env: BrowserEnv, label: str) -> tuple[int, int]:
    """Find a button of the drawn dialog, as the env describes the points of the screen."""
    for y_px in range(340, 480, 8):
        for x_px in range(420, 860, 16):
            if await env.describe_point(x_px, y_px) == f'dialog button "{label}"':
                return x_px + 8, y_px + 8
    raise AssertionError(f"no button {label}")


@pytest.mark.parametrize(("label", "answer"), [("OK", True), ("Cancel", False)])
@pytest.mark.long
async def test_a_confirmation_is_answered_by_a_click(
    env: BrowserEnv, pages: PageServer, label: str, answer: bool
) -> None:
    before = await env.reset(OpenPage(pages.serve(BODY)))
    began_s = time.monotonic()
    observation = await click(env, "#ask")
    assert time.monotonic() - began_s < 2
    assert observation.dialog == Dialog(kind="confirm", message="Really delete Taxi?")
    x_px, y_px = await button(env, "OK")
    assert picture(observation).getpixel((x_px - 18, y_px)) == BLUE
    assert picture(before).getpixel((x_px - 18, y_px)) != BLUE
    x_px, y_px = await button(env, label)
    observation = await do(env, Click(x_px=x_px, y_px=y_px))
    assert observation.dialog is None
    assert await env.page.evaluate("answer") is answer
    assert picture(observation).getpixel((640, 360)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], True),
        (["esc"], False),
        (["space"], True),
        (["tab", "enter"], False),
        (["tab", "tab", "enter"], True),
    ],
)
async def test_a_confirmation_is_answered_by_keys(
    env: BrowserEnv, pages: PageServer, keys: list[str], answer: bool
) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    await click(env, "#ask")
    observation = await do(env, *[PressKey(key=key) for key in keys])
    assert observation.dialog is None
    assert await env.page.evaluate("answer") is answer


TAB, ENTER, SPACE, ESC = (PressKey(key=key) for key in ("tab", "enter", "space", "esc"))
BACK = Hotkey(keys=("shift", "tab"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opener", "before", "action", "told", "answer"),
    [
        ("#ask", [], ENTER, ["OK"], True),
        ("#ask", [TAB], ENTER, ["Cancel"], False),
        ("#ask", [BACK], SPACE, ["Cancel"], False),
        ("#ask", [TAB, BACK], Hotkey(keys=("ctrl", "enter")), ["OK"], True),
        ("#ask", [TAB], ESC, ["Cancel"], False),
        ("#ask", [], Hotkey(keys=("esc",)), ["Cancel"], False),
        ("#tell", [TAB], ENTER, ["OK"], None),
        ("#tell", [], ESC, [], None),
        ("#name", [TypeText(text="Bob")], ENTER, ["OK"], "Bob"),
        ("#name", [TypeText(text="Bob"), TAB], ENTER, ["Cancel"], None),
        ("#name", [TypeText(text="Bob"), SPACE], TypeText(text="C\nD"), ["OK"], "Bob C"),
    ],
)
async def test_the_button_that_is_told_before_is_the_one_that_a_key_presses(
    env: BrowserEnv,
    pages: PageServer,
    opener: str,
    before: list[Action],
    action: Action,
    told: list[str],
    answer: object,
) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    observation = await click(env, opener)
    assert observation.dialog is not None
    if before:
        await do(env, *before)
    targets = await env.find_targets(action)
    assert [target.names for target in targets if target.role == "dialog button"] == [(name,) for name in told]
    assert all(observation.dialog.message in target.context for target in targets if target.names)
    assert (await do(env, action)).dialog is None
    assert await env.page.evaluate("window.answer ?? null") == answer


async def test_an_alert_and_what_follows_in_the_same_step(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    x_px, y_px = await middle(env, "#tell")
    observation = await do(env, Click(x_px=x_px, y_px=y_px), PressKey(key="enter"))
    assert observation.dialog is None
    assert await env.page.evaluate("told") is True


async def test_the_page_gets_nothing_while_a_dialog_is_open(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    await click(env, "#ask")
    observation = (await env.step([Click(x_px=20, y_px=600)])).observation
    assert observation.last_action_error == (
        "the page is blocked by a dialog, confirm: 'Really delete Taxi?'; "
        "answer it first: click OK or Cancel, or press Enter or Esc"
    )
    assert observation.dialog is not None
    assert await env.describe_point(20, 600) == 'confirm dialog "Really delete Taxi?"'
    for action in (TypeText(text="x"), Hotkey(keys=("ctrl", "l")), PressKey(key="f5")):
        assert (await env.step([action])).observation.last_action_error == observation.last_action_error
    await do(env, PressKey(key="esc"))
    assert await env.page.evaluate("answer") is False


@pytest.mark.parametrize(
    ("actions", "answer"),
    [
        ([PressKey(key="enter")], "Anna"),
        ([TypeText(text="Bob"), PressKey(key="enter")], "Bob"),
        ([TypeText(text="Zoë 日本\n")], "Zoë 日本"),
        ([Hotkey(keys=("ctrl", "a")), TypeText(text="C"), PressKey(key="d"), PressKey(key="backspace"),
          PressKey(key="home"), TypeText(text="<"), PressKey(key="enter")], "<C"),
        ([PressKey(key="end"), PressKey(key="left"), PressKey(key="delete"), PressKey(key="enter")], "Ann"),
        ([TypeText(text="Bob"), PressKey(key="esc")], None),
    ],
)  # fmt: skip
async def test_a_prompt_is_filled_in(env: BrowserEnv, pages: PageServer, actions: list[PressKey], answer: str) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    observation = await click(env, "#name")
    assert observation.dialog == Dialog(kind="prompt", message="Your name?", default_text="Anna")
    await do(env, *actions)
    assert await env.page.evaluate("answer") == answer


async def test_only_a_click_beside_the_field_and_the_buttons_is_refused(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    await click(env, "#name")
    x_px, y_px = await button(env, "OK")
    observation = await do(env, Click(x_px=x_px, y_px=y_px - 56))  # into the field
    assert observation.dialog is not None
    for beside in ((20, 600), (x_px, y_px - 120)):
        error = (await env.step([Click(x_px=beside[0], y_px=beside[1])])).observation.last_action_error
        assert error is not None and error.endswith("or press Enter or Esc (type to fill in its field)")
    assert (await do(env, MouseDown(x_px=20, y_px=600), MouseUp(x_px=20, y_px=600))).dialog is not None
    await do(env, PressKey(key="enter"))
    assert await env.page.evaluate("answer") == "Anna"


async def test_the_text_typed_into_a_prompt_is_seen(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    first = await click(env, "#name")
    second = await do(env, TypeText(text="Somebody else"))
    assert picture(first).tobytes() != picture(second).tobytes()
    await do(env, PressKey(key="enter"))


async def test_a_dialog_that_comes_late_is_in_a_next_observation(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    await click(env, "#later")
    end_s = time.monotonic() + 5
    while (observation := await do(env)).dialog is None:
        assert time.monotonic() < end_s
    assert observation.dialog == Dialog(kind="confirm", message="Later?")
    await do(env, PressKey(key="enter"))
    assert await env.page.evaluate("answer") is True


async def test_one_dialog_after_the_other(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(BODY)))
    assert (await click(env, "#twice")).dialog == Dialog(kind="confirm", message="One?")
    assert (await do(env, PressKey(key="enter"))).dialog == Dialog(kind="confirm", message="Two?")
    assert (await do(env, PressKey(key="esc"))).dialog is None
    assert await env.page.evaluate("answer") == [True, False]


@pytest.mark.parametrize(("key", "title"), [("enter", "other"), ("esc", "first")])
async def test_leaving_a_page_that_asks_back(env: BrowserEnv, pages: PageServer, key: str, title: str) -> None:
    other = pages.serve("other", title="other")
    body = f"<script>onbeforeunload = e => e.preventDefault()</script><a id=go href='{other}'>go</a>"
    await env.reset(OpenPage(pages.serve(body, title="first")))
    observation = await click(env, "#go")
    assert observation.dialog == Dialog(kind="beforeunload", message="")
    observation = await do(env, PressKey(key=key))
    assert (observation.dialog, observation.title) == (None, title)


@pytest.mark.long
async def test_a_page_that_opens_with_an_alert(env: BrowserEnv, pages: PageServer) -> None:
    observation = await env.reset(OpenPage(pages.serve("<script>alert('Hello')</script><p>text")))
    assert observation.dialog == Dialog(kind="alert", message="Hello")
    assert (await do(env, PressKey(key="enter"))).dialog is None


@pytest.mark.long
async def test_reset_and_long_messages_with_an_open_dialog(env: BrowserEnv, pages: PageServer) -> None:
    message = "word " * 2000 + "x" * 3000
    observation = await env.reset(OpenPage(pages.serve(f"<script>confirm('{message}')</script>")))
    assert observation.dialog is not None
    assert observation.dialog.message.startswith(message[:1000])
    tall = await env.describe_point(640, 10)
    assert tall is not None
    assert tall.startswith("confirm dialog")
    assert (await env.reset(OpenPage(pages.serve("")))).dialog is None
