"""What the model presses on pages where names, headings, rows, toolbars and cards are alike."""

import pytest

from envs import InstructionTask
from envs.browser import BrowserEnv
from envs.browser.launch import find_browser
from tests.apps.literal.driver import Outcome, follow

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
    "input,select{background:#222a35;color:#eee;border:1px solid #556;padding:6px}</style>"
)
LOG = (
    "<p id=log style='position:fixed;bottom:0;left:300px'></p><script>document.addEventListener('click', e => "
    "log.textContent = 'last: ' + (e.target.id || e.target.tagName), true)</script>"
)


async def follow_on(env: BrowserEnv, page: str, instruction: str, max_steps: int = 40) -> Outcome:
    await env.reset(InstructionTask(instruction=instruction))
    await env.page.set_content(page + LOG)
    return await follow(env, (await env.step([])).observation, instruction, max_steps=max_steps)


LOGIN = "<p>User <input><p>Pass <input type=password><p>"
TABLE = (
    "<p><button>Amount</button> <button>Export</button><table cellpadding=8><tr><th>Item<th>Qty<th>Amount<tr><td>Coffee"
    "<td>3<td>7.50<tr><td>Hotel<td>1<td>129.00</table>"
)
ROWS = (
    "<div style='width:420px;line-height:24px'><div>boats <span style='float:right' id=r1>select</span></div><div>cars "
    "<span style='float:right' id=r2>select</span></div><div>trains <span style='float:right' id=r3>select</span></div>"
    "</div>"
)
STAGGERED = (
    "<table style='width:600px;line-height:20px'><tr><td>boats<td style='padding-left:200px'><u id=r1>select</u><tr>"
    "<td><u id=r2>select</u><td>cars</table>"
)
PRESSED = {
    "a heading with the button's very word": (
        f"{LIGHT}<h1>Login</h1>{LOGIN}<button id=b>Log in</button>",
        "Click Login.",
    ),
    "a heading, the button in capitals": (f"{LIGHT}<h1>Login</h1>{LOGIN}<button id=b>LOGIN</button>", 'Click "Login".'),
    "a coloured heading, a gradient for a button": (
        f"{LIGHT}<h1 style='color:#06c'>Login</h1>{LOGIN}<span id=b style='display:inline-block;border-radius:9px;"
        "background:linear-gradient(#fafafa,#ccc);padding:7px 20px'>Login</span>",
        'Click "Login".',
    ),
    "a heading with one word of the button": (
        f"{LIGHT}<h2>Save</h2><p>Keep a copy.<p><button id=b>Save changes</button>",
        "Click the Save button.",
    ),
    "a heading, no role said": (
        f"{DARK}<h2>Publish</h2><p>For all to see.<p><button id=b>Publish now</button>",
        "Click Publish.",
    ),
    "the only button, its words far apart": (
        f"{LIGHT}<p>Ready?<p><button id=b style='word-spacing:26px'>Click me</button>",
        "Click the button.",
    ),
    "the only button, its words on two lines": (
        f"{LIGHT}<p>Ready?<p><button id=b>Click<br>me</button>",
        "Click the button.",
    ),
    "the button in a card": (
        f"{LIGHT}<div style='border:1px solid #ccc;border-radius:8px;padding:20px;width:500px;height:260px'><h3>Offer"
        "</h3><p>Press below.</p><button id=b>Go</button></div>",
        "Click the button.",
    ),
    "the button below a flat card, dark": (
        f"{DARK}<div style='background:#223;padding:20px;width:500px;height:60px'>A note of ours</div><p><input><p>"
        "<button id=b>Proceed</button>",
        "Click the button.",
    ),
    "a dialog's button by its label": (
        f"{LIGHT}<p>page text</p><div style='border:1px solid #777;width:300px;background:#eee'><div style='background:"
        "#d0d0d0;padding:4px'>dialog</div><p style='padding:10px'>Cras dictum.</p><div style='text-align:right;"
        "padding:8px'><button id=b>Cancel</button> <button>OK</button></div></div>",
        'Click the button in the dialog labeled "Cancel".',
    ),
    "next to, in a row of its own": (f"{LIGHT}{ROWS.replace('r1', 'b')}", 'Click "select" next to "boats".'),
    "next to, where the line below is nearer": (
        f"{LIGHT}{STAGGERED.replace('r1', 'b')}",
        'Click "select" next to "boats".',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "instruction"), PRESSED.values(), ids=PRESSED)
