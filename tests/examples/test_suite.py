"""The example of a user's suite keeps the contract of suites."""

import pytest

from envs.browser.launch import find_browser
from envs.check_suite import check_suite
from examples.suite import make_suite


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
async def test_the_example_of_a_suite_keeps_the_contract() -> None:
    await check_suite(make_suite)


def test_every_task_is_drawn_from_its_seed_alone() -> None:
    suite = make_suite()
    for task_id in suite.task_ids:
        instructions = {suite.make_task(task_id, seed).instruction for seed in suite.seeds for _ in range(2)}
        assert 1 <= len(instructions) <= len(suite.seeds)
        assert suite.make_task(task_id, 1) == make_suite().make_task(task_id, 1)
