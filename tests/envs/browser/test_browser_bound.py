"""A secret that is bound to a domain goes to the documents of that domain, whatever the tab's address is."""

import pytest

from envs.actions import Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, TypeSecret, TypeText
from envs.browser import BrowserEnv
from envs.secret_texts import BoundText
from tests.envs.browser.driving import OpenPage, do, middle, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

VALUE = "4929 1111 2222 3333"
CARD = BoundText(name="card", value=VALUE, domains=("good.localhost",))
TYPE = TypeSecret(text="{{card}}", filled=VALUE, bound=(CARD,))
FIELD = "<input id=f style='position:fixed;left:0;top:0;width:200px;height:40px'>"
REFUSED = "the secret 'card' may only be typed on good.localhost; here it would go to "
NOWHERE = "a document without an address of its own"
ALL, COPY, PASTE = (Hotkey(keys=("ctrl", key)) for key in "acv")


def framed(source: str, more: str = "") -> str:
    place = "position:fixed;left:0;top:60px;width:300px;height:100px"
    return f"{FIELD}<iframe id=frame {more} style='{place}' {source}></iframe>"


async def value_in(env: BrowserEnv, number: int) -> str:
    """What the field of a frame holds, 0 for the page's own."""
    return str(await env.page.frames[number].evaluate("document.querySelector('#f').value"))


async def focus_frame(env: BrowserEnv) -> None:
    await until(
        lambda: env.page.frames[-1].evaluate("document.readyState == 'complete' && !!document.querySelector('#f')")
    )
    await do(env, Click(x_px=60, y_px=80))


SRCDOC, BLANK = 'srcdoc="' + FIELD + '"', "src=about:blank name=blank"
WRITE = f"<script>frame.contentDocument.write(`{FIELD}`); frame.contentDocument.close()</script>"


@pytest.mark.parametrize(
    ("host", "inner", "more", "refused"),
    [
        ("good.localhost", "evil.localhost", "", "evil.localhost"),
        ("evil.localhost", "good.localhost", "", None),
        ("evil.localhost", "pay.good.localhost", "", None),
        ("good.localhost", "good.localhost", "sandbox=allow-scripts", NOWHERE),
        ("good.localhost", "notgood.localhost", "", "notgood.localhost"),
        ("good.localhost", SRCDOC, "", None),
        ("evil.localhost", SRCDOC, "", "evil.localhost"),
        ("good.localhost", SRCDOC, "sandbox=allow-scripts", NOWHERE),
        ("good.localhost", f'src="data:text/html,{FIELD}"', "", NOWHERE),
        ("good.localhost", BLANK, "", None),
        ("evil.localhost", BLANK, "", "evil.localhost"),
    ],
)
@pytest.mark.long
async def test_the_frame_with_the_focus_is_who_gets_it(
    env: BrowserEnv, pages: PageServer, host: str, inner: str, more: str, refused: str | None
) -> None:
    source = inner if "=" in inner else f"src='{pages.serve(FIELD, host=inner)}'"
    await env.reset(OpenPage(pages.serve(framed(source, more) + (WRITE if inner is BLANK else ""), host=host)))
    await focus_frame(env)
    error = (await env.step([TYPE])).observation.last_action_error
    assert error == (None if refused is None else REFUSED + refused)
    assert [await value_in(env, 0), await value_in(env, 1)] == ["", VALUE if refused is None else ""]


@pytest.mark.parametrize(
    "field",
    [
        "<input id=f autofocus>",
        "<input id=f autofocus type=password>",
        "<textarea id=f autofocus></textarea>",
        "<div id=f autofocus contenteditable></div>",
        "<div id=host></div><script>var root = host.attachShadow({mode: 'closed'}); root.innerHTML = '<input>';"
        "var f = root.firstChild; f.focus()</script>",
        "<form><input id=f autofocus><input name=action><img name=execCommand></form>",
    ],
)
async def test_it_is_typed_into_every_kind_of_field(env: BrowserEnv, pages: PageServer, field: str) -> None:
    told = f"{field}<script>addEventListener('input', e => {{ window.isReal = e.isTrusted }})</script>"
    await env.reset(OpenPage(pages.serve(told, host="good.localhost")))
    await do(env, TYPE)
    assert await env.page.evaluate("[(f.value ?? f.innerText).trim(), isReal]") == [
        VALUE,
        True,
    ]


