"""Mouse and keyboard reach a real page as a person's would."""

import pytest

from envs.actions import (
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
from envs.browser import BrowserEnv
from tests.envs.browser.driving import OpenPage, click, do, middle
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

EVENTS = """
<div id=pad style="width:400px;height:300px;background:#eee"></div>
<script>
  window.log = [];
  for (const kind of ['click', 'dblclick', 'contextmenu', 'auxclick'])
    pad.addEventListener(kind, e => { e.preventDefault();
      log.push([kind, e.button, e.detail, e.clientX, e.clientY, e.shiftKey]) });
</script>"""


@pytest.mark.long
async def test_clicks_arrive_at_the_point_with_button_and_count(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(EVENTS)))
    observation = await do(
        env,
        Click(x_px=11, y_px=22),
        Click(x_px=0, y_px=0, button="right"),
        Click(x_px=30, y_px=40, button="middle"),
        Click(x_px=50, y_px=60, clicks=2),
        Move(x_px=70, y_px=80),
        Click(),
    )
    assert await env.page.evaluate("log") == [
        ["click", 0, 1, 11, 22, False],
        ["contextmenu", 2, 0, 0, 0, False],
        ["auxclick", 2, 1, 0, 0, False],
        ["auxclick", 1, 1, 30, 40, False],
        ["click", 0, 1, 50, 60, False],
        ["click", 0, 2, 50, 60, False],
        ["dblclick", 0, 2, 50, 60, False],
        ["click", 0, 1, 70, 80, False],
    ]
    assert observation.pointer_px == (70, 80)


@pytest.mark.long
async def test_slow_clicks_are_single_clicks(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(EVENTS)))
    await do(env, Click(x_px=9, y_px=9, clicks=2, interval_s=0.6))
    assert [entry[:3] for entry in await env.page.evaluate("log")] == [["click", 0, 1], ["click", 0, 1]]


async def test_a_held_key_counts_over_steps_and_is_let_go_by_reset(env: BrowserEnv, pages: PageServer) -> None:
    url = pages.serve(EVENTS)
    await env.reset(OpenPage(url))
    await do(env, KeyDown(key="shift"))
    await do(env, Click(x_px=5, y_px=5))
    assert env.held == {"shift"}
    await do(env, KeyUp(key="shift"), Click(x_px=6, y_px=6), KeyDown(key="shift"))
    assert [entry[3:] for entry in await env.page.evaluate("log")] == [[5, 5, True], [6, 6, False]]
    await env.reset(OpenPage(url))
    await do(env, Click(x_px=7, y_px=7))
    assert env.held == frozenset()
    assert [entry[3:] for entry in await env.page.evaluate("log")] == [[7, 7, False]]


TEXT = "naïve – <b> & \"quotes\" 'x' {y} \\ 日本語 Ελληνικά 🎉 |~"


async def test_any_text_arrives_as_typed(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<input id=field style='width:600px'>")))
    await click(env, "#field")
    await do(env, TypeText(text=TEXT))
    assert await env.page.evaluate("field.value") == TEXT


async def test_a_line_break_is_enter_and_a_tab_goes_on(env: BrowserEnv, pages: PageServer) -> None:
    body = """<form onsubmit='window.sent = a.value + b.value; return false'>
      <input id=a><input id=b><button>go</button></form>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#a")
    await do(env, TypeText(text="one\ttwo\n"))
    assert await env.page.evaluate("sent") == "onetwo"


async def test_an_editor_that_indents_by_itself_holds_what_was_typed(env: BrowserEnv, pages: PageServer) -> None:
    body = r"""<textarea id=area rows=10 cols=60></textarea><script>
      area.addEventListener('keydown', event => {
        if (event.key !== 'Enter') return;
        event.preventDefault();
        const before = area.value.slice(0, area.selectionStart);
        const mark = before.slice(before.lastIndexOf('\n') + 1).match(/^ *(\* )?/)[0];
        area.setRangeText('\n' + mark, area.selectionStart, area.selectionEnd, 'end');
      });</script>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#area")
    text = "  * a\n  * b\r\n\n    deep\nflat"
    await do(env, TypeText(text=text))
    assert await env.page.evaluate("area.value") == text.replace("\r\n", "\n")


async def test_copy_cut_paste_and_undo(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<input id=a value=alpha><input id=b>")))
    await click(env, "#a")
    await do(env, Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "C")), PressKey(key="tab"))
    await do(env, Hotkey(keys=("ctrlleft", "v")), Hotkey(keys=("ctrl", "v")))
    assert await env.page.evaluate("b.value") == "alphaalpha"
    await do(env, Hotkey(keys=("ctrl", "z")))
    assert await env.page.evaluate("b.value") == "alpha"
    await do(env, Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "x")))
    assert await env.page.evaluate("b.value") == ""


