"""Pages are waited for as long as something is coming, and no longer."""

import time

import pytest

from envs.actions import Click, PressKey, Wait
from envs.browser import BrowserEnv
from tests.envs.browser.driving import OpenPage, click, do, middle
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


async def settle_s(env: BrowserEnv, expression: str) -> float:
    x_px, y_px = await middle(env, expression)
    result = await env.step([Click(x_px=x_px, y_px=y_px)])
    assert result.observation.last_action_error is None
    return float(result.info["timings"]["settle"])


@pytest.mark.long
async def test_an_idle_page_costs_next_to_nothing(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<button id=go>go</button>")))
    found = sorted([await settle_s(env, "#go") for _ in range(9)])
    assert found[4] < 0.05  # 3 ms on a machine with nothing else to do


@pytest.mark.long
async def test_a_link_is_followed_to_its_end(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(f"<a id=go href='{pages.url('/slow?s=0.6')}'>go</a>")))
    observation = await click(env, "#go")
    assert (observation.title, observation.notes) == ("slow", ())


@pytest.mark.parametrize(
    "script",
    [
        "setTimeout(() => { location.href = URL }, 0)",
        "form.submit()",
        "form.requestSubmit()",
        "fetch('/slow?s=0.3').then(() => location.assign(URL))",
    ],
)
async def test_navigations_by_script_are_followed(env: BrowserEnv, pages: PageServer, script: str) -> None:
    other = pages.url("/slow?s=0.3")
    body = f"""<form id=form action='/slow'><input type=hidden name=s value=0.3></form><button id=go>go</button>
      <script>const URL = '{other}'; go.onclick = () => {{ {script} }}</script>"""
    await env.reset(OpenPage(pages.serve(body)))
    assert (await click(env, "#go")).title == "slow"


async def test_answers_of_the_server_are_waited_for(env: BrowserEnv, pages: PageServer) -> None:
    body = (
        "<button id=go onclick=\"fetch('/slow?s=0.5').then(() => { out.textContent = 'done' })\">go</button><p id=out>"
    )
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#go")
    assert await env.page.evaluate("out.textContent") == "done"


async def test_changes_of_the_page_are_waited_for(env: BrowserEnv, pages: PageServer) -> None:
    body = """<button id=go>go</button><ol id=list></ol><script>go.onclick = () => {
      let left = 10; const add = () => {
        list.append(document.createElement('li')); if (--left) setTimeout(add, 20) }; add() }
    </script>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#go")
    assert await env.page.evaluate("list.children.length") == 10


@pytest.mark.long
async def test_short_animations_are_waited_for(env: BrowserEnv, pages: PageServer) -> None:
    body = """<style>#box { width: 10px; height: 10px; background: red; transition: width 0.4s }
      .wide { width: 300px !important }
      #spin { animation: turn 1s infinite } @keyframes turn { to { rotate: 1turn } }</style>
      <button id=go onclick="box.className = 'wide'">go</button><div id=box></div><div id=spin>o</div>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#go")
    assert await env.page.evaluate("box.offsetWidth") == 300
    assert await settle_s(env, "#spin") < 0.3


@pytest.mark.slow
async def test_a_page_that_never_rests_is_waited_for_once(env: BrowserEnv, pages: PageServer) -> None:
    body = """<button id=go>go</button><p id=out></p>
      <script>setInterval(() => { out.textContent = performance.now() }, 10)</script>"""
    began_s = time.monotonic()
    await env.reset(OpenPage(pages.serve(body)))
    assert time.monotonic() - began_s < 12
    assert await settle_s(env, "#go") < 1


@pytest.mark.slow
async def test_a_long_poll_is_waited_for_once(env: BrowserEnv, pages: PageServer) -> None:
    body = "<button id=go onclick=\"fetch('/slow?s=20&x=' + Math.random())\">go</button>"
    await env.reset(OpenPage(pages.serve(body)))
    x_px, y_px = await middle(env, "#go")
    first = await env.step([Click(x_px=x_px, y_px=y_px)])
    assert first.observation.notes == ("the page is still loading",)
    assert 2.5 < first.info["timings"]["settle"] < 6
    assert await settle_s(env, "#go") < 1


@pytest.mark.long
async def test_links_that_lead_nowhere_do_not_hold_things_up(env: BrowserEnv, pages: PageServer) -> None:
    url = pages.serve("<a id=none href='/empty'>none</a><a id=hash href='#there'>hash</a>")
    await env.reset(OpenPage(url))
    assert await settle_s(env, "#none") < 2
    assert await settle_s(env, "#hash") < 0.5
    assert (await do(env)).url == f"{url}#there"


@pytest.mark.slow
async def test_a_busy_page_does_not_hang_the_env(env: BrowserEnv, pages: PageServer) -> None:
    body = """<button id=go>go</button><script>
      go.onclick = () => setTimeout(() => { const end = Date.now() + 11000; while (Date.now() < end); }, 50)</script>"""
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#go")
    began_s = time.monotonic()
    observation = (await env.step([Wait(duration_s=0.1)])).observation
    assert observation.notes == ("the page does not respond; it may be busy",)
    assert time.monotonic() - began_s < 12
    await env.reset(OpenPage(pages.serve("", title="next")))
    assert (await do(env, PressKey(key="a"))).title == "next"
