"""The tasks on the notes: solved, not done, nearly done."""

import pytest
from playwright.async_api import Page

from envs.apps import AppsEnv
from tests.envs.apps.proving import Proof, ids_of, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def new_note(page: Page, title: str, text: str, *, save: bool = True) -> None:
    await page.get_by_role("button", name="new tiddler").first.click()
    await page.locator("input.tc-titlebar").fill(title)
    await page.frame_locator("iframe.tc-edit-texteditor-body").locator("textarea").fill(text)
    if save:
        await page.locator("button.tc-btn-\\%24\\%3A\\%2Fcore\\%2Fui\\%2FButtons\\%2Fsave").first.click()


PROOFS = {
    "tiddlywiki/new-note": Proof(
        solve=lambda page: new_note(page, "Winter storage", "Boats stand in hall 3."),
        miss=lambda page: new_note(page, "Winter storage", "Boats stand in hall 3.", save=False),
    ),
}


@pytest.mark.parametrize("task_id", ids_of("tiddlywiki"))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
