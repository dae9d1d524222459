"""Each rollout has one end: against faults, limits, sub-tasks on one pool, old policies, the death of the process."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cua.errors import ConfigError, ModelError, TrajectoryError
from cua.rollouts.journal import FILE, RolloutJournal
from cua.rollouts.rollout import Rollout, RolloutLimits, RolloutOutcome, RolloutSpec
from cua.rollouts.samples import PolicySpan, RolloutSample, SampleReader, SampleWriter
from cua.rollouts.scheduler import AccountingError, RolloutGroup, RolloutOptions, RolloutScheduler
from envs import Env, EnvDiedError, EnvSetupError, EnvSpec, InstructionTask, Terminate
from envs.fake import FakeEnv
from envs.pool import EnvPool

Play = Callable[[Rollout], Awaitable[RolloutOutcome]]
SCREEN = EnvSpec(name="screen")
TASK = InstructionTask(instruction="Do it")
QUICK = RolloutOptions(backoff_s=0.001, close_s=1.0)


def spec(play: Play, task_id: str = "task", **more: Any) -> RolloutSpec:
    return RolloutSpec(task_id=task_id, play=play, **more)


async def give_one(rollout: Rollout) -> RolloutOutcome:
    await asyncio.sleep(0)
    return RolloutOutcome(score=1.0)


@asynccontextmanager
async def scheduler(folder: Path, options: RolloutOptions = QUICK, **more: Any) -> AsyncIterator[RolloutScheduler]:
    async with RolloutScheduler(RolloutJournal(folder), options=options, **more) as running:
        yield running


async def all_of(running: RolloutScheduler) -> list[RolloutGroup]:
    return [group async for group in running.finished()]


async def one(folder: Path, play: Play, options: RolloutOptions = QUICK, **more: Any) -> Any:
    """End of a single rollout."""
    async with scheduler(folder, options) as running:
        group = running.submit(spec(play, **more))
        await all_of(running)
    return group.ends[0]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]


async def test_groups_are_run_and_every_transition_is_a_line(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        env = await rollout.acquire()
        rollout.enter("resetting")
        await env.reset(TASK)
        rollout.enter("running")
        await env.step([Terminate(status="success")])
        rollout.enter("evaluating")
        return RolloutOutcome(score=int(rollout.id[-1]) / 3)

    async with EnvPool(lambda spec: FakeEnv()) as pool, scheduler(tmp_path, take_env=pool.take) as running:
        running.submit(spec(play, env=SCREEN), group_size=4)
        (group,) = await all_of(running)
        counts = running.counts
    assert group.scores == [0.0, 1 / 3, 2 / 3, 1.0]
    assert group.mean_score == pytest.approx(0.5)
    assert (counts.num_queued, counts.states, counts.ends) == (4, {}, {"scored": 4})
    states = [line.get("state", line.get("kind")) for line in lines(tmp_path) if line.get("id") == "task.0/2"]
    assert states == ["queued", "acquiring", "resetting", "running", "evaluating", "scored"]


FAULTS: dict[str, tuple[BaseException, str, int]] = {
    "an environment that died": (EnvDiedError("the browser is gone"), "error", 3),
    "an environment that cannot start": (EnvSetupError("no such page"), "error", 1),
    "an overloaded model": (ModelError("overloaded", retryable=True), "error", 3),
    "a wrong key": (ModelError("bad key", retryable=False), "error", 1),
    "a defect": (ZeroDivisionError("in the play"), "error", 1),
    "an attempt to end the process": (SystemExit(0), "error", 1),
    "a cancellation of its own": (asyncio.CancelledError(), "error", 1),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_of_the_machine_is_never_a_score_of_zero(tmp_path: Path, fault: str) -> None:
    error, kind, num_attempts = FAULTS[fault]

    async def fail(rollout: Rollout) -> RolloutOutcome:
        raise error

    end = await one(tmp_path, fail)
    assert (end.kind, end.score, end.num_attempts) == (kind, None, num_attempts)
    assert end.reason


async def test_an_environment_that_died_is_replaced_and_the_attempt_repeated(tmp_path: Path) -> None:
    made: list[FakeEnv] = []

    def make(spec: EnvSpec) -> Env:
        made.append(FakeEnv())
        return made[-1]

    async def play(rollout: Rollout) -> RolloutOutcome:
        env = await rollout.acquire()
        await env.reset(TASK)
        if rollout.attempt == 1:
            made[-1].is_closed = True  # as if its process had been killed
        await env.step([])
        return RolloutOutcome(score=1.0)

    async with EnvPool(make) as pool, scheduler(tmp_path, take_env=pool.take) as running:
        group = running.submit(spec(play, env=SCREEN))
        await all_of(running)
    end = group.ends[0]
    assert end is not None
    assert (end.kind, end.score, end.num_attempts, len(made)) == ("scored", 1.0, 2, 2)


async def test_an_environment_that_cannot_be_closed_does_not_cost_the_score(tmp_path: Path) -> None:
    class Stuck(FakeEnv):
        async def close(self) -> None:
            raise ZeroDivisionError("in close")

    async def take(spec: EnvSpec) -> Env:
        return Stuck()

    async def play(rollout: Rollout) -> RolloutOutcome:
        await rollout.acquire()
        return RolloutOutcome(score=0.75)

    async with scheduler(tmp_path, take_env=take) as running:
        group = running.submit(spec(play, env=SCREEN))
        await all_of(running)
    assert group.scores == [0.75]


async def test_a_failed_evaluation_excludes_the_rollout_and_the_baseline_is_over_the_rest(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        rollout.enter("evaluating")
        if rollout.id.endswith("/0"):
            raise ZeroDivisionError("in the task's own check")
        return RolloutOutcome(score=None if rollout.id.endswith("/1") else 0.5)

    async with scheduler(tmp_path) as running:
        running.submit(spec(play), group_size=4)
        too_few = running.submit(spec(play), group_size=3)  # a baseline needs two scores
        groups = await all_of(running)
        assert running.counts.num_excluded_groups == 1
    assert [group.key for group in groups] == ["task.0"]
    assert [end.kind for end in groups[0].ends if end] == ["excluded", "excluded", "scored", "scored"]
    assert groups[0].mean_score == 0.5
    assert not too_few.is_usable


LIMITS = {
    "acquiring": ("acquire_s", "error", 3, False),
    "resetting": ("reset_s", "error", 3, False),
    "running": ("run_s", "excluded", 1, True),
    "evaluating": ("evaluate_s", "excluded", 1, False),
}


@pytest.mark.parametrize("state", LIMITS)
async def test_each_state_has_a_limit_of_its_own(tmp_path: Path, state: Any) -> None:
    limit, kind, num_attempts, is_truncated = LIMITS[state]

    async def hang(rollout: Rollout) -> RolloutOutcome:
        rollout.enter(state)
        await asyncio.sleep(60)
        return RolloutOutcome(score=1.0)

    end = await one(tmp_path, hang, limits=RolloutLimits(**{limit: 0.05}))
    assert (end.kind, end.num_attempts, end.is_truncated, end.score) == (kind, num_attempts, is_truncated, None)
    assert end.reason == f"{state} took longer than 0.05 s"


async def test_time_in_other_states_does_not_count_as_running(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        for _ in range(5):
            rollout.enter("running")
            rollout.enter("resetting")
            await asyncio.sleep(0.1)
        rollout.enter("running")
        return RolloutOutcome(score=1.0)

    assert (await one(tmp_path, play, limits=RolloutLimits(run_s=0.4))).kind == "scored"


async def test_returning_to_running_does_not_restart_its_limit(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        for _ in range(100):
            rollout.enter("running")
            await asyncio.sleep(0.02)
            rollout.enter("resetting")
        return RolloutOutcome(score=1.0)

    assert (await one(tmp_path, play, limits=RolloutLimits(run_s=0.2))).kind == "excluded"


async def test_a_rollout_that_notices_its_limit_may_still_be_scored(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            rollout.enter("evaluating")
        return RolloutOutcome(score=0.25, is_truncated=True)

    end = await one(tmp_path, play, limits=RolloutLimits(run_s=0.05))
    assert (end.kind, end.score, end.is_truncated) == ("scored", 0.25, True)


async def test_parents_that_wait_for_children_on_their_own_pool_end(tmp_path: Path) -> None:
    """8 parents, each with one child, on a pool of 4: without returning the environments they wait forever."""

    async def child(rollout: Rollout) -> RolloutOutcome:
        env = await rollout.acquire()
        await env.reset(TASK)
        return RolloutOutcome(score=0.5)

    async def parent(rollout: Rollout) -> RolloutOutcome:
        env = await rollout.acquire()
        await env.reset(TASK)
        await asyncio.sleep(0.01)
        (end,) = await rollout.run_children(spec(child, "child", env=SCREEN))
        await (await rollout.acquire()).reset(TASK)
        return RolloutOutcome(score=end.score)

    made: list[FakeEnv] = []

    def make(spec: EnvSpec) -> Env:
        made.append(FakeEnv())
        return made[-1]

    pool = EnvPool(make, max_leased=4)
    async with asyncio.timeout(20), pool, scheduler(tmp_path, take_env=pool.take) as running:
        groups = [running.submit(spec(parent, env=SCREEN)) for _ in range(8)]
        await all_of(running)
        assert running.counts.num_queued == 16
    assert [group.scores for group in groups] == [[0.5]] * 8
    assert len(made) == 4


async def test_sub_tasks_are_accounted_for_and_limited_in_depth(tmp_path: Path) -> None:
    async def parent(rollout: Rollout) -> RolloutOutcome:
        ends = [
            *await rollout.run_children(spec(give_one), spec(grandparent)),
            *await rollout.run_children(spec(give_one)),
        ]
        return RolloutOutcome(score=sum(end.score or 0.0 for end in ends) / 4)

    async def grandparent(rollout: Rollout) -> RolloutOutcome:
        await rollout.run_children(spec(give_one))
        return RolloutOutcome(score=1.0)

    async with scheduler(tmp_path) as running:
        group = running.submit(spec(parent))
        await all_of(running)
        assert running.counts.ends == {"scored": 3, "error": 1}
    assert group.scores == [0.5]
    ended = {line["id"]: line["kind"] for line in lines(tmp_path) if line.get("event") == "ended"}
    assert ended == {
        "task.0/0#1.0": "scored",
        "task.0/0#1.1": "error",  # too deep
        "task.0/0#1.2": "scored",
        "task.0/0": "scored",
    }


async def test_cancelling_a_parent_cancels_its_children(tmp_path: Path) -> None:
    closed: list[str] = []

    async def child(rollout: Rollout) -> RolloutOutcome:
        try:
            await asyncio.sleep(60)
        finally:
            closed.append(rollout.id)
        return RolloutOutcome(score=1.0)

    async def parent(rollout: Rollout) -> RolloutOutcome:
        async with asyncio.timeout(0.05):
            await rollout.run_children(spec(child), spec(child))
        return RolloutOutcome(score=1.0)

    async with scheduler(tmp_path) as running:
        group = running.submit(spec(parent))
        await all_of(running)
        assert running.counts.ends == {"excluded": 2, "error": 1}
    assert len(closed) == 2
    assert group.ends[0] is not None
    assert group.ends[0].reason.startswith("TimeoutError")


async def test_groups_start_in_order_and_only_as_far_as_the_version_allows(tmp_path: Path) -> None:
    started: list[str] = []
    gates: dict[str, asyncio.Event] = {}

    async def play(rollout: Rollout) -> RolloutOutcome:
        started.append(rollout.id)
        await gates.setdefault(rollout.spec.task_id, asyncio.Event()).wait()
        return RolloutOutcome(score=1.0)

    options = RolloutOptions(batch=2, eta=1, close_s=1.0)
    async with scheduler(tmp_path, options) as running:
        for number in range(8):
            running.submit(spec(play, f"t{number}"))
        await asyncio.sleep(0.1)
        assert started == ["t0.0/0", "t1.0/0", "t2.0/0", "t3.0/0"]  # (1 + 0 + 1) * 2
        assert "4 running + 0 accepted >= 4" in str(running.report()["queue"])
        gates["t1"].set()
        await asyncio.sleep(0.1)
        assert len(started) == 4  # accepted instead of running: none may start yet
        running.set_version(1)
        await asyncio.sleep(0.1)
        assert len(started) == 6
        with pytest.raises(ConfigError, match="goes back from 1 to 0"):
            running.set_version(0)


async def test_an_excluded_group_makes_room_for_another(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        await asyncio.sleep(0)
        return RolloutOutcome(score=None if rollout.spec.task_id in ("t0", "t2") else 1.0)

    async with scheduler(tmp_path, RolloutOptions(batch=2, eta=0, close_s=1.0)) as running:
        for number in range(5):
            running.submit(spec(play, f"t{number}"))
        await asyncio.sleep(0.1)
        counts = running.counts
    assert (counts.ends, counts.num_accepted, counts.num_excluded_groups) == ({"scored": 2, "excluded": 2}, 2, 2)


async def test_children_do_not_wait_for_admission(tmp_path: Path) -> None:
    async def parent(rollout: Rollout) -> RolloutOutcome:
        (end,) = await rollout.run_children(spec(give_one))
        return RolloutOutcome(score=end.score)

    options = RolloutOptions(batch=1, eta=0, get_slots=lambda: 1, close_s=1.0)
    async with asyncio.timeout(10), scheduler(tmp_path, options) as running:
        running.submit(spec(parent))
        assert len(await all_of(running)) == 1


async def test_groups_are_handed_out_oldest_start_first(tmp_path: Path) -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def play(rollout: Rollout) -> RolloutOutcome:
        await gates[rollout.spec.seed or 0].wait()
        return RolloutOutcome(score=1.0)

    async with scheduler(tmp_path) as running:
        for seed in range(4):
            running.submit(spec(play, seed=seed))
        for seed in (3, 1, 2):
            gates[seed].set()
            await asyncio.sleep(0.02)
        handed = running.finished()
        order = [(await anext(handed)).key for _ in range(3)]
        gates[0].set()
        order.append((await anext(handed)).key)
        assert order == ["task@1.0", "task@2.0", "task@3.0", "task@0.0"]
        await handed.aclose()


async def test_slots_of_the_engine_hold_back_further_groups(tmp_path: Path) -> None:
    slots, now_running, most = 4, 0, 0

    async def play(rollout: Rollout) -> RolloutOutcome:
        nonlocal now_running, most
        now_running += 1
        most = max(most, now_running)
        await asyncio.sleep(0.01)
        now_running -= 1
        return RolloutOutcome(score=1.0)

    async with scheduler(tmp_path, RolloutOptions(get_slots=lambda: slots, close_s=1.0)) as running:
        for _ in range(6):
            running.submit(spec(play), group_size=2)
        await all_of(running)
    assert most == 4


async def test_a_rollout_of_an_old_policy_counts_in_the_baseline_but_is_not_trained(tmp_path: Path) -> None:
    started = asyncio.Event()
    go = asyncio.Event()

    async def play(rollout: Rollout) -> RolloutOutcome:
        if rollout.id.endswith("/0"):
            started.set()
            await go.wait()
        return RolloutOutcome(score=1.0 if rollout.id.endswith("/0") else 0.0, branches=(make_branch(rollout),))

    writer = SampleWriter(tmp_path, media_token_id=1)
    journal = RolloutJournal(tmp_path, writer)
    async with RolloutScheduler(journal, options=RolloutOptions(batch=8, eta=1)) as running:
        running.submit(spec(play), group_size=2)
        await started.wait()
        running.set_version(2)
        go.set()
        (group,) = await all_of(running)
    writer.close()
    assert [end.kind for end in group.ends if end] == ["stale", "scored"]
    assert group.mean_score == 0.5
    with SampleReader(tmp_path) as reader:
        trained = {item.rollout: (item.reward, int(item.branches[0].mask.sum())) for item in reader}
    assert trained == {"task.0/0": (1.0, 0), "task.0/1": (0.0, 2)}


def make_branch(rollout: Rollout) -> RolloutSample:
    return RolloutSample(
        ids=np.array([7, 8, 9], dtype=np.uint32),
        mask=np.array([0, 1, 1], dtype=bool),
        logprobs=np.array([0, -1, -2], dtype=np.float32),
        spans=(PolicySpan(1, 3, rollout.current_version),),
        prompt_length=1,
    )


async def test_samples_of_frozen_policies_and_of_overlong_rollouts_are_not_trained(tmp_path: Path) -> None:
    async def child(rollout: Rollout) -> RolloutOutcome:
        return RolloutOutcome(score=1.0, branches=(make_branch(rollout),))

    async def parent(rollout: Rollout) -> RolloutOutcome:
        await rollout.run_children(spec(child, "child", policy="frozen:nano@3"))
        is_cut = rollout.id.endswith("/1")
        return RolloutOutcome(score=0.5, is_truncated=is_cut, branches=(make_branch(rollout),))

    writer = SampleWriter(tmp_path, media_token_id=1)
    options = RolloutOptions(overlong="mask")
    async with RolloutScheduler(RolloutJournal(tmp_path, writer), options=options) as running:
        running.submit(spec(parent, "suite#1"), group_size=2)
        (group,) = await all_of(running)
    writer.close()
    assert group.scores == [0.5, 0.5]
    with SampleReader(tmp_path) as reader:
        found = {
            item.rollout: (item.group, item.branches[0].policy, bool(item.branches[0].mask.any())) for item in reader
        }
    assert found == {
        "suite%231.0/0": ("suite%231.0", "policy", True),
        "suite%231.0/1": ("suite%231.0", "policy", False),
        "suite%231.0/0#1.0": ("suite%231.0/0", "frozen:nano@3", False),
        "suite%231.0/1#1.0": ("suite%231.0/1", "frozen:nano@3", False),
    }


async def test_samples_that_a_trainer_must_not_use_are_an_error(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        branch = make_branch(rollout)
        return RolloutOutcome(score=1.0, branches=(branch, branch))  # weights of 2 in all

    writer = SampleWriter(tmp_path, media_token_id=1)
    async with RolloutScheduler(RolloutJournal(tmp_path, writer)) as running:
        group = running.submit(spec(play))
        await all_of(running)
    writer.close()
    end = group.ends[0]
    assert end is not None
    assert (end.kind, end.score) == ("error", None)
    assert "expected a sum of 1" in end.reason


async def test_the_watchdog_says_who_waits_for_whom(tmp_path: Path) -> None:
    reports: list[Any] = []

    async def child(rollout: Rollout) -> RolloutOutcome:
        await asyncio.sleep(60)
        return RolloutOutcome(score=1.0)

    async def parent(rollout: Rollout) -> RolloutOutcome:
        await rollout.run_children(spec(child))
        return RolloutOutcome(score=1.0)

    async with scheduler(tmp_path, RolloutOptions(stuck_s=0.1, on_stuck=reports.append, close_s=1.0)) as running:
        running.submit(spec(parent))
        await asyncio.sleep(0.5)
    waits = {item["id"]: item["waits_for"] for item in reports[0]["oldest"]}
    assert waits["task.0/0"] == ["task.0/0#1.0"]
    assert reports[0]["states"] == {"waiting": 1, "running": 1}
    assert any(line.get("event") == "stuck" for line in lines(tmp_path))


async def test_what_ignores_its_cancellation_is_abandoned_and_accounted_for(tmp_path: Path) -> None:
    async def deaf(rollout: Rollout) -> RolloutOutcome:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    began = time.monotonic()
    async with scheduler(tmp_path, RolloutOptions(close_s=0.1)) as running:
        running.submit(spec(deaf))
        await asyncio.sleep(0.05)
    assert time.monotonic() - began < 5
    assert running.counts.ends == {"excluded": 1}


async def test_an_abandoned_child_returns_its_environment_and_ends_once(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def deaf(rollout: Rollout) -> RolloutOutcome:
        await rollout.acquire()
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()
        return RolloutOutcome(score=1.0)

    async def parent(rollout: Rollout) -> RolloutOutcome:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await rollout.run_children(spec(deaf, "child", env=SCREEN))
        await rollout.acquire()  # the only one
        go.set()
        await asyncio.sleep(0.05)
        return RolloutOutcome(score=1.0)

    pool = EnvPool(lambda spec: FakeEnv(), max_leased=1)
    options = RolloutOptions(close_s=0.1)
    async with asyncio.timeout(10), pool, scheduler(tmp_path, options, take_env=pool.take) as running:
        running.submit(spec(parent, env=SCREEN))
        await all_of(running)
        assert running.counts.ends == {"scored": 1, "excluded": 1}


async def test_an_end_that_is_missing_or_doubled_is_an_error_at_shutdown(tmp_path: Path) -> None:
    with pytest.raises(AccountingError, match="1 rollouts were queued, 2 have ended"):
        async with scheduler(tmp_path) as running:
            running.submit(spec(give_one))
            await all_of(running)
            running._counts.ends["scored"] += 1


async def test_a_stopped_process_is_continued_and_every_group_is_handed_out_once(tmp_path: Path) -> None:
    runs: Counter[str] = Counter()

    async def play(rollout: Rollout) -> RolloutOutcome:
        runs[rollout.id] += 1
        await asyncio.sleep(0.01 if (rollout.spec.seed or 0) < 3 else 0.2)
        return RolloutOutcome(score=1.0)

    handed: list[str] = []
    for most in (2, 100):
        async with scheduler(tmp_path) as running:
            for seed in range(6):
                running.submit(spec(play, seed=seed), group_size=2)
            async for group in running.finished():
                if len(handed) == most:
                    break  # not taken: it comes again
                handed.append(group.key)
    assert sorted(handed) == [f"task@{seed}.0" for seed in range(6)]
    assert [runs[f"task@{seed}.0/0"] for seed in range(3)] == [1, 1, 1]


async def test_other_specs_than_those_of_the_journal_are_noticed(tmp_path: Path) -> None:
    async with scheduler(tmp_path) as running:
        running.submit(spec(give_one, "first"), group_size=3)
    with pytest.raises(AccountingError, match=r"3 rollouts .* not submitted again \(first.0/0"):
        async with scheduler(tmp_path) as running:
            running.submit(spec(give_one, "second"))
            await all_of(running)


async def test_a_group_that_is_resumed_with_other_draws_is_refused(tmp_path: Path) -> None:
    async with scheduler(tmp_path) as running:
        running.submit(spec(give_one, draws={"tools": ("a", "b")}))
        await all_of(running)
    async with scheduler(tmp_path) as running:
        with pytest.raises(ConfigError, match="was submitted as"):
            running.submit(spec(give_one, draws={"tools": ("b", "a")}))
        running._left.clear()
    async with scheduler(tmp_path) as running:
        assert running.submit(spec(give_one, draws={"tools": ["a", "b"]})).scores == [1.0]


async def test_a_journal_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        (tmp_path / FILE).unlink(missing_ok=True)
        return RolloutOutcome(score=1.0)

    with pytest.raises(TrajectoryError, match="was deleted while the run was going on"):
        async with scheduler(tmp_path) as running:
            running.submit(spec(play))
            await all_of(running)
    await RolloutJournal(tmp_path).close()  # the lock is released


async def test_samples_that_cannot_be_written_end_the_run(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        return RolloutOutcome(score=1.0, branches=(make_branch(rollout),))

    writer = SampleWriter(tmp_path, media_token_id=1)
    writer.close()
    with pytest.raises(TrajectoryError, match="is closed"):
        async with RolloutScheduler(RolloutJournal(tmp_path, writer)) as running:
            running.submit(spec(play))
            await all_of(running)


async def test_a_journal_belongs_to_one_process(tmp_path: Path) -> None:
    async with scheduler(tmp_path):
        with pytest.raises(TrajectoryError, match="being written by another process"):
            RolloutJournal(tmp_path)


@pytest.mark.parametrize(
    "text", [b'{"event": "batch", "version": 1}\n', b"no json\n", b'{"event": "rollouts", "version": 2}\n']
)
def test_another_journal_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(TrajectoryError, match="is not a journal of rollouts"):
        RolloutJournal(tmp_path)


SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.cua.rollouts.test_scheduler import run_killable
asyncio.run(run_killable(Path(sys.argv[1])))
"""
NUM_GROUPS, SIZE = 60, 3


