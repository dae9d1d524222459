"""Many steps on a busy desktop: time by stage, memory, connections.

Run: python -m tests.envs.desktop.long_run [NUM_STEPS]
"""

import asyncio
import itertools
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from envs import Click, Hotkey, InstructionTask, Move, PressKey, Scroll, TypeText
from envs.actions import Action
from envs.desktop import DesktopEnv, DesktopOptions

STAGES = ("act", "settle", "observe")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """What many steps cost.

    Attributes:
        stage_p50_s: Median seconds of each stage.
        overhead_p50_s: Median of act plus observe, that is all but the program's own settling.
        rss_bytes: Memory of this process after a tenth of the steps, and at the end.
        server_rss_bytes: The same of the X server.
        num_fds: Open files and sockets of this process at the same two times.
        num_clients: Connections of the X server at the same two times.
    """

    stage_p50_s: dict[str, float]
    overhead_p50_s: float
    rss_bytes: tuple[int, int]
    server_rss_bytes: tuple[int, int]
    num_fds: tuple[int, int]
    num_clients: tuple[int, int]


def make_actions() -> Iterator[list[Action]]:
    """Clicks, keys, text with and without borrowed keys, scrolling, moves, in turns."""
    points = itertools.cycle([(300, 300), (700, 500), (1200, 700), (900, 200)])
    texts = itertools.cycle(["hello <world> ", "äöü é ", "漢字 😀 ", "1234 "])
    while True:
        x_px, y_px = next(points)
        yield [Click(x_px=x_px, y_px=y_px)]
        yield [TypeText(text=next(texts))]
        yield [Move(x_px=x_px, y_px=y_px), Scroll(dy=-2)]
        yield [Hotkey(keys=("ctrl", "a"))]
        yield [PressKey(key="end")]


async def run_long(num_steps: int, screen_px: tuple[int, int] = (1920, 1080)) -> LongRun:
    """Take many steps on a desktop with two terminals full of text and an editor."""
    env = DesktopEnv(DesktopOptions(screen_px=screen_px))
    try:
        await env.reset(InstructionTask(instruction="Work."))
        await _fill_screen(env)
        actions = make_actions()
        timings: list[dict[str, float]] = []
        sizes = []
        for number in range(num_steps):
            timings.append((await env.step(next(actions))).info["timings"])
            if number in (num_steps // 10, num_steps - 1):
                sizes.append(await _measure(env))
    finally:
        await env.close()
    early, late = sizes
    rss, server_rss, fds, clients = zip(early, late, strict=True)
    return LongRun(
        stage_p50_s={stage: statistics.median(timing[stage] for timing in timings) for stage in STAGES},
        overhead_p50_s=statistics.median(timing["act"] + timing["observe"] for timing in timings),
        rss_bytes=rss,
        server_rss_bytes=server_rss,
        num_fds=fds,
        num_clients=clients,
    )


async def _fill_screen(env: DesktopEnv) -> None:
    text = env.home / "text.txt"
    source = Path(__file__).with_name("test_desktop_faults.py")
    await asyncio.to_thread(text.write_text, await asyncio.to_thread(source.read_text))
    for place in ("155x80+0+0", "155x80+960+0"):
        await env.launch(["xterm", "-geometry", place, "-e", "sh", "-c", f"cat {text}; exec sleep 100000"])
    await env.launch(["mousepad", str(text)])


async def _measure(env: DesktopEnv) -> tuple[int, int, int, int]:
    own = psutil.Process()
    server = next(process for process in own.children(recursive=True) if process.name() == "Xvfb")
    clients = sum(1 for place in server.net_connections("unix") if "X11-unix" in place.laddr) - 1
    return own.memory_info().rss, server.memory_info().rss, own.num_fds(), clients


if __name__ == "__main__":
    print(asyncio.run(run_long(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)))
