"""What the batch runner costs: no-op episodes a second, and memory with ten thousand that wait.

    python -m benchmarks.batch [--episodes 10000]
    python -m benchmarks.batch --faults 2000 [--executor local|process]

A no-op episode does nothing but end with a score; each is on disk when it counts. Beside it, in the same run, what one
fsynced line costs when an episode waits for it alone.

With `--faults`: real agents against envs, tasks and a model server that break in every way that there is a name for
(tests/cua/batch/faulty.py); prints what became of them, and what is not accounted for.
"""

import argparse
import asyncio
import os
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from cua.batch import BatchOptions, Episode, EpisodeLog, run_batch
from cua.batch.executor import ExecutorKind
from cua.messages import Usage
from cua.models.scripted import ScriptedModel
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from envs import InstructionTask
from envs.fake import FakeEnv
from tests.cua.batch.faulty import FAULTS, account, run_faulty

DONE = RunResult(end=End(status="succeeded", reason="", score=1.0), num_steps=0, usage=Usage(), duration_s=0.0)


def make_episodes(count: int) -> list[Episode]:
    return [
        Episode(
            task_id=f"task-{number}",
            make_task=lambda: InstructionTask(instruction="Do nothing"),
            make_env=FakeEnv,
            make_model=lambda: ScriptedModel([]),
        )
        for number in range(count)
    ]


async def time_no_ops(count: int, num_parallel: int) -> float:
    """Milliseconds an episode."""

    async def play(episode: Episode, scope: RunScope) -> RunResult:
        return DONE

    with tempfile.TemporaryDirectory() as folder, EpisodeLog(Path(folder)) as log:
        started = time.perf_counter()
        options = BatchOptions(num_parallel=num_parallel)
        summary = await run_batch(make_episodes(count), play, log=log, options=options)
        took_s = time.perf_counter() - started
        assert len(summary.results) == count
    return 1000 * took_s / count


async def measure_waiting(count: int) -> float:
    """Peak MB of the process while all episodes wait at once."""
    waiting = asyncio.Event()
    num_here = 0

    async def play(episode: Episode, scope: RunScope) -> RunResult:
        nonlocal num_here
        num_here += 1
        if num_here == count:
            waiting.set()
        await waiting.wait()
        return DONE

    with tempfile.TemporaryDirectory() as folder, EpisodeLog(Path(folder)) as log:
        await run_batch(make_episodes(count), play, log=log, options=BatchOptions(num_parallel=count))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def time_fsync(count: int = 200) -> float:
    """Milliseconds for one line on disk."""
    with tempfile.NamedTemporaryFile() as file:
        started = time.perf_counter()
        for _ in range(count):
            os.write(file.fileno(), b'{"event": "ended", "score": 1.0}\n')
            os.fsync(file.fileno())
        return 1000 * (time.perf_counter() - started) / count


def show_faults(count: int, executor: ExecutorKind) -> None:
    faults = [*FAULTS, *4 * [name for name in FAULTS if name != "env hangs"]]  # few wait for their time limit
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run = run_faulty(Path(folder), count, faults=faults, num_parallel=16, executor=executor, timeout_s=60)
        summary, scope = asyncio.run(run)
        took_s = time.perf_counter() - started
        wrong = account(Path(folder), summary, scope, count)
    kinds = Counter(result.kind for result in summary.results)
    tries = sum(result.num_tries for result in summary.results)
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    print(f"{count} episodes, {len(FAULTS)} faults in turn, envs: {executor}: {tries} tries in {took_s:.0f} s: {told}")
    print(f"not accounted for: {len(wrong)}")
    for line in wrong[:20]:
        print(f"  {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=0, help="episodes against faults, instead")
    parser.add_argument("--executor", default="local", choices=("local", "process"))
    arguments = parser.parse_args()
    if arguments.faults:
        show_faults(arguments.faults, arguments.executor)
        return
    count = arguments.episodes
    alone = time_fsync()
    print(f"one line with its fsync, alone: {alone:.2f} ms")
    for num_parallel in (1, 8, 64):
        took = asyncio.run(time_no_ops(count, num_parallel))
        print(f"{count} no-op episodes, {num_parallel} at a time: {took:.2f} ms each ({took / alone:.2f}x)")
    print(f"{count} episodes that wait at once: {asyncio.run(measure_waiting(count)):.0f} MB at most")


if __name__ == "__main__":
    main()