async def test_where_no_field_has_the_focus_it_is_not_typed(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<p>text</p>", host="good.localhost")))
    error = (await env.step([TYPE])).observation.last_action_error
    assert error == "no text field has the focus, so the secret was not typed; click one first"


@pytest.mark.parametrize(
    "steal",
    [
        "let n = 0; setInterval(() => (n++ % 2 ? frame : f).focus(), 2)",
        "for (const type of ['keydown', 'keypress', 'beforeinput', 'input'])"
        "  addEventListener(type, () => frame.focus(), true)",
    ],
)
@pytest.mark.long
async def test_a_focus_that_moves_takes_no_character_along(env: BrowserEnv, pages: PageServer, steal: str) -> None:
    catch = "addEventListener('focus', () => f.focus()); addEventListener('keydown', e => { f.value += e.key })"
    evil = pages.serve(f"{FIELD}<script>{catch}</script>", host="evil.localhost")
    await env.reset(OpenPage(pages.serve(framed(f"src='{evil}'"), host="good.localhost")))
    await focus_frame(env)
    await do(env, Click(x_px=20, y_px=20))
    await env.page.evaluate(f"() => {{ {steal} }}")
    for _ in range(10):
        await env.step([Click(x_px=20, y_px=20), TYPE])
    assert await value_in(env, 0) != ""
    assert await value_in(env, 1) == ""


async def test_each_part_behind_a_tab_is_judged_by_itself(env: BrowserEnv, pages: PageServer) -> None:
    evil = pages.serve(FIELD, host="evil.localhost")
    await env.reset(OpenPage(pages.serve(framed(f"src='{evil}'"), host="good.localhost")))
    await do(env, Click(x_px=20, y_px=20))
    seen = (
        await env.step([TypeSecret(text="{{card}}\t{{card}}", filled=f"{VALUE}\t{VALUE}", bound=(CARD,))])
    ).observation
    assert seen.last_action_error == REFUSED + "evil.localhost"
    assert [await value_in(env, 0), await value_in(env, 1)] == [VALUE, ""]


@pytest.mark.parametrize(
    ("form", "refused"),
    [
        ("<form action='EVIL'>FIELD</form>", True),
        ("<form id=o action='EVIL'></form><textarea id=f autofocus form=o></textarea>", True),
        ("<form>FIELD<input name=action><button formaction='EVIL'>Pay</button></form>", True),
        ("<form action='/x'>FIELD<button>Pay</button></form>", False),
        ("<form action='http://pay.good.localhost/x'>FIELD</form>", False),
        ("<form action='javascript:0'>FIELD</form>", False),
        ("<form action='http://['>FIELD<fieldset formaction=EVIL></fieldset></form>", False),
    ],
)
async def test_where_the_form_is_sent_gets_it_too(env: BrowserEnv, pages: PageServer, form: str, refused: bool) -> None:
    body = form.replace("EVIL", "http://evil.localhost:1/x").replace("FIELD", "<input id=f autofocus>")
    await env.reset(OpenPage(pages.serve(body, host="good.localhost")))
    error = (await env.step([TYPE])).observation.last_action_error
    assert error == (REFUSED + "evil.localhost" if refused else None)


async def test_an_address_that_a_script_shows_counts_for_nothing(env: BrowserEnv, pages: PageServer) -> None:
    script = "<script>history.replaceState(0, '', '/http://good.localhost/'); document.domain = 'localhost'</script>"
    await env.reset(OpenPage(pages.serve(f"<input id=f autofocus>{script}", host="evil.localhost")))
    assert (await env.step([TYPE])).observation.last_action_error == REFUSED + "evil.localhost"
    await env.goto("about:blank")
    assert (await env.step([TYPE])).observation.last_action_error == REFUSED + NOWHERE


@pytest.mark.parametrize(
    ("start", "keys", "refused"),
    [
        ("http://evil.localhost:{port}/?", (), "evil.localhost"),
        ("http://evil.localhost:{port}/?", (PressKey(key="backspace"),), "evil.localhost"),
        ("http://good.localhost:{port}@evil.localhost:{port}/?", (), "evil.localhost"),
        ("data:text/html,", (), NOWHERE),
        ("http://good.localhost:{port}/echo?", (), None),
    ],
)
async def test_an_address_gets_it_if_its_host_may(
    env: BrowserEnv, pages: PageServer, start: str, keys: tuple[PressKey, ...], refused: str | None
) -> None:
    await env.reset(OpenPage(pages.serve("start", host="good.localhost")))
    before = len(pages.seen)
    typed = TypeText(text=start.format(port=pages.port))
    seen = (await env.step([Hotkey(keys=("ctrl", "l")), typed, TYPE, *keys, PressKey(key="enter")])).observation
    assert seen.last_action_error == (None if refused is None else REFUSED + refused)
    if refused is not None:
        assert not any("1111" in path for path in list(pages.seen)[before:])


async def test_a_dialog_does_not_get_it(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(
        OpenPage(pages.serve("<button onclick='x = prompt()' style='width:99px'>Ask</button>", host="good.localhost"))
    )
    await do(env, Click(x_px=40, y_px=20))
    error = (await env.step([TYPE])).observation.last_action_error
    assert error is not None and "which site would get it cannot be determined here" in error


PASTES = [
    (PASTE,),
    (Hotkey(keys=("ctrl", "shift", "v")),),
    (Hotkey(keys=("shift", "insert")),),
    (KeyDown(key="ctrl"), PressKey(key="v"), KeyUp(key="ctrl")),
    (KeyDown(key="ctrl"), TypeText(text="v"), KeyUp(key="ctrl")),
]


@pytest.mark.long
@pytest.mark.parametrize("select", [(ALL,), (PressKey(key="home"), Hotkey(keys=("shift", *["right"] * 12)))])
async def test_what_is_copied_is_pasted_where_it_may_be(
    env: BrowserEnv, pages: PageServer, select: tuple[Hotkey]
) -> None:
    read = "<button id=b onclick=\"navigator.clipboard.readText().then(t => { got = '<' + t + '>' })\">Read</button>"
    evil = pages.serve(f"<input id=f autofocus>{read}", host="evil.localhost")
    frame = pages.serve(FIELD, host="evil.localhost")
    await env.reset(OpenPage(pages.serve(framed(f"src='{frame}'"), host="good.localhost")))
    await do(env, Click(x_px=20, y_px=20), TYPE, *select, COPY)
    await do(env, PressKey(key="end"), PASTE)
    assert len(await value_in(env, 0)) > len(VALUE)
    await focus_frame(env)
    for way in PASTES:
        assert (await env.step(way)).observation.last_action_error == REFUSED + "evil.localhost"
        await env.step([KeyUp(key="ctrl")])
    assert await value_in(env, 1) == ""
    await env.goto(evil)
    assert (await env.step([PASTE])).observation.last_action_error == REFUSED + "evil.localhost"
    x_px, y_px = await middle(env, "#b")
    await do(env, Click(x_px=x_px, y_px=y_px))
    assert await until(lambda: env.page.evaluate("globalThis.got")) == "<>"
    assert await value_in(env, 0) == ""


async def test_other_copies_are_pasted_as_ever(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(FIELD, host="good.localhost")))
    await do(env, Click(x_px=20, y_px=20), TYPE, ALL, TypeText(text="plain 4929 words"), ALL, COPY)
    await env.goto(pages.serve("<input id=f autofocus>", host="evil.localhost"))
    await do(env, PASTE)
    assert await value_in(env, 0) == "plain 4929 words"


@pytest.mark.parametrize("by_parts", [False, True])
@pytest.mark.parametrize("host", ["good.localhost", "evil.localhost", "user.good.localhost"])
@pytest.mark.long
async def test_the_browser_drops_nothing_on_another_origin(
    env: BrowserEnv, pages: PageServer, host: str, by_parts: bool
) -> None:
    listen = """<script>log = ''; for (const type of ['dragenter', 'dragover', 'drop'])
      addEventListener(type, e => { e.preventDefault(); log += e.dataTransfer.getData('text') })</script>"""
    inner = pages.serve(f"<textarea id=f style='width:280px;height:80px'></textarea>{listen}", host=host)
    await env.reset(OpenPage(pages.serve(framed(f"src='{inner}'"), host="good.localhost")))
    await focus_frame(env)
    await do(env, Click(x_px=20, y_px=20), TYPE, ALL, Move(x_px=30, y_px=20))
    if by_parts:
        await do(env, MouseDown(x_px=30, y_px=20), Move(x_px=40, y_px=50), Move(x_px=60, y_px=100), MouseUp())
    else:
        await do(env, Drag(x_px=60, y_px=100))
    assert await env.page.frames[1].evaluate("log") == (VALUE if host == "good.localhost" else "")


@pytest.mark.long
async def test_a_middle_click_pastes_nothing(env: BrowserEnv, pages: PageServer) -> None:
    inner = pages.serve(FIELD, host="evil.localhost")
    await env.reset(OpenPage(pages.serve(framed(f"src='{inner}'"), host="good.localhost")))
    await focus_frame(env)
    await do(env, Click(x_px=20, y_px=20), TYPE, Click(x_px=40, y_px=20, clicks=3))
    await do(env, Click(x_px=60, y_px=80, button="middle"))
    assert await value_in(env, 1) == ""
