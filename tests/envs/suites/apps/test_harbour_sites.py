"""The tasks on notes, wiki and site together: solved, not done, nearly done."""

import pytest

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps import test_dokuwiki as wiki
from tests.envs.suites.apps import test_tiddlywiki as notes
from tests.envs.suites.apps import test_wagtail as site
from tests.envs.suites.apps.proving import Proof, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
REGATTA = "http://dokuwiki.localhost/doku.php?id=events:regatta"


async def budget(page: wiki.Page, note: str) -> None:
    await wiki.write(page, "budget", "Budget of 2031: 4200 euro.")
    await page.goto("http://tiddlywiki.localhost/")
    await notes.delete(page, note)


async def redirect(page: wiki.Page, old: str) -> None:
    await site.fill(page, "redirects/add/", "Create", old_path=old, redirect_link=REGATTA)


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
}


@pytest.mark.parametrize("task_id", PROOFS)
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
