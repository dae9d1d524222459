"""Cost of the scheduler of rollouts: many scripted tasks that all wait at once for a made-up engine.

    python -m benchmarks.rollouts [--tasks 10000] [--json]
    python -m benchmarks.rollouts --episodes 200 [--suite miniwob]
    python -m benchmarks.rollouts --check garden [--tasks 10]

Prints memory of a waiting task, transitions a second, and the delay of the event loop. Every tenth group fails, is not
scored, or has sub-tasks; all must be accounted for. In the same run, for comparison: the memory of a plain asyncio
task, and the delay of an event loop that has nothing to do.

With `--episodes`: GUI agents by the batch runner and as rollouts, in turns: with scripted replies in fake environments,
or, with `--suite`, by the literal model (rules) at tasks drawn from the suite, in groups of 4.
With `--check`: `check_rollout_env` of tasks of a suite, one seed each, without solutions.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from apps.literal import LiteralModel
from cua.batch import AgentPlayer, BatchOptions, EpisodeLog, make_episodes, run_batch
from cua.errors import ModelError
from cua.model import Model
from cua.models.scripted import ScriptedModel
from cua.rollouts.check_env import check_rollout_env
from cua.rollouts.journal import FILE, RolloutJournal
from cua.rollouts.play import make_episode_spec
from cua.rollouts.rollout import Rollout, RolloutOutcome, RolloutSpec
from cua.rollouts.scheduler import RolloutOptions, RolloutScheduler
from cua.run.budget import Caps
from cua.run.scope import RunScope
from envs import Suite
from envs.fake import FakeEnv
from envs.pool import EnvPool
from envs.registry import load_suite, make_env
from tests.cua.batch import chores
from tests.cua.batch.test_executor import CLICK, DONE

NUM_PARALLEL = 4
GROUP_SIZE = 8
EPISODE_GROUP_SIZE = 4
NUM_RUNS = 6
REPLIES_A_TURN = 20
LAG_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """Tasks and seeds of a comparison, each as a group of episodes."""

    suite: Suite
    keys: tuple[tuple[str, int | None], ...]
    group_size: int
    make_model: Callable[[], Model]


class Engine:
    """Replies to the longest waiting calls, some at a time, as soon as it is opened."""

    def __init__(self) -> None:
        self.calls: deque[asyncio.Future[None]] = deque()
        self._is_open = False

    async def reply(self) -> None:
        call = asyncio.get_running_loop().create_future()
        self.calls.append(call)
        await call

    async def serve(self) -> None:
        while True:
            for _ in range(min(REPLIES_A_TURN, len(self.calls))):
                call = self.calls.popleft()
                if not call.done():
                    call.set_result(None)
            await asyncio.sleep(0 if self.calls else 0.001)


def make_spec(engine: Engine, kind: int) -> RolloutSpec:
    async def child(rollout: Rollout) -> RolloutOutcome:
        await engine.reply()
        return RolloutOutcome(score=1.0)

    async def play(rollout: Rollout) -> RolloutOutcome:
        await engine.reply()
        rollout.enter("evaluating")
        if kind == 0:
            raise ModelError("the engine is gone", retryable=False)
        if kind == 1:
            return RolloutOutcome(score=None, reason="not scored")
        if kind == 2:
            await rollout.run_children(RolloutSpec(task_id="child", play=child))
        return RolloutOutcome(score=1.0)

    return RolloutSpec(task_id="scripted", play=play)


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def sample_lag(lags: list[float]) -> None:
    while True:
        due = time.perf_counter() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        lags.append(time.perf_counter() - due)


async def measure_bare(num_tasks: int) -> int:
    """Return the bytes of a plain asyncio task that waits for the engine."""
    engine = Engine()
    gc.collect()
    before_bytes = rss_bytes()
    tasks = [asyncio.create_task(engine.reply()) for _ in range(num_tasks)]
    await asyncio.sleep(0)
    found = (rss_bytes() - before_bytes) // num_tasks
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return found


async def measure(num_tasks: int, folder: Path) -> dict[str, float]:
    engine, lags = Engine(), list[float]()
    specs = [make_spec(engine, kind) for kind in range(30)]
    async with RolloutScheduler(RolloutJournal(folder), options=RolloutOptions()) as scheduler:
        sampler = asyncio.create_task(sample_lag(lags))
        gc.collect()
        before_bytes, started = rss_bytes(), time.perf_counter()
        cpu_started = time.process_time()
        for number in range(num_tasks // GROUP_SIZE):
            scheduler.submit(specs[number % len(specs)], GROUP_SIZE)
            if number % 50 == 0:
                await asyncio.sleep(0)
        while len(engine.calls) < num_tasks // GROUP_SIZE * GROUP_SIZE:
            await asyncio.sleep(0.01)
        waiting_s, waiting_bytes = time.perf_counter() - started, rss_bytes() - before_bytes
        num_waiting = len(engine.calls)
        server = asyncio.create_task(engine.serve())
        num_groups = sum([1 async for _ in scheduler.finished()])
        took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        sampler.cancel()
        server.cancel()
        counts = scheduler.counts
    num_lines = (folder / FILE).read_bytes().count(b'"state"') + sum(counts.ends.values())
    lags.sort()
    return {
        "tasks": counts.num_queued,
        "waiting at once": num_waiting,
        "ended": sum(counts.ends.values()),
        "groups handed out": num_groups,
        "groups without a baseline": counts.num_excluded_groups,
        "bytes a waiting task": round(waiting_bytes / num_waiting),
        "seconds until all wait": round(waiting_s, 2),
        "seconds": round(took_s, 2),
        "cpu seconds": round(cpu_s, 2),
        "transitions": num_lines,
        "transitions a second": round(num_lines / took_s),
        "transitions a cpu second": round(num_lines / cpu_s),
        "loop lag p50 ms": round(1000 * lags[len(lags) // 2], 1),
        "loop lag p99 ms": round(1000 * lags[int(0.99 * (len(lags) - 1))], 1),
        "loop lag max ms": round(1000 * lags[-1], 1),
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


async def measure_idle_lag(seconds: float) -> float:
    """Return the 99th percentile of the delay of an event loop without work, in ms."""
    lags: list[float] = []
    sampler = asyncio.create_task(sample_lag(lags))
    await asyncio.sleep(seconds)
    sampler.cancel()
    return round(1000 * sorted(lags)[int(0.99 * (len(lags) - 1))], 1)


async def measure_episodes(plan: EpisodePlan, folder: Path, *, as_rollouts: bool) -> tuple[float, float]:
    """Return episodes a second, and the mean score."""
    suite, num_episodes = plan.suite, len(plan.keys) * plan.group_size
    player = AgentPlayer(folder / "runs", approve=suite.approve, max_steps=suite.max_steps)
    repeats = 1 if as_rollouts else plan.group_size
    started = time.perf_counter()
    async with EnvPool(suite.make_env or make_env, max_idle=NUM_PARALLEL, max_leased=NUM_PARALLEL) as pool:
        episodes = make_episodes(
            [(*key, repeat) for key in plan.keys for repeat in range(repeats)],
            make_task=suite.make_task,
            take_env=pool.take,
            make_model=plan.make_model,
        )
        if as_rollouts:
            scope = RunScope(caps=Caps(max_steps=None))
            options = RolloutOptions(get_slots=lambda: NUM_PARALLEL + plan.group_size - 1)
            async with RolloutScheduler(RolloutJournal(folder), take_env=pool.take, options=options) as scheduler:
                for episode in episodes:
                    env = episode.make_task().spec.env
                    scheduler.submit(make_episode_spec(episode, player, scope=scope, env=env), plan.group_size)
                scores = [score async for group in scheduler.finished() for score in group.scores]
        else:
            with EpisodeLog(folder) as log:
                summary = await run_batch(episodes, player, log=log, options=BatchOptions(num_parallel=NUM_PARALLEL))
            scores = [result.score for result in summary.results if result.score is not None]
    assert len(scores) == num_episodes
    return num_episodes / (time.perf_counter() - started), sum(scores) / num_episodes


def compare_episodes(plan: EpisodePlan) -> dict[str, float]:
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(NUM_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            as_rollouts = number % 2 == 1
            found[as_rollouts].append(asyncio.run(measure_episodes(plan, Path(folder), as_rollouts=as_rollouts)))
    (batch, batch_score), (rollouts, score) = (
        tuple(statistics.median(values) for values in zip(*found[kind], strict=True)) for kind in (False, True)
    )
    return {
        "episodes a run": len(plan.keys) * plan.group_size,
        "episodes a second, batch": round(batch, 2),
        "episodes a second, rollouts": round(rollouts, 2),
        "ratio": round(rollouts / batch, 2),
        "mean score, batch": round(batch_score, 3),
        "mean score, rollouts": round(score, 3),
    }


def make_plan(num_episodes: int, suite_name: str) -> EpisodePlan:
    if not suite_name:
        keys: list[tuple[str, int | None]] = [("click/left", seed) for seed in range(1, num_episodes + 1)]
        suite = replace(chores.make_suite(), make_env=lambda spec: FakeEnv(), approve="yolo")
        return EpisodePlan(suite, tuple(keys), 1, lambda: ScriptedModel([CLICK, DONE]))
    suite = load_suite(suite_name)
    task_ids = draw_tasks(suite, num_episodes // EPISODE_GROUP_SIZE)
    keys = [(task_id, suite.seeds[0]) for task_id in task_ids]
    model = LiteralModel()
    return EpisodePlan(suite, tuple(keys), EPISODE_GROUP_SIZE, lambda: model)


def draw_tasks(suite: Suite, num_tasks: int) -> list[str]:
    return random.Random(0).sample(suite.task_ids, min(num_tasks, len(suite.task_ids)))


async def check_suite(name: str, num_tasks: int) -> dict[str, float]:
    suite = load_suite(name)
    report = await check_rollout_env(suite, task_ids=draw_tasks(suite, num_tasks), max_seeds=1)
    return {"episodes": report.num_episodes, "null": report.null_score, "random": report.random_score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=0)
    parser.add_argument("--suite", default="")
    parser.add_argument("--check", default="")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        found = asyncio.run(check_suite(arguments.check, arguments.tasks))
    elif arguments.episodes:
        found = compare_episodes(make_plan(arguments.episodes, arguments.suite))
    else:
        found = measure_tasks(arguments.tasks)
    table = "\n".join(f"{name:28} {value:>12,}" for name, value in found.items())
    print(json.dumps(found) if arguments.json else table)


def measure_tasks(num_tasks: int) -> dict[str, float]:
    idle_ms = asyncio.run(measure_idle_lag(3.0))
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(num_tasks, Path(folder)))
    assert found["tasks"] == found["ended"]
    found["idle loop lag p99 ms"] = idle_ms
    bare = f"import asyncio, benchmarks.rollouts as r; print(asyncio.run(r.measure_bare({num_tasks})))"
    found["bytes a plain task"] = int(subprocess.check_output([sys.executable, "-c", bare]))
    return found


if __name__ == "__main__":
    main()
