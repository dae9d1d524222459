"""Native drop-down lists can be used with clicks, which they cannot in a plain headless browser."""

import pytest

from envs.actions import Click, PressKey, Scroll, TypeText
from envs.browser import BrowserEnv
from tests.envs.browser.driving import OpenPage, click, do, middle
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

LOG = """<script>
  window.log = [];
  for (const kind of ['input', 'change'])
    addEventListener(kind, e => log.push(kind + ' ' + e.composedPath()[0].value));
</script>"""
LIST = "<select id=list><option>alpha<option>bravo<option value=c>charlie</select>"
STYLED = "<style>select { appearance: none; padding: 8px 30px; border: 2px solid teal; width: 220px }</style>"


@pytest.mark.slow
@pytest.mark.parametrize("style", ["", STYLED, "<style>select { display: block; width: 100% }</style>"])
async def test_a_row_is_chosen_by_clicks(env: BrowserEnv, pages: PageServer, style: str) -> None:
    await env.reset(OpenPage(pages.serve(f"{style}<p>Kind {LIST}</p>{LOG}")))
    size = "[list.offsetWidth, list.offsetHeight]"
    before = await env.page.evaluate(size)
    await click(env, "#list")
    row = await middle(env, "list.options[2]")
    assert await env.describe_point(*row) == 'option "charlie"'
    assert await env.page.evaluate(size) == before
    observation = await do(env, Click(x_px=row[0], y_px=row[1]))
    assert await env.page.evaluate("[list.value, list.matches(':open'), log]") == ["c", False, ["input c", "change c"]]
    assert await env.page.evaluate(size) == before
    assert observation.pointer_px == row


@pytest.mark.long
async def test_outside_of_an_open_list_nothing_of_it_stays(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(f"<p>{LIST}</p>{LOG}")))
    before = await env.page.evaluate("getComputedStyle(list).cssText + getComputedStyle(list).appearance")
    await click(env, "#list")
    await do(env, Click(x_px=900, y_px=600))
    after = await env.page.evaluate("getComputedStyle(list).cssText + getComputedStyle(list).appearance")
    assert await env.page.evaluate("[list.value, list.matches(':open'), log]") == ["alpha", False, []]
    assert after == before


@pytest.mark.long
async def test_a_long_list_fits_and_scrolls(env: BrowserEnv, pages: PageServer) -> None:
    options = "".join(f"<option>row {number}" for number in range(200))
    await env.reset(OpenPage(pages.serve(f"<p><select id=list>{options}</select></p>{LOG}")))
    await click(env, "#list")
    x_px, y_px = await middle(env, "list.options[3]")
    assert await env.page.evaluate("list.options[199].getBoundingClientRect().bottom > innerHeight")
    await do(env, Scroll(dy=-20, x_px=x_px, y_px=y_px))
    row = await middle(env, "list.options[110]")
    assert 0 < row[1] < 720
    await do(env, Click(x_px=row[0], y_px=row[1]))
    assert await env.page.evaluate("list.value") == "row 110"


async def test_a_list_at_the_bottom_opens_upwards(env: BrowserEnv, pages: PageServer) -> None:
    style = "position:absolute;left:20px;bottom:5px"
    await env.reset(OpenPage(pages.serve(f"<div style='{style}'>{LIST}</div>")))
    await click(env, "#list")
    row = await middle(env, "list.options[1]")
    assert row[1] < (await middle(env, "#list"))[1]
    await do(env, Click(x_px=row[0], y_px=row[1]))
    assert await env.page.evaluate("list.value") == "bravo"


@pytest.mark.parametrize("mode", ["open", "closed"])
async def test_a_list_in_a_shadow_root(env: BrowserEnv, pages: PageServer, mode: str) -> None:
    body = f"""<div id=host></div><script>
      const root = host.attachShadow({{mode: '{mode}'}}); root.innerHTML = '{LIST}'; window.inner = root.firstChild;
      root.adoptedStyleSheets = [new CSSStyleSheet()];
    </script>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "window.inner")
    await click(env, "window.inner.options[1]")
    assert await env.page.evaluate("inner.value") == "bravo"


async def test_a_list_in_a_frame(env: BrowserEnv, pages: PageServer) -> None:
    frame = pages.serve(LIST).replace("127.0.0.1", "frame.localhost")
    await env.reset(OpenPage(pages.serve(f"<iframe src='{frame}' style='margin:40px;border:0'></iframe>")))
    inner = env.page.frames[1]
    box = await inner.evaluate("(() => { const b = list.getBoundingClientRect(); return [b.x, b.y] })()")
    await do(env, Click(x_px=round(40 + box[0] + 10), y_px=round(40 + box[1] + 8)))
    row = await inner.evaluate("(() => { const b = list.options[1].getBoundingClientRect(); return [b.x, b.y] })()")
    point = round(40 + row[0] + 10), round(40 + row[1] + 8)
    assert await env.describe_point(*point) == 'option "bravo"'
    await do(env, Click(x_px=point[0], y_px=point[1]))
    assert await inner.evaluate("list.value") == "bravo"


@pytest.mark.parametrize("key", ["space", "enter", "f4"])
async def test_a_list_opened_by_a_key_takes_clicks_and_keys(env: BrowserEnv, pages: PageServer, key: str) -> None:
    await env.reset(OpenPage(pages.serve(f"<input id=before><p>{LIST}</p>{LOG}")))
    await click(env, "#before")
    await do(env, PressKey(key="tab"), PressKey(key=key))
    assert await env.page.evaluate("list.matches(':open')")
    await click(env, "list.options[2]")
    assert await env.page.evaluate("list.value") == "c"
    await do(env, PressKey(key=key), PressKey(key="up"), PressKey(key="enter"))
    assert await env.page.evaluate("[list.value, list.matches(':open')]") == ["bravo", False]


async def test_closed_lists_take_arrows_and_first_letters(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(f"<input id=before><p>{LIST}</p>{LOG}")))
    await click(env, "#before")
    await do(env, PressKey(key="tab"), PressKey(key="down"))
    assert await env.page.evaluate("list.value") == "bravo"
    await do(env, TypeText(text="ch"))
    assert await env.page.evaluate("list.value") == "c"


async def test_groups_and_disabled_rows(env: BrowserEnv, pages: PageServer) -> None:
    body = """<select id=list><option value="">choose<optgroup label=Food><option disabled>soup<option>cake</optgroup>
      <hr><optgroup label=Travel><option>taxi</optgroup></select>"""
    await env.reset(OpenPage(pages.serve(body + LOG)))
    await click(env, "#list")
    await click(env, "list.options[1]")
    assert await env.page.evaluate("[list.value, log]") == ["", []]
    await click(env, "list.options[3]")
    assert await env.page.evaluate("list.value") == "taxi"


@pytest.mark.long
async def test_lists_that_are_always_open_stay_as_they_are(env: BrowserEnv, pages: PageServer) -> None:
    body = (
        "<select id=one size=3><option>a<option>b<option>c</select><select id=many multiple><option>d<option>e</select>"
    )
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "one.options[1]")
    await click(env, "many.options[1]")
    assert await env.page.evaluate("[one.value, many.value]") == ["b", "e"]


@pytest.mark.long
async def test_a_date_is_typed(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<input id=day type=date style='margin:20px'>")))
    x_px, y_px = await middle(env, "#day")
    await do(env, Click(x_px=x_px - 50, y_px=y_px), TypeText(text="03152026"))
    assert await env.page.evaluate("day.value") == "2026-03-15"
