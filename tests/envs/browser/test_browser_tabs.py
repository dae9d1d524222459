"""Tabs, history and addresses, through what an agent can do."""

import pytest

from envs.actions import Click, Hotkey, KeyDown, KeyUp, PressKey, TypeText, Wait
from envs.browser import BrowserEnv, BrowserOptions
from envs.browser.tabs import Tabs
from envs.env import InstructionTask
from envs.errors import ActionError
from envs.observation import Tab
from tests.envs.browser.driving import OpenPage, click, do, picture, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


def titles(observation: object) -> list[tuple[str, bool]]:
    return [(tab.title, tab.is_active) for tab in observation.tabs]  # type: ignore[attr-defined]


@pytest.mark.long
async def test_a_new_tab_becomes_the_active_one(env: BrowserEnv, pages: PageServer) -> None:
    second = pages.serve("two", title="second")
    first = pages.serve(f"<a id=go target=_blank href='{second}'>go</a>", title="first")
    await env.reset(OpenPage(first))
    observation = await click(env, "#go")
    assert observation.tabs == (
        Tab(title="first", url=first, is_active=False),
        Tab(title="second", url=second, is_active=True),
    )
    assert (observation.url, observation.title, env.page.url) == (second, "second", second)
    observation = await do(env, Hotkey(keys=("ctrl", "w")))
    assert (titles(observation), observation.notes) == ([("first", True)], ())
    await click(env, "#go")


@pytest.mark.long
async def test_a_window_opened_late_is_noticed(env: BrowserEnv, pages: PageServer) -> None:
    second = pages.serve("two", title="second")
    body = f"<button id=go onclick=\"setTimeout(() => window.open('{second}'), 100)\">go</button>"
    await env.reset(OpenPage(pages.serve(body, title="first")))
    await click(env, "#go")
    await env.page.wait_for_timeout(300)
    assert titles(await do(env)) == [("first", False), ("second", True)]


async def test_closing_the_last_tab_is_survived(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("one")))
    observation = await do(env, Hotkey(keys=("ctrl", "w")))
    assert observation.notes == ("the last tab was closed; a new blank one was opened",)
    assert observation.tabs == (Tab(title="", url="about:blank", is_active=True),)
    assert (await do(env)).notes == ()


async def test_a_page_that_closes_itself(env: BrowserEnv, pages: PageServer) -> None:
    second = pages.serve("<button id=bye onclick='window.close()'>bye</button>", title="second")
    await env.reset(OpenPage(pages.serve(f"<a id=go target=_blank href='{second}'>go</a>", title="first")))
    await click(env, "#go")
    assert titles(await click(env, "#bye")) == [("first", True)]


@pytest.mark.long
async def test_switching_tabs(env: BrowserEnv, pages: PageServer) -> None:
    others = [pages.serve("", title=f"tab{number}") for number in (2, 3)]
    body = "".join(f"<a target=_blank href='{url}' id=go{number}>go</a> " for number, url in enumerate(others))
    await env.reset(OpenPage(pages.serve(body, title="tab1")))
    await click(env, "#go0")
    await do(env, Hotkey(keys=("ctrl", "1")))
    await click(env, "#go1")

    async def after(*keys: str) -> str | None:
        return (await do(env, Hotkey(keys=keys))).title

    assert await after("ctrl", "tab") == "tab1"
    assert await after("ctrl", "shift", "tab") == "tab3"
    assert await after("ctrl", "pageup") == "tab2"
    assert await after("ctrl", "1") == "tab1"
    assert await after("ctrl", "9") == "tab3"
    observation = (await env.step([Hotkey(keys=("ctrl", "7"))])).observation
    assert observation.last_action_error == "there is no tab 7; there are 3"
    assert (await do(env, KeyDown(key="ctrl"), PressKey(key="tab", presses=2), KeyUp(key="ctrl"))).title == "tab2"
    assert titles(await do(env, Hotkey(keys=("ctrl", "f4")))) == [("tab1", False), ("tab3", True)]


async def test_the_order_of_tabs_and_which_one_is_looked_at(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("", title="first")))
    first = env.page
    second, third, other = [await first.context.new_page() for _ in range(3)]
    tabs = Tabs()
    with pytest.raises(ActionError, match="the tab was closed"):
        _ = tabs.active
    await tabs.bring_to_front()  # nothing to show yet
    assert tabs.add(first)
    assert tabs.add(third)
    assert not tabs.add(first)
    assert (tabs.pages, tabs.active) == ([first, third], third)
    assert tabs.add(second, after=first)
    assert (tabs.pages, tabs.active) == ([first, second, third], second)

    tabs.activate(other)
    tabs.set_title(other, "other")
    tabs.remove(other)
    assert (tabs.pages, tabs.active, tabs.title(other)) == ([first, second, third], second, "")

    tabs.set_title(second, "second")
    tabs.set_title(second, None)
    assert [(tab.title, tab.is_active) for tab in tabs.listed()] == [("", False), ("second", True), ("", False)]

    tabs.activate(first)
    tabs.remove(second)
    assert (tabs.pages, tabs.active, tabs.title(second)) == ([first, third], first, "")
    tabs.remove(first)  # the next one moves up
    assert tabs.active is third
    assert tabs.add(other, after=second)  # after one that is gone: at the end
    assert tabs.pages == [third, other]
    tabs.remove(other)  # there is none behind it
    assert tabs.active is third
    tabs.remove(third)
    with pytest.raises(ActionError, match="the tab was closed"):
        _ = tabs.active
    await other.close()
    assert not tabs.add(other)


