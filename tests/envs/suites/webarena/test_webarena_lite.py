"""WebArena's form on stand-ins: each task solved, not done, nearly done, by its scorer and by the databases."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page

from envs import EnvDiedError, Terminate
from envs.registry import load_suite
from envs.suites.apps import AppsEnv
from envs.suites.webarena.lite import DATABASES, LiteTask, load_configs
from tests.envs.suites.apps.proving import apps_env, skip_unless_installed

SHOP, FORGE, WIKI, CMS = (f"http://{name}.localhost" for name in ("oscar", "trac", "dokuwiki", "wagtail"))
DASHBOARD = f"{SHOP}/dashboard"
Values = Mapping[str, Any]
Act = Callable[[Page, Values], Awaitable[str | None]]
APPS = ("oscar", "trac", "dokuwiki", "wagtail")


def values_of(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**config["instantiation_dict"], **config["stand_in"]["values"]}


def tell(name: str) -> Act:
    async def act(page: Page, values: Values) -> str | None:
        return f"It is {values[name]}."

    return act


def open_page(address: str) -> Act:
    async def act(page: Page, values: Values) -> None:
        await page.goto(address.format(**values))

    return act


async def set_price(page: Page, values: Values) -> None:
    await page.goto(f"{DASHBOARD}/catalogue/products/{values['number']}/")
    await page.get_by_role("link", name="Stock and pricing").click()
    await page.fill("#id_stockrecords-0-price", values["new"])
    await page.locator("#create_update_product_form button[value=save]").click()


async def set_stock(page: Page, values: Values) -> None:
    await page.goto(f"{DASHBOARD}/catalogue/products/{values['number']}/")
    await page.get_by_role("link", name="Stock and pricing").click()
    await page.fill("#id_stockrecords-0-num_in_stock", values["new"])
    await page.locator("#create_update_product_form button[value=save]").click()


async def set_status(page: Page, values: Values) -> None:
    await page.goto(f"{DASHBOARD}/orders/{values['order']}/")
    await page.locator("#id_new_status").evaluate("(list, status) => { list.value = status; }", values["status"])
    await page.get_by_role("button", name="Change status").click()


async def add_to_basket(page: Page, values: Values) -> None:
    await page.goto(f"{SHOP}/catalogue/x_{values['number']}/")
    await page.click("#add_to_basket_form button")


async def new_ticket(page: Page, values: Values) -> None:
    await page.goto(f"{FORGE}/newticket")
    await page.fill("#field-summary", values["summary"])
    await page.select_option("#field-priority", values["priority"])
    await page.select_option("#field-component", values["component"])
    await page.click("input[name=submit]")


async def set_priority(page: Page, values: Values) -> None:
    await page.goto(f"{FORGE}/ticket/{values['number']}")
    await page.get_by_role("link", name="Modify Ticket").click()
    await page.select_option("#field-priority", values["new"])
    await page.click("#propertyform input[name=submit]")


async def comment(page: Page, values: Values) -> None:
    await page.goto(f"{FORGE}/ticket/{values['number']}")
    await page.fill("#comment", values["text"])
    await page.click("#propertyform input[name=submit]")


async def write_page(page: Page, values: Values) -> None:
    await page.goto(f"{WIKI}/doku.php?id={values['page']}&do=edit")
    await page.fill("#wiki__text", values["text"])
    await page.click("#edbtn__save")
    await page.wait_for_load_state()


async def add_collection(page: Page, values: Values) -> None:
    await page.goto(f"{CMS}/admin/collections/add/", wait_until="networkidle")
    await page.fill("#id_name", values["name"])
    await page.locator("#id_parent").select_option(index=1)
    await page.get_by_role("button", name="Create").or_(page.locator("input[value='Create']")).first.click()
    await page.wait_for_load_state("networkidle")


async def add_version(page: Page, values: Values) -> None:
    await page.goto(f"{FORGE}/admin/ticket/versions")
    await page.fill("#addversion input[name=name]", values["version"])
    await page.click("#addversion input[name=add]")


async def add_category(page: Page, values: Values) -> None:
    await page.goto(f"{DASHBOARD}/catalogue/categories/create/")
    await page.fill("#id_name", values["name"])
    await page.locator("button[value=save]").click()


async def look(page: Page, values: Values) -> None:
    """What cannot be done is not done."""


ORACLES: tuple[tuple[Act, dict[str, Any]], ...] = (  # by template: what solves it, and the values of a near miss
    (tell("price"), {"price": "48.10"}),
    (tell("owner"), {"owner": "nobody"}),
    (tell("priority"), {"priority": "normal"}),
    (tell("total"), {"total": "78.01"}),
    (tell("name"), {"name": "Joris Haan"}),
    (open_page(SHOP + "/catalogue/{slug}/"), {"slug": "wool-cap_10"}),
    (open_page(FORGE + "/ticket/{number}"), {"number": 1}),
    (open_page(DASHBOARD + "/orders/{order}/"), {"order": "100105"}),
    (open_page(FORGE + "/milestone/{path}"), {"path": "Winter%20storage"}),
    (set_price, {"new": "1.00"}),
    (set_stock, {"new": "1"}),
    (set_status, {"status": "Cancelled"}),
    (add_to_basket, {"number": 14}),
    (new_ticket, {"priority": "major"}),
    (set_priority, {"number": 1}),
    (comment, {"number": 1}),
    (write_page, {"page": "elsewhere"}),
    (add_collection, {"name": "Drawings"}),
    (add_version, {"version": "2027"}),
    (add_category, {"name": "Sails"}),
    (look, {}),
    (look, {}),
)


def quick_slice() -> list[Any]:
    """One task of a few templates at once, all others when slow tests are wanted."""
    seen: set[int] = set()
    found = []
    for id, config in load_configs().items():
        template = config["intent_template_id"]
        is_quick = template in (1, 6, 14, 21) and template not in seen
        seen.add(template)
        found.append(pytest.param(id, marks=[] if is_quick else [pytest.mark.slow]))
    return found


def test_the_tasks_are_many_and_of_every_kind() -> None:
    configs = load_configs()
    assert len(configs) >= 80 and len({config["intent_template_id"] for config in configs.values()}) == len(ORACLES)
    families = {config["stand_in"]["family"] for config in configs.values()}
    assert families == {"information", "navigation", "content", "configuration", "impossible"}
    for config in configs.values():
        assert "{{" not in str({name: config[name] for name in ("intent", "eval", "stand_in", "start_url")})
        assert "__" not in config["start_url"] + config["intent"]
        filled = config["intent_template"]
        for name, value in config["instantiation_dict"].items():
            filled = filled.replace("{{" + name + "}}", str(value))
        assert filled == config["intent"]


def test_the_suite_has_two_wordings() -> None:
    goal, steps = load_suite("webarena-lite"), load_suite("webarena-lite", wording="steps")
    assert len(goal.task_ids) == len(load_configs()) and goal.revision != steps.revision
    impossible = [one for one in load_configs().values() if one["stand_in"]["family"] == "impossible"]
    assert {name: one.score for name, one in goal.baselines.items()} == {
        "null": 0,
        "fail": len(impossible) / 101,
        "random": 0,
    }
    for id in goal.task_ids:
        one, other = goal.make_task(id, None), steps.make_task(id, None)
        assert one.instruction != other.instruction and one.spec.id == other.spec.id == id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[AppsEnv]:
    skip_unless_installed(*APPS)
    async with apps_env() as made:
        yield made


async def both(task: LiteTask, env: AppsEnv) -> set[float | None]:
    """The scores by the scorer and by the databases; one where they agree."""
    verdict = await task.evaluate(env)
    return {verdict.score, *verdict.other_scores.values()}


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("id", quick_slice())
async def test_scorer_and_databases_agree(env: AppsEnv, id: int) -> None:
    config = load_configs()[id]
    task, values = LiteTask(config), values_of(config)
    solve, miss = ORACLES[config["intent_template_id"]]
    is_impossible = config["stand_in"]["family"] == "impossible"
    assert not miss or any(values[name] != other for name, other in miss.items())
    await env.reset(task)
    env.page.set_default_timeout(20_000)
    assert await both(task, env) == {0.0}, "nothing was done"
    await env.step([Terminate(status="success")])
    assert await both(task, env) == {0.0}, "nothing was done, and success was claimed"
    answer = await solve(env.page, {**values, **miss})
    await env.step([Terminate(status="success", answer="I did it." if is_impossible else answer)])
    assert await both(task, env) == {0.0}, "a near miss"
    await env.reset(task)
    env.page.set_default_timeout(20_000)
    answer = await solve(env.page, values)
    await env.step([Terminate(status="failure" if is_impossible else "success", answer=answer)])
    assert await both(task, env) == {1.0}, "the scripted solution"
    assert await both(task, env) == {1.0}, "evaluated again"
    if is_impossible:
        await env.step([Terminate(status="failure", answer="I looked everywhere and did not find it")])
        assert await both(task, env) == {1.0}, "given up, with a reason"
    assert (DATABASES in (await task.evaluate(env)).other_scores) == (config["stand_in"]["family"] != "navigation")


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_site_that_dies_costs_its_own_tasks_only(env: AppsEnv) -> None:
    configs = load_configs()
    shop = LiteTask(next(one for one in configs.values() if one["sites"] == ["shop"]))
    forge = LiteTask(next(one for one in configs.values() if one["sites"] == ["forge"]))
    await env.reset(shop)
    os.kill(env.app("oscar").pid, signal.SIGKILL)
    with pytest.raises(EnvDiedError, match="the app oscar is gone"):
        while True:  # its end is reported by the process that watches it
            await env.step([])
    with pytest.raises(EnvDiedError, match="the app oscar is gone"):
        await shop.evaluate(env)
    await env.reset(forge)
    assert await both(forge, env) == {0.0}
    await env.reset(shop)
    assert await both(shop, env) == {0.0}
