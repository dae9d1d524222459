"""Look of the page: axe-core in light and dark, keyboard alone, no jumps, all that is needed in the window."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.models.scripted import ScriptedModel
from tests.apps.assistant.running import Person
from tests.cua.trajectory.samples import HEADER, write_run
from tests.fake_openai import FakeOpenAI

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) {
      const moved = one.sources.map((two) => two.node?.outerHTML?.slice(0, 80));
      if (!one.hadRecentInput) window.shifts.push([one.value, moved]);
    }
  }).observe({ type: 'layout-shift', buffered: false });
}"""
FOCUSED = "(document.activeElement.textContent || document.activeElement.tagName).trim().slice(0, 30)"


async def look_for_faults(page: Any, where: str) -> list[str]:
    """Return the faults that axe-core calls serious or critical."""
    from axe_playwright_python.async_playwright import Axe

    found = (await Axe().run(page)).response["violations"]
    return [
        f"{where}: {one['id']} ({one['impact']}): {node['html'][:200]} {node['any'][:1]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


async def test_nothing_serious_for_people_with_a_screen_reader_or_weak_eyes(person: Person) -> None:
    page = person.page
    await page.emulate_media(reduced_motion="reduce")
    await person.say('Click Delete in the row of "Old taxi".')
    await person.status("Waiting for your answer")
    faults = []
    for theme in ("light", "dark"):
        await page.evaluate(f"document.body.classList.toggle('dark', {str(theme == 'dark').lower()})")
        await person.open_session("Delete")
        faults += await look_for_faults(page, f"{theme}, a question")
        for entry in ("New", "Tasks", "History", "Settings"):
            await person.go(entry)
            await person.settle()
            faults += await look_for_faults(page, f"{theme}, {entry}")
            if entry == "History":
                await page.get_by_role("button", name="Open ").first.click()
                await page.locator(".run h2").first.wait_for()
                faults += await look_for_faults(page, f"{theme}, a run")
    assert faults == []


async def test_nothing_jumps_while_it_streams(person: Person) -> None:
    page = person.page
    await page.evaluate(SHIFTS)
    await person.press("Try the practice task")
    await page.get_by_role("button", name="Allow once").click(timeout=90_000)
    await person.status("succeeded", 90)
    shifts = await page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < 0.05, shifts  # 0.1 and less counts as good on the web
    await person.go("History")
    await person.open_session("Team lunch")
    again = page.locator("assistant-feed")
    cards = await again.locator("article").count()
    await again.evaluate("one => { const there = one.parentNode; one.remove(); there.append(one); }")
    assert await again.locator("article").count() == cards  # a part that is drawn anew misses nothing
    await page.locator("assistant-screen").evaluate(
        "one => one.replaceWith(document.createElement('assistant-screen'))"
    )
    await page.wait_for_function("document.querySelector('assistant-screen img.live').naturalWidth === 1280")
    assert "Done, checked" in await page.locator("assistant-screen .status").text_content()


async def test_the_keyboard_is_enough(person: Person) -> None:
    page = person.page

    async def tab_to(wanted: str) -> None:
        for _ in range(60):
            await page.keyboard.press("Tab")
            if re.fullmatch(wanted, await page.evaluate(FOCUSED)):
                return
        raise AssertionError(f"{wanted} is not reached by Tab")

    async def start_and_hold() -> None:
        await page.locator("h1").click()
        await tab_to("TEXTAREA")
        await page.keyboard.type('Click Delete in the row of "Old taxi".')
        await page.keyboard.press("Enter")
        await person.status("Working")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("Escape")
        await person.status("Paused|Waiting")

    await start_and_hold()
    await tab_to("Resume|Pause")
    outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    await page.keyboard.press("Enter")
    await page.get_by_role("alertdialog", name="The agent asks").wait_for(timeout=60_000)
    assert await page.evaluate("document.activeElement.getAttribute('role')") == "alertdialog"
    await tab_to("DenyD")
    await page.keyboard.press("Enter")
    await page.get_by_text("You denied it").wait_for()
    assert await page.evaluate("document.activeElement.tagName") != "BODY"  # the question took the focus with it
    await person.status("stopped|failed|unverified")  # the agent gives up; Stop has nothing to do from here on
    await start_and_hold()
    await tab_to("Stop")
    await page.keyboard.press("Space")
    await person.status("stopped")


async def test_the_film_is_one_stop_of_the_tab_key_and_no_button_takes_the_focus_with_it(person: Person) -> None:
    page, named = person.page, "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    replies = (f"## Action:\nWait {number}\n## Code:\n```python\ntime.sleep(0.2)\n```" for number in range(10_000))
    with FakeOpenAI(ScriptedModel(replies), model_id="patient") as server:
        settings = {"model": "patient", "base_url": server.base_url, "approve": "yolo", "max_steps": 1000}
        order = {"instruction": "Wait", "place": "web", "url": "data:text/html,<h1>Here", "settings": settings}
        session = await person.api("POST", "/sessions", json=order)
        await page.goto(f"{person.app.base}/?session={session['id']}")
        await page.locator(".film .cell").nth(5).wait_for()
        assert await page.locator(".film .cell[tabindex='0']").count() == 1
        await page.locator(".film .cell").nth(3).click()
        for key, step in (("ArrowLeft", 3), ("ArrowRight", 4), ("Home", 1), ("ArrowLeft", 1)):
            await page.keyboard.press(key)
            assert await page.evaluate(named) == f"Step {step}"
            assert (await page.locator(".facts").text_content()).startswith(f"looking at step {step} ")
        await page.locator(".live-again").focus()
        await page.keyboard.press("Enter")
        assert (await page.evaluate(named)).startswith("Step ")
        film = "document.querySelector('.film')"
        await page.wait_for_function(f"{film}.scrollWidth - {film}.clientWidth - {film}.scrollLeft < 5")
        await page.get_by_role("button", name="Stop", exact=True).focus()
        await page.keyboard.press("Enter")
        await person.status("stopped")
        assert await page.evaluate(named) == "Instruction"


SMALL = """[...document.querySelectorAll('#shell :is(button, summary, select, input, textarea)')]
  .filter((one) => one.offsetParent && one.checkVisibility() && one.offsetHeight < 44)
  .map((one) => [one.textContent || one.title || one.getAttribute('aria-label'), one.offsetHeight])"""
"""Elements that are too small for a finger."""
STOP, COMPOSER, STATUS_LINE = ".tools .tool:nth-child(3)", ".composer textarea", ".bar .status"


@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_all_that_is_needed_is_in_the_window(person: Person, width: int) -> None:
    """From the first screen to the answer, nothing has to be scrolled."""
    page = person.page
    await page.set_viewport_size({"width": width, "height": 844})
    await person.open()
    controls = (STATUS_LINE, STOP, ".tools .tool:nth-child(1)", ".tools .tool:nth-child(2)")
    ways = [f".start > :nth-child({number})" for number in range(1, 4)]
    assert await person.look_for(*controls, COMPOSER, ".start .primary", ".composer [type=submit]", *ways) == []
    assert await page.locator(".frame").evaluate("one => one.scrollWidth - one.clientWidth") == 0
    await person.press("Try the practice task")
    await page.get_by_role("alertdialog", name="The agent asks").wait_for(timeout=120_000)
    asked = (
        ".ask h3",
        ".ask > img",
        ".answers .tool:nth-child(1)",
        ".answers .tool:nth-child(2)",
        ".answers .tool:nth-child(3)",
    )
    assert await person.look_for(*controls, ".stage img.live", *asked) == []
    if width == 390:  # the question is a sheet over the composer, of which nothing is seen
        assert await page.evaluate(SMALL) == []
        assert await page.locator("assistant-composer").evaluate("one => getComputedStyle(one).opacity") == "0"
    else:
        assert await person.look_for(COMPOSER) == []
    ratio = await page.locator(".stage").evaluate("one => one.clientWidth / one.clientHeight")
    assert ratio == pytest.approx(1280 / 720, abs=0.02)
    between = "document.querySelector('.film').getBoundingClientRect().top - one.getBoundingClientRect().bottom"
    assert 0 <= await page.locator(".stage").evaluate(f"one => {between}") <= 12
    await page.get_by_role("button", name="Allow once").click()
    await person.status("succeeded", 120)
    assert await person.look_for(*controls, COMPOSER, ".card.result .answer", ".film .cell:last-child") == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width + 1
    if width == 390:
        assert await page.evaluate(SMALL) == []


@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_no_page_scrolls_sideways(person: Person, width: int) -> None:
    page = person.page
    await page.set_viewport_size({"width": width, "height": 844})
    await person.open()
    for entry in ("Tasks", "History", "Settings"):
        if width == 390:
            await page.get_by_role("button", name="Open the menu").click()
            assert await page.evaluate("document.activeElement.title") == "New"
        await person.go(entry)
        await person.settle()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width + 1
        assert await page.evaluate("document.querySelector('gradio-app').scrollWidth") <= width + 1


RED, BLUE = (
    f"from PIL import Image; print('a swatch'); Image.new('RGB', (400, 250), '{name}')" for name in ("red", "blue")
)


def call(tool: str, **arguments: str) -> dict[str, str]:
    return {"id": "x", "name": tool, "arguments": json.dumps(arguments)}


@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_a_swarm_shows_its_agents_their_images_and_their_evidence(
    person: Person, tmp_path: Path, width: int
) -> None:
    page, path = person.page, tmp_path / "replies.jsonl"
    assigned = [call("assign_task", agent="painter", prompt=f"paint {name}") for name in ("Rhine", "Elbe")]
    lines: list[dict[str, Any]] = [
        {"for": "Compare", "content": "", "tool_calls": [call("create_subagent", name="painter", system_prompt="P")]},
        {"for": "Compare", "content": "", "tool_calls": assigned},
        {"for": "Compare", "content": "", "tool_calls": [call("ipython", code=RED)]},
        {"for": "Compare", "content": "Both are painted [^t001.0^]."},
        {"for": "paint Rhine", "content": "", "tool_calls": [call("ipython", code=BLUE)]},
        {"for": "paint Rhine", "content": "Blue."},
        {"for": "paint Elbe", "content": "No image."},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    await page.set_viewport_size({"width": width, "height": 844})
    order = {"instruction": "Compare", "mode": "swarm", "settings": {"model": f"scripted:{path}"}}
    session = await person.api("POST", "/sessions", json=order)
    await page.goto(f"{person.app.base}/?session={session['id']}")
    await person.status("unverified", 120)
    assert await page.locator(".swarm > .meta").text_content() == "2 sub-agents · 2 finished"
    told = await page.locator(".child").all_inner_texts()
    assert "paint Rhine" in told[0] and "ipython: from PIL" in told[0] and "paint Elbe" in told[1]
    assert await page.locator(".child img").first.evaluate("one => one.decode().then(() => one.naturalWidth)") == 240
    seen = [".swarm > .meta", ".child:nth-child(1) > img", ".child:nth-child(1) summary"]
    assert await person.look_for(*seen, *([] if width == 390 else [".child:nth-child(2)", ".results img"])) == []
    await page.locator(".child summary").first.click()
    shown = page.locator(".child .list pre")
    await shown.wait_for()
    assert (await shown.text_content() or "").startswith("t001.0 Python") and "a swatch" in await shown.text_content()
    feed = await page.locator("assistant-feed").inner_text()
    assert "a swatch" in feed and "[image" not in feed and "ipython" not in feed
    assert person.strange == []


MODES = {
    "instant": {"env": "browser", "protocol": {"thinking": False}},
    "thinking": {"env": "desktop", "protocol": {"thinking": True}},
    "agent": {"env": "tools", "protocol": {"profile": "general"}},
    "swarm": {"env": "tools", "protocol": {"profile": "swarm"}},
}


@pytest.mark.parametrize("width", [1440, 390])
async def test_the_history_shows_runs_of_one_mode(person: Person, width: int) -> None:
    page = person.page
    folders = [
        write_run(person.app.runs, header=replace(HEADER, instruction=f"Sorted by {mode}", **more))
        for mode, more in MODES.items()
    ]
    await page.set_viewport_size({"width": width, "height": 844})
    if width == 390:
        await page.get_by_role("button", name="Open the menu").click()
    await person.go("History")
    cards = page.locator(".grid .run-card")
    await page.get_by_label("Search").fill("sorted by")
    await page.wait_for_function("document.querySelectorAll('.grid button.run-card').length === 4")
    assert await person.look_for(*(f".filters > :nth-child({number})" for number in range(1, 8))) == []
    for mode in MODES:
        await person.choose("Mode of the run", mode)
        assert await cards.locator("strong").all_text_contents() == [f"Sorted by {mode}"]
        assert await person.look_for(".grid .run-card") == []
    await person.choose("Kind", "browser")
    assert await page.locator(".grid").text_content() == "No run fits."
    for folder in folders:
        shutil.rmtree(folder)
