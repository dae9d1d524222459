"""Proof that a task's verdict is right: a scripted solution scores 1, doing nothing and a near miss score 0."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from playwright.async_api import Page

from envs import Terminate
from envs.browser import find_browser
from envs.suites.apps import AppsEnv, AppTask
from envs.suites.apps.suite import APPS, TASKS

Do = Callable[[Page], Awaitable[str | None]]
"""Acts on the page; may return the answer to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a task's verdict is tried with.

    Attributes:
        solve: Does what the task wants; None for one that cannot be done, which ends in saying so.
        miss: Does nearly that: the wrong item, or all but saving.
    """

    solve: Do | None = None
    miss: Do


def skip_unless_installed(*sites: str) -> None:
    """Skip with the reason where an app or the browser is missing."""
    for app in APPS:
        if app.name in sites and (reason := app.why_missing()) is not None:
            pytest.skip(f"{app.name}: {reason}; install it with `cua setup apps`")
    if find_browser() is None:
        pytest.skip("no Chromium found; get one with `cua setup`")


@asynccontextmanager
async def apps_env() -> AsyncIterator[AppsEnv]:
    env = AppsEnv(APPS)
    try:
        yield env
    finally:
        await env.close()


def ids_of(group: str) -> list[str]:
    """The tasks whose id begins with a group."""
    return [config.id for config in TASKS if config.id.partition("/")[0] == group]


async def prove(env: AppsEnv, task_id: str, proofs: Mapping[str, Proof]) -> None:
    """Try the verdict of one task in the three ways."""
    config = next(config for config in TASKS if config.id == task_id)
    skip_unless_installed(*config.sites)
    proof = proofs[task_id]
    task = AppTask(config)
    await env.reset(task)
    env.page.set_default_timeout(20_000)
    assert (await task.evaluate(env)).score == 0.0, "nothing was done"
    await env.step([Terminate(status="success")])
    assert (await task.evaluate(env)).score == 0.0, "nothing was done, and success was claimed"
    answer = await proof.miss(env.page)
    await env.step([Terminate(status="success", answer=answer)])
    assert (await task.evaluate(env)).score == 0.0, "a near miss"
    await env.reset(task)
    env.page.set_default_timeout(20_000)
    answer = await proof.solve(env.page) if proof.solve is not None else None
    await env.step([Terminate(status="success" if config.is_possible else "failure", answer=answer)])
    assert (await task.evaluate(env)).score == 1.0, "the scripted solution"
    assert (await task.evaluate(env)).score == 1.0, "evaluated again"
