"""The page that was written by hand: each task can be solved, and only what was asked for counts."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from apps.nano.garden import TASKS, GardenTask, make_suite
from envs import Terminate
from envs.browser.env import BrowserEnv
from envs.env import EnvSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")
PLACES = {"tab": "[data-tab={}]", "press": "[data-name={}]", "item": "li:text-is('{}')", "checkbox": "[name={}]"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[BrowserEnv]:
    suite = make_suite()
    assert suite.make_env is not None
    made = suite.make_env(EnvSpec(name="garden"))
    assert isinstance(made, BrowserEnv)
    yield made
    await made.close()


async def solve(env: BrowserEnv, task: GardenTask) -> None:
    if task.plant:
        await env.page.fill("[name=plant]", task.plant)
    for event in task.done:
        kind, name, *_ = event.split()
        await env.page.click(f"[value={name}]" if kind == "radio" else PLACES[kind].format(name))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_what_was_asked_for_counts_once_it_is_said(env: BrowserEnv, task: GardenTask) -> None:
    await env.reset(task)
    assert (await task.evaluate(env)).score == 0.0
    await solve(env, task)
    assert (await task.evaluate(env)).score == 0.0  # done, but not said
    await env.step([Terminate(status="success")])
    assert (await task.evaluate(env)).score == 1.0


@pytest.mark.long
async def test_more_than_that_does_not_count(env: BrowserEnv) -> None:
    task = TASKS[0]
    await env.reset(task)
    await env.page.click("[data-tab=Water]")
    await solve(env, task)
    await env.step([Terminate(status="success")])
    assert (await task.evaluate(env)).score == 0.0


@pytest.mark.long
async def test_ten_tasks_of_both_families() -> None:
    suite = make_suite()
    assert len(suite.task_ids) == 10
    assert [suite.make_task(name, None).spec.id for name in suite.task_ids] == list(suite.task_ids)
