"""Settings of the browser, each seen from inside of a page or in a file."""

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from envs.actions import Click, Hotkey, Move, TypeText
from envs.browser import BrowserEnv, BrowserOptions, find_browser
from envs.env import InstructionTask
from envs.errors import EnvSetupError
from tests.envs.browser.driving import click, do, picture, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
TASK = InstructionTask(instruction="test")


async def ask(expression: str, **options: Any) -> Any:
    """What a page answers in a browser with these options."""
    env = BrowserEnv(BrowserOptions(**options))
    try:
        await env.reset(TASK)
        return await env.page.evaluate(expression)
    finally:
        await env.close()


@pytest.mark.long
async def test_locale_time_zone_and_name(pages: PageServer) -> None:
    expression = "[navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone, navigator.userAgent]"
    found = await ask(
        expression, start_url=pages.serve(""), locale="de-DE", timezone="Asia/Tokyo", user_agent="Mozilla/5.0 (test)"
    )
    assert found == ["de-DE", "Asia/Tokyo", "Mozilla/5.0 (test)"]


@pytest.mark.long
async def test_geolocation(pages: PageServer) -> None:
    expression = """new Promise((yes, no) => navigator.geolocation.getCurrentPosition(
      found => yes([found.coords.latitude, found.coords.longitude]), no))"""
    assert await ask(expression, start_url=pages.serve(""), geolocation=(48.5, -9.25)) == [48.5, -9.25]


@pytest.mark.long
async def test_a_wrong_time_zone_is_an_error_of_setup() -> None:
    with pytest.raises(EnvSetupError, match="Invalid timezone ID: Mars/Olympus"):
        await ask("1", timezone="Mars/Olympus")


@pytest.mark.long
async def test_device_scale(pages: PageServer) -> None:
    env = BrowserEnv(
        BrowserOptions(
            start_url=pages.serve(
                "<button id=go onclick='confirm(1)' style='position:absolute;left:301px;top:151px'>go"
            ),
            viewport_px=(400, 300),
            device_scale=2.0,
        )
    )
    try:
        observation = await env.reset(TASK)
        assert (observation.geometry.native_px, observation.geometry.sent_px) == ((400, 300), (800, 600))
        assert picture(observation).size == (800, 600)
        observation = await do(env, Click(x_px=310, y_px=160))
        assert observation.dialog is not None
        assert picture(observation).size == (800, 600)
        point = await _find_ok(env)
        assert picture(observation).getpixel((2 * point[0] + 40, 2 * point[1] + 8)) == (11, 87, 208)
        assert (await do(env, Click(x_px=point[0] + 4, y_px=point[1] + 4))).dialog is None
    finally:
        await env.close()


async def _find_ok(env: BrowserEnv) -> tuple[int, int]:
    for y_px in range(0, 300, 4):
        for x_px in range(0, 400, 4):
            if await env.describe_point(x_px, y_px) == 'dialog button "OK"':
                return x_px, y_px
    raise AssertionError("no OK")


DATABASE = """new Promise(done => { const asked = indexedDB.open('login', 2);
    asked.onupgradeneeded = () => asked.result.createObjectStore('users');
    asked.onsuccess = () => done(mode => asked.result.transaction('users', mode).objectStore('users')) })"""


@pytest.mark.long
async def test_staying_logged_in(pages: PageServer, tmp_path: Path) -> None:
    url, state = pages.serve(""), tmp_path / "state.json"
    env = BrowserEnv(BrowserOptions(start_url=url, save_storage_state=state))
    try:
        await env.reset(TASK)
        await env.page.evaluate("document.cookie = 'user=anna; max-age=999'; localStorage.setItem('theme', 'dark')")
        await env.page.evaluate(f"{DATABASE}.then(store => {{ store('readwrite').put('token', 'key') }})")
    finally:
        await env.close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    expression = f"""{DATABASE}.then(store => new Promise(done => {{ const asked = store('readonly').get('key');
        asked.onsuccess = () => done([document.cookie, localStorage.getItem('theme'), asked.result ?? null]) }}))"""
    assert await ask(expression, start_url=url, storage_state=state) == ["user=anna", "dark", "token"]
    assert await ask(expression, start_url=url) == ["", None, None]


