"""After an act the model looks again: messages, questions left open, dead buttons, text that went elsewhere."""

from typing import Any

import numpy as np
import pytest

from apps.literal.find_field import Field
from apps.literal.screen import OcrScreen
from apps.literal.step_outcome import Done, Failed
from apps.literal.verify_typed import check_typed
from envs import InstructionTask
from envs.browser import BrowserEnv
from envs.browser.launch import find_browser
from tests.apps.literal.driver import Outcome, follow
from visual_tools.box import Box
from visual_tools.ocr import TextLine

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(find_browser() is None, reason="no browser was found; `cua setup` gets one"),
]

LIGHT = "<!doctype html><meta charset=utf-8><style>body{font:16px sans-serif;margin:24px}</style>"
DARK = (
    "<!doctype html><meta charset=utf-8><style>body{font:15px Verdana,sans-serif;margin:30px;background:#14181f;"
    "color:#dde}button{background:#2d6cdf;color:#fff;border:0;padding:8px 14px;border-radius:6px}"
    "input,select{background:#222a35;color:#eee;border:1px solid #556;padding:6px}.bad{color:#ff8a80;font-size:13px}"
    "</style>"
)
SERIF = (
    "<!doctype html><meta charset=utf-8><style>body{font:17px serif;margin:20px 60px;background:#fbfaf5}"
    "input{font:inherit;padding:5px;border:1px solid #998}.two{display:grid;grid-template-columns:300px 300px;gap:20px}"
    ".bad{color:#b00020;font-size:14px}</style>"
)


async def follow_on(env: BrowserEnv, page: str, instruction: str) -> Outcome:
    await env.reset(InstructionTask(instruction=instruction))
    await env.page.set_content(page)
    return await follow(env, (await env.step([])).observation, instruction, max_steps=30)


def set_text(text: str, delay_ms: int = 0) -> str:
    """A button's script that writes a message below the form."""
    return f"setTimeout(() => e.textContent = '{text}', {delay_ms})"


