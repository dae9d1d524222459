"""What lives on and what ends: a closed tab, a closed app, a person at the screen, a desktop, a long run."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from cua.models.scripted import ScriptedModel
from tests.apps.assistant.running import Person, RunningAssistant, until
from tests.envs.browser.pages import PageServer
from tests.fake_openai import FakeOpenAI

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HAS_DESKTOP = all(shutil.which(name) for name in ("Xvfb", "openbox", "xterm"))
LISTENING = """<input id=i style="position:absolute;left:40px;top:40px;width:300px;height:40px">
<div style="height:4000px"></div><script>
const told = [];
const tell = (what) => { told.push(what); fetch('/upload', { method: 'POST', body: JSON.stringify(told) }); };
addEventListener('click', (event) => tell(['click', event.clientX, event.clientY, event.target.tagName]));
addEventListener('wheel', (event) => tell(['wheel', Math.sign(event.deltaY)]));
let from = null;
addEventListener('mousedown', (event) => { from = [event.clientX, event.clientY]; });
addEventListener('mouseup', (event) => {
  const to = [event.clientX, event.clientY];
  if (Math.hypot(to[0] - from[0], to[1] - from[1]) > 20) tell(['drag', ...from, ...to]);
});
document.querySelector('#i').addEventListener('input', (event) => tell(['text', event.target.value]));
</script>"""


WHILE_A_FRAME_COMES = """async ([x, y]) => {
  const screen = document.querySelector('assistant-screen'), event = { clientX: x, clientY: y };
  const canvas = Object.assign(document.createElement('canvas'), { width: 1280, height: 720 });
  const frame = await new Promise((done) => canvas.toBlob(done));
  const before = screen.point(event);
  screen.show(frame);
  await Promise.resolve();
  return [before, screen.point(event)];
}"""


def programs_of(app: RunningAssistant) -> set[str]:
    """Names of the processes below the app."""
    return {one.name() for one in psutil.Process(app.process.pid).children(recursive=True)}


def waiting() -> Iterator[str]:
    """Replies of an agent that only waits, for ever."""
    return iter(lambda: "## Action:\nWait\n## Code:\n```python\ntime.sleep(0.2)\n```", "")


def clicking() -> Iterator[str]:
    """Replies of an agent that goes on and on."""
    number = 0
    while True:
        number += 1
        yield f"## Action:\nClick {number}\n## Code:\n```python\npyautogui.click(0.{number % 80 + 10}, 0.6)\n```"


def order(server: FakeOpenAI, model: str, **more: Any) -> dict[str, Any]:
    """A run with a served model."""
    settings = {"model": model, "base_url": server.base_url, "approve": "yolo", "max_steps": 1000}
    return {"instruction": "Go on", "place": "web", "settings": settings, **more}


async def test_what_a_person_does_on_the_image_arrives_where_they_point(person: Person) -> None:
    page = person.page
    with FakeOpenAI(ScriptedModel(waiting()), model_id="patient") as server:
        pages = PageServer()
        session = await person.api("POST", "/sessions", json=order(server, "patient", url=pages.serve(LISTENING)))
        await page.goto(f"{person.app.base}/?session={session['id']}")
        await person.status("Working · step")
        await person.press("Take over")
        await person.status("You have the screen")
        await page.wait_for_function("document.querySelector('assistant-screen img.live').naturalWidth === 1280")
        box = await page.locator("assistant-screen .stage").bounding_box()
        scale = min(box["width"] / 1280, box["height"] / 720)
        left = box["x"] + (box["width"] - 1280 * scale) / 2
        top = box["y"] + (box["height"] - 720 * scale) / 2

        def heard(kind: str) -> list[Any]:
            """The last event of a kind."""
            newest = max(pages.uploads, key=len, default=b"[]")  # each has all events so far
            found = [one for one in json.loads(newest) if one[0] == kind]
            return found[-1] if found else []

        async def told(kind: str) -> list[Any]:
            arrived: list[Any] = await until(lambda: heard(kind))
            return arrived

        await page.mouse.click(left + 100 * scale, top + 60 * scale)
        clicked = await told("click")
        assert abs(clicked[1] - 100) <= 2 and abs(clicked[2] - 60) <= 2 and clicked[3] == "INPUT"
        await page.keyboard.type("Hello 7,")
        await page.get_by_label("Text to type into the screen").fill(" Grüße")
        await page.get_by_role("button", name="Type", exact=True).click()
        await until(lambda: heard("text") == ["text", "Hello 7, Grüße"])
        await page.mouse.move(left + 600 * scale, top + 300 * scale)
        await page.mouse.wheel(0, 300)
        assert (await told("wheel"))[1] == 1
        await page.mouse.down()
        await page.mouse.move(left + 700 * scale, top + 350 * scale, steps=4)
        await page.mouse.move(left + 800 * scale, top + 400 * scale, steps=4)
        await page.mouse.up()
        dragged = await told("drag")
        assert dragged[1:] == pytest.approx([600, 300, 800, 400], abs=3)
        points = await page.evaluate(WHILE_A_FRAME_COMES, [left + 320 * scale, top + 180 * scale])
        assert points == [pytest.approx({"x": 0.25, "y": 0.25}, abs=0.005)] * 2
        await person.press("Hand back")
        await person.status("Working")
        await person.stop()
        run = (await person.api("GET", "/runs", params={"limit": 1}))[0]
        record = (person.app.runs / run["id"] / "trajectory.jsonl").read_text()
        assert "a person worked on the screen" in record and "Grüße" not in record
        pages.close()


async def test_a_closed_tab_ends_nothing(person: Person) -> None:
    with FakeOpenAI(ScriptedModel(waiting()), model_id="patient") as server:
        begun = await person.api("POST", "/sessions", json=order(server, "patient", url="data:text/html,<h1>Here"))
        await person.page.goto(f"{person.app.base}/?session={begun['id']}")
        await person.status("Working · step")
        other = await person.page.context.new_page()
        await person.page.close()
        before = await person.step_of(begun["id"])
        while await person.step_of(begun["id"]) < before + 3:
            await asyncio.sleep(0.05)
        person.page = other
        await other.goto(f"{person.app.base}/")
        await person.status("Working · step")
        await other.wait_for_function("document.querySelector('assistant-screen img.live').naturalWidth === 1280")
        await person.stop()


@pytest.mark.skipif("CI" not in os.environ and not HAS_DESKTOP, reason="needs Xvfb, openbox and xterm")
async def test_a_private_desktop_from_the_page(person: Person) -> None:
    page = person.page
    with FakeOpenAI(ScriptedModel(waiting()), model_id="patient") as server:
        for name, value in (("base_url", server.base_url), ("model", "patient"), ("screen", "1280x720")):
            await person.api("PUT", f"/settings/{name}", json={"value": value})
        await person.choose("Start at", "desktop")
        await page.get_by_label("Program").fill("xterm")
        await person.say("Wait")
        await person.status("Working · step")
        await person.press("Take over")
        await person.status("You have the screen")
        await page.wait_for_function("document.querySelector('assistant-screen img.live').naturalWidth === 1280")
        assert {"Xvfb", "xterm", "openbox"} <= programs_of(person.app)
        before = int(await page.locator("assistant-screen").get_attribute("data-frames"))
        target = person.app.home / "typed.txt"
        await page.get_by_label("Text to type into the screen").fill(f"echo hello > {target}")
        await page.get_by_role("button", name="Type", exact=True).click()
        await page.get_by_role("button", name="Type", exact=True).click()  # an empty one is Enter
        await until(lambda: target.exists() and target.read_text() == "hello\n")
        shown = f"Number(document.querySelector('assistant-screen').dataset.frames) > {before}"
        await page.wait_for_function(shown)
        await person.stop()
        await page.get_by_role("button", name="Close Wait").click()  # the desktop stays until its session is closed
        await page.locator(".session").wait_for(state="detached")
        for name in ("base_url", "model", "screen"):
            await person.api("PUT", f"/settings/{name}", json={"value": ""})
    await until(lambda: not {"Xvfb", "xterm", "openbox"} & programs_of(person.app))


async def test_the_memory_of_300_steps_is_flat(person: Person) -> None:
    def memory_mb() -> float:
        return psutil.Process(person.app.process.pid).memory_full_info().pss / 2**20

    with FakeOpenAI(ScriptedModel(clicking()), model_id="busy") as server:
        begun = await person.api("POST", "/sessions", json=order(server, "busy", url="data:text/html,<h1>Here"))
        await person.page.goto(f"{person.app.base}/?session={begun['id']}")
        sizes = []
        for mark in (100, 300):
            while await person.step_of(begun["id"]) < mark:
                await asyncio.sleep(0.2)
            sizes.append(memory_mb())
        assert sizes[1] - sizes[0] < 30, sizes
        assert await person.page.locator("assistant-feed .log > *").count() <= 300
        await person.status(r"step ([3-9]\d\d|\d{4})", 300)  # the page may be behind the run, and jump
        await person.stop()


async def test_the_app_ends_cleanly_and_runs_go_on_in_the_next_one() -> None:
    async def view_in(web: httpx.AsyncClient, session: str, *phases: str) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            view: dict[str, Any] = (await web.get(f"/api/sessions/{session}")).json()
            return view if view["phase"] in phases else None

        found: dict[str, Any] = await until(look)
        return found

    def end(app: RunningAssistant, how: signal.Signals) -> list[str]:
        below = psutil.Process(app.process.pid).children(recursive=True)
        names = [one.name() for one in below]
        app.process.send_signal(how)
        app.process.wait(60)
        _, left = psutil.wait_procs(below, 20)
        assert [one.name() for one in left if one.status() != psutil.STATUS_ZOMBIE] == []
        assert app.process.returncode == 0 and "Traceback" not in app.log.read_text()
        return names

    pages = PageServer()
    with RunningAssistant() as first:
        assert first.log.read_text().startswith("Starting the assistant")
        async with httpx.AsyncClient(base_url=first.base, headers=first.bearer, timeout=60) as web:
            practice = (await web.post("/api/sessions", json={"instruction": "Click Delete."})).json()
            where = {"place": "web", "url": pages.serve("<h1>Files</h1><button>Delete</button>")}
            words = {"instruction": "Click Delete.", **where}
            begun = (await web.post("/api/sessions", json=words)).json()
            run_id = (await view_in(web, begun["id"], "asking"))["run_id"]
            practice_id = (await view_in(web, practice["id"], "asking", "ended"))["run_id"]
        names = await asyncio.to_thread(end, first, signal.SIGTERM)
        assert any("chrom" in name or "headless" in name for name in names)
        assert '"stopped"' in (first.runs / run_id / "trajectory.jsonl").read_text()
        kept = {"K25_RUNS_DIR": str(first.runs)}
        with (
            RunningAssistant(environment=kept) as second,
            FakeOpenAI(ScriptedModel(waiting()), model_id="patient") as server,
        ):
            async with httpx.AsyncClient(base_url=second.base, headers=second.bearer, timeout=60) as web:
                refused = await web.post(f"/api/runs/{practice_id}/resume")
                assert refused.status_code == 400 and "Run it again" in refused.json()["error"]
                resumed = (await web.post(f"/api/runs/{run_id}/resume")).json()
                view = await view_in(web, resumed["id"], "asking", "ended")
                assert (view["phase"], view["run_id"]) == ("asking", run_id)
                if HAS_DESKTOP:
                    desktop = order(server, "patient", place="desktop", app="xterm")
                    begun = (await web.post("/api/sessions", json=desktop)).json()
                    while (await view_in(web, begun["id"], "working"))["step"] < 1:
                        await asyncio.sleep(0.05)
            names = await asyncio.to_thread(end, second, signal.SIGINT)
            assert not HAS_DESKTOP or "Xvfb" in names
    pages.close()
