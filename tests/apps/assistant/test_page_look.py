"""How the page looks and is reached: axe-core in light and dark, keyboard alone, no jumps while it streams."""

import asyncio
import re
from typing import Any

import pytest

from tests.apps.assistant.running import Person

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
    """What axe-core calls serious or critical."""
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
            await asyncio.sleep(0.7)
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
    await person.status("stopped|failed|unverified")  # the agent gives up; Stop has nothing to do from here on
    await start_and_hold()
    await tab_to("Stop")
    await page.keyboard.press("Space")
    await person.status("stopped")


STOP, COMPOSER, STATUS_LINE = ".tools .tool:nth-child(3)", ".composer textarea", ".bar .status"


@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_all_that_is_needed_is_in_the_window(person: Person, width: int) -> None:
    """From the first screen to the answer, nothing has to be scrolled."""
    page = person.page
    await page.set_viewport_size({"width": width, "height": 844})
    await person.open()
    controls = (STATUS_LINE, STOP, ".tools .tool:nth-child(1)", ".tools .tool:nth-child(2)")
    assert await person.look_for(*controls, COMPOSER, ".start .primary", ".composer [type=submit]") == []
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
    assert await person.look_for(COMPOSER) == [] or width == 390  # the question is a sheet over it
    ratio = await page.locator(".stage").evaluate("one => one.clientWidth / one.clientHeight")
    assert ratio == pytest.approx(1280 / 720, abs=0.02)
    await page.get_by_role("button", name="Allow once").click()
    await person.status("succeeded", 120)
    assert await person.look_for(*controls, COMPOSER, ".card.result .answer", ".film .cell:last-child") == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width + 1
    if width == 390:
        small = (
            "[...document.querySelectorAll('#shell button')].filter((one) => one.offsetParent && !one.matches('.cell'))"
        )
        heights = await page.evaluate(f"{small}.map((one) => [one.textContent || one.title, one.offsetHeight])")
        assert [row for row in heights if row[1] < 44] == []


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
        await asyncio.sleep(0.3)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width + 1
        assert await page.evaluate("document.querySelector('gradio-app').scrollWidth") <= width + 1