FORM = "<form onsubmit=\"event.preventDefault();o.textContent='Saved.'\">"
NAME_AND_CITY = "<p>Name <input id=n><p>City <input id=c> <div id=e class=bad style='color:#c00'></div>"
TROUBLE = {
    "the browser's own bubble": (
        f"{LIGHT}{FORM}<p>Name <input required><p>City <input><p><button>Save</button></form><p id=o>",
        "Type Paris into City. Click Save.",
        "fill out this field",
    ),
    "a message over a field, unreadable while it fades in": (
        f"{LIGHT}<p>Name <input><p style='position:relative'>City <input><b id=e style='position:absolute;left:70px;"
        "top:0;width:220px;display:none;background:#fff;border:1px solid'>earis Pl f ut</b><p><button onclick=\""
        f"e.style.display='block';{set_text('Please fill out this field', 900)}\">Save</button>",
        "Type Paris into City. Click Save.",
        'screen says "Please fill out this field"',
    ),
    "the bubble after Enter, dark": (
        f"{DARK}{FORM}<p>E-mail <input type=email><p><button>Subscribe</button></form><p id=o>",
        "Type bob into E-mail. Press Enter.",
        "missing an '@'",
    ),
    "a red line, late": (
        f'{DARK}<p>Name <input><p>City <input><div id=e class=bad></div><p><button onclick="'
        f'{set_text("City is missing", 900)}">Send</button>',
        "Type Ann into Name. Click Send.",
        "City is missing",
    ),
    "a red line in German": (
        f"{LIGHT}<p>Vorname <input><p>Stadt <input><div id=e style='color:#c00;font-size:13px'></div><p>"
        f'<button onclick="{set_text("Bitte geben Sie eine Stadt ein.")}">Speichern</button>',
        "Type Ann into Vorname. Click Speichern.",
        "Bitte geben Sie",
    ),
    "a red line in a language that is not listed": (
        f"{SERIF}<p>Nev <input><p>Varos <input><div id=e class=bad></div><p>"
        f'<button onclick="{set_text("Kotelezo megadni")}">Mentes</button>',
        "Type Ann into Nev. Click Mentes.",
        "Kotelezo megadni",
    ),
    "a pink banner above the form": (
        f"{LIGHT}<div id=e></div><p>Name <input><p>City <input><p><button onclick=\"e.textContent='The page has "
        "validation problems: nothing was stored';e.style='background:#f8d7da;color:#842029;padding:12px'\">"
        "Save</button>",
        "Type Ann into Name. Click Save.",
        "validation problems",
    ),
    "a refused login": (
        f"{DARK}<h2>Sign in</h2><div id=e></div><p>User <input><p>Password <input type=password><p>"
        "<button onclick=\"e.textContent='Wrong user name or password';e.style='background:#5c1a1f;padding:12px'\">"
        "Log on</button>",
        'Type ann into User. Type "hunter2" into Password. Click "Log on".',
        "Wrong user name",
    ),
    "a message in the colour of the text": (
        f"{SERIF}<div class=two><div>Coupon <input style='width:120px'></div><div><button onclick=\""
        f'{set_text("This coupon is not valid")}">Apply</button></div></div><p id=e>',
        "Type X7KK into Coupon. Click Apply.",
        "not valid",
    ),
    "a dark toast in the corner": (
        f"{LIGHT}<p>Title <input> <button onclick=\"e.style.display='block'\">Publish</button><div id=e style='display:"
        "none;position:fixed;bottom:20px;right:20px;background:#333;color:#fff;padding:14px'>Unable to publish: you "
        "have no permission</div>",
        "Type Hello into Title. Click Publish.",
        "Unable to publish",
    ),
    "a field that turns red": (
        f"{LIGHT}{NAME_AND_CITY}<p><button onclick=\"c.style.border='2px solid #dc3545'\">Save</button>",
        "Type Ann into Name. Click Save.",
        "turned red",
    ),
    "an alert": (
        f"{LIGHT}<p>Title <input> <button onclick=\"alert('Title must not be empty')\">Publish</button>",
        "Click Publish.",
        "must not be empty",
    ),
    "a question of the browser": (
        f"{LIGHT}<ul><li>photo.png <button onclick=\"confirm('Delete photo.png?')\">Delete</button></ul>",
        "Click Delete.",
        "Delete photo.png?",
    ),
    "a question in a box without a border": (
        f"{SERIF}<p>photo.png <button onclick=\"d.style.display='block'\">Remove</button><div id=d style='display:none;"
        "background:#eee;padding:20px;width:300px'>Are you sure?<p><button>Yes</button> <button>No</button></div>",
        "Click Remove.",
        "Are you sure?",
    ),
    "a page that refuses": (
        f"{LIGHT}<h2>Tickets</h2><p>One<p>Two<p>Three<p><button onclick=\"document.body.innerHTML='<h1>403 Forbidden"
        "</h1><p>TICKET_CREATE privileges are required.'\">New ticket</button>",
        'Click "New ticket".',
        "Forbidden",
    ),
    "a button that does nothing": (
        f"{LIGHT}<h3>Edit</h3><p>Name <input><p><button>Save</button>",
        "Type Ann into Name. Click Save.",
        "nothing on the screen changed",
    ),
    "a button that only looks pressed": (
        f"{DARK}<style>button:hover{{background:#4a86f0}}</style><h3>Account</h3><p>Name <input><p>"
        "<button>Create account</button>",
        'Type Ann into Name. Click "Create account".',
        "nothing on the screen changed",
    ),
    "a message on the way that stays": (
        f'{LIGHT}{NAME_AND_CITY}<p><button onclick="{set_text("City is required")}">Next</button><p>Remarks <input>',
        "Click Next. Type hi there into Remarks.",
        "City is required",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "instruction", "says"), TROUBLE.values(), ids=TROUBLE)