async def test_the_button_is_pressed(env: BrowserEnv, page: str, instruction: str) -> None:
    outcome = await follow_on(env, page, instruction)

    assert (outcome.status, await env.page.evaluate("log.textContent")) == ("success", "last: b"), outcome.answer


ABSENT = {
    "a round picture": (
        f"{LIGHT}<h2>Settings</h2><img width=20 height=20 style='background:#c00;border-radius:50%'> Beta features",
        'Turn on "Beta features".',
    ),
    "an icon button": (
        f"{LIGHT}<h2>Profile</h2><p><button style='width:22px;height:22px;background:#333;color:#fff;border:0'>i"
        "</button> Keep me informed",
        'Tick "Keep me informed".',
    ),
    "an avatar": (
        f"{DARK}<p><span style='display:inline-block;width:24px;height:24px;border-radius:50%;background:#0a6'></span> "
        "Anna Bell",
        'Tick "Anna Bell".',
    ),
    "plain text": (f"{LIGHT}<h2>News</h2><p>You get our letter.<p>Sound effects", 'Turn on "Sound effects".'),
    "the neighbour has one": (f"{DARK}<p><input type=checkbox checked> Wifi<p>Bluetooth", "Turn on Bluetooth."),
}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "instruction"), ABSENT.values(), ids=ABSENT)
async def test_a_toggle_that_is_not_there_is_not_on(env: BrowserEnv, page: str, instruction: str) -> None:
    outcome = await follow_on(env, page, instruction)

    assert outcome.status == "failure", outcome.actions
    assert "did not find a checkbox or switch next to" in outcome.answer
    assert await env.page.evaluate("log.textContent") == ""


UNCERTAIN = {
    "two buttons": (f"{LIGHT}<button>One</button> <button>Two</button>", "Click the button.", "must name one"),
    "next to, far away": (
        f"{LIGHT}<p>Boats</p><div style='height:400px'></div><button style='margin-left:700px'>select</button>",
        'Click "select" next to "Boats".',
        "did not find",
    ),
    "in the row of, where only the toolbar has it": (
        f"{LIGHT}<p><button>Delete</button><p style='height:60px'><table cellpadding=8><tr><td>Coffee<td>7.50</table>",
        'Click Delete in the row of "Coffee".',
        "did not find",
    ),
    "a heading for a button": (
        f"{DARK}<h1>Create account</h1><p>Name <input><p><button>Next</button>",
        'Click the "Create account" button.',
        "did not find",
    ),
}


@pytest.mark.parametrize(("page", "instruction", "says"), UNCERTAIN.values(), ids=UNCERTAIN)
async def test_what_cannot_be_told_apart_is_not_pressed(
    env: BrowserEnv, page: str, instruction: str, says: str
) -> None:
    outcome = await follow_on(env, page, instruction)

    assert outcome.status == "failure", outcome.actions
    assert says in outcome.answer
    assert await env.page.evaluate("log.textContent") == ""


SEARCH = (
    "<div style='display:inline-block;border:1px solid #888;border-radius:5px;padding:9px;width:300px'><small>&#128269;"
    "</small> <input id=q style='border:0;outline:0;font:inherit' onkeydown=\"if (event.key == 'Enter') r.hidden = "
    '0"></div>'
)
FOUND = {
    "a result below": (
        f"{LIGHT}<p>Search</p>{SEARCH}<div id=r hidden><p><a id=b>Staff</a></div>",
        "success",
        "last: b",
    ),
    "nothing is found": (f"{LIGHT}<p>Search</p>{SEARCH}<div id=r hidden><p>0 pages</div>", "failure", ""),
    "a row of suggestions, dark": (
        f"{DARK}<p>Search</p><input id=q style='width:300px' oninput='r.hidden = 0'><div id=r hidden style='"
        "width:300px;border:1px solid #667'><div id=b style='padding:8px;background:#2a3442'>Staff</div></div>",
        "success",
        "last: b",
    ),
}


