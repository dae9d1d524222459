"""Suggestions of `<datalist>` and tooltips: what a headless browser does not paint is in the picture and works."""

from typing import Any

import pytest

from envs.actions import Click, Hotkey, Move, PressKey, Scroll, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from envs.observation import Observation
from tests.envs.browser.driving import OpenPage, click, do, middle, picture
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

LOG = """<script>
  window.log = [];
  for (const kind of ['input', 'change', 'submit'])
    addEventListener(kind, e => {
      log.push(kind + ' ' + (e.composedPath()[0].value ?? '')); if (kind == 'submit') e.preventDefault() });
</script>"""
TOWNS = "<datalist id=towns><option>Aarhus<option label='in the north'>Aalborg<option value=ODE>Odense</datalist>"
FIELD = "<form><input id=town list=towns style='display:block;margin:40px;width:200px'></form>"


def changed(before: Observation, after: Observation, box: tuple[int, int, int, int]) -> bool:
    """True if a part of the picture (left, top, right, bottom) is another one."""
    return picture(before).crop(box).tobytes() != picture(after).crop(box).tobytes()


async def row(env: BrowserEnv, text: str) -> tuple[int, int]:
    for y_px in range(0, 720, 14):
        for x_px in range(50, 600, 60):
            if await env.describe_point(x_px, y_px) == f'suggestion "{text}"':
                return x_px, y_px
    raise AssertionError(f"no {text}")


async def state(env: BrowserEnv, where: Any = None) -> Any:
    return await (where or env.page).evaluate("[town.value, window.log ?? []]")


@pytest.mark.long
async def test_suggestions_are_drawn_and_a_click_takes_one_as_chrome_does(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(FIELD + TOWNS + LOG)))
    before = await do(env, PressKey(key="tab"))
    opened = await click(env, "#town")
    assert changed(before, opened, (40, 70, 240, 140))
    typed = await do(env, TypeText(text="a"))
    assert not changed(before, typed, (40, 125, 240, 140)) or await row(env, "Aalborg")
    x_px, y_px = await row(env, "Aalborg")
    taken = await do(env, Click(x_px=x_px, y_px=y_px))
    assert not changed(before, taken, (40, 75, 240, 140))
    await do(env, Click(x_px=800, y_px=600))  # leaving the field does not send the change again
    assert await state(env) == ["Aalborg", ["input a", "input Aalborg", "change Aalborg"]]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("down", "enter"), "Aarhus"),
        (("down", "down", "enter"), "Aalborg"),
        (("up", "enter"), "Aalborg"),  # around the end
        (("down", "down", "down", "enter"), "Aarhus"),
        (("down", "tab"), "Aarhus"),
        (("down", "esc"), "aa"),
        (("esc", "down"), "aa"),  # opens the list again
    ],
)
@pytest.mark.long
async def test_suggestions_by_keys(env: BrowserEnv, pages: PageServer, keys: tuple[str, ...], value: str) -> None:
    await env.reset(OpenPage(pages.serve(FIELD + TOWNS + LOG)))
    await click(env, "#town")
    await do(env, TypeText(text="aa"), PressKey(key=keys[0]), *(Hotkey(keys=(key,)) for key in keys[1:]))
    found, log = await state(env)
    assert found == value
    assert log == ["input a", "input aa", *([f"input {value}", f"change {value}"] if value != "aa" else [])]


@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        ("", "Aarhus Aalborg ODE"),
        ("dense", "ODE"),
        ("north", "Aalborg"),
        ("LB", "Aalborg"),
        ("x", ""),
        ("a n", "Aalborg"),
    ],
)
async def test_rows_fit_what_is_typed(env: BrowserEnv, pages: PageServer, typed: str, rows: str) -> None:
    await env.reset(OpenPage(pages.serve(FIELD + TOWNS)))
    await click(env, "#town")
    await do(env, *([TypeText(text=typed)] if typed else []))
    found = [await env.describe_point(60, y_px) for y_px in range(75, 75 + 4 * 28, 28)]
    assert [text.split('"')[1] for text in found if text and text.startswith("suggestion")] == rows.split()


async def test_without_a_chosen_row_enter_is_the_pages(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(FIELD + TOWNS + LOG)))
    await click(env, "#town")
    await do(env, TypeText(text="Aa"), PressKey(key="enter"))
    assert await state(env) == ["Aa", ["input A", "input Aa", "change Aa", "submit "]]


