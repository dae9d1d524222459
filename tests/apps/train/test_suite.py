"""The suite `screens` and its env: their contracts, solutions, near misses, and what doing nothing gets."""

import pytest

from apps.train.screens.words import is_held_out
from apps.train.suite import TASK_KINDS, DrawnEnv, PerformedAction, ScreenTask, make_suite
from envs import Click, Terminate, TypeText
from envs.check_env import check_env
from envs.check_suite import check_suite

SEEDS = range(3)


async def play(task: ScreenTask, deeds: list[PerformedAction], status: str) -> float | None:
    """Do these things, where they are on the screen as it is then, and end."""
    env = DrawnEnv()
    await env.reset(task)
    for deed in deeds:
        [element] = [one for one in env.screen.targets if (one.kind, one.name) == (deed.kind, deed.name)]
        x, y = element.click_point
        typed = [TypeText(text=deed.typed)] if deed.typed else []
        result = await env.step([Click(x_px=int(x), y_px=int(y)), *typed])
        assert result.observation.last_action_error is None
    await env.step([Terminate(status="success" if status == "success" else "failure")])
    return (await task.evaluate(env)).score


@pytest.mark.parametrize("name", TASK_KINDS)
async def test_a_task_is_solved_by_its_solution_alone(name: str) -> None:
    for seed in SEEDS:
        task = ScreenTask(name, seed)
        status, other = ("failure", "success") if name == "absent" else ("success", "failure")
        assert await play(task, task._deeds, status) == 1.0
        assert await play(task, task._deeds, other) == 0.0
        assert await play(task, [], "success") == 0.0
        if task._deeds:
            assert await play(task, [], "failure") == 0.0
            last = task._deeds[-1]
            if last.kind != "field":
                assert await play(task, [*task._deeds, last], "success") == 0.0
            if last.typed:
                assert await play(task, [PerformedAction(last.kind, last.name, last.typed + "x")], "success") == 0.0
        assert all(is_held_out(deed.name) for deed in task._deeds if deed.kind != "icon")
        assert ScreenTask(name, seed).instruction == task.instruction


async def test_three_steps_have_three_parts() -> None:
    for seed in SEEDS:
        task = ScreenTask("three-steps", seed)
        assert len(task._deeds) == 3
        assert await play(task, task._deeds[::-1], "success") == 0.0


async def test_the_env_keeps_its_contract() -> None:
    await check_env(DrawnEnv)


async def test_the_suite_keeps_its_contract() -> None:
    await check_suite(make_suite)
