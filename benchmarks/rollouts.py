"""Cost of the scheduler of rollouts: many scripted tasks that all wait at once for a made-up engine.

    python -m benchmarks.rollouts [--tasks 10000] [--json]
    python -m benchmarks.rollouts --episodes 200
    python -m benchmarks.rollouts --check garden [--tasks 10]

Prints memory of a waiting task, transitions a second, and the delay of the event loop. Every tenth group fails, is not
scored, or has sub-tasks; all must be accounted for. In the same run, for comparison: the memory of a plain asyncio
task, and the delay of an event loop that has nothing to do.

With `--episodes`: GUI agents with scripted replies in fake environments, by the batch runner and as rollouts, in turns.
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
from pathlib import Path

from cua.batch import AgentPlayer, BatchOptions, EpisodeLog, make_episodes, run_batch
from cua.errors import ModelError
from cua.models.scripted import ScriptedModel
from cua.rollouts.check_env import check_rollout_env
from cua.rollouts.journal import FILE, RolloutJournal
from cua.rollouts.play import make_episode_spec
from cua.rollouts.rollout import Rollout, RolloutOutcome, RolloutSpec
from cua.rollouts.scheduler import RolloutOptions, RolloutScheduler
from cua.run.budget import Caps
from cua.run.scope import RunScope
from envs.fake import FakeEnv
from envs.pool import EnvPool
from envs.registry import load_suite
from tests.cua.batch import chores
from tests.cua.batch.test_executor import CLICK, DONE

NUM_PARALLEL = 4
GROUP_SIZE = 8
REPLIES_A_TURN = 20
LAG_EVERY_S = 0.005


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


async def measure_episodes(num_episodes: int, folder: Path, *, as_rollouts: bool) -> float:
    """Return episodes a second of GUI agents with scripted replies."""
    suite = chores.make_suite()
    player = AgentPlayer(folder / "runs", approve="yolo")
    started = time.perf_counter()
    async with EnvPool(lambda spec: FakeEnv(), max_idle=NUM_PARALLEL, max_leased=NUM_PARALLEL) as pool:
        episodes = make_episodes(
            [("click/left", seed, 0) for seed in range(1, num_episodes + 1)],
            make_task=suite.make_task,
            take_env=pool.take,
            make_model=lambda: ScriptedModel([CLICK, DONE]),
        )
        if as_rollouts:
            scope = RunScope(caps=Caps(max_steps=None))
            options = RolloutOptions(get_slots=lambda: NUM_PARALLEL)
            async with RolloutScheduler(RolloutJournal(folder), take_env=pool.take, options=options) as scheduler:
                for episode in episodes:
                    scheduler.submit(make_episode_spec(episode, player, scope=scope, env=chores.ENV))
                num_scored = sum([len(group.scores) async for group in scheduler.finished()])
        else:
            with EpisodeLog(folder) as log:
                summary = await run_batch(episodes, player, log=log, options=BatchOptions(num_parallel=NUM_PARALLEL))
            num_scored = sum(result.score is not None for result in summary.results)
    assert num_scored == num_episodes
    return num_episodes / (time.perf_counter() - started)


def compare_episodes(num_episodes: int) -> dict[str, float]:
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(6):
        with tempfile.TemporaryDirectory() as folder:
            as_rollouts = number % 2 == 1
            rates[as_rollouts].append(
                asyncio.run(measure_episodes(num_episodes, Path(folder), as_rollouts=as_rollouts))
            )
    batch, rollouts = (statistics.median(rates[kind]) for kind in (False, True))
    return {
        "episodes a second, batch": round(batch, 1),
        "episodes a second, rollouts": round(rollouts, 1),
        "ratio": round(rollouts / batch, 2),
    }


async def check_suite(name: str, num_tasks: int) -> dict[str, float]:
    suite = load_suite(name)
    task_ids = random.Random(0).sample(suite.task_ids, min(num_tasks, len(suite.task_ids)))
    report = await check_rollout_env(suite, task_ids=task_ids, max_seeds=1)
    return {"episodes": report.num_episodes, "null": report.null_score, "random": report.random_score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=0)
    parser.add_argument("--check", default="")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        found = asyncio.run(check_suite(arguments.check, arguments.tasks))
    else:
        found = compare_episodes(arguments.episodes) if arguments.episodes else measure_tasks(arguments.tasks)
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
