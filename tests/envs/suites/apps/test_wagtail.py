"""The tasks on the content management system: solved, not done, nearly done."""

import pytest
from playwright.async_api import Page, expect

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps.proving import Proof, ids_of, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
DORA = {"username": "dora", "email": "dora@harbour.example", "first_name": "Dora", "last_name": "Lund"}


async def fill(
    page: Page, path: str, button: str, *, off: str = "", tab: str = "", parent: int = -1, **fields: str
) -> None:
    """Fill in a form and press a button; "" for none. `off` is a box to untick, `parent` an entry to choose."""
    await page.goto(f"http://wagtail.localhost/admin/{path}", wait_until="networkidle")
    if tab:
        await page.get_by_role("tab", name=tab).click()
    for name, value in fields.items():
        await page.locator(f"#id_{name}").fill("" if name == "title" else value)
        if name == "title":  # the page makes an address of what is typed
            await page.locator("#id_title").press_sequentially(value)
            await page.keyboard.press("Tab")
            await expect(page.locator("#id_slug")).not_to_have_value("")
    if parent >= 0:
        await page.locator("#id_parent").select_option(index=parent)
    if off:
        await page.locator(f"#id_{off}").uncheck()
    if button == "Publish":
        await page.locator("footer [data-w-dropdown-target=toggle]").click()
        await page.locator("button[name=action-publish]").click()
    elif button:
        await page.get_by_role("button", name=button).or_(page.locator(f"input[value='{button}']")).first.click()
    if button:
        await page.wait_for_load_state("networkidle")


async def say(text: str) -> str:
    return text


WINTER = "https://harbour.example/w"
ALL = "All boats of our harbour."
PROOFS = {
    "wagtail/draft-page": Proof(
        solve=lambda page: fill(page, "pages/add/home/homepage/3/", "Save draft", title="Winter berths"),
        miss=lambda page: fill(page, "pages/add/home/homepage/7/", "Save draft", title="Winter berths"),
    ),
    "wagtail/rename-in-draft": Proof(
        solve=lambda page: fill(page, "pages/5/edit/", "Save draft", title="Price list"),
        miss=lambda page: fill(page, "pages/5/edit/", "Publish", title="Price list"),
    ),
    "wagtail/introduction": Proof(
        solve=lambda page: fill(page, "pages/4/edit/", "Publish", intro="Ferries and dinghies."),
        miss=lambda page: fill(page, "pages/4/edit/", "Save draft", intro="Ferries and dinghies."),
    ),
    "wagtail/publish-draft": Proof(
        solve=lambda page: fill(page, "pages/10/edit/", "Publish"),
        miss=lambda page: fill(page, "pages/10/edit/", "Save draft"),
    ),
    "wagtail/unpublish": Proof(
        solve=lambda page: fill(page, "pages/6/unpublish/", "Yes, unpublish it"),
        miss=lambda page: fill(page, "pages/6/delete/", "Yes, delete it"),
    ),
    "wagtail/delete-page": Proof(
        solve=lambda page: fill(page, "pages/11/delete/", "Yes, delete it"),
        miss=lambda page: fill(page, "pages/11/unpublish/", "Yes, unpublish it"),
    ),
    "wagtail/search-description": Proof(
        solve=lambda page: fill(page, "pages/4/edit/", "Save draft", tab="Promote", search_description=ALL),
        miss=lambda page: fill(page, "pages/4/edit/", "", tab="Promote", search_description=ALL),
    ),
    "wagtail/add-redirect": Proof(
        solve=lambda page: fill(
            page, "redirects/add/", "Create", off="is_permanent", old_path="/winter", redirect_link=WINTER
        ),
        miss=lambda page: fill(page, "redirects/add/", "Create", old_path="/winter", redirect_link=WINTER),
    ),
    "wagtail/delete-redirect": Proof(
        solve=lambda page: fill(page, "redirects/2/delete/", "Yes, delete"),
        miss=lambda page: fill(page, "redirects/1/delete/", "Yes, delete"),
    ),
    "wagtail/first-name": Proof(
        solve=lambda page: fill(page, "account/", "Save", **{"name_email-first_name": "Anneke"}),
        miss=lambda page: fill(page, "account/", "", **{"name_email-first_name": "Anneke"}),
    ),
    "wagtail/add-user": Proof(
        solve=lambda page: fill(
            page, "users/new/", "Create", password1="reef-4411-Kiel", password2="reef-4411-Kiel", **DORA
        ),
        miss=lambda page: fill(page, "users/new/", "Create", **DORA),
    ),
    "wagtail/deactivate-user": Proof(
        solve=lambda page: fill(page, "users/edit/3/", "Save", off="is_active"),
        miss=lambda page: fill(page, "users/edit/2/", "Save", off="is_active"),
    ),
    "wagtail/add-collection": Proof(
        solve=lambda page: fill(page, "collections/add/", "Create", name="Plans", parent=1),
        miss=lambda page: fill(page, "collections/add/", "Create", name="Plans", parent=2),
    ),
    "wagtail/count-below": Proof(solve=lambda page: say("2"), miss=lambda page: say("12")),
    "wagtail/publish-nothing": Proof(miss=lambda page: fill(page, "pages/10/edit/", "Publish")),
}


@pytest.mark.parametrize("task_id", ids_of("wagtail"))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