async def test_keys_have_their_names_and_their_modifiers(env: BrowserEnv, pages: PageServer) -> None:
    body = """<script>window.log = []; addEventListener('keydown', e => { e.preventDefault();
      log.push([e.key, e.code, e.shiftKey, e.ctrlKey, e.altKey, e.metaKey].join(' ')) })</script>"""
    await env.reset(OpenPage(pages.serve(body)))
    await do(
        env,
        PressKey(key="enter"),
        PressKey(key="Return"),
        PressKey(key="a", presses=2, interval_s=0.01),
        PressKey(key="A"),
        PressKey(key="<"),
        PressKey(key="pgdn"),
        PressKey(key="f12"),
        PressKey(key="num5"),
        Hotkey(keys=("shift", "a")),
        Hotkey(keys=("ctrl", "shift", "K")),
        Hotkey(keys=("shiftright", "f10")),
        Hotkey(keys=("win", "e")),
    )
    assert await env.page.evaluate("log") == [
        "Enter Enter false false false false",
        "Enter Enter false false false false",
        "a KeyA false false false false",
        "a KeyA false false false false",
        "A KeyA false false false false",
        "< Comma false false false false",
        "PageDown PageDown false false false false",
        "F12 F12 false false false false",
        "5 Digit5 false false false false",
        "Shift ShiftLeft true false false false",
        "A KeyA true false false false",
        "Control ControlLeft false true false false",
        "Shift ShiftLeft true true false false",
        "K KeyK true true false false",
        "Shift ShiftRight true false false false",
        "F10 F10 true false false false",
        "Meta MetaLeft false false false true",
        "e KeyE false false false true",
    ]


async def test_a_key_that_does_not_exist_stops_the_step(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<input id=field autofocus>")))
    result = await env.step([TypeText(text="a"), PressKey(key="entr"), TypeText(text="b")])
    assert result.observation.last_action_error == "unknown key 'entr'; did you mean 'enter'?"
    assert await env.page.evaluate("field.value") == "a"
    result = await env.step([PressKey(key="launchmail")])
    assert result.observation.last_action_error == "the key 'launchmail' does nothing in a browser"


async def test_the_wheel_turns_by_a_hundred_pixels_at_the_point(env: BrowserEnv, pages: PageServer) -> None:
    body = """<div id=box style="width:200px;height:200px;overflow:scroll">
      <div style="width:2000px;height:2000px"></div></div>
      <div style="height:5000px"></div>"""
    await env.reset(OpenPage(pages.serve(body)))
    await do(env, Scroll(dy=-3, x_px=600, y_px=400))
    assert await env.page.evaluate("scrollY") == 300
    await do(env, Scroll(dy=2))
    assert await env.page.evaluate("scrollY") == 100
    await do(env, Scroll(dy=-2, x_px=100, y_px=50), Scroll(dx=3), Scroll(dx=-1))
    assert await env.page.evaluate("[scrollY, box.scrollTop, box.scrollLeft]") == [100, 200, 200]


async def test_a_slider_is_dragged(env: BrowserEnv, pages: PageServer) -> None:
    body = (
        "<input id=slider type=range min=0 max=100 value=0 style='position:absolute;left:100px;top:50px;width:400px'>"
    )
    await env.reset(OpenPage(pages.serve(body)))
    x_px, y_px = await middle(env, "#slider")
    await do(env, Move(x_px=110, y_px=y_px), Drag(x_px=x_px, y_px=y_px, duration_s=0.1))
    assert await env.page.evaluate("Number(slider.value)") == pytest.approx(50, abs=3)


DRAG_AND_DROP = """
<div id=source draggable=true
  style="position:absolute;left:50px;top:50px;width:80px;height:40px;background:#8bf">drag</div>
<div id=target style="position:absolute;left:400px;top:300px;width:120px;height:90px;background:#ddd"></div>
<script>
  source.addEventListener('dragstart', e => e.dataTransfer.setData('text/plain', 'cargo'));
  target.addEventListener('dragover', e => e.preventDefault());
  target.addEventListener('drop', e => { e.preventDefault();
    target.textContent = e.dataTransfer.getData('text/plain') });
</script>"""


@pytest.mark.parametrize("by_hand", [False, True])
async def test_html_drag_and_drop(env: BrowserEnv, pages: PageServer, by_hand: bool) -> None:
    await env.reset(OpenPage(pages.serve(DRAG_AND_DROP)))
    if by_hand:
        await do(env, MouseDown(x_px=90, y_px=70))
        assert env.held == {"left"}
        await do(env, Move(x_px=200, y_px=150), Move(x_px=440, y_px=330))
        await do(env, Move(x_px=450, y_px=340), MouseUp())
    else:
        await do(env, Move(x_px=90, y_px=70), Drag(x_px=450, y_px=340))
    assert await env.page.evaluate("target.textContent") == "cargo"
    assert env.held == frozenset()


async def test_a_mouse_drag_selects_text(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(
        OpenPage(pages.serve("<p id=text style='font:20px monospace;margin:20px;width:20ch'>one two three</p>"))
    )
    x_px, y_px = await middle(env, "#text")
    await do(env, Move(x_px=20, y_px=y_px), Drag(x_px=x_px + 200, y_px=y_px))
    assert await env.page.evaluate("String(getSelection())") == "one two three"


@pytest.mark.long
async def test_points_outside_of_the_screen_are_refused(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(EVENTS)))
    observation = (await env.step([Click(x_px=1280, y_px=10)])).observation
    assert observation.last_action_error == "(1280, 10) is outside of the screen of 1280x720 px"
    assert await env.page.evaluate("log") == []


@pytest.mark.long
async def test_waiting_takes_its_time(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("")))
    result = await env.step([Wait(duration_s=0.2)])
    assert 0.2 <= result.info["timings"]["act"] < 0.6
    assert set(result.info["timings"]) == {"act", "settle", "observe"}
