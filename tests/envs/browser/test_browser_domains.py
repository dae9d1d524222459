"""Domain rules hold against everything a page or an agent can try."""

from urllib.parse import urlsplit

import pytest

from envs.actions import Click, Hotkey, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from envs.errors import EnvSetupError
from tests.envs.browser.driving import click, do, middle, until
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


@pytest.mark.slow
@RULES
async def test_nothing_of_a_blocked_domain_is_asked_for(
    pages: PageServer, rules: dict[str, tuple[str, ...]], reason: str
) -> None:
    evil = pages.serve("wicked", host="evil.localhost")
    redirect = pages.url(f"/redirect?to={evil}")
    body = f"""<iframe id=frame></iframe><script>
      const tell = promise => promise.then(() => 'evil', () => 'blocked');
      window.ways = {{
        fetch: () => tell(fetch('{evil}', {{mode: 'no-cors'}})),
        redirected: () => tell(fetch('{redirect}', {{mode: 'no-cors'}})),
        image: () => tell(new Promise((yes, no) =>
          Object.assign(new Image(), {{onload: yes, onerror: no, src: '{evil}'}}))),
        socket: () => tell(new Promise((yes, no) => {{
          const socket = new WebSocket('{evil.replace("http:", "ws:")}'); socket.onopen = yes; socket.onclose = no }})),
        worker: () => new Promise(yes => {{
          const code = "fetch('{evil}').then(() => postMessage('evil'), () => postMessage('blocked'))";
          new Worker(URL.createObjectURL(new Blob([code]))).onmessage = event => yes(event.data) }}),
        frame: () => new Promise(yes => {{ frame.src = '{evil}'; setTimeout(() => yes('blocked'), 200) }}),
        redirected_frame: () => new Promise(yes => {{
          frame.src = '{redirect}'; setTimeout(() => yes('blocked'), 200) }}),
        beacon: () => {{ navigator.sendBeacon('{evil}', 'x'); return 'blocked' }},
      }};
    </script>"""
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(body), **rules))
    try:
        await env.reset(TASK)
        for way in await env.page.evaluate("Object.keys(ways)"):
            assert [way, await env.page.evaluate(f"ways.{way}()")] == [way, "blocked"]
        result = await env.step([])
        assert result.observation.last_action_error is None
        assert f"{evil} was blocked: {reason}" in result.info["blocked"]
        assert "wicked" not in "".join([await frame.content() for frame in env.page.frames[1:]])
        assert urlsplit(evil).path not in pages.seen
    finally:
        await env.close()


@pytest.mark.slow
@RULES
async def test_what_an_agent_tries_is_answered_with_the_rule(
    pages: PageServer, rules: dict[str, tuple[str, ...]], reason: str
) -> None:
    evil = pages.serve("evil", host="evil.localhost")
    good = pages.serve("good", title="good", host="good.localhost")
    redirect = pages.url(f"/redirect?to={evil}")
    body = f"""<a id=link href='{evil}'>link</a> <a id=redirect href='{redirect}'>redirect</a>
      <a id=popup target=_blank href='{evil}'>popup</a> <a id=good href='{good}'>good</a>
      <form id=form action='{evil}'><button id=send>send</button></form>"""
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(body, title="start"), **rules))
    try:
        await env.reset(TASK)
        for what in ("link", "redirect", "popup", "send"):
            await env.goto(str(env.options.start_url))
            x_px, y_px = await middle(env, f"#{what}")
            result = await env.step([Click(x_px=x_px, y_px=y_px)])
            address = f"{evil}?" if what == "send" else evil
            assert [what, result.observation.last_action_error] == [what, f"{address} was not opened: {reason}"]
            assert result.info["blocked"] == [f"{address} was not opened: {reason}"]
            await env.step([Hotkey(keys=("ctrl", "1"))])
        await env.goto(str(env.options.start_url))
        typed = (await env.step([Hotkey(keys=("ctrl", "l")), TypeText(text=f"{evil}\n")])).observation
        assert (typed.last_action_error, typed.title) == (f"{evil} was not opened: {reason}", "start")
        for address in (evil, redirect):
            with pytest.raises(EnvSetupError, match=r"'evil\.localhost'"):
                await env.goto(address)
        await env.goto(str(env.options.start_url))
        assert (await click(env, "#good")).title == "good"
        assert urlsplit(evil).path not in pages.seen
    finally:
        await env.close()


async def test_a_blocked_start_page_is_an_error_of_setup(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve("x"), allowed_domains=("example.com",)))
    try:
        with pytest.raises(EnvSetupError, match=r"outside of the allowed domains \(example.com\)"):
            await env.reset(TASK)
    finally:
        await env.close()


@pytest.mark.long
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
