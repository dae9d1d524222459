"""What actions activate: the element under the pointer, the focus, the form, the dialog."""

from typing import Any, cast

import pytest

from envs.actions import Click, Hotkey, KeyDown, PressKey, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from envs.browser.inspector import Inspector
from tests.envs.browser.driving import CountedPage, OpenPage
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

ENTER, SPACE = PressKey(key="enter"), PressKey(key="space")
FORM = "<form><input name=a autofocus><button>Delete all</button></form>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "action", "names"),
    [
        ("<button autofocus>Delete</button>", ENTER, ["Delete"]),
        ("<button autofocus>Delete</button>", SPACE, ["Delete"]),
        ("<button autofocus>Delete</button>", TypeText(text="hello world"), ["Delete"]),
        ("<button autofocus>Delete</button>", KeyDown(key="enter"), ["Delete"]),
        (FORM, ENTER, ["Delete all"]),
        (FORM, TypeText(text="x\n"), ["Delete all"]),
        (FORM, TypeText(text="hello world"), []),
        (FORM, SPACE, []),
        ("<form><textarea autofocus></textarea><button>Send</button></form>", Hotkey(keys=("ctrl", "enter")), ["Send"]),
        ("<form id=f></form><input form=f autofocus><button form=f>Pay</button>", ENTER, ["Pay"]),
        ("<form><input autofocus><input type=image alt=Pay></form>", ENTER, ["Pay"]),
        ("<form><input autofocus><button disabled>Pay</button></form>", ENTER, []),
        ("<button accesskey=d>Delete</button>", Hotkey(keys=("alt", "d")), []),  # alt+d is the address bar's
        ("<button accesskey=x>Delete</button>", Hotkey(keys=("alt", "x")), ["Delete"]),
        ("<select autofocus><option>Keep<option>Delete</select>", PressKey(key="down"), ["Delete"]),
        ("<select autofocus><option>Keep<option>Delete</select>", TypeText(text="d"), ["Delete"]),
        (
            "<label><input type=radio name=r checked autofocus>Keep</label>"
            "<label><input type=radio name=r>Delete</label>",
            PressKey(key="down"),
            ["Delete"],
        ),
        (
            "<div role=listbox tabindex=0 aria-activedescendant=o autofocus><p id=o role=option>Delete</p></div>",
            ENTER,
            ["Delete"],
        ),
        ("<details><summary autofocus tabindex=0>Delete</summary></details>", ENTER, ["Delete"]),
    ],
)
async def test_keys(env: BrowserEnv, pages: PageServer, body: str, action: object, names: list[str]) -> None:
    await env.reset(OpenPage(pages.serve(body + "<script>document.querySelector('[autofocus]')?.focus()</script>")))
    targets = await env.find_targets(action)  # type: ignore[arg-type]
    found = [name for target in targets for name in target.names if "Keep" not in name]
    assert set(names) <= set(found) if names else all(target.is_field for target in targets)


@pytest.mark.parametrize(
    ("body", "item"),
    [
        ("<table><tr><td><td>Old taxi<td>23.00<td><button>Delete</button></table>", "Old taxi"),
        ("<table><tr><td><button>Delete</button><th>Row<td>1</table>", "Row"),
        ("<ul><li><b>Milk</b> two bottles <button>Delete</button></ul>", "Milk"),
        ("<div role=row><span role=cell>Ann</span><span role=cell><button>Delete</button></span></div>", "Ann"),
        ("<article><h3 hidden>Gone</h3><h3>Post</h3><button>Delete</button></article>", "Post"),
        ("<ul><li><button>Delete</button></ul>", ""),
        ("<button>Delete</button>", ""),
    ],
)
async def test_the_row_of_a_button_is_named(env: BrowserEnv, pages: PageServer, body: str, item: str) -> None:
    await env.reset(OpenPage(pages.serve(body + "<script>document.querySelector('button').focus()</script>")))
    (target,) = await env.find_targets(ENTER)
    assert (target.names[0], target.item) == ("Delete", item)


