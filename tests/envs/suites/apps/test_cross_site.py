"""The tasks on several apps: solved, not done, nearly done."""

import pytest
from playwright.async_api import Page

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps import test_dokuwiki as wiki
from tests.envs.suites.apps import test_tiddlywiki as notes
from tests.envs.suites.apps import test_wagtail as site
from tests.envs.suites.apps.proving import Proof, prove
from tests.envs.suites.apps.test_oscar import add
from tests.envs.suites.apps.test_trac import comment, new_ticket

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
REGATTA = "http://dokuwiki.localhost/doku.php?id=events:regatta"


async def budget(page: Page, note: str) -> None:
    await wiki.write(page, "budget", "Budget of 2031: 4200 euro.")
    await page.goto("http://tiddlywiki.localhost/")
    await notes.delete(page, note)


async def redirect(page: Page, old: str) -> None:
    await site.fill(page, "redirects/add/", "Create", old_path=old, redirect_link=REGATTA)


async def note(page: Page, title: str, text: str) -> None:
    await page.goto("http://tiddlywiki.localhost/")
    await notes.write(page, title, text)


async def ticket(page: Page, summary: str, description: str = "", **fields: str) -> None:
    await page.goto("http://trac.localhost/newticket")
    await page.fill("#field-description", description)
    await page.fill("#field-summary", summary)
    for name, value in fields.items():
        await page.select_option(f"#field-{name}", value)
    await page.click("input[name=submit]")


PROOFS = {
    "cross-site/crane-note": Proof(
        solve=lambda page: notes.write(page, "Crane", "95 euro"),
        miss=lambda page: notes.write(page, "Crane", "40 euro"),
    ),
    "cross-site/staff-phone": Proof(
        solve=lambda page: wiki.write(page, "dora", "Dora 555-0104"),
        miss=lambda page: wiki.write(page, "dora", "Dora 555-0102"),
    ),
    "cross-site/regatta-redirect": Proof(
        solve=lambda page: redirect(page, "/regatta-2031"), miss=lambda page: redirect(page, "/regatta")
    ),
    "cross-site/speed-introduction": Proof(
        solve=lambda page: site.fill(page, "pages/4/edit/", "Save draft", intro="At most 3 knots."),
        miss=lambda page: site.fill(page, "pages/4/edit/", "Publish", intro="At most 3 knots."),
    ),
    "cross-site/budget-page": Proof(
        solve=lambda page: budget(page, "Old draft"),
        miss=lambda page: wiki.write(page, "budget", "Budget of 2031: 4200 euro."),
    ),
    "cross-site/same-title": Proof(
        solve=lambda page: wiki.set_title(page, "Harbour notes"),
        miss=lambda page: wiki.set_title(page, "Harbour wiki."),
    ),
    "cross-site/price-into-ticket": Proof(
        solve=lambda page: ticket(page, "Buy a signal lamp", "€145.00"),
        miss=lambda page: ticket(page, "Buy a signal lamp", "€27.40"),
    ),
    "cross-site/ticket-into-basket": Proof(solve=lambda page: add(page, 1, 1), miss=lambda page: add(page, 2, 2)),
    "cross-site/order-status-into-comment": Proof(
        solve=lambda page: comment(page, 14, "Being processed."),
        miss=lambda page: comment(page, 14, "Complete"),
    ),
    "cross-site/price-into-note": Proof(
        solve=lambda page: note(page, "Anchor light", "27.40"),
        miss=lambda page: note(page, "Anchor light", "19.95"),
    ),
    "cross-site/who-is-on-call": Proof(
        solve=lambda page: note(page, "Week 16", "Tomas"),
        miss=lambda page: note(page, "Week 16", "Edda"),
    ),
    "cross-site/reorder-what-runs-out": Proof(
        solve=lambda page: ticket(page, "Order gimballed stoves", type="task", priority="critical"),
        miss=lambda page: new_ticket(page, "Order gimballed stoves", type="task", priority="blocker"),
    ),
    "cross-site/price-of-what-is-not-sold": Proof(miss=lambda page: comment(page, 9, "€239.00")),
}


@pytest.mark.parametrize("task_id", sorted(PROOFS))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