async def test_only_a_tab_that_is_not_in_front_is_brought_there(env: BrowserEnv, pages: PageServer) -> None:
    from playwright.async_api import Error

    await env.reset(OpenPage(pages.serve("", title="first")))
    first, second = [await env.page.context.new_page() for _ in range(2)]
    tabs = Tabs()
    for page in (first, second):
        tabs.add(page)
        await tabs.bring_to_front()
    await second.close()
    await tabs.bring_to_front()  # the browser is not asked: it would say that the page is gone
    await first.close()
    tabs.activate(first)
    with pytest.raises(Error, match="closed"):
        await tabs.bring_to_front()


@pytest.mark.long
async def test_back_and_forward_and_reload(env: BrowserEnv, pages: PageServer) -> None:
    second = pages.serve("<script>document.title = 'second ' + performance.now()</script>")
    first = pages.serve(f"<a id=go href='{second}'>go</a>", title="first")
    await env.reset(OpenPage(first))
    shown = (await click(env, "#go")).title
    assert shown is not None
    assert shown.startswith("second")
    assert (await do(env, Hotkey(keys=("alt", "left")))).url == first
    assert (await do(env, PressKey(key="browserforward"))).url == second
    before = (await do(env)).title
    assert (await do(env, PressKey(key="f5"))).title != before
    await do(env, Hotkey(keys=("alt", "left")), Hotkey(keys=("alt", "left")))
    observation = (await env.step([PressKey(key="browserback")])).observation
    assert observation.last_action_error == "there is no page to go back to"


@pytest.mark.parametrize("keys", [("ctrl", "l"), ("alt", "d"), ("f6",)])
async def test_an_address_is_typed_and_seen(env: BrowserEnv, pages: PageServer, keys: tuple[str, ...]) -> None:
    url = pages.serve("<input id=field>", title="second")
    before = await env.reset(OpenPage(pages.serve("one")))
    observation = await do(env, Hotkey(keys=keys), TypeText(text=url.removeprefix("http://")))
    assert picture(observation).crop((0, 0, 1280, 44)).tobytes() != picture(before).crop((0, 0, 1280, 44)).tobytes()
    assert picture(observation).crop((0, 45, 1280, 720)).tobytes() == picture(before).crop((0, 45, 1280, 720)).tobytes()
    assert observation.notes == (
        f"the address bar has the focus and holds '{url.removeprefix('http://')}'; "
        "type an address, Enter opens it, Esc leaves the bar",
    )
    assert (await env.describe_point(200, 20) or "").startswith("address bar")
    observation = await do(env, PressKey(key="enter"))
    assert (observation.title, observation.notes) == ("second", ())
    await click(env, "#field")
    await do(env, TypeText(text="abc"))
    assert await env.page.evaluate("field.value") == "abc"


async def test_a_new_tab_asks_for_an_address(env: BrowserEnv, pages: PageServer) -> None:
    url = pages.serve("", title="second")
    await env.reset(OpenPage(pages.serve("", title="first")))
    observation = await do(env, Hotkey(keys=("ctrl", "t")), TypeText(text=f"{url}\n"))
    assert titles(observation) == [("first", False), ("second", True)]


async def test_leaving_the_address_bar(env: BrowserEnv, pages: PageServer) -> None:
    url = pages.serve("<button id=hit onclick='window.hits = (window.hits || 0) + 1' style='margin:100px'>hit</button>")
    await env.reset(OpenPage(url))
    await do(env, Hotkey(keys=("ctrl", "l")), TypeText(text="nowhere"), Click(x_px=300, y_px=20))
    assert (await do(env, PressKey(key="esc"))).notes == ()
    await do(env, Hotkey(keys=("ctrl", "l")))
    observation = await click(env, "#hit")
    assert (observation.url, observation.notes) == (url, ())
    assert await env.page.evaluate("hits") == 1


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("javascript:alert(1)", "addresses of the kind 'javascript:' are not taken; write http:// or https://"),
        ("file:///etc/passwd", "addresses of the kind 'file:' are not taken; write http:// or https://"),
        ("two words", "'two words' is not a web address; write one such as https://example.com/page"),
    ],
)
async def test_addresses_that_are_not_taken(env: BrowserEnv, pages: PageServer, typed: str, error: str) -> None:
    url = pages.serve("one")
    await env.reset(OpenPage(url))
    observation = (
        await env.step([Hotkey(keys=("ctrl", "l")), TypeText(text=typed), PressKey(key="enter")])
    ).observation
    assert (observation.last_action_error, observation.url) == (error, url)


