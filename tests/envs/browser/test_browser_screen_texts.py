"""Reading the texts of a page with its frames, what of it is hidden, and forms that people fill in themselves."""

import pytest

from envs import ReadableScreen, ScreenTexts
from envs.browser import BrowserEnv
from tests.envs.browser.driving import OpenPage, click
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


def shown(found: ScreenTexts, *, hidden: bool) -> str:
    return "\n".join(text.text for text in found.texts if text.is_hidden == hidden)


async def read(env: BrowserEnv, pages: PageServer, body: str) -> ScreenTexts:
    await env.reset(OpenPage(pages.serve(body)))
    assert isinstance(env, ReadableScreen)
    return await env.read_texts()


@pytest.mark.parametrize(
    "body",
    [
        "<p style='color:#fff'>OPEN</p>",
        "<div style='background:#102030'><p style='color:#102131'>OPEN</p></div>",
        "<p style='font-size:1px'>OPEN</p>",
        "<p style='opacity:0.01'>OPEN</p>",
        "<div style='opacity:0'><b>OPEN</b></div>",
        "<p style='position:absolute;left:-5000px'>OPEN</p>",
        "<p style='text-indent:-9999px'>OPEN</p>",
        "<div style='position:absolute;width:1px;height:1px;overflow:hidden'>OPEN</div>",
        "<p style='clip-path:inset(100%)'>OPEN</p>",
        "<button aria-label=OPEN>x</button>",
        "<img alt=OPEN src=data:,>",
        "<p title=OPEN>x</p>",
    ],
)
async def test_text_that_a_person_does_not_see_is_read_as_hidden(env: BrowserEnv, pages: PageServer, body: str) -> None:
    found = await read(env, pages, f"<p>Shop</p>{body}")
    assert "OPEN" in shown(found, hidden=True)
    assert "OPEN" not in shown(found, hidden=False)


@pytest.mark.parametrize(
    "body",
    [
        "<p>O<b>P</b><i>E</i>N</p>",
        "<input placeholder=OPEN>",
        "<input value=OPEN>",
        "<div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML = '<p>OPEN</p>'</script>",
        "<style>p::before { content: 'OPEN THE DOOR' }</style><p></p>",
        "<div style='height:4000px'></div><p>OPEN</p>",
        "<script>Object.defineProperty(Text.prototype, 'data', { get: () => '' });"
        "window.getComputedStyle = () => { throw 1 }</script><p>OPEN</p>",
    ],
)
async def test_text_that_a_person_sees_is_read(env: BrowserEnv, pages: PageServer, body: str) -> None:
    found = await read(env, pages, body)
    assert "OPEN" in shown(found, hidden=False)


async def test_frames_of_any_origin_are_read_also_after_they_changed(env: BrowserEnv, pages: PageServer) -> None:
    near = pages.serve("<p>NEAR</p>")
    far = pages.serve("<p id=p>FAR</p>", host="localhost")
    found = await read(env, pages, f"<iframe src='{near}'></iframe><iframe id=far src='{far}'></iframe>")
    assert {"NEAR", "FAR"} <= set(shown(found, hidden=False).split())
    other = pages.serve("<p>OTHER</p>", host="localhost")
    await env.page.frames[2].goto(other)
    again = shown(await env.read_texts(), hidden=False)
    assert "OTHER" in again and "FAR" not in again


@pytest.mark.long
async def test_a_page_too_large_to_be_read_is_told(env: BrowserEnv, pages: PageServer) -> None:
    found = await read(env, pages, "<script>document.body.innerHTML = '<i>word</i> '.repeat(70000)</script>")
    assert found.is_cut
    assert sum(len(text.text) for text in found.texts) <= 200_000


async def test_an_open_dialog_does_not_hold_the_reader(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<button id=b onclick='alert(1)'>x</button>")))
    observation = await click(env, "#b")
    assert observation.dialog is not None
    assert (await env.read_texts()).is_cut


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<form><input name=user><input type=password></form>", "login"),
        ("<input autocomplete=one-time-code>", "login"),
        ("<label>Kartennummer <input></label>", "payment"),
        ("<input autocomplete=cc-csc>", "payment"),
        ("<div class=g-recaptcha style='width:300px;height:70px'></div>", "captcha"),
        ("<iframe src='about:blank?https://challenges.cloudflare.com/x' width=300 height=70></iframe>", "captcha"),
        ("<form><input name=q><button>Search</button></form>", None),
        ("<form style='display:none'><input type=password></form>", None),
        ("<div class=g-recaptcha data-size=invisible style='width:300px;height:70px'></div>", None),
    ],
)
@pytest.mark.long
async def test_forms_for_people_are_recognised(env: BrowserEnv, pages: PageServer, body: str, kind: str | None) -> None:
    found = await read(env, pages, f"<p>Shop</p>{body}")
    assert [area.kind for area in found.areas] == ([kind] if kind else [])


@pytest.mark.long
async def test_the_place_of_a_form_in_a_frame_is_that_on_the_screen(env: BrowserEnv, pages: PageServer) -> None:
    inner = pages.serve("<input id=f type=password style='position:absolute;left:10px;top:20px'>", host="localhost")
    place = "position:absolute;left:200px;top:100px;border:0"
    found = await read(env, pages, f"<iframe src='{inner}' style='{place}'></iframe>")
    (area,) = found.areas
    assert area.origin.startswith("http://localhost:")
    assert area.has_point(220, 130) and not area.has_point(20, 30)