@pytest.mark.long
async def test_a_long_list_scrolls_and_opens_upwards(env: BrowserEnv, pages: PageServer) -> None:
    options = "".join(f"<option>row {number:03}" for number in range(5000))
    style = "position:absolute;left:60px;bottom:10px"
    body = f"<input id=town list=many style='{style}'><datalist id=many>{options}</datalist>"
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#town")
    x_px, y_px = await row(env, "row 003")
    assert y_px < (await middle(env, "#town"))[1]
    await do(env, Scroll(dy=-200, x_px=x_px, y_px=y_px))
    x_px, y_px = await row(env, "row 199")
    await do(env, Click(x_px=x_px, y_px=y_px))
    assert await env.page.evaluate("town.value") == "row 199"


async def test_rows_that_a_page_fetches_while_one_types(env: BrowserEnv, pages: PageServer) -> None:
    body = (
        FIELD
        + """<datalist id=towns></datalist><script>town.oninput = async () => {
      await fetch('/slow?s=0.3');
      towns.innerHTML = '<option>' + town.value + ' of the server' }</script>"""
    )
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#town")
    await do(env, TypeText(text="q"))
    await do(env, PressKey(key="down"), PressKey(key="enter"))
    assert await env.page.evaluate("town.value") == "q of the server"


@pytest.mark.parametrize("host", ["127.0.0.1", "frame.localhost"])
@pytest.mark.long
async def test_suggestions_in_a_frame(env: BrowserEnv, pages: PageServer, host: str) -> None:
    frame = pages.serve(FIELD + TOWNS + LOG).replace("127.0.0.1", host)
    await env.reset(
        OpenPage(pages.serve(f"<iframe src='{frame}' style='margin:100px 0 0 50px;border:7px solid'></iframe>"))
    )
    await do(env, Click(x_px=50 + 7 + 60, y_px=100 + 7 + 50))
    x_px, y_px = await row(env, "ODE")
    assert 180 < y_px < 300
    await do(env, Click(x_px=x_px, y_px=y_px))
    assert await state(env, env.page.frames[1]) == ["ODE", ["input ODE", "change ODE"]]


