"""The page in a real Chromium: what hostile text does there (nothing), and what keys do."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.messages import Reply
from cua.run.end import End
from cua.step import Turn
from cua.trajectory import RunHeader, TrajectoryWriter
from cua.trajectory.report import write_report
from envs import Click, Dialog, Drag, ScreenGeometry, Tab, TypeText
from tests.cua.trajectory import samples

pytestmark = pytest.mark.browser

OUTSIDE = "http://127.0.0.1:9"
ATTACKS = (
    "<script>window.hacked = 1; fetch('http://127.0.0.1:9/a')</script>",
    '<img src=http://127.0.0.1:9/b.png onerror="window.hacked = 2">',
    '"><svg onload="window.hacked = 3">',
    "</title></style></script><script>window.hacked = 4</script>",
    "' onmouseover='window.hacked = 5' x='",
    "{{ 7 * 7 }}{% for x in y %}",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/c'>",
    "<base href=http://127.0.0.1:9/><link rel=stylesheet href=http://127.0.0.1:9/d.css>",
    "\u202eevil\u0000\x1b[31m",
)


@pytest.fixture
async def page() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    from envs.browser.launch import find_browser

    binary = find_browser()
    if binary is None:
        pytest.skip("no Chromium on this machine; `cua setup` gets one")
    async with async_playwright() as playwright:
        args = ["--no-sandbox"]
        browser = await playwright.chromium.launch(executable_path=binary.path, args=args)
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        yield page
        await browser.close()


def hostile_run(runs_dir: Path, text: str) -> Path:
    said = {text: [text, {text: text}]}
    observation = samples.make_observation(
        1,
        url="javascript:window.hacked=6//" + text,
        title=text,
        tabs=(Tab(title=text, url=text, is_active=True), Tab(title="", url=text, is_active=False)),
        dialog=Dialog(kind="prompt", message=text, default_text=text),
        last_action_error=text,
        notes=(text,),
    )
    step = samples.make_step(
        1,
        observation=observation,
        reply=Reply(content=text, reasoning=text),
        turn=Turn(thought=text, action_text=text, code=text),
        actions=(TypeText(text=text), Click(x_px=10, y_px=10)),
        error=text,
        timings={text: 1.0, "model": 1.0},
    )
    header = RunHeader(
        instruction=text, env=text, model=text, env_options=said, protocol=said, settings=said, versions={text: text}
    )
    with TrajectoryWriter.create(runs_dir, header, is_durable=False) as writer:
        writer.observed(1, step.observation)
        writer.replied(1, replace(step.reply, content="first " + text))
        writer.note("parse_error", text, raw=text, deep=said)
        writer.note(text, text)
        samples.write_step(writer, step)
        writer.observed(2, observation)
        writer.replied(2, step.reply)
        writer.ended(replace(samples.ENDED, end=End(status="failed", reason=text, answer=text)))
    return writer.run_dir


class Trap:
    """A server on the loopback that counts who calls."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.origin = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_calls += 1
        writer.close()


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    trap = Trap()
    server = await asyncio.start_server(trap.answer, "127.0.0.1", 0)
    trap.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield trap
    server.close()


@pytest.mark.long
async def test_hostile_text_is_only_text(tmp_path: Path, page: Any, trap: Trap) -> None:
    hostile = "".join(ATTACKS).replace(OUTSIDE, trap.origin)
    requests: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    address = write_report(hostile_run(tmp_path, hostile)).as_uri()
    await page.goto(address, wait_until="networkidle")
    await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    for key in ("j", "Enter", "ArrowLeft", "m", "Escape"):
        await page.keyboard.press(key)
    await page.hover("article h2")
    assert await page.evaluate("window.hacked") is None
    assert [url for url in requests if not url.startswith("data:")] == [address]
    assert problems == []
    assert trap.num_calls == 0
    assert (await page.title()).startswith("failed: <script>window.hacked = 1; fetch(")
    assert await page.locator("h2").first.text_content() == hostile.replace("\0", "").strip()  # HTML holds no NUL
    assert await page.locator("script").count() == 1
    assert await page.locator("iframe, object, embed, form, base, link:not([rel=icon])").count() == 0


