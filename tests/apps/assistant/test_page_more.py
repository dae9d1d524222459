"""Use of the app in a real Chromium: secrets, an endpoint, saved tasks, resumed runs, notifications, swarms."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from apps.demo import DemoApp
from cua.models.scripted import ScriptedModel
from cua.trajectory import load_run
from tests.apps.assistant.running import Person
from tests.fake_openai import FakeOpenAI

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def test_a_secret_is_typed_and_never_seen(person: Person) -> None:
    page = person.page
    await person.go("Settings")
    await page.locator("#secret-name input, #secret-name textarea").first.fill("trip_words")
    await page.locator("#secret-value input").fill("velvet-otter-77")
    await page.locator("#secret-save").click()
    await page.get_by_text("trip_words: everywhere").wait_for()
    assert "velvet-otter-77" not in await page.content()
    await person.go("New")
    await person.say("Type {{trip_words}} into Description.")
    await page.get_by_role("button", name="Allow once").click(timeout=60_000)  # a secret is never typed unasked
    await person.status("unverified|failed|succeeded", 90)
    (run,) = await person.api("GET", "/runs", params={"limit": 1})
    record = (person.app.runs / run["id"] / "trajectory.jsonl").read_text()
    assert "{{trip_words}}" in record
    assert "velvet-otter-77" not in record + await page.content() + person.app.log.read_text(errors="replace")
    assert await person.api("GET", "/secrets") == [{"name": "trip_words", "domains": []}]
    assert await person.api("PUT", "/secrets/trip_words", json={"value": ""}) == []


async def test_a_wrong_setting_is_refused_at_its_field(person: Person) -> None:
    page = person.page
    await person.go("Settings")
    await page.locator("#connect-url input").fill("ftp://x")
    await person.press("Test and save")
    await page.locator("#verdict .is-bad").get_by_text("The endpoint 'ftp://x' is not a web address.").wait_for()
    await page.locator("#connect-url input").fill("http://127.0.0.1:9/v1")
    await person.press("Test and save")
    await page.locator("#verdict .is-bad").get_by_text("nothing answers there").wait_for()
    await person.press("Disconnect")
    await page.get_by_role("button", name="All settings").click()
    await page.get_by_label("Setting", exact=True).click()
    await page.get_by_role("option", name="Size of the browser").click()
    await page.locator("#about-setting").get_by_text("Width and height").wait_for()
    field, outcome = page.locator("#value input"), page.locator("#about-setting .verdict")
    await field.fill("big")
    await person.press("Save")
    await outcome.get_by_text("Size of the browser is 'big', expected WIDTHxHEIGHT such as 1280x720.").wait_for()
    below = (await outcome.bounding_box())["y"] - (await field.bounding_box())["y"]
    assert 0 < below < 120 and await field.input_value() == "big"
    await field.fill("1024x768")
    await person.press("Save")
    await outcome.get_by_text("Saved.").wait_for()
    await person.api("PUT", "/settings/viewport", json={"value": ""})


async def test_the_endpoint_is_tested_and_what_to_do_is_said(person: Person) -> None:
    page = person.page
    await person.go("Settings")
    verdict = page.locator("#verdict .verdict")
    await person.press("Test and save")
    await verdict.get_by_text("no endpoint is set").wait_for()
    with FakeOpenAI(ScriptedModel(["OK"] * 40), model_id="seer") as server:
        await page.locator("#connect-url input").fill(server.base_url)
        await page.locator("#connect-model input").fill("seer")
        await person.press("Test and save")
        await verdict.get_by_text("works").wait_for(timeout=90_000)
        assert "\n" not in (await verdict.text_content()).strip()
        await page.get_by_role("button", name="Details of the test").click()
        assert "models: " in await page.locator("#outcome textarea").input_value()
    values = {row["name"]: row["value"] for row in await person.api("GET", "/settings")}
    assert (values["base_url"], values["model"]) == (server.base_url, "seer")
    await person.press("Disconnect")
    await verdict.get_by_text("Disconnected").wait_for()
    assert await page.locator("#connect-model input").input_value() == "literal"


async def test_the_test_of_a_server_that_does_not_answer_says_that_it_waits(person: Person) -> None:
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    await person.go("Settings")
    button = person.page.locator("#connect-test")
    await person.page.locator("#connect-url input").fill(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    await person.press("Test and save")
    await person.page.locator("#verdict").get_by_text("Asking the server").wait_for()
    assert await button.is_disabled()
    server.close()
    while await button.is_disabled():  # requests fail from now on
        for writer in accepted:
            writer.close()
        await asyncio.sleep(0.05)
    assert await person.page.locator("#verdict .is-bad").count() == 1
    await person.press("Disconnect")


async def test_a_task_is_saved_filled_in_and_run(person: Person) -> None:
    page = person.page
    await person.go("Tasks")
    await page.locator("#task-name textarea, #task-name input").first.fill("Show a tab")
    words = page.locator("#task-words textarea")
    await words.fill('Click "{tab}". Tell me the Total.')
    await words.press("Tab")
    parameter = page.get_by_label("tab", exact=True)
    await parameter.wait_for()
    await parameter.fill("Summary")
    await parameter.press("Tab")
    await page.locator("#task-save").click()
    await page.get_by_text("Saved: Show a tab").wait_for()
    await page.locator("#task-run").click()
    await person.status("unverified|failed|succeeded", 90)
    (run,) = await person.api("GET", "/runs", params={"limit": 1})
    assert run["instruction"] == 'Click "Summary". Tell me the Total.'
    (task,) = await person.api("GET", "/tasks")
    assert (task["name"], task["values"]) == ("Show a tab", {"tab": "Summary"})
    await person.api("DELETE", "/tasks/Show a tab")


async def test_a_stopped_run_is_resumed_from_the_history(person: Person) -> None:
    page = person.page
    with DemoApp() as demo:
        order = {"instruction": 'Click Delete in the row of "Old taxi".', "place": "web", "url": demo.url}
        session = await person.api("POST", "/sessions", json=order)
        await page.goto(f"{person.app.base}/?session={session['id']}")
        await person.status("Waiting for your answer")
        await person.stop()
        (before,) = await person.api("GET", "/runs", params={"limit": 1})
        assert before["status"] == "stopped"
        await person.go("History")
        await page.get_by_role("button", name="Open ").first.click()
        await page.get_by_role("button", name="Resume").click()
        await person.status("Waiting for your answer", 60)
        await person.stop()
    (after,) = await person.api("GET", "/runs", params={"limit": 1})
    assert after["id"] == before["id"]


async def test_a_swarm_without_a_key_and_a_citation_that_opens(person: Person) -> None:
    page = person.page
    await person.press("Collect facts with a swarm")
    await person.press("Send")
    await person.status("unverified|succeeded", 180)
    result = page.get_by_role("article", name="Result")
    await result.locator("a.cite").first.click()
    evidence = page.locator("article[id^=result-] details[open] pre").first
    await evidence.wait_for()
    assert await evidence.text_content()
    assert person.strange == []


AWAY = """
  window.notes = [];
  window.Notification = class {
    static permission = 'default';
    static async requestPermission() { return this.permission = 'granted'; }
    constructor(...given) { window.notes.push(this); this.given = given; }
  };
  Object.defineProperty(document, 'hidden', { get: () => !!window.isAway });
  window.leave = (isAway) => { window.isAway = isAway; document.dispatchEvent(new Event('visibilitychange')); };