async def test_what_the_screen_says_is_no_success(env: BrowserEnv, page: str, instruction: str, says: str) -> None:
    outcome = await follow_on(env, page, instruction)

    assert outcome.status == "failure", outcome.actions
    assert says in outcome.answer


FINE = {
    "saved": (
        f"{LIGHT}{FORM}<p>Name <input required><p>City <input><p><button>Save</button></form><p id=o>",
        "Type Ann into Name. Click Save.",
    ),
    "a green banner that says no errors": (
        f"{LIGHT}<div id=e></div><p>Name <input><p><button onclick=\"e.textContent='Saved without errors';"
        "e.style='background:#d1e7dd;color:#0f5132;padding:12px'\">Save</button>",
        "Type Ann into Name. Click Save.",
    ),
    "contents that hold such words": (
        f"{LIGHT}<p><button onclick=\"x.innerHTML='<table border=1><tr><td>Job<td>State<tr><td>nightly<td style="
        "color:red>failed<tr><td>weekly<td>ok</table>'\">Jobs</button> <button>Home</button><div id=x>Welcome</div>",
        "Click Jobs.",
    ),
    "a new row with the typed words and a red button": (
        f"{LIGHT}<p>Item <input id=n><button onclick=\"u.innerHTML+='<li>'+n.value+' <button style=color:red>Delete"
        "</button>';n.value=''\">Add</button><ul id=u><li>milk <button style=color:red>Delete</button></ul>",
        'Type "fix error 42" into Item. Click Add.',
    ),
    "a red hint that was there before": (
        f"{LIGHT}<p style='color:#c00'>* required fields<p>Name * <input><p><button onclick=\"o.textContent="
        "'Thank you'\">Save</button><p id=o>",
        "Type Ann into Name. Click Save.",
    ),
    "a message that the instruction expects": (
        f"{LIGHT}<p>Name <input><p><button onclick=\"o.textContent='Name is required'\">Save</button>"
        "<p id=o style='color:red'>",
        'Click Save. Check that "Name is required" is shown.',
    ),
    "a message that was mended": (
        f"{LIGHT}<p>Name <input id=n oninput=\"o.textContent=''\"><p><button onclick=\"o.textContent=n.value?'Thanks':"
        "'Name is required'\">Save</button><p id=o style='color:red'>",
        "Click Save. Type Ann into Name. Click Save.",
    ),
    "a dialog to fill in": (
        f"{DARK}<p><button onclick=\"d.style.display='block'\">New project</button><div id=d style='display:none;"
        "border:1px solid #888;padding:20px;width:300px'><h3>New project</h3>What is its name?<p><input> "
        "<button>Create</button></div>",
        'Click "New project".',
    ),
    "a password": (
        f"{LIGHT}{FORM}<p>User <input><p>Password <input type=password><p><button>Sign in</button></form><p id=o>",
        'Type ann into User. Type "tr0ub4dor&3" into Password. Click "Sign in".',
    ),
    "a date, a number, a long text and one letter": (
        f"{DARK}<p>Day <input type=date><p>Price <input type=number><p>Link <input style='width:90px'><p>Grade "
        "<input style='width:60px'>",
        "Set Day to 2026-03-14. Type 1250.5 into Price. Type https://example.org/a/very/long/path into Link. Type B "
        "into Grade.",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "instruction"), FINE.values(), ids=FINE)
async def test_what_went_well_is_a_success(env: BrowserEnv, page: str, instruction: str) -> None:
    outcome = await follow_on(env, page, instruction)

    assert outcome.status == "success", [outcome.answer, *outcome.actions]


