"""What the scheduler of rollouts costs: many scripted tasks that all wait at once for a made-up engine.

    python -m benchmarks.rollouts [--tasks 10000] [--json]

Prints memory of a waiting task, transitions a second, and the delay of the event loop. Every tenth task fails, is not
scored, or has a sub-task; all must be accounted for.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from cua.errors import ModelError
from cua.rollouts.journal import FILE, RolloutJournal
from cua.rollouts.rollout import Rollout, RolloutOutcome, RolloutSpec
from cua.rollouts.scheduler import RolloutOptions, RolloutScheduler

GROUP_SIZE = 8
REPLIES_A_TURN = 50
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(arguments.tasks, Path(folder)))
    bare = f"import asyncio, benchmarks.rollouts as r; print(asyncio.run(r.measure_bare({arguments.tasks})))"
    found["bytes a plain task"] = int(subprocess.check_output([sys.executable, "-c", bare]))
    assert found["tasks"] == found["ended"]
    print(
        json.dumps(found) if arguments.json else "\n".join(f"{name:28} {value:>12,}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()