"""
"""Parts that a headless Chromium lacks: it denies notifications, and each of its tabs is in front."""


async def test_a_session_that_waits_is_counted_in_the_title_and_makes_one_notification(person: Person) -> None:
    page = person.page
    await page.add_init_script(AWAY)
    await person.open()
    await person.press("Notify me")
    await page.locator("[data-page=bell]").wait_for(state="hidden")
    assert await page.title() == "K2.5 assistant"
    ask = 'Click Delete in the row of "Old taxi".'
    order = {"instruction": ask, "place": "practice"}
    first = await person.api("POST", "/sessions", json=order)
    await page.wait_for_function("document.title === '(1) K2.5 assistant'", timeout=90_000)
    assert await page.evaluate("notes") == []  # a person who looks at the page needs none
    await page.evaluate("leave(true)")
    second = await person.api("POST", "/sessions", json={**order, "instruction": f"{ask} Again."})
    await page.wait_for_function("document.title === '(2) K2.5 assistant'", timeout=90_000)
    given = await page.evaluate("notes.map((one) => one.given)")
    assert given == [["The agent waits for you", {"body": second["title"], "tag": second["id"]}]]
    await page.evaluate("leave(false)")
    await page.evaluate("notes[0].onclick()")
    await person.status("Waiting for your answer")
    assert await person.look_for(".ask h3") == []
    assert page.url.endswith(f"?session={second['id']}")
    for left, session in ((1, second), (0, first)):
        await person.api("DELETE", f"/sessions/{session['id']}")
        await page.wait_for_function(f"document.title === '{'(1) ' if left else ''}K2.5 assistant'")
    assert await page.evaluate("notes.length") == 1


async def test_one_sub_agent_is_cancelled_and_another_redirected(person: Person, tmp_path: Path) -> None:
    page, path = person.page, tmp_path / "replies.jsonl"
    made = {"id": "x", "name": "create_subagent", "arguments": '{"name": "reader", "system_prompt": "You read."}'}
    assigned = [
        {"id": "x", "name": "assign_task", "arguments": json.dumps({"agent": "reader", "prompt": f"river {river}"})}
        for river in ("Rhine", "Elbe")
    ]
    usage = {"input_tokens": 90, "output_tokens": 10}
    lines: list[dict[str, Any]] = [
        {"for": "Compare", "content": "", "tool_calls": [made]},
        {"for": "Compare", "content": "", "tool_calls": assigned},
        {"for": "Compare", "content": "All are long."},
        {
            "for": "river Rhine",
            "content": "",
            "tool_calls": [{"id": "x", "name": "none", "arguments": "{}"}],
            "usage": usage,
        },
        {"for": "river Rhine", "content": "It is long.", "after_s": 600},
        {"for": "river Elbe", "content": "It is long.", "after_s": 15},
        {"for": "river Elbe", "content": "It has 1094 km.", "usage": {**usage, "cost_usd": 0.0125}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    order = {"instruction": "Compare", "mode": "swarm", "settings": {"model": f"scripted:{path}"}}
    session = await person.api("POST", "/sessions", json=order)
    await page.goto(f"{person.app.base}/?session={session['id']}")
    rhine, elbe = (page.locator(".child", has_text=child) for child in ("t001 reader", "t002 reader"))
    await rhine.get_by_text("running · 1 call · 100 tokens").wait_for()
    await elbe.get_by_role("button", name="Tell").click()
    await elbe.get_by_label("New instruction").fill("in kilometres")
    await elbe.get_by_label("New instruction").press("Enter")
    await rhine.get_by_role("button", name="Cancel").click()
    await rhine.get_by_text("cancelled").wait_for()
    await page.locator("assistant-feed").get_by_text("t002: in kilometres").wait_for()
    await person.status("unverified", 60)
    await elbe.get_by_text("finished · 0 calls · 0.0125 USD").wait_for()
    assert await rhine.get_by_role("button").count() == 0
    (run,) = await person.api("GET", "/runs", params={"limit": 1})
    agents = load_run(person.app.runs / run["id"]).agents
    assert "(The user says this while you work" in str(agents["t002"].exchanges[1].question)
    assert agents["t002"].exchanges[1].steps[-1].reply.content == "It has 1094 km."