ELSEWHERE = {
    "the focus jumps to another field": (
        f"{LIGHT}<p>Name <input id=a><p>City <input id=b onfocus=a.focus()><p>Street <input>",
        "Type Rotterdam into City.",
        "another field",
    ),
    "a field that takes no text": (
        f"{DARK}<p>Name <input readonly><p>City <input>",
        "Type Rotterdam into Name.",
        "did not change",
    ),
    "a field that takes digits only": (
        f"{SERIF}<p>Phone <input value=555 oninput=\"this.value='12345'\"><p>City <input>",
        "Type Rotterdam into Phone.",
        "shows",
    ),
    "a field that cuts": (f"{LIGHT}<p>Code <input maxlength=5>", "Type Rotterdam into Code.", "shows"),
}


@pytest.mark.parametrize(("page", "instruction", "says"), ELSEWHERE.values(), ids=ELSEWHERE)
async def test_typed_text_is_read_back(env: BrowserEnv, page: str, instruction: str, says: str) -> None:
    outcome = await follow_on(env, page, instruction)

    assert outcome.status == "failure", outcome.actions
    assert says in outcome.answer


async def test_text_goes_into_the_field_and_not_into_the_small_list_beside_its_label(env: BrowserEnv) -> None:
    page = f"{LIGHT}<p>Phone <select style='width:60px'><option>+1<option>+31</select> <input id=p style='width:200px'>"

    outcome = await follow_on(env, page, "Type 5551234 into Phone.")

    assert (outcome.status, await env.page.evaluate("p.value")) == ("success", "5551234"), outcome.answer


async def test_an_option_is_not_chosen_when_its_list_is_gone(env: BrowserEnv) -> None:
    gone = "setTimeout(() => document.body.textContent = 'Nothing here.')"
    page = f'{LIGHT}<p>Team <select onchange="{gone}"><option>Sales<option>Legal</select>'

    outcome = await follow_on(env, page, "Select Legal in Team.")

    assert outcome.status == "failure", outcome.actions
    assert "Legal" in outcome.answer


async def test_an_option_is_not_chosen_when_nothing_can_be_read_and_nothing_changed(env: BrowserEnv) -> None:
    page = (
        f"{LIGHT}<p>Team <select style='color:transparent;width:130px' onchange='this.selectedIndex=0'><option "
        "style='color:#000'>Sales<option style='color:#000'>Legal</select>"
    )

    outcome = await follow_on(env, page, "Select Legal in Team.")

    assert outcome.status == "failure", outcome.actions


async def test_the_beginning_of_a_suggestion_is_read_back(env: BrowserEnv) -> None:
    page = f"{LIGHT}<p>Herb <input onfocus=other.focus()><p>City <input id=other>"

    outcome = await follow_on(env, page, 'Enter an item that starts with "Celand" and ends with "ine" in Herb.')

    assert outcome.status == "failure", outcome.actions
    assert "another field" in outcome.answer


async def test_a_line_that_a_caret_cuts_in_two_is_read_from_left_to_right() -> None:
    box = Box(204, 267, 1062, 460)
    engine: Any = None  # nothing is read again
    blank = np.full((500, 1100, 3), 255, np.uint8)
    inked = blank.copy()
    inked[270:285, 206:436] = 0
    pieces = [("printed.|", Box(361, 268, 440, 287)), ("The new list is", Box(203, 267, 348, 292))]
    lines = [
        TextLine(
            text=text,
            box_px=place,
            confidence=1.0,
            char_x_px=tuple(
                (place.left + at * place.width / len(text), place.left + (at + 1) * place.width / len(text))
                for at in range(len(text))
            ),
        )
        for text, place in pieces
    ]
    before = OcrScreen(image=blank, engine=engine, lines=[], rectangles=[])
    now = OcrScreen(image=inked, engine=engine, lines=lines, rectangles=[])
    field = Field(box_px=box, label=None, texts=(), why="")
    assert isinstance(check_typed("The new list is printed.", field, before, now), Done)
    assert isinstance(check_typed("An old list was printed in red.", field, before, now), Failed)