@pytest.mark.parametrize(("page", "status", "last"), FOUND.values(), ids=FOUND)
async def test_a_result_is_pressed_and_not_what_was_typed_to_find_it(
    env: BrowserEnv, page: str, status: str, last: str
) -> None:
    outcome = await follow_on(env, page, 'Type "Staff" into Search and press Enter. Click "Staff".')

    assert outcome.status == status, (outcome.actions, outcome.answer)
    assert not last or await env.page.evaluate("log.textContent") == last


async def test_a_column_is_named_by_its_head_and_not_by_the_toolbar(env: BrowserEnv) -> None:
    outcome = await follow_on(env, LIGHT + TABLE, "Tell me the Amount in the row of Hotel.")

    assert (outcome.status, outcome.answer) == ("success", "129.00")


FIELDS = {
    "a toolbar above": (
        f"{LIGHT}<p>Title <button style='width:60px'>Bold</button> <button style='width:60px'>Italic</button> <button "
        "style='width:60px'>Quote</button><p><input id=f style='width:300px'>",
        "Type Hello there into Title.",
    ),
    "a card with the same heading": (
        f"{LIGHT}<div style='border:1px solid #bbb;width:400px;padding:16px;border-radius:8px'><h3>Address</h3>Where "
        "we send it.</div><p>Address <input id=f>",
        "Type Hello there into Address.",
    ),
    "a list beside the label, dark": (
        f"{DARK}<p>Phone <select style='width:70px'><option>+1<option>+31</select> <input id=f style='width:200px'>",
        "Type Hello there into Phone.",
    ),
}

STACKED = "style='display:block;width:300px;margin:4px 0;padding:8px;font-size:14px'"
LARGE = "style='display:block;width:500px;padding:8px;font-size:26px'"
TAGS = f"<input {STACKED} placeholder='tag name'><textarea {STACKED} placeholder='Text'></textarea>"
FIELDS |= {
    "a placeholder, the next field close below": (
        f"{LIGHT}<input id=f {STACKED} placeholder=Name><input {STACKED} placeholder=City>",
        "Type Hello there into Name.",
    ),
    "a value in large letters, other fields below": (
        f"{LIGHT}<input id=f {LARGE} value='New page'>{TAGS}",
        'Type "Hello there" into "New page".',
    ),
    "a value that is selected, dark": (
        f"{DARK}<input id=f {LARGE} value='New page'>{TAGS}<script>f.focus();f.select()</script>",
        'Type "Hello there" into "New page".',
    ),
}


@pytest.mark.parametrize(("page", "instruction"), FIELDS.values(), ids=FIELDS)
async def test_text_goes_into_the_field(env: BrowserEnv, page: str, instruction: str) -> None:
    outcome = await follow_on(env, page, instruction)

    assert (outcome.status, await env.page.evaluate("f.value")) == ("success", "Hello there"), outcome.answer


async def test_a_reader_that_loses_a_thin_stroke_is_no_other_text(env: BrowserEnv) -> None:
    page = f"{LIGHT}<input id=f {STACKED} placeholder=Name>"

    outcome = await follow_on(env, page, 'Type "Bob Hill" into Name.')

    assert (outcome.status, await env.page.evaluate("f.value")) == ("success", "Bob Hill"), outcome.answer