async def test_a_page_that_is_not_there(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("one")))
    actions = [Hotkey(keys=("ctrl", "l")), TypeText(text="http://127.0.0.1:9/x\n"), PressKey(key="a")]
    observation = (await env.step(actions)).observation
    assert observation.last_action_error == (
        "http://127.0.0.1:9/x was not opened: the browser refuses this port (ERR_UNSAFE_PORT)"
    )
    observation = (await env.step([Hotkey(keys=("ctrl", "l")), TypeText(text="http://127.0.0.1:45/x\n")])).observation
    assert observation.last_action_error == (
        "http://127.0.0.1:45/x was not opened: nothing answers at that address (connection refused) "
        "(ERR_CONNECTION_REFUSED)"
    )


@pytest.mark.long
async def test_keys_held_in_one_tab_do_not_stay_down_there(env: BrowserEnv, pages: PageServer) -> None:
    second = pages.serve("two", title="second")
    script = "<script>pad.onclick = e => { window.ctrl = e.ctrlKey }</script>"
    body = f"<a id=go href='{second}'>go</a><p id=pad>pad</p>{script}"
    await env.reset(OpenPage(pages.serve(body, title="first")))
    await do(env, KeyDown(key="ctrl"))
    assert (await click(env, "#go")).title == "second"
    await do(env, KeyUp(key="ctrl"), Hotkey(keys=("ctrl", "1")))
    await click(env, "#pad")
    assert await env.page.evaluate("ctrl") is False


FLOOD = """<button id=go onclick="window.open('{second}')">go</button>
<script>window.opened = 0; setInterval(() => {{ window.opened++; window.open('{popup}') }}, 50)</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("popup", ["/json", "/slow?s=5"])
async def test_pop_ups_without_end_are_closed_and_the_agent_is_told(pages: PageServer, popup: str) -> None:
    flood = pages.serve(FLOOD.format(second=pages.serve("two"), popup=popup))
    env = BrowserEnv(BrowserOptions(start_url=flood, max_tabs=4))
    notes: list[str] = []
    try:
        await env.reset(InstructionTask(instruction="test"))
        opener = env.page.context.pages[0]
        for _ in range(4):
            observation = (await env.step([Wait(duration_s=0.5)])).observation
            notes += observation.notes
            assert len(observation.tabs) <= 4
            assert len(env.page.context.pages) < 20
        assert await opener.evaluate("opened") > 10
    finally:
        await env.close()
    assert any(note.endswith("closed at once: there can be 4 tabs; close some to open others") for note in notes)


@pytest.mark.long
async def test_an_agent_opens_tabs_up_to_the_limit(pages: PageServer) -> None:
    start = pages.serve(f"<a id=go target=_blank href='{pages.serve('two', title='second')}'>go</a>", title="first")
    env = BrowserEnv(BrowserOptions(start_url=start, max_tabs=2))
    try:
        await env.reset(InstructionTask(instruction="test"))
        assert titles(await click(env, "#go")) == [("first", False), ("second", True)]
        observation = (await env.step([Hotkey(keys=("ctrl", "t"))])).observation
        assert observation.last_action_error == "there can be 2 tabs, and there are; close one first"
        await do(env, Hotkey(keys=("ctrl", "1")))
        observation = await click(env, "#go")
        note = "1 new tab was closed at once: there can be 2 tabs; close some to open others"
        assert (titles(observation), observation.notes) == ([("first", True), ("second", False)], (note,))
        await do(env, Hotkey(keys=("ctrl", "2")), Hotkey(keys=("ctrl", "w")))

        async def is_closed() -> bool:
            return titles((await env.step([])).observation) == [("first", True)]

        await until(is_closed)
        assert titles(await click(env, "#go")) == [("first", False), ("second", True)]
    finally:
        await env.close()


@pytest.mark.long
async def test_a_window_that_gets_no_document_is_not_waited_for_later(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(navigation_timeout_s=1.0, settle_timeout_s=0.5))
    try:
        await env.reset(OpenPage(pages.serve(f"<a id=go target=_blank href='{pages.url('/empty')}'>go</a>")))
        await click(env, "#go")
        assert (await do(env, Wait(duration_s=1.0))).notes == ()
    finally:
        await env.close()
