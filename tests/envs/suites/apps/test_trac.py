"""The tasks on the tracker: solved, not done, nearly done."""

import functools
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps.proving import Proof, ids_of, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
ROOT = "http://trac.localhost"


async def new_ticket(page: Page, summary: str, *, preview: bool = False, **fields: str) -> None:
    await page.goto(f"{ROOT}/newticket")
    await page.fill("#field-summary", summary)
    for name, value in fields.items():
        if name == "keywords":
            await page.fill("#field-keywords", value)
        else:
            await page.select_option(f"#field-{name}", value)
    await page.click("input[name=preview]" if preview else "input[name=submit]")


async def comment(page: Page, ticket: int, text: str, *, preview: bool = False) -> None:
    await page.goto(f"{ROOT}/ticket/{ticket}")
    await page.fill("#comment", text)
    await page.click("#propertyform input[name=preview]" if preview else "#propertyform input[name=submit]")


async def modify(page: Page, ticket: int, act: Callable[[Page], Awaitable[object]]) -> None:
    await page.goto(f"{ROOT}/ticket/{ticket}")
    await page.get_by_role("link", name="Modify Ticket").click()
    await act(page)
    await page.click("#propertyform input[name=submit]")


async def close(page: Page, resolution: str) -> None:
    await page.check("#action_resolve")
    await page.select_option("#action_resolve_resolve_resolution", resolution)


async def reassign(page: Page, owner: str) -> None:
    await page.check("#action_reassign")
    await page.fill("#action_reassign_reassign_owner", owner)


async def set_milestones(page: Page, *tickets: int) -> None:
    for ticket in tickets:
        await modify(page, ticket, lambda page: page.select_option("#field-milestone", "Summer season"))


async def new_milestone(page: Page, due: str) -> None:
    await page.fill("#addmilestone input[name=name]", "Autumn repairs")
    await page.fill("#addmilestone input[name=duedate]", due)
    await page.click("#addmilestone input[name=add]")


async def describe_milestone(page: Page, name: str) -> None:
    await page.goto(f"{ROOT}/milestone/{name}?action=edit")
    await page.fill("#description", "A berth for everybody.")
    await page.click("#edit input[name=save]")


async def new_version(page: Page, name: str) -> None:
    await page.goto(f"{ROOT}/admin/ticket/versions")
    await page.fill("#addversion input[name=name]", name)
    await page.click("#addversion input[name=add]")


async def grant(page: Page, action: str) -> None:
    form = page.locator("#addperm")
    await form.locator("input[name=subject]").fill("edda")
    await form.locator("select[name=action]").select_option(action)
    await form.locator("input[name=add]").click()


async def edit_page(page: Page, *, both: bool) -> None:
    await page.goto(f"{ROOT}/wiki/OnCall?action=edit")
    text = await page.input_value("#text")
    text = text.replace("15 || Edda", "15 || Tomas")
    await page.fill("#text", text.replace("16 || Tomas", "16 || Edda") if both else text)
    await page.click("input[name=save]")


async def say(page: Page, answer: str) -> str:
    return answer


GATE = {"component": "quay".title(), "priority": "minor"}
JACKETS = {"type": "task", "milestone": "Summer season", "component": "Boats", "keywords": "safety"}
PROOFS = {
    "trac/new-ticket": Proof(
        solve=lambda page: new_ticket(page, "Gate of pier 3 squeaks", **GATE),
        miss=lambda page: new_ticket(page, "Gate of pier 3 squeaks", preview=True, **GATE),
    ),
    "trac/new-task-for-milestone": Proof(
        solve=lambda page: new_ticket(page, "Buy 40 life jackets", **JACKETS),
        miss=lambda page: new_ticket(page, "Buy 40 life jackets", **{**JACKETS, "type": "defect"}),
    ),
    "trac/comment": Proof(
        solve=lambda page: comment(page, 3, "The new list is printed."),
        miss=lambda page: comment(page, 3, "The new list is printed.", preview=True),
    ),
    "trac/close-as-wontfix": Proof(
        solve=lambda page: modify(page, 6, lambda page: close(page, "wontfix")),
        miss=lambda page: modify(page, 6, lambda page: close(page, "fixed")),
    ),
    "trac/reassign": Proof(
        solve=lambda page: modify(page, 13, lambda page: reassign(page, "joris")),
        miss=lambda page: modify(page, 13, lambda page: reassign(page, "edda")),
    ),
    "trac/raise-priority": Proof(
        solve=lambda page: modify(page, 2, lambda page: page.select_option("#field-priority", "blocker")),
        miss=lambda page: modify(page, 10, lambda page: page.select_option("#field-priority", "blocker")),
    ),
    "trac/retarget-website": Proof(
        solve=lambda page: set_milestones(page, 3, 11),
        miss=lambda page: set_milestones(page, 3),
    ),
    "trac/new-milestone": Proof(
        solve=lambda page: new_milestone(page, "2024-10-01T12:00:00Z"),
        miss=lambda page: new_milestone(page, "2024-10-02T12:00:00Z"),
    ),
    "trac/describe-milestone": Proof(
        solve=lambda page: describe_milestone(page, "Summer season"),
        miss=lambda page: describe_milestone(page, "Spring opening"),
    ),
    "trac/new-version": Proof(
        solve=lambda page: new_version(page, "2025"),
        miss=lambda page: new_version(page, "2026"),
    ),
    "trac/grant-permission": Proof(
        solve=lambda page: grant(page, "MILESTONE_ADMIN"),
        miss=lambda page: grant(page, "MILESTONE_CREATE"),
    ),
    "trac/edit-page": Proof(
        solve=lambda page: edit_page(page, both=True),
        miss=lambda page: edit_page(page, both=False),
    ),
    "trac/find-owner": Proof(
        solve=lambda page: say(page, "It is Joris Haan."),
        miss=lambda page: say(page, "It is Edda Stein, or Joris Haan."),
    ),
    "trac/count-open": Proof(
        solve=lambda page: say(page, "There are 6."),
        miss=lambda page: say(page, "There are 7."),
    ),
    "trac/close-what-is-not-there": Proof(
        miss=functools.partial(modify, ticket=4, act=lambda page: close(page, "fixed")),
    ),
}


@pytest.mark.parametrize("task_id", ids_of("trac"))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