async def test_a_caret_does_not_make_two_fields_of_one(env: BrowserEnv) -> None:
    page = f"{LIGHT}<p>Password <input type=password id=f><p>Again <input type=password id=g>"

    outcome = await follow_on(env, page, 'Enter the password "cl1v4" into both text fields.')

    assert (outcome.status, await env.page.evaluate("[f.value, g.value]")) == ("success", ["cl1v4", "cl1v4"])


LISTS = {
    "a value that is cut": (
        f"{LIGHT}<p>Country <select id=f style='width:64px'><option>Peru<option>United States of America</select>",
        "Select United States of America in Country.",
        "f.value",
        "United States of America",
    ),
    "a value that is cut with dots": (
        f"{DARK}<p>Unit <select id=f style='width:90px;text-overflow:ellipsis'><option>Metre<option>Nautical miles per "
        "hour</select>",
        "Select Nautical miles per hour in Unit.",
        "f.value",
        "Nautical miles per hour",
    ),
    "an open list beside checkboxes of the same names": (
        f"{LIGHT}<div style='display:flex;gap:60px'><div><label><input type=checkbox> Sales</label><br><label><input "
        "type=checkbox> Legal</label></div><select id=f size=4 style='width:120px'><option>Sales<option>Legal<option>"
        "Press</select></div>",
        "Select Legal.",
        "[f.value, document.querySelectorAll(':checked[type=checkbox]').length]",
        ["Legal", 0],
    ),
    "a closed list beside checkboxes of the same names": (
        f"{LIGHT}<p>Team <select id=f><option>All<option>Sales<option>Legal</select><p><label><input type=checkbox> "
        "Sales</label> <label><input type=checkbox> Legal</label>",
        "Select Legal in Team.",
        "[f.value, document.querySelectorAll('[type=checkbox]:checked').length]",
        ["Legal", 0],
    ),
    "a list named by the text in it, which the option replaces": (
        f"{LIGHT}<p><select id=f><option>Choose a colour<option>Green<option>Purple</select>",
        'Select Purple in "Choose a colour".',
        "f.value",
        "Purple",
    ),
    "two rows of an open list, the first one marked": (
        f"{LIGHT}<select id=f multiple size=4 style='width:150px'><option>Oslo<option>Berlin<option>Riga<option>Quito"
        "</select><p><button>Send</button>",
        "Select Berlin, Riga from the scroll list and click Send.",
        "[...f.selectedOptions].map(one => one.value)",
        ["Berlin", "Riga"],
    ),
    "a checkbox beside small buttons with a letter": (
        f"{LIGHT}<p><button style='width:21px;height:21px;padding:0'>r</button> <button style='width:21px;height:21px;"
        "padding:0'>c</button><p><input type=checkbox id=f>",
        "Tick the checkbox.",
        "f.checked",
        True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "instruction", "script", "expected"), LISTS.values(), ids=LISTS)
async def test_the_list_has_the_option(
    env: BrowserEnv, page: str, instruction: str, script: str, expected: object
) -> None:
    outcome = await follow_on(env, page, instruction)

    assert (outcome.status, await env.page.evaluate(script)) == ("success", expected), outcome.answer


PANELS = {
    "left": "<div style='display:flex;height:600px'><div style='width:220px;overflow:auto;border:1px solid #999'>{0}"
    "</div><div style='flex:1'>{1}</div></div>",
    "right, without a border": "<div style='display:flex;height:600px'><div style='flex:1'>{1}</div><div style='width:"
    "240px;overflow:auto'>{0}</div></div>",
}


@pytest.mark.slow
@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
async def test_a_side_panel_is_scrolled_as_well(env: BrowserEnv, panel: str) -> None:
    entries = "".join(f"<p>Entry {number}" for number in range(30)) + "<p><button id=b>Archive</button>"

    outcome = await follow_on(env, LIGHT + panel.format(entries, "<h2>Reading</h2><p>Nothing."), "Click Archive.")

    assert (outcome.status, await env.page.evaluate("log.textContent")) == ("success", "last: b"), outcome.answer
    assert sum("panels down" in action for action in outcome.actions) >= 2