@pytest.mark.long
async def test_a_reset_forgets(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve("")))
    try:
        await env.reset(TASK)
        await env.page.evaluate("document.cookie = 'user=anna; max-age=999'")
        await env.reset(TASK)
        assert await env.page.evaluate("document.cookie") == ""
    finally:
        await env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not JSON"), ("[]", "is not a storage state"), (None, "cannot be read")]
)
async def test_a_storage_state_that_is_none(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "state.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(EnvSetupError, match=message):
        await ask("1", storage_state=path)


@pytest.mark.long
async def test_traffic_is_recorded(pages: PageServer, tmp_path: Path) -> None:
    url, path = pages.serve("hello"), tmp_path / "traffic.har"
    env = BrowserEnv(BrowserOptions(start_url=url, har_path=path))
    try:
        await env.reset(TASK)
        await env.reset(TASK)
    finally:
        await env.close()
    for file in (path, tmp_path / "traffic-2.har"):
        entries = json.loads(file.read_text())["log"]["entries"]
        assert [entry["request"]["url"] for entry in entries if "favicon" not in entry["request"]["url"]] == [url]


@pytest.mark.slow
async def test_a_proxy_is_used(pages: PageServer) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        body = b"<title>from the proxy</title>"
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        writer.write(body)
        await writer.drain()
        writer.close()

    proxy = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    assert await ask("document.title", start_url="http://far.test/x", proxy=address) == "from the proxy"
    assert {line.split(b"/")[2] for line in asked} == {b"far.test"}
    asked.clear()
    assert await ask("new Promise(done => setTimeout(done, 3000, 'quiet'))", proxy=address) == "quiet"
    assert asked == []  # the browser asks nobody on its own account
    with pytest.raises(EnvSetupError, match="outside of the allowed domains"):
        await ask("1", start_url="http://far.test/x", proxy=address, allowed_domains=("near.test",))
    proxy.close()


SECRET = "tr0ub4dor & 3"
SECRETS = f"""<style>body > * {{ display: block; margin: 20px; font: 20px monospace }}</style>
<input id=shown value="{SECRET}"> <input id=dots type=password value="{SECRET}">
<p id=text>The word is {SECRET}, they say.</p> <p id=split>{SECRET[:4]}<b>{SECRET[4:]}</b></p>
<p id=plain>nothing here</p> <iframe id=frame style="border:3px solid;width:400px;height:60px"
 srcdoc="<p style='margin:9px;font:20px monospace'>{SECRET}"></iframe>
<div id=host></div><script>host.attachShadow({{mode: 'open'}}).innerHTML = '<p>{SECRET}</p>'</script>"""


def count_black(image: Image.Image) -> int:
    return int((np.asarray(image) == 0).all(axis=2).sum())


@pytest.mark.slow
async def test_secrets_are_in_no_picture_and_no_text(pages: PageServer) -> None:
    url = pages.serve(SECRETS, title=SECRET)
    plain, masked = (
        BrowserEnv(BrowserOptions(start_url=url)),
        BrowserEnv(BrowserOptions(start_url=url, masked_texts=(SECRET,))),
    )
    try:
        before, after = picture(await plain.reset(TASK)), await masked.reset(TASK)
        assert after.title == "***"
        for selector in ("shown", "text", "split", "frame", "host", "dots", "plain"):
            box = await masked.page.evaluate(
                f"(box => [box.left, box.top, box.right, box.bottom])({selector}.getBoundingClientRect())"
            )
            crop = tuple(round(side) for side in box)
            black = count_black(picture(after).crop(crop))
            usual = count_black(before.crop(crop))
            assert (selector, black > usual + 1500) == (selector, selector not in ("dots", "plain"))
        observation = await do(masked, Hotkey(keys=("ctrl", "l")), TypeText(text=f"{url}?q={SECRET}\n"))
        assert observation.url == f"{url}?q=***"
        assert SECRET not in repr(observation)
        await do(masked, Hotkey(keys=("ctrl", "l")), TypeText(text=SECRET))
        assert SECRET not in repr((await masked.step([])).observation)
        assert SECRET not in (await masked.describe_point(300, 20) or "")
    finally:
        await plain.close()
        await masked.close()


@pytest.mark.long
async def test_the_pointer_is_drawn_when_asked_for(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(""), draw_pointer=True))
    try:
        await env.reset(TASK)
        observation = await do(env, Move(x_px=100, y_px=50))
        assert picture(observation).getpixel((102, 56)) == (0, 0, 0)
        assert picture(observation).getpixel((90, 45)) == (255, 255, 255)
    finally:
        await env.close()


async def test_scroll_bars_are_shown(pages: PageServer) -> None:
    assert (
        await ask(
            "innerWidth - document.documentElement.clientWidth", start_url=pages.serve("<p style='height:9999px'>")
        )
        > 5
    )


async def test_with_a_window(pages: PageServer) -> None:
    if not os.environ.get("DISPLAY") or find_browser(headless=False) is None:
        with pytest.raises(EnvSetupError, match=r"display|window"):
            await ask("1", start_url=pages.serve(""), headless=False)
        return
    assert await ask("innerWidth", start_url=pages.serve(""), headless=False) == 1280


@pytest.mark.slow
async def test_nothing_grows_over_many_steps(pages: PageServer) -> None:
    body = "<button id=go onclick=\"fetch('/json'); out.textContent = Math.random()\">go</button><p id=out></p>"
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(body)))
    try:
        await env.reset(TASK)
        await click(env, "#go")
        await until(lambda: asyncio.sleep(0.2, True))
        before = len(asyncio.all_tasks())
        for _ in range(60):
            await env.step([Click(x_px=12, y_px=12)])
        await asyncio.sleep(0.2)
        episode = env._episode
        assert episode is not None
        assert len(asyncio.all_tasks()) <= before + 1
        assert (episode.session.interrupts.stranded, episode.session.interrupts._flags) == (set(), set())
        assert len(episode.session.traffic._flights) <= 1
        assert len(episode.session.camera._sessions) == 1
    finally:
        await env.close()
