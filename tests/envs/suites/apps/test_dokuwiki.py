"""The tasks on the wiki: solved, not done, nearly done."""

import pytest
from playwright.async_api import Page

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps.proving import Proof, ids_of, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
ADMIN = "id=start&do=admin&page="


async def go(page: Page, query: str) -> None:
    await page.goto(f"http://dokuwiki.localhost/doku.php?{query}")


async def write(
    page: Page,
    name: str,
    text: str = "",
    *,
    old: str = "",
    add: str = "",
    summary: str = "",
    minor: bool = False,
    button: str = "#edbtn__save",
) -> None:
    """Give a page a text, or replace a piece of it, or add to its end."""
    await go(page, f"id={name}&do=edit")
    held = await page.locator("#wiki__text").input_value()
    if old:
        assert held.count(old) == 1
    await page.locator("#wiki__text").fill(held.replace(old, text) if old else held + add if add else text)
    if summary:
        await page.locator("#edit__summary").fill(summary)
    if minor:
        await page.locator("#edit__minoredit").check()
    await page.locator(button).click()
    await page.wait_for_load_state()


async def sign_in(page: Page, name: str, password: str) -> None:
    await go(page, "id=start&do=login")
    await page.locator("#dw__login [name=u]").fill(name)
    await page.locator("#dw__login [name=p]").fill(password)
    await page.locator("#dw__login button[type=submit]").click()
    await page.wait_for_load_state()


async def set_name(page: Page, name: str, password: str) -> None:
    await go(page, "id=start&do=profile")
    await page.locator("#dw__register [name=fullname]").fill(name)
    await page.locator("#dw__register [name=oldpass]").fill(password)
    await page.locator("#dw__register button[type=submit]").first.click()
    await page.wait_for_load_state()


async def add_user(page: Page, login: str, name: str, mail: str, password: str) -> None:
    await go(page, f"{ADMIN}usermanager")
    fields = {"userid": login, "userpass": password, "userpass2": password, "username": name, "usermail": mail}
    for field, value in fields.items():
        await page.locator(f"#add_{field}").fill(value)
    await page.locator("button[name='fn[add]']").click()
    await page.wait_for_load_state()


async def remove_user(page: Page, login: str) -> None:
    await go(page, f"{ADMIN}usermanager")
    await page.evaluate("window.confirm = () => true")
    await page.locator(f"[name='delete[{login}]']").check()
    await page.locator("[name='fn[delete]']").click()
    await page.wait_for_load_state()


async def set_title(page: Page, title: str, *, save: bool = True) -> None:
    await go(page, f"{ADMIN}config")
    await page.locator("#config___title").fill(title)
    if save:
        await page.locator("#config___title").press("Enter")
        await page.wait_for_load_state()


async def subscribe(page: Page, number: int) -> None:
    """To the page (0) or to all pages beside it (1)."""
    await go(page, "id=prices&do=subscribe")
    await page.locator("[name=sub_target]").nth(number).check()
    await page.locator("[name=sub_style][value=every]").check()
    await page.locator("button[name='do[subscribe]'], #subscribe__form button[type=submit]").last.click()
    await page.wait_for_load_state()


async def say(text: str) -> str:
    return text


PIER = "Forty moorings at pier 2."
PROOFS = {
    "dokuwiki/new-page": Proof(
        solve=lambda page: write(page, "moorings", PIER),
        miss=lambda page: write(page, "moorings", PIER, button="#edbtn__preview"),
    ),
    "dokuwiki/new-page-below": Proof(
        solve=lambda page: write(page, "events:sale", "Flea market on 9 August."),
        miss=lambda page: write(page, "sale", "Flea market on 9 August."),
    ),
    "dokuwiki/correct-price": Proof(
        solve=lambda page: write(page, "prices", "99", old="95"),
        miss=lambda page: write(page, "prices", "99", old="40"),
    ),
    "dokuwiki/speed-limit": Proof(
        solve=lambda page: write(page, "rules", "4 knots", old="3 knots"),
        miss=lambda page: write(page, "rules", "4 knots", old="3 knots", button="#edbtn__preview"),
    ),
    "dokuwiki/new-colleague": Proof(
        solve=lambda page: write(page, "staff", add="Doris comes in May.", summary="new colleague", minor=True),
        miss=lambda page: write(page, "staff", add="Doris comes in May.", summary="new colleague"),
    ),
    "dokuwiki/delete-page": Proof(
        solve=lambda page: write(page, "old_notice", ""), miss=lambda page: write(page, "old_notice", "deleted")
    ),
    "dokuwiki/surname": Proof(
        solve=lambda page: set_name(page, "Anna Lind", "sesame-77"),
        miss=lambda page: set_name(page, "Anna Lind", "sesame-78"),
    ),
    "dokuwiki/add-user": Proof(
        solve=lambda page: add_user(page, "dora", "Dora Lund", "dora@harbour.example", "reef-4411"),
        miss=lambda page: add_user(page, "dora", "Dora Lund", "dora@harbour.example", "reef-4412"),
    ),
    "dokuwiki/remove-user": Proof(
        solve=lambda page: remove_user(page, "celia"), miss=lambda page: remove_user(page, "bjarne")
    ),
    "dokuwiki/wiki-title": Proof(
        solve=lambda page: set_title(page, "Quay wiki"), miss=lambda page: set_title(page, "Quay wiki", save=False)
    ),
    "dokuwiki/subscribe": Proof(solve=lambda page: subscribe(page, 0), miss=lambda page: subscribe(page, 1)),
    "dokuwiki/find-deadline": Proof(solve=lambda page: say("Until 1 June 2031."), miss=lambda page: say("14 June")),
    "dokuwiki/wrong-password": Proof(miss=lambda page: sign_in(page, "bjarne", "open-66")),
}


@pytest.mark.parametrize("task_id", ids_of("dokuwiki"))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