@pytest.mark.long
async def test_a_page_cannot_lie_by_replacing_what_is_asked(env: BrowserEnv, pages: PageServer) -> None:
    lies = """<button id=b>Delete</button><img name=elementFromPoint><form name=activeElement></form><script>
      Document.prototype.elementFromPoint = () => document.body;
      Element.prototype.getAttribute = () => 'Next';
      Element.prototype.matches = () => false;
      Object.defineProperty(HTMLElement.prototype, 'innerText', {get: () => 'Next'});
      b.focus();
    </script>"""
    await env.reset(OpenPage(pages.serve(lies)))
    assert [target.text for target in await env.find_targets(Click(x_px=20, y_px=10))] == ['button "Delete"']
    assert [target.text for target in await env.find_targets(ENTER)] == ['button "Delete"']


@pytest.mark.parametrize("host", ["127.0.0.1", "frame.localhost"])
@pytest.mark.long
async def test_the_focus_in_a_frame(env: BrowserEnv, pages: PageServer, host: str) -> None:
    inner = pages.serve("<form><input autofocus id=i><button>Pay</button></form>", host=host)
    await env.reset(OpenPage(pages.serve(f"<iframe src='{inner}'></iframe>")))
    await env.step([Click(x_px=30, y_px=15)])
    assert [target.text for target in await env.find_targets(ENTER)] == ['button "Pay"']


@pytest.mark.long
async def test_a_look_into_another_process_leaves_no_session_open(pages: PageServer) -> None:
    inner = pages.serve("<button style='width:100px;height:50px'>Pay</button>", host="frame.localhost")
    env = BrowserEnv(BrowserOptions(extra_args=("--site-per-process",)))
    try:
        await env.reset(OpenPage(pages.serve(f"<iframe src='{inner}'></iframe>")))
        page, inspector = CountedPage(env.page), Inspector()
        for _ in range(3):
            targets = await inspector.at_point(cast(Any, page), 40, 40)
            assert [target.text for target in targets] == ['button "Pay"']
        opened, num_open = await page.num_sessions()
        assert opened > 3
        assert num_open == 1
    finally:
        await env.close()


@pytest.mark.parametrize("mode", ["open", "closed"])
@pytest.mark.long
async def test_shadow_roots(env: BrowserEnv, pages: PageServer, mode: str) -> None:
    body = f"""<x-box id=h></x-box><script>
      const root = h.attachShadow({{mode: '{mode}'}});
      root.innerHTML = '<button>Delete</button>'; root.firstChild.focus();</script>"""
    await env.reset(OpenPage(pages.serve(body)))
    for action in (ENTER, SPACE, Click(x_px=20, y_px=10)):
        assert 'button "Delete"' in [target.text for target in await env.find_targets(action)]


@pytest.mark.long
async def test_each_document_is_asked_itself_after_the_page_has_changed(env: BrowserEnv, pages: PageServer) -> None:
    """The way to ask is kept as long as a document is there, and by no means longer."""

    async def name_there() -> str:
        targets = await env.find_targets(Click(x_px=20, y_px=20))
        return targets[0].names[0]

    def page(name: str, host: str = "127.0.0.1") -> str:
        return pages.serve(f"<button style='width:200px;height:100px'>{name}</button>", host=host)

    first = page("First")
    await env.reset(OpenPage(first))
    assert [await name_there(), await name_there()] == ["First", "First"]
    for url, name in ((page("Second"), "Second"), (page("Third", "localhost"), "Third"), (first, "First")):
        await env.goto(url)
        assert await name_there() == name
    await env.page.go_back()
    assert await name_there() == "Third"
    await env.page.reload()
    assert await name_there() == "Third"
    written = "<button style='width:200px;height:100px'>Written</button>"
    await env.page.evaluate(f'document.open(); document.write("{written}"); document.close()')
    assert await name_there() == "Written"
    await env.page.evaluate("scrollTo(0, 0); document.body.innerHTML = '<div style=height:3000px></div>' + "
        "\"<button style='width:200px;height:100px'>Below</button>\"; scrollTo(0, 9999)")  # fmt: skip
    await env.step([])
    box = await env.page.evaluate("(({x, y}) => [x, y])(document.querySelector('button').getBoundingClientRect())")
    targets = await env.find_targets(Click(x_px=round(box[0]) + 20, y_px=round(box[1]) + 20))
    assert targets[0].names[0] == "Below"