async def run_killable(folder: Path) -> None:
    """Run groups with samples and sub-tasks; prints the keys of the groups it has handed out, as a trainer would."""

    async def child(rollout: Rollout) -> RolloutOutcome:
        await asyncio.sleep(0.005)
        return RolloutOutcome(score=1.0)

    async def play(rollout: Rollout) -> RolloutOutcome:
        await asyncio.sleep(0.01 * ((rollout.spec.seed or 0) % 5))
        await rollout.run_children(spec(child, "child"))
        return RolloutOutcome(score=0.5, branches=(make_branch(rollout),))

    writer = SampleWriter(folder, media_token_id=1)
    options = RolloutOptions(get_slots=lambda: 12, close_s=1.0)
    async with RolloutScheduler(RolloutJournal(folder, writer), options=options) as running:
        for seed in range(NUM_GROUPS):
            running.submit(spec(play, seed=seed), group_size=SIZE)
        async for group in running.finished():
            print(group.key, flush=True)
        print("all", flush=True)
    writer.close()


def test_a_killed_process_is_resumed_without_losing_or_doubling_a_rollout(tmp_path: Path) -> None:
    handed: list[str] = []
    num_kills = 0
    for kill_after in (1, 15, 30, 10**9):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line.strip())
            if len(printed) == kill_after:
                os.kill(process.pid, signal.SIGKILL)
                num_kills += 1
        process.wait()
        # a group that was printed but not yet taken when the process died comes again, first
        handed += [key for key in printed if key not in handed[-1:]]
    assert num_kills == 3
    assert Counter(handed) == Counter([*(f"task@{seed}.0" for seed in range(NUM_GROUPS)), "all"])
    ended = Counter(line["id"] for line in lines(tmp_path) if line.get("event") == "ended" and "#" not in line["id"])
    assert ended == Counter({f"task@{seed}.0/{member}": 1 for seed in range(NUM_GROUPS) for member in range(SIZE)})
    attempts = {line["id"]: line["num_attempts"] for line in lines(tmp_path) if line.get("event") == "ended"}
    with SampleReader(tmp_path) as reader:
        counted = Counter(item.rollout for item in reader if item.attempt == attempts[item.rollout])
    assert counted == ended
