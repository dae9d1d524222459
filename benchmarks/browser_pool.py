"""What sessions in one browser cost beside browsers of their own: memory, and the time to a new session.

    python benchmarks/browser_pool.py [--sessions 20] [--repeat 20]

Ours: `BrowserPool`, each session with a page of its own open. The usual way, in the same run: as many `BrowserEnv`s,
each with its own browser and driver. Memory is the proportional set size (PSS, /proc/PID/smaps_rollup) of all
processes below this one, browsers and drivers included; this process itself is left out. A new session is measured
from asking for it to its blank page standing ready for input, one after the other, with a pause as long as a short
episode before each is closed (the pool prepares a context in it); and, apart, with no context prepared.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
from step_overhead import PAGE

from envs import InstructionTask
from envs.browser import BrowserEnv, BrowserOptions, BrowserPool

TASK = InstructionTask(instruction="measure")
OPTIONS = BrowserOptions(start_url=PAGE)
PAUSE_S = 0.5


def children_pss_mb() -> tuple[float, int]:
    """Memory of all processes below this one, and how many they are."""
    total_kb, count = 0, 0
    for child in psutil.Process().children(recursive=True):
        try:
            rows = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total_kb += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
        count += 1
    return total_kb / 1024, count


async def measure_memory(envs: Sequence[BrowserEnv]) -> tuple[float, int]:
    """All of them open on a page, then closed."""
    try:
        for env in envs:
            await env.reset(TASK)
        return children_pss_mb()
    finally:
        for env in envs:
            await env.close()


async def measure_opening(make_env: Callable[[], BrowserEnv], repeat: int) -> list[float]:
    """Seconds to a session with a blank page that takes input, each by itself."""
    took = []
    for _ in range(repeat + 1):
        env = make_env()
        started = time.perf_counter()
        await env.open()
        took.append(time.perf_counter() - started)
        await asyncio.sleep(PAUSE_S)
        await env.close()
    return took[1:]  # the first one starts the browser of a pool


def show_times(name: str, took: list[float]) -> None:
    in_order = sorted(1000 * value for value in took)
    print(
        f"  {name:<34} median {statistics.median(in_order):7.1f} ms   p90 {in_order[int(0.9 * len(in_order))]:7.1f} ms"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=20)
    arguments = parser.parse_args()
    count = arguments.sessions
    async with BrowserPool(OPTIONS, max_sessions=count) as pool:
        ours_mb, ours_count = await measure_memory([pool.make_env() for _ in range(count)])
    theirs_mb, theirs_count = await measure_memory([BrowserEnv(OPTIONS) for _ in range(count)])
    print(f"memory of {count} sessions (PSS of all their processes)")
    print(f"  one browser, {count} contexts   {ours_mb:8.0f} MB in {ours_count} processes")
    print(f"  {count} browsers               {theirs_mb:8.0f} MB in {theirs_count} processes")
    print(f"  ours / usual way {100 * ours_mb / theirs_mb:.0f} %, goal 40 %: {_met(ours_mb / theirs_mb <= 0.4)}")
    print("a new session, until its blank page takes input")
    async with BrowserPool(max_sessions=count) as pool:
        warm = await measure_opening(pool.make_env, arguments.repeat)
    async with BrowserPool(max_sessions=count, num_spares=0) as pool:
        cold = await measure_opening(pool.make_env, arguments.repeat)
    single = await measure_opening(BrowserEnv, min(arguments.repeat, 5))
    show_times("pool, one context prepared", warm)
    show_times("pool, none prepared", cold)
    show_times("a browser of its own", single)
    print(f"  goal 60 ms: {_met(statistics.median(warm) <= 0.06)}")


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"


if __name__ == "__main__":
    asyncio.run(main())