async def test_suggestions_in_a_closed_root_and_for_several_addresses(env: BrowserEnv, pages: PageServer) -> None:
    mails = "<input type=email multiple list=m style='margin:40px'>"
    mails += "<datalist id=m><option>ann@x.org<option>ben@x.org</datalist>"
    body = f"""<div id=host></div><script>
      const root = host.attachShadow({{mode: 'closed'}}); root.innerHTML = `{mails}`; window.field = root.firstChild
    </script>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "window.field")
    await do(env, TypeText(text="eve@x.org,be"), PressKey(key="down"), PressKey(key="enter"))
    assert await env.page.evaluate("field.value") == "eve@x.org,ben@x.org"


@pytest.mark.parametrize("attributes", ["readonly", "disabled", "type=range", "type=password"])
async def test_fields_without_suggestions(env: BrowserEnv, pages: PageServer, attributes: str) -> None:
    await env.reset(OpenPage(pages.serve(f"<input id=town list=towns {attributes} style='margin:40px'>{TOWNS}")))
    await click(env, "#town")
    assert not (await env.describe_point(60, 75) or "").startswith("suggestion")


async def test_a_hostile_page_cannot_stop_or_falsify_what_is_drawn(env: BrowserEnv, pages: PageServer) -> None:
    body = (
        FIELD
        + TOWNS
        + """<p id=tip title='a tip'>hover</p><img name=activeElement><script>
      const never = { value() { for (;;); } };
      const endless = { get() { for (;;); }, set() { for (;;); }, configurable: true };
      for (const name of ['at', 'find', 'every', 'some', 'flatMap'])
        Object.defineProperty(Array.prototype, name, never);
      for (const name of ['closest', 'matches', 'hasAttribute', 'getAttribute', 'dispatchEvent'])
        Object.defineProperty(Element.prototype, name, never);
      Object.defineProperty(HTMLInputElement.prototype, 'list', endless);
      Object.defineProperty(Document.prototype, 'activeElement', endless);
      Object.defineProperty(town, 'value', endless);
      Intl.Segmenter = JSON.parse = String.prototype.includes = null;
    </script>"""
    )
    await env.reset(OpenPage(pages.serve(body)))
    before = await do(env, Click(x_px=100, y_px=50))
    x_px, y_px = await row(env, "Aalborg")
    await do(env, Click(x_px=x_px, y_px=y_px))
    get_value = "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').get.call(town)"
    assert await env.page.evaluate(get_value) == "Aalborg"
    after = await do(env, Move(x_px=10, y_px=(await middle(env, "document.getElementById('tip')"))[1]))
    assert changed(before, after, (10, 110, 60, 160))


@pytest.mark.parametrize("kind", ["date", "time", "color"])
async def test_a_picker_that_takes_no_clicks_is_told_and_taken_by_keys(
    env: BrowserEnv, pages: PageServer, kind: str
) -> None:
    style = "margin:40px;width:200px;height:30px"
    await env.reset(OpenPage(pages.serve(f"<input id=it type={kind} value='#336699' style='{style}'>")))
    opened = await do(env, Click(x_px=226, y_px=57))
    assert opened.notes == (
        f"the {kind} picker takes no clicks: use the arrow keys and Enter; "
        "or Esc, then click the first part of the field and type",
    )
    before = await env.page.evaluate("it.value")
    chosen = await do(env, PressKey(key="down"), PressKey(key="right"), PressKey(key="enter"))
    assert chosen.notes == () and await env.page.evaluate("it.value") != before


TITLES = {
    "itself": "<button id=it title='a tip' disabled>here</button>",
    "an ancestor": "<section title='a tip'><b id=it>here</b></section>",
    "an svg": "<svg width=80 height=20><title>a tip</title><rect id=it width=80 height=20 /></svg>",
    "an open root": """<div id=it></div><script>
      it.attachShadow({mode:'open'}).innerHTML = '<b title="a tip">here</b>'</script>""",
    "lines": "<b id=it title='one\ntwo'>here</b>",
    "right to left": "<b id=it title='שלום עולם'>here</b>",
    "very long": f"<b id=it title='{'word ' * 5000}'>here</b>",
    "one very long word": f"<b id=it title='{'w' * 5000}'>here</b>",
}


@pytest.mark.parametrize("what", TITLES)
@pytest.mark.long
async def test_a_tooltip_is_drawn_where_the_pointer_rests(env: BrowserEnv, pages: PageServer, what: str) -> None:
    before = await env.reset(OpenPage(pages.serve(f"<div style='margin:40px'>{TITLES[what]}</div>")))
    x_px, y_px = await middle(env, "it")
    x_px = 50
    shown = await do(env, Move(x_px=x_px, y_px=y_px))
    below = (x_px, y_px + 15, x_px + 460, y_px + 300)
    assert changed(before, shown, below)
    assert not changed(before, shown, (600, 0, 1280, 720)) and not changed(before, shown, (0, 350, 1280, 720))
    assert not changed(before, await do(env, Move(x_px=900, y_px=600)), below)
    await do(env, Move(x_px=x_px, y_px=y_px))
    assert not changed(before, await do(env, Click(x_px=x_px, y_px=y_px)), below)


@pytest.mark.long
async def test_no_tooltip_where_a_title_is_empty(env: BrowserEnv, pages: PageServer) -> None:
    before = await env.reset(
        OpenPage(pages.serve("<p title='outer' style='margin:40px'><b id=it title=''>here</b></p>"))
    )
    x_px, y_px = await middle(env, "#it")
    assert (await do(env, Move(x_px=x_px, y_px=y_px))).screenshot == before.screenshot


@pytest.mark.long
async def test_a_tooltip_in_a_frame_at_the_corner(env: BrowserEnv, pages: PageServer) -> None:
    frame = pages.serve("<p title='a tip' style='margin:0;height:100px'>here</p>")
    style = "position:absolute;right:0;bottom:0;width:200px;height:100px;border:0"
    before = await env.reset(OpenPage(pages.serve(f"<iframe src='{frame}' style='{style}'></iframe>")))
    shown = await do(env, Move(x_px=1270, y_px=710))
    assert changed(before, shown, (1200, 640, 1280, 706))


@pytest.mark.long
async def test_secrets_in_suggestions_and_tooltips_are_not_drawn(pages: PageServer) -> None:
    def body(secret: str) -> str:
        options = f"<datalist id=towns><option label='{secret} b'>{secret}</datalist>"
        return f"{FIELD}{options}<b id=it title='{'x ' * 30}{secret}'>here</b>"

    shots = []
    for secret in ("hunter two long words", "swordfish"):
        env = BrowserEnv(BrowserOptions(masked_texts=(secret,)))
        try:
            await env.reset(OpenPage(pages.serve(body(secret))))
            listed = await click(env, "#town")
            x_px, y_px = await middle(env, "#it")
            await do(env, PressKey(key="esc"))
            tip = picture(await do(env, Move(x_px=x_px, y_px=y_px)))  # the caret of the field above it blinks
            shots.append([picture(listed).crop((45, 60, 140, 95)).tobytes(), tip.crop((0, y_px, 720, 400)).tobytes()])
        finally:
            await env.close()
    assert shots[0] == shots[1]
