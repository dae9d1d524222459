"""Domain rules hold against everything a page or an agent can try."""

import pytest

from envs.actions import Hotkey, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from envs.errors import EnvSetupError
from tests.envs.browser.driving import click, do, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

TASK = InstructionTask(instruction="test")
DENIED = {"denied_domains": ("evil.localhost",)}
ALLOWED = {"allowed_domains": ("127.0.0.1", "good.localhost")}
RULES = pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (DENIED, "the domain 'evil.localhost' is denied by the rule 'evil.localhost'"),
        (ALLOWED, "the domain 'evil.localhost' is outside of the allowed domains (127.0.0.1, good.localhost)"),
    ],
)


@RULES
async def test_nothing_of_a_blocked_domain_is_asked_for(
    pages: PageServer, rules: dict[str, tuple[str, ...]], reason: str
) -> None:
    evil = pages.serve("evil", title="evil", host="evil.localhost")
    evil_path = evil[evil.index("/", 8) :]
    redirect = pages.url(f"/redirect?to={evil}")
    body = f"""<a id=link href='{evil}'>link</a> <a id=redirect href='{redirect}'>redirect</a>
      <a id=popup target=_blank href='{evil}'>popup</a> <iframe id=frame></iframe>
      <button id=fetch onclick="fetch('{evil}').then(() => window.got = 'evil', () => window.got = 'blocked')">f</button>
      <button id=hop onclick="fetch('{redirect}').then(() => window.got = 'evil', () => window.got = 'blocked')">h</button>
      <button id=embed onclick="frame.src = '{evil}'">e</button>
      <button id=socket onclick="const s = new WebSocket('{evil.replace("http", "ws")}');
        s.onopen = () => window.got = 'evil'; s.onclose = () => window.got = 'blocked'">s</button>
      <button id=work onclick="const w = new Worker(URL.createObjectURL(new Blob([
        'fetch(`{evil}`).then(() => postMessage(`evil`), () => postMessage(`blocked`))'])));
        w.onmessage = e => window.got = e.data">w</button>"""
    start = pages.serve(body, title="start")
    env = BrowserEnv(BrowserOptions(start_url=start, **rules))
    try:
        await env.reset(TASK)
        observation = (await env.step([])).observation
        for what in ("#link", "#redirect"):
            await env.goto(start)
            with pytest.raises(AssertionError):
                await click(env, what)
            observation = (await env.step([])).observation
        await env.goto(start)
        for what in ("#fetch", "#hop", "#socket", "#work"):
            await env.page.evaluate("window.got = undefined")
            await click(env, what)
            assert await until(lambda: env.page.evaluate("window.got")) == "blocked", what
        result = await env.step([])
        await click(env, "#embed")
        await env.page.wait_for_timeout(200)
        assert not any("evil" in await frame.content() for frame in env.page.frames[1:])
        for actions in ([Hotkey(keys=("ctrl", "l")), TypeText(text=f"{evil}\n")],):
            observation = (await env.step(actions)).observation
            assert (observation.last_action_error, observation.title) == (f"{evil} was not opened: {reason}", "start")
        with pytest.raises(EnvSetupError, match="evil.localhost"):
            await env.goto(evil)
        with pytest.raises(EnvSetupError, match="evil.localhost"):
            await env.goto(redirect)
        assert evil_path not in pages.seen
        assert result.observation.last_action_error is None
    finally:
        await env.close()


@RULES
async def test_a_blocked_click_says_which_rule(
    pages: PageServer, rules: dict[str, tuple[str, ...]], reason: str
) -> None:
    evil = pages.serve("evil", host="evil.localhost")
    good = pages.serve("good", title="good", host="good.localhost")
    redirect = pages.url(f"/redirect?to={evil}")
    body = f"""<a id=link href='{evil}'>link</a> <a id=redirect href='{redirect}'>redirect</a>
      <a id=good href='{good}'>good</a> <img src='{evil}'>"""
    start = pages.serve(body, title="start")
    env = BrowserEnv(BrowserOptions(start_url=start, **rules))
    try:
        await env.reset(TASK)
        for what in ("link", "redirect"):
            await env.goto(start)
            await env.step([])
            await env.page.evaluate(f"document.querySelector('#{what}').focus()")
            from envs.actions import PressKey

            result = await env.step([PressKey(key="enter")])
            assert result.observation.last_action_error == f"{evil} was not opened: {reason}", what
            assert result.info["blocked"] == [f"{evil} was not opened: {reason}"]
        await env.goto(start)
        observation = await click(env, "#good")
        assert observation.title == "good"
    finally:
        await env.close()


async def test_a_blocked_start_page_is_an_error_of_setup(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve("x"), allowed_domains=("example.com",)))
    try:
        with pytest.raises(EnvSetupError, match=r"outside of the allowed domains \(example.com\)"):
            await env.reset(TASK)
    finally:
        await env.close()


async def test_unblocked_pages_work_as_ever(pages: PageServer) -> None:
    body = "<button id=go onclick=\"fetch('/json').then(r => r.json()).then(d => window.got = d)\">go</button>"
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(body), allowed_domains=("127.0.0.1",)))
    try:
        await env.reset(TASK)
        await click(env, "#go")
        assert await until(lambda: env.page.evaluate("window.got")) == {"ok": True}
        await do(env)
    finally:
        await env.close()
