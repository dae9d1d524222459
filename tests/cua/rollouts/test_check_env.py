"""Suites that are fit for reinforcement learning pass; suites that can be farmed, or whose scores drift, do not."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from apps.nano.garden import GardenTask
from apps.nano.garden import make_suite as make_garden
from apps.train.suite import ScreenTask
from apps.train.suite import make_suite as make_screens
from cua.errors import ConfigError
from cua.rollouts.check_env import RolloutEnvError, check_rollout_env
from envs import (
    Action,
    Click,
    Env,
    EnvDiedError,
    EnvSpec,
    StepResult,
    Suite,
    Task,
    TaskSpec,
    TaskVerdict,
    Terminate,
    TypeText,
)
from envs.fake import FakeEnv
from envs.target import ActionCheck

SPEC = EnvSpec(name="fake")
PLACES = {"tab": "[data-tab={}]", "press": "[data-name={}]", "item": "li:text-is('{}')", "checkbox": "[name={}]"}


async def solve_screen(task: Task, env: Env) -> None:
    assert isinstance(task, ScreenTask)
    screen: Any = env
    for deed in task._deeds:
        [element] = [one for one in screen.screen.targets if (one.kind, one.name) == (deed.kind, deed.name)]
        x, y = element.click_point
        typed = [TypeText(text=deed.typed)] if deed.typed else []
        await env.step([Click(x_px=int(x), y_px=int(y)), *typed])
    await env.step([Terminate(status="failure" if task._is_absent else "success")])


async def solve_garden(task: Task, env: Env) -> None:
    assert isinstance(task, GardenTask)
    page: Any = env
    if task.plant:
        await page.page.fill("[name=plant]", task.plant)
    for event in task.done:
        kind, name, *_ = event.split()
        await page.page.click(f"[value={name}]" if kind == "radio" else PLACES[kind].format(name))
    await env.step([Terminate(status="success")])


@pytest.mark.slow
async def test_the_drawn_screens_are_fit() -> None:
    """All seeds: of three of them, the random agent solves a tenth by luck."""
    report = await check_rollout_env(make_screens(), max_seeds=10, solve=solve_screen)
    assert (report.num_episodes, report.null_score, report.solved_score) == (170, 0.0, 1.0)
    assert report.random_score == pytest.approx(make_screens().baselines["random"].score, abs=0.02)


@pytest.mark.long
async def test_some_kinds_of_drawn_screens_are_fit() -> None:
    report = await check_rollout_env(
        make_screens(), task_ids=("type", "three-steps", "absent", "icon"), max_seeds=3, solve=solve_screen
    )
    assert (report.num_episodes, report.null_score, report.solved_score) == (12, 0.0, 1.0)


@pytest.mark.browser
@pytest.mark.slow
async def test_the_garden_in_a_browser_is_fit() -> None:
    chosen = ("save", "water", "type", "weekly")
    report = await check_rollout_env(make_garden(), task_ids=chosen, solve=solve_garden, num_parallel=2)
    assert (report.num_episodes, report.null_score, report.random_score, report.solved_score) == (4, 0.0, 0.0, 1.0)


class Chore(Task):
    """Solved by a click in the middle; its faults are switched on one at a time."""

    instruction = "Click in the middle"
    spec = TaskSpec(id="chore", env=SPEC, metadata={"family": "chore"})

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.count = 0

    async def setup(self, env: Any) -> None:
        if self.fault == "another port":
            self.instruction = f"Click in the middle of http://127.0.0.1:{id(self)}/"
        if self.fault == "another instruction":
            self.instruction = f"Click in the middle, {id(env)} {env.num_resets}"

    async def evaluate(self, env: Any) -> TaskVerdict:
        self.count += 1
        if self.fault == "a score that changes":
            return TaskVerdict(0.01 * self.count)
        if self.fault == "a broken check":
            return TaskVerdict(1 / 0) if env.terminate else TaskVerdict(0.0)
        if self.fault == "the agent's own words" and env.terminate is not None:
            return TaskVerdict(env.terminate.status == "success")
        if self.fault == "solved at once":
            return TaskVerdict(1.0)
        return TaskVerdict(any(isinstance(action, Click) and action.x_px == 160 for action in env.actions))


class Leaky(FakeEnv):
    """Leaves something over when it is closed."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.left: list[Any] = []

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        while self.fault == "a step that ignores its cancellation":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        if self.fault == "a step that dies":
            await asyncio.sleep(0.1)
            raise EnvDiedError("closed")
        return result

    async def close(self) -> None:
        await super().close()
        if self.fault == "a process":
            argv = [sys.executable, "-c", "import time; time.sleep(60)"]
            self.left.append(await asyncio.to_thread(subprocess.Popen, argv))
        if self.fault == "a task":
            self.left.append(asyncio.create_task(asyncio.sleep(60)))

    def clean(self) -> None:
        for one in self.left:
            if isinstance(one, asyncio.Task):
                one.cancel()
            else:
                one.kill()
                one.wait()


async def check(fault: str, *, solve: bool = True) -> None:
    made: list[Leaky] = []

    def make(spec: EnvSpec) -> Env:
        is_last = len(made) >= 1  # the pool has made the first: only closing during a step is at fault
        made.append(Leaky(fault if is_last else ""))
        return made[-1]

    async def click(task: Task, env: Env) -> None:
        await env.step([Click(x_px=160 if fault != "a wrong solution" else 161, y_px=100)])

    suite = Suite(name="chores", about="", task_ids=("chore",), make_task=lambda id, seed: Chore(fault), make_env=make)
    try:
        await check_rollout_env(suite, solve=click if solve else None, num_parallel=1)
    finally:
        for env in made:
            env.clean()


async def test_a_sound_suite_passes_with_and_without_solutions() -> None:
    await check("")
    await check("", solve=False)
    await check("a step that dies")
    await check("another port")


async def test_a_suite_for_other_agents_is_refused() -> None:
    suite = replace(make_screens(), agents=("tools",))
    with pytest.raises(ConfigError, match="only `gui` suites are checked"):
        await check_rollout_env(suite)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("solved at once", "is solved before any step"),
        ("the agent's own words", "the null agent scores 1.000"),
        ("a score that changes", "when it is evaluated again"),
        ("another instruction", "Click in the middle, "),
        ("a broken check", "null ended as evaluator_error: ZeroDivisionError"),
        ("a wrong solution", "scripted solutions score 0.000"),
    ],
)
async def test_a_fault_is_named(fault: str, problem: str) -> None:
    with pytest.raises(RolloutEnvError, match=problem):
        await check(fault)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("a process", "leaves the processes"),
        ("a task", "and the tasks"),
        ("a step that ignores its cancellation", "still runs"),
    ],
)
async def test_what_is_left_over_is_named(fault: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cua.rollouts.check_env._GONE_S", 0.5)
    with pytest.raises(RolloutEnvError, match=problem):
        await check(fault)
