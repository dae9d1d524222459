"""Many sessions in one browser: nothing of one is seen in another, and the browser may die and be replaced."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext

from envs.actions import Click, Hotkey, KeyDown, KeyUp, PressKey, TypeText
from envs.browser import BrowserEnv, BrowserOptions, BrowserPool
from envs.check_env import check_env
from envs.env import InstructionTask
from envs.errors import EnvDiedError, EnvSetupError
from envs.secret_texts import HttpLogin
from tests.envs.browser.driving import OpenPage, click, do, until
from tests.envs.browser.listener import listening
from tests.envs.browser.pages import PageServer
from tests.envs.browser.test_browser_reach import reached_from

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
TASK = InstructionTask(instruction="test")
STATE = "[document.cookie, localStorage.getItem('who'), sessionStorage.getItem('who')]"
FIELD = "<input id=field style='width:300px;height:40px' value='{}'>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool(max_sessions=8) as shared:
        yield shared
        assert shared.num_sessions == 0


@contextlib.asynccontextmanager
async def sessions(pool: BrowserPool, *urls: str, **options: object) -> AsyncIterator[list[BrowserEnv]]:
    envs = [pool.make_env(BrowserOptions(start_url=url, **options)) for url in urls]  # type: ignore[arg-type]
    try:
        for env in envs:
            await env.reset(TASK)
        yield envs
    finally:
        for env in envs:
            await env.close()


@pytest.mark.slow
async def test_a_session_keeps_the_contract_of_every_env(pool: BrowserPool) -> None:
    await check_env(pool.make_env)


@pytest.mark.long
async def test_all_sessions_are_in_one_browser(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("hello")
    async with sessions(pool, url, url, url) as envs:
        assert len({id(env.page.context.browser) for env in envs}) == 1
        assert len({id(env.page.context) for env in envs}) == 3
        assert pool.num_sessions == 3


@pytest.mark.long
async def test_cookies_and_storage_are_each_sessions_own(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("shared origin")
    async with sessions(pool, url, url) as (ann, ben):
        await ann.page.evaluate(
            "document.cookie = 'who=ann'; localStorage.setItem('who', 'ann'); sessionStorage.setItem('who', 'ann');"
            "new Promise(done => { const open = indexedDB.open('ann', 1); open.onsuccess = () => done() })"
        )
        assert await ann.page.evaluate(STATE) == ["who=ann", "ann", "ann"]
        assert await ben.page.evaluate(STATE) == ["", None, None]
        assert await ben.page.evaluate("indexedDB.databases().then(found => found.length)") == 0
        await ann.reset(OpenPage(url))  # nor do they outlive an episode
        assert await ann.page.evaluate(STATE) == ["", None, None]


async def test_pages_of_two_sessions_cannot_talk_to_each_other(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("<script>heard = []; new BroadcastChannel('c').onmessage = e => heard.push(e.data)</script>")
    async with sessions(pool, url, url) as (ann, ben):
        await ann.page.evaluate("new BroadcastChannel('c').postMessage('from ann')")
        await ann.page.wait_for_function("heard.length")
        await ben.page.evaluate("new BroadcastChannel('c').postMessage('from ben')")
        await ben.page.wait_for_function("heard.length")
        assert await ben.page.evaluate("heard") == ["from ben"]
        assert await ann.page.evaluate("heard") == ["from ann"]


async def test_permissions_are_each_sessions_own(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("where?")
    asked = "navigator.permissions.query({name: 'geolocation'}).then(found => found.state)"
    async with sessions(pool, url, geolocation=(52.5, 13.4)) as (ann,), sessions(pool, url) as (ben,):
        assert await ann.page.evaluate(asked) == "granted"
        assert await ben.page.evaluate(asked) == "denied"


async def test_downloads_go_to_the_folder_of_their_session(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve(f"<a id=get href='{pages.url('/file/report.csv')}' style='font-size:40px'>get</a>")
    async with sessions(pool, url, url) as (ann, ben):
        await click(ann, "#get")

        async def arrived() -> list[str]:
            await ann.step([])
            return [path.name for path in ann.downloads_dir.iterdir() if path.stat().st_size]

        assert await until(arrived) == ["report.csv"]
        assert ann.downloads_dir != ben.downloads_dir
        assert list(ben.downloads_dir.iterdir()) == []
        assert (await ben.step([])).observation.notes == ()


@pytest.mark.long
async def test_a_popup_belongs_to_the_session_that_opened_it(pool: BrowserPool, pages: PageServer) -> None:
    inner = pages.serve("inner", title="Popup")
    url = pages.serve(f"<button id=open onclick='window.open(\"{inner}\")' style='font-size:40px'>open</button>")
    async with sessions(pool, url, url) as (ann, ben):
        assert len((await click(ann, "#open")).tabs) == 2
        seen = await do(ben)
        assert [tab.title for tab in seen.tabs] == ["Test page"]
        full = await do(ben, Hotkey(keys=("ctrl", "t")))
        assert len(full.tabs) == 2 and len((await do(ann)).tabs) == 2


@pytest.mark.long
async def test_the_limit_of_tabs_counts_each_sessions_own(pool: BrowserPool, pages: PageServer) -> None:
    inner = pages.serve("inner")
    url = pages.serve(
        f"<button id=open style='font-size:40px' onclick='for (i of [1, 2]) window.open(\"{inner}\")'>open</button>"
    )
    async with sessions(pool, url, url, max_tabs=2) as (ann, ben):
        seen = await click(ann, "#open")
        assert len(seen.tabs) == 2 and "closed at once" in " ".join(seen.notes)
        assert len((await do(ben)).tabs) == 1
        assert len((await click(ben, "#open")).tabs) == 2


async def test_domain_rules_hold_for_their_session_alone(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("hello", title="Allowed?")
    async with (
        sessions(pool, url) as (free,),
        sessions(pool, None, denied_domains=("127.0.0.1",)) as (bound,),  # type: ignore[arg-type]
    ):
        with pytest.raises(EnvSetupError, match="denied by the rule"):
            await bound.goto(url)
        assert (await do(free)).title == "Allowed?"
        assert not await bound.page.evaluate(f"fetch('{url}', {{mode: 'no-cors'}}).then(() => true, () => false)")
        assert await free.page.evaluate(f"fetch('{url}').then(() => true, () => false)")


@pytest.mark.long
async def test_no_way_around_the_rules_of_a_session(pool: BrowserPool, pages: PageServer) -> None:
    async with listening() as listener:
        rules = {"denied_domains": ("evil.localhost", f"127.0.0.1:{listener.port}")}
        assert await reached_from(pages, listener, "127.0.0.1", "evil.localhost", pool.make_env, **rules) == set()


async def test_what_belongs_to_no_session_reaches_nothing(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("hello")
    async with sessions(pool, url) as (env,):
        browser = env.page.context.browser
        assert browser is not None
        stray = await browser.new_context()
        try:
            page = await stray.new_page()
            with pytest.raises(Exception, match="ERR_PROXY_CONNECTION_FAILED"):
                await page.goto(url)
        finally:
            await stray.close()


@pytest.mark.long
async def test_the_clipboard_is_each_sessions_own(pool: BrowserPool, pages: PageServer) -> None:
    ann_url, ben_url = pages.serve(FIELD.format("secret of ann")), pages.serve(FIELD.format("of ben"))
    select = (Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "c")))
    async with sessions(pool, ann_url, ben_url) as (ann, ben):
        await click(ann, "#field")
        await do(ann, *select)
        await click(ben, "#field")
        ways: list[tuple[object, ...]] = [
            (Hotkey(keys=("ctrl", "v")),),
            (Hotkey(keys=("shift", "insert")),),
            (Hotkey(keys=("ctrl", "shift", "v")),),
            (KeyDown(key="ctrl"), PressKey(key="v")),
            (KeyDown(key="v"),),  # ctrl is still down
            (TypeText(text="v"),),
        ]
        for way in ways:
            result = await ben.step(way)  # type: ignore[arg-type]
            assert "nothing was copied in this session" in (result.observation.last_action_error or ""), way
        await do(ben, KeyUp(key="ctrl"))
        await do(ben, Click(button="middle"))  # pastes what is selected, where there is such a thing
        assert await ben.page.evaluate("field.value") == "of ben"
        asked = "navigator.clipboard.readText()"
        assert await ben.page.evaluate(asked) == ""
        await ann.page.evaluate("navigator.clipboard.writeText('by a button of ann')")
        await ann.page.evaluate("document.execCommand('copy')")
        assert await ben.page.evaluate(asked) == ""
        await do(ben, *select, PressKey(key="end"), Hotkey(keys=("ctrl", "v")))
        assert await ben.page.evaluate("field.value") == "of benof ben"
        await do(ann, PressKey(key="end"), Hotkey(keys=("ctrl", "v")))
        assert await ann.page.evaluate("field.value") == "secret of annsecret of ann"


async def test_a_busy_session_does_not_stop_another_and_goes_away(pool: BrowserPool, pages: PageServer) -> None:
    url = pages.serve("hello")
    async with sessions(pool, url) as (calm,):
        busy = pool.make_env(BrowserOptions(start_url=url))
        await busy.reset(TASK)
        its_own = set(_renderers())
        await busy.page.evaluate("setTimeout(() => { for (;;); }, 0)")
        assert (await do(calm)).title == "Test page"
        await busy.close()
        assert (await do(calm)).title == "Test page"
        browser = calm.page.context.browser
        assert browser is not None and len(browser.contexts) <= 2  # its own, and one made ahead

        async def is_gone() -> bool:
            return not its_own <= set(_renderers())

        assert await until(is_gone)


def _renderers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "--type=renderer" in process.cmdline():
                found.append(process)
    return found


@pytest.mark.long
async def test_http_logins_get_a_browser_of_their_own(pages: PageServer) -> None:
    pages.logins["/vault"] = "ann:s3cret"
    login = HttpLogin(origin=pages.url(""), username="ann", password="s3cret")
    async with BrowserPool() as pool:
        env = pool.make_env(BrowserOptions(start_url=pages.url("/vault"), http_logins=(login,)))
        try:
            assert (await env.reset(TASK)).title == "inside"
            assert pool.num_sessions == 0
        finally:
            await env.close()
        shared = pool.make_env(BrowserOptions())
        try:
            await shared.reset(TASK)
            with pytest.raises(EnvSetupError, match="needs a browser of its own"):
                await shared.goto(pages.url("/vault").replace("http://", "http://ann:s3cret@"))
        finally:
            await shared.close()


async def test_options_of_the_whole_browser_cannot_differ() -> None:
    with pytest.raises(ValueError, match=r"extra_args is \('--lang=de',\), the pool's browser has \(\)"):
        BrowserPool().make_env(BrowserOptions(extra_args=("--lang=de",)))
    with pytest.raises(ValueError, match="at least 1"):
        BrowserPool(max_sessions=0)


@pytest.mark.long
async def test_a_session_that_cannot_open_leaves_nothing_in_the_browser(pool: BrowserPool, pages: PageServer) -> None:
    async with sessions(pool, pages.serve("hello")) as (calm,):
        browser = calm.page.context.browser
        assert browser is not None
        before = set(browser.contexts)
        wrong = pool.make_env(BrowserOptions(timezone="Mars/Base"))
        with pytest.raises(EnvSetupError, match="Invalid timezone"):
            await wrong.reset(TASK)
        cancelled = pool.make_env(BrowserOptions(locale="de-DE"))
        cut = asyncio.ensure_future(cancelled.reset(TASK))
        await until(lambda: _has_more(browser, before))
        cut.cancel()
        await asyncio.wait({cut})
        await wrong.close()
        await cancelled.close()
        assert len(set(browser.contexts) - before) <= 1  # one may have been made ahead meanwhile


async def _has_more(browser: Browser, before: set[BrowserContext]) -> bool:
    return bool(set(browser.contexts) - before)


@pytest.mark.long
async def test_a_session_waits_for_its_turn(pages: PageServer) -> None:
    async with BrowserPool(max_sessions=1, lease_timeout_s=0.2) as pool:
        first, second = pool.make_env(), pool.make_env()
        await first.reset(TASK)
        with pytest.raises(EnvSetupError, match=r"all 1 sessions .* were taken for 0.2 s") as caught:
            await second.reset(TASK)
        assert caught.value.retryable
        await first.close()
        await second.reset(TASK)
        third = asyncio.ensure_future(pool.make_env().reset(TASK))
        await asyncio.sleep(0)
        third.cancel()
        await asyncio.wait([third])
        await second.close()
        await second.close()
        assert pool.num_sessions == 0
        last = pool.make_env()  # nobody has kept the place
        await last.reset(TASK)
        await last.close()


@pytest.mark.long
async def test_a_browser_that_dies_is_replaced(pages: PageServer) -> None:
    url = pages.serve("hello", title="Alive")
    async with BrowserPool(BrowserOptions(start_url=url)) as pool:
        ann, ben = pool.make_env(), pool.make_env()
        await ann.reset(TASK)
        await ben.reset(TASK)
        dead = ann.page.context.browser
        family = psutil.Process().children(recursive=True)
        for process in family:
            with contextlib.suppress(psutil.Error):
                if "--k25-browser" in " ".join(process.cmdline()) and "--type=" not in " ".join(process.cmdline()):
                    os.kill(process.pid, signal.SIGKILL)
        for env in (ann, ben):
            with pytest.raises(EnvDiedError) as caught:
                for _ in range(100):  # the driver is told a moment later
                    await env.step([])
            assert caught.value.retryable
        assert (await ann.reset(TASK)).title == "Alive"
        new = pool.make_env()
        assert (await new.reset(TASK)).title == "Alive"
        assert new.page.context.browser is ann.page.context.browser is not dead
        assert pool.num_sessions == 3  # the dead one is counted until it is closed or reset
        for env in (ann, ben, new):
            await env.close()


@pytest.mark.long
async def test_nothing_is_left_when_the_pool_is_closed(pages: PageServer) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with BrowserPool(BrowserOptions(denied_domains=("nowhere.example",))) as pool:
        ann, ben = pool.make_env(), pool.make_env()
        await ann.reset(TASK)
        await ben.reset(TASK)
        family = set(psutil.Process().children(recursive=True)) - before
        assert any(thread.name == "browser-filter-proxy" for thread in threading.enumerate())
    _, alive = psutil.wait_procs(list(family), timeout=15)
    assert [process.name() for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert pool.num_sessions == 0
    with pytest.raises(EnvDiedError):
        await ann.step([])
    await ann.close()
    with pytest.raises(EnvSetupError, match="the browser pool was closed"):
        await ben.reset(TASK)
    await ben.close()