@pytest.mark.parametrize("is_guarded", [True, False])
@pytest.mark.long
async def test_a_script_that_got_in_would_still_not_run(
    tmp_path: Path, page: Any, trap: Trap, is_guarded: bool
) -> None:
    path = write_report(samples.write_run(tmp_path))
    attack = f"<script>window.hacked = 1</script><img src={trap.origin}/x.png onerror='window.hacked = 2'>"
    text = path.read_text().replace("<footer>", attack + "<footer>")
    path.write_text(text if is_guarded else text.replace("Content-Security-Policy", "none"))
    await page.goto(path.as_uri(), wait_until="networkidle")
    assert await page.evaluate("window.hacked || 0") == (0 if is_guarded else 2)
    assert (trap.num_calls > 0) is not is_guarded


@pytest.mark.long
async def test_keys_walk_through_the_steps(tmp_path: Path, page: Any) -> None:
    await page.goto(write_report(samples.write_run(tmp_path, 6)).as_uri())

    async def now() -> str:
        return str(
            await page.evaluate("[...document.querySelectorAll('.now')].map((one) => one.id || one.hash).join()")
        )

    assert await now() == "#step-1,step-1"
    for key, step in (("j", 2), ("ArrowRight", 3), ("k", 2), ("End", 6), ("j", 6), ("Home", 1), ("ArrowLeft", 1)):
        await page.keyboard.press(key)
        assert await now() == f"#step-{step},step-{step}", key
        box = await page.locator(f"#step-{step}").bounding_box()
        film = await page.locator(".film").bounding_box()
        at_end = await page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
        assert at_end or abs(box["y"] - (film["y"] + film["height"])) < 40, key
    await page.keyboard.press("Enter")
    assert await page.locator("dialog.zoom[open] img").count() == 1
    await page.keyboard.press("j")
    assert await page.locator("dialog.zoom p").text_content() == "2Act 2"
    await page.keyboard.press("Escape")
    assert await page.locator("dialog.zoom[open]").count() == 0
    await page.locator("#step-3 figure").click()
    assert await now() == "#step-3,step-3" and await page.locator("dialog.zoom[open]").count() == 1
    await page.keyboard.press("Enter")
    await page.locator(".frame").nth(4).click()
    assert await now() == "#step-5,step-5" and page.url.endswith("#step-5")


@pytest.mark.parametrize(("width", "scale"), [(1400, 1), (390, 3), (800, 1.5)])
@pytest.mark.long
async def test_markers_fall_on_the_point_at_any_size(tmp_path: Path, page: Any, width: int, scale: float) -> None:
    geometry = ScreenGeometry(native_px=(640, 400), sent_px=(320, 200), offset_px=(1000, 100))
    step = samples.make_step(
        1,
        observation=samples.make_observation(1, geometry=geometry, pointer_px=(1160, 200)),
        actions=(Click(x_px=1320, y_px=200), Drag(x_px=1480, y_px=400)),
    )
    with TrajectoryWriter.create(tmp_path, samples.HEADER, is_durable=False) as writer:
        samples.write_step(writer, step)
    context = await page.context.browser.new_context(
        viewport={"width": width, "height": 900}, device_scale_factor=scale
    )
    small = await context.new_page()
    await small.goto(write_report(writer.run_dir).as_uri())
    places = await small.evaluate(
        """() => {
            const picture = document.querySelector("figure img").getBoundingClientRect();
            const share = (x, y) => [(x - picture.x) / picture.width, (y - picture.y) / picture.height];
            const middle = (one) => {
                const box = one.getBoundingClientRect();
                return share(box.x + box.width / 2, box.y + box.height / 2);
            };
            const line = document.querySelector(".drag line:not(.halo)").getBoundingClientRect();
            const click = middle(document.querySelector(".mark.click > .core"));
            return [...click, ...share(line.left, line.top), ...share(line.right, line.bottom)];
        }"""
    )
    assert places == pytest.approx([0.5, 0.25, 0.5, 0.25, 0.75, 0.75], abs=0.02)
    overflow = await small.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    await context.close()
