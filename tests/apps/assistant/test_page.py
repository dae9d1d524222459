"""The whole assistant in a real Chromium, as a person uses it: one app and one browser for all tests here."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from apps.demo import DemoApp
from cua.models.scripted import ScriptedModel
from examples import assistant_client
from tests.apps.assistant.running import STATUS, Person, RunningAssistant
from tests.fake_openai import FakeOpenAI, raw

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def test_two_clicks_from_the_first_start_to_a_verified_end(person: Person) -> None:
    page = person.page
    await person.press("Try the practice task")
    pictures = set()
    card = page.get_by_role("alertdialog", name="The agent asks")
    asked = []
    until = time.monotonic() + 120
    while "succeeded" not in (text := await page.evaluate(STATUS)):
        assert time.monotonic() < until, text
        pictures.add(await page.locator("assistant-screen").get_attribute("data-frames"))
        if await card.count():
            asked.append(await card.locator(".target").text_content())
            crop = card.get_by_role("img")
            assert await crop.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
            await card.get_by_role("button", name="Allow once").click()
            await card.wait_for(state="detached")
        await asyncio.sleep(0.05)
    assert asked == ['It lands on: button "Delete"']  # its own dialog asks about the same, which is allowed by then
    assert len(pictures) > 5
    result = page.get_by_role("article", name="Result")
    assert "373.40" in (await result.text_content())
    assert await page.locator("article.step").count() == 12
    step = page.get_by_role("article", name="Step 7", exact=True)
    await step.locator("summary").first.click()
    await step.get_by_text("Code").click()
    assert "pyautogui.click" in await step.locator("pre").text_content()


async def test_pause_take_over_hand_back_deny_and_stop(person: Person) -> None:
    page = person.page
    await person.say('Type "abc" into Description. Type 7.50 into Amount. Click Delete in the row of "Old taxi".')
    await person.status("Working · step")
    await person.press("Pause")
    await person.status("Paused")
    await person.press("Resume")
    await person.status("Working|Waiting")
    await person.press("Take over")
    await person.status("You have the screen")
    stage = page.locator("assistant-screen .stage")
    box = await page.locator("assistant-screen .stage img.live").bounding_box()
    scale = box["width"] / 1280
    top = box["y"] + (box["height"] - 720 * scale) / 2
    await page.mouse.click(box["x"] + 345 * scale, top + 27 * scale)
    await page.locator("assistant-screen .place", has_text="/summary").wait_for()
    await page.get_by_label("Text to type into the screen").fill("hello")
    await page.get_by_role("button", name="Type", exact=True).click()
    await page.wait_for_function("!document.querySelector('assistant-screen').queue.length")
    assert await stage.get_attribute("role") == "application"
    await person.press("Hand back")
    await page.get_by_text("You handed back").wait_for()
    started = time.monotonic()
    await person.press("Stop")
    await person.status("stopped", 5)
    assert time.monotonic() - started < 2.0  # the whole way through page and test
    (run,) = await person.api("GET", "/runs", params={"limit": 1})
    strip = await person.api("GET", f"/runs/{run['id']}")
    assert run["status"] == "stopped" and strip["steps"]
    record = (person.app.runs / run["id"] / "trajectory.jsonl").read_text()
    assert "a person worked on the screen" in record and "hello" not in record


async def test_what_is_denied_is_not_done(person: Person) -> None:
    await person.say('Click Delete in the row of "Old taxi".')
    await person.page.get_by_role("button", name="Deny").click(timeout=60_000)
    await person.page.get_by_text("You denied it").wait_for()
    await person.stop()
    (run,) = await person.api("GET", "/runs", params={"limit": 1})
    assert "the person at the screen said no" in (person.app.runs / run["id"] / "trajectory.jsonl").read_text()


async def test_a_reload_in_mid_run_and_two_sessions(person: Person) -> None:
    page = person.page
    await person.say('Click Delete in the row of "Old taxi".')
    await person.status("Waiting for your answer")
    await page.reload()
    await person.status("Waiting for your answer")
    assert await page.locator("article.step").count() >= 1
    await person.go("New")
    await person.status("Ready")
    await person.say('Click "Summary". Tell me the Total.')
    await person.status("unverified|failed|succeeded", 90)
    assert await page.locator(".session").count() == 2
    await person.open_session("Delete")
    await person.status("Waiting for your answer")
    second = await page.context.new_page()
    await second.goto(f"{person.app.base}/")  # another tab finds what goes on
    await second.get_by_role("alertdialog", name="The agent asks").wait_for()
    await second.close()
    await person.stop()


async def test_history_opens_replays_exports_runs_again_and_deletes(person: Person) -> None:
    page = person.page
    await person.say('Click "Summary". Tell me the Total.')
    await person.status("unverified|failed|succeeded", 90)
    (run,) = await person.api("GET", "/runs", params={"limit": 1})
    await person.go("History")
    await page.get_by_label("Search").fill("summary total")
    await page.get_by_role("button", name="Open ").first.click()
    picture = page.locator(".run .step-view img").first
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1280
    async with httpx.AsyncClient(base_url=person.app.base, headers=person.app.bearer, timeout=60) as web:
        for kind, begins in (
            ("report", b"<!doctype"),
            ("osworld", b"PK"),
            ("atif", b"PK"),
            ("record", b"PK"),
            ("gif", b"GIF8"),
        ):
            answer = await web.get(f"/api/runs/{run['id']}/export/{kind}")
            assert answer.content[: len(begins)].lower() == begins.lower(), kind
            assert answer.headers["content-disposition"].startswith("attachment")
        assert (await web.get("/api/runs/..%2F..%2Fetc/export/report")).status_code in (400, 404)
    await page.get_by_role("button", name="Run again").click()
    await person.status("Working|Starting|unverified", 30)
    await person.stop()
    await person.api("DELETE", f"/runs/{run['id']}")
    assert run["id"] not in {row["id"] for row in await person.api("GET", "/runs")}


async def test_a_model_server_that_dies_is_told_in_words(person: Person) -> None:
    with FakeOpenAI(ScriptedModel([]), model_id="dying") as server, DemoApp() as demo:
        server.next(*[raw(b"", code=500) for _ in range(9)])
        settings = {"model": "dying", "base_url": server.base_url, "max_retries": 1}
        order = {"instruction": "Go", "place": "web", "url": demo.url, "settings": settings}
        session = await person.api("POST", "/sessions", json=order)
        await person.page.goto(f"{person.app.base}/?session={session['id']}")
        await person.status("error", 60)
        assert "500" in await person.page.get_by_role("article", name="Result").text_content()


async def test_upload_and_ask_about_a_picture(person: Person, tmp_path: Path) -> None:
    from PIL import Image

    picture = tmp_path / "red.png"
    Image.new("RGB", (80, 60), (200, 0, 0)).save(picture)
    page = person.page
    with FakeOpenAI(ScriptedModel(["It is red."]), model_id="seer") as server:
        for name, value in (("base_url", server.base_url), ("model", "seer")):
            await person.api("PUT", f"/settings/{name}", json={"value": value})
        await person.choose("Mode", "agent")
        await page.locator("assistant-composer input[type=file]").set_input_files(picture)
        await page.locator("assistant-composer .file:not(.is-loading) img").first.wait_for()
        await person.say("What colour is it?")
        await person.status("unverified", 90)
        assert "It is red." in await page.get_by_role("article", name="Result").text_content()
        assert "red.png" in str(server.requests[0].body)
        for name in ("base_url", "model"):
            await person.api("PUT", f"/settings/{name}", json={"value": ""})


def act(code: str, action: str) -> str:
    return f"## Action:\n{action}\n## Code:\n```python\n{code}\n```"


STEPS = (
    ("pyautogui.click(0.921, 0.267)", "Delete the old taxi"),
    ("time.sleep(0.2)", "Wait for the dialog"),
    ('pyautogui.press("enter")', "Confirm"),
    ("pyautogui.click(0.27, 0.0375)", "Open the summary"),
    ('computer.terminate(status="success", answer="It is **373.40 EUR**.\\n\\n- one\\n- two")', "Answer"),
    ('computer.terminate(status="success", answer="The same page.")', "Look again"),
)


async def test_the_way_of_a_new_person(person: Person) -> None:
    """Start, practice, connect, run, approve, continue, look back: all that is pressed is in sight, nothing scrolls."""
    page = person.page

    async def press(selector: str) -> None:
        assert await person.look_for(selector) == []
        await page.locator(selector).locator("visible=true").first.click()

    await press(".start .primary")
    await page.locator(".ask").wait_for(timeout=90_000)
    assert await page.locator(".ask h3").text_content() == 'Delete the expense "Old taxi"?'
    await press(".answers .primary")
    await person.status("Done, checked", 120)
    with FakeOpenAI(ScriptedModel([act(*step) for step in STEPS]), model_id="seer") as server, DemoApp() as demo:
        await press(".entry[data-page=settings]")
        for selector, text in (("#connect-url input", server.base_url), ("#connect-model input", "seer")):
            assert await person.look_for(selector) == []
            await page.locator(selector).fill(text)
        await person.api("PUT", "/settings/base_url", json={"value": server.base_url})  # the test takes replies
        await person.api("PUT", "/settings/model", json={"value": "seer"})
        await press(".entry.new")
        await person.choose("Start at", "web")
        await page.get_by_label("Address", exact=True).fill(demo.url)
        await person.say("Delete the old taxi, then read the total.")
        await page.locator(".ask").wait_for(timeout=60_000)
        await page.locator(".ask").press("x")
        await asyncio.sleep(0.8)
        await page.evaluate("document.activeElement.blur()")  # the keys of a question work wherever nothing is typed
        await page.keyboard.press("a")
        await person.status("Done, not checked", 60)
        assert await person.look_for(".answer strong", ".answer li:last-child", ".composer textarea") == []
        assert await page.locator("assistant-composer").get_by_label("Start at").input_value() == "here"
        await page.reload()
        await person.status("Done, not checked")
        assert await page.locator("assistant-composer").get_by_label("Start at").input_value() == "here"
        await person.say("And now?")
        await page.get_by_text("The same page.", exact=True).wait_for()
        assert await person.look_for(".card.result:last-of-type .answer") == []
        session = (await person.api("GET", "/sessions"))[0]
        view = await person.api("GET", f"/sessions/{session['id']}")
        assert view["url"] == f"{demo.url.rstrip('/')}/summary" and view["can_continue"]
        for name in ("base_url", "model"):
            await person.api("PUT", f"/settings/{name}", json={"value": ""})
    await press(".film .cell:last-child")
    await page.locator(".stage img.past").evaluate("image => image.decode()")
    assert await person.look_for(".stage img.past", ".live-again") == []
    await press(".live-again")
    await press(".entry[data-page=history]")
    await press(".grid .run-card")
    await page.locator(".run h2").wait_for()
    assert await person.look_for(".run h2", ".run .answers .primary") == []
    scrolled = "[...document.querySelectorAll('html, body, gradio-app, assistant-history')].map((one) => one.scrollTop)"
    assert set(await page.evaluate(scrolled)) == {0}


async def test_the_feed_follows_until_a_person_scrolls_up(person: Person) -> None:
    page = person.page
    replies = (act("time.sleep(0.05)", f"Wait {number}") for number in range(10_000))
    with FakeOpenAI(ScriptedModel(replies), model_id="patient") as server:
        settings = {
            "model": "patient",
            "base_url": server.base_url,
            "approve": "yolo",
            "max_steps": 1000,
            "max_time": 300,
        }
        order = {
            "instruction": "Wait",
            "place": "web",
            "url": "data:text/html,<script>setInterval(() => document.body.append(Date.now()), 20)</script>",
        }
        session = await person.api("POST", "/sessions", json={**order, "settings": settings})
        await page.goto(f"{person.app.base}/?session={session['id']}")
        await person.status("step [3-9]\\d", 120)
        left = "(one) => one.scrollHeight - one.scrollTop - one.clientHeight"
        log = page.locator("assistant-feed .log")
        assert await log.evaluate(left) < 5
        await log.hover()
        await page.mouse.wheel(0, -2000)
        await page.locator(".below").wait_for()
        assert await log.evaluate(left) > 100
        await person.say("Go on")
        await page.wait_for_function("document.querySelector('.below').hidden")
        assert await log.evaluate(left) < 5
        await person.stop()


async def test_phone_width_keyboard_and_names(person: Person) -> None:
    page = person.page
    await page.set_viewport_size({"width": 390, "height": 844})
    await person.open()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 391
    unnamed = await page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, select, img')]
        .filter((one) => one.offsetParent && !(one.labels?.length || one.getAttribute('aria-label') || one.title
          || one.textContent.trim() || one.hasAttribute('alt') || one.placeholder)).map((one) => one.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    for _ in range(40):
        await page.keyboard.press("Tab")
        reached.add(await page.evaluate("(document.activeElement.textContent || '').trim().slice(0, 30)"))
    assert {"Try the practice task", "Open the form", "Read a total"} <= reached


async def test_the_example_client_works_through_the_api(app: RunningAssistant) -> None:
    ended = await asyncio.to_thread(assistant_client.run, app.address, "Click Summary. Tell me the Total.")
    assert ended["result"]["status"] == "unverified" and "347.90" in ended["result"]["answer"]
