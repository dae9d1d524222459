"""The tasks on the notes: solved, not done, nearly done."""

import contextlib
from urllib.parse import quote

import pytest
from playwright.async_api import Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps.proving import Proof, ids_of, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def show(page: Page, title: str) -> None:
    await page.evaluate("hash => { location.hash = hash; }", quote(title, safe=""))
    await page.locator(f'.tc-tiddler-frame[data-tiddler-title="{title}"]').wait_for()


async def write(
    page: Page, title: str = "", text: str = "", *, note: str = "", tag: str = "", button: str = "Confirm changes"
) -> None:
    """Edit a note, or a new one, and press a button; "" for none."""
    if note:
        await show(page, note)
        frame = page.locator(f'.tc-tiddler-frame[data-tiddler-title="{note}"]')
        for _ in range(3):  # a click is lost while the page draws the note anew, as it does when its server has news
            await frame.locator('button[title="Edit this tiddler"]').click()
            with contextlib.suppress(PlaywrightTimeoutError):
                await page.locator("input.tc-titlebar").wait_for(timeout=5_000)
                break
    else:
        await page.locator('button[title="Create a new tiddler"]').first.click()
    if title:
        await page.locator("input.tc-titlebar").fill(title)
    if tag:
        await page.locator('input[placeholder="tag name"]').fill(tag)
        await page.locator(".tc-edit-add-tag button", has_text="add").click()
    if text:
        await page.frame_locator("iframe.tc-edit-texteditor-body").locator("textarea").fill(text)
    if button:
        await page.locator(f'button[title^="{button}"]').first.click()


async def delete(page: Page, note: str) -> None:
    await page.evaluate("window.confirm = () => true")
    await write(page, note=note, button="Delete")


async def set_text(page: Page, field: str, text: str) -> None:
    await show(page, "$:/ControlPanel")
    row = page.locator(".tc-control-panel tr", has=page.get_by_role("link", name=field, exact=True))
    await row.locator("input, textarea").first.fill(text)


async def turn_on(page: Page, label: str) -> None:
    await show(page, "$:/ControlPanel")
    await page.locator(".tc-tab-buttons button", has_text="Settings").first.click()
    await page.get_by_label(label).first.check()


async def say(text: str) -> str:
    return text


STORAGE = "Boats stand in hall 3."
PROOFS = {
    "tiddlywiki/new-note": Proof(
        solve=lambda page: write(page, "Winter storage", STORAGE),
        miss=lambda page: write(page, "Winter storage", STORAGE, button=""),
    ),
    "tiddlywiki/new-tagged-note": Proof(
        solve=lambda page: write(page, "Ferry times", "The ferry back leaves at 18:30.", tag="travel"),
        miss=lambda page: write(page, "Ferry times", "The ferry back leaves at 18:30."),
    ),
    "tiddlywiki/add-to-list": Proof(
        solve=lambda page: write(page, note="Shopping list", text="Bread, milk, 12 eggs, butter."),
        miss=lambda page: write(page, note="Shopping list", text="Bread, milk, butter."),
    ),
    "tiddlywiki/correct-number": Proof(
        solve=lambda page: write(page, note="Meeting notes", text="Budget of 2031: 4800 euro."),
        miss=lambda page: write(page, note="Meeting notes", text="Budget of 2031: 4800 euro.", button=""),
    ),
    "tiddlywiki/delete-note": Proof(
        solve=lambda page: delete(page, "Old draft"), miss=lambda page: delete(page, "Meeting notes")
    ),
    "tiddlywiki/rename-note": Proof(
        solve=lambda page: write(page, "Packing", note="Packing list"),
        miss=lambda page: write(page, "Packing", "Rain coat, boots, charts.", tag="travel"),
    ),
    "tiddlywiki/tag-note": Proof(
        solve=lambda page: write(page, note="Phone numbers", tag="home"),
        miss=lambda page: write(page, note="Phone numbers", tag="house"),
    ),
    "tiddlywiki/subtitle": Proof(
        solve=lambda page: set_text(page, "Subtitle", "berths and boats"),
        miss=lambda page: set_text(page, "Subtitle", "berths"),
    ),
    "tiddlywiki/start-page": Proof(
        solve=lambda page: set_text(page, "Default tiddlers", "[[Boats]] Harbours"),
        miss=lambda page: set_text(page, "Default tiddlers", "Harbours Boats"),
    ),
    "tiddlywiki/camel-case": Proof(
        solve=lambda page: turn_on(page, "Enable automatic CamelCase linking"),
        miss=lambda page: turn_on(page, "Enable performance instrumentation"),
    ),
    "tiddlywiki/find-number": Proof(solve=lambda page: say("It is 555-0102."), miss=lambda page: say("555-0101")),
    "tiddlywiki/send-note": Proof(miss=lambda page: write(page, "Mail to Bjarne", "Budget of 2031: 4200 euro.")),
}


@pytest.mark.parametrize("task_id", ids_of("tiddlywiki"))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
