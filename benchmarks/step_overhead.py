"""What a step costs beside the model and the page's own settling: ours by stage, and the usual way.

    python benchmarks/step_overhead.py browser|desktop [--steps 200] [--peer-python PYTHON]

Ours: the agent loop with a scripted model that answers at once, everything on (guard asking what
each click hits, record on disk, report of stages). The peer: what OSWorld's harness does for one step,
on the same display in the same run: a fresh `python -c "import pyautogui; ..."` process and a
screenshot, by scrot and by pyautogui.
PYTHON is an interpreter that has pyautogui; without it the peer is left out.
"""

import argparse
import asyncio
import contextlib
import functools
import itertools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cua import Agent, AgentOptions, Caps, Guard, Message, Reply, Sampling, Tool
from cua.trajectory import RunHeader, TrajectoryWriter
from envs import Env, InstructionTask

PAGE = "data:text/html," + "<h1>Step</h1><input><button>Save</button>" + "<p>Some ordinary text on a page.</p>" * 20
GOALS_MS = {"browser": 60, "desktop": 25}
STAGES = ("interpret", "guard", "record", "act", "observe", "settle", "model")


class ClickingModel:
    """Answers at once and keeps nothing: clicks at changing points, so that no two steps are alike."""

    name = "clicking"

    def __init__(self) -> None:
        self._count = itertools.count()

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        number = next(self._count)
        x, y = 0.1 + 0.8 * (number % 37) / 37, 0.5 + 0.4 * (number % 11) / 11
        return Reply(content=f"## Action:\nClick\n## Code:\n```python\npyautogui.click({x:.4f}, {y:.4f})\n```")

    async def close(self) -> None:
        pass


async def measure(env: Env, steps: int, record: TrajectoryWriter) -> tuple[list[dict[str, float]], list[float]]:
    """Stage times of each step, and the wall time from step to step."""
    stages: list[dict[str, float]] = []
    marks = [time.perf_counter()]

    def listen(event: object) -> None:
        step = getattr(event, "step", None)
        if step is not None:
            stages.append(dict(step.timings))
            marks.append(time.perf_counter())

    options = AgentOptions(caps=Caps(max_steps=steps))
    agent = Agent(
        model=ClickingModel(),
        env=env,
        options=options,
        guard=Guard(mode="auto"),
        record=record,
        listener=listen,
    )
    await agent.run(InstructionTask(instruction="measure"))
    return stages[5:], [after - before for before, after in itertools.pairwise(marks[5:])]


def median_ms(values: list[float]) -> float:
    return 1000 * statistics.median(values) if values else 0.0


def timed(work: Callable[[], object], times: int) -> list[float]:
    took = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    return took


@contextlib.contextmanager
def open_display() -> Iterator[str]:
    """An Xvfb with openbox that needs no cookie: pyautogui's old Xlib cannot read one."""
    reader, writer = os.pipe()
    command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1920x1080x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writer], stderr=subprocess.DEVNULL) as server:
        display = ":" + os.read(reader, 16).decode().strip()
        with subprocess.Popen(["openbox"], env={**os.environ, "DISPLAY": display}) as window_manager:
            try:
                yield display
            finally:
                window_manager.terminate()
                server.terminate()


def peer(display: str, python: str, times: int) -> dict[str, float]:
    """One step as OSWorld's harness does it: action in a new process, screenshot in another. Median ms."""
    env = {**os.environ, "DISPLAY": display, "XAUTHORITY": "/dev/null"}
    action = "import pyautogui; import time; pyautogui.FAILSAFE = False; pyautogui.click(500, 500)"
    image = "import pyautogui; pyautogui.screenshot('/dev/shm/peer.png')"
    commands = {
        "action process": [python, "-c", action],
        "pyautogui screenshot process": [python, "-c", image],
        "scrot process": ["scrot", "--overwrite", "/dev/shm/peer.png"],
    }
    silent = subprocess.DEVNULL

    def run(command: list[str]) -> None:
        subprocess.run(command, env=env, check=True, stdout=silent, stderr=silent)

    found = {}
    for name, command in commands.items():
        with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):  # scrot, gnome-screenshot
            found[name] = median_ms(timed(functools.partial(run, command), times))
    return found


def show(stages: list[dict[str, float]], walls: list[float]) -> float:
    """Print medians by stage; return the overhead: everything but the page's settling and the model."""
    print(f"  {'stage':<10} {'p50 ms':>8} {'p95 ms':>8}")
    for stage in STAGES:
        values = sorted(step.get(stage, 0.0) for step in stages)
        print(f"  {stage:<10} {median_ms(values):8.2f} {1000 * values[int(len(values) * 0.95)]:8.2f}")
    rest = [wall - step.get("settle", 0.0) for wall, step in zip(walls, stages, strict=False)]
    print(f"  whole step without settling: p50 {median_ms(rest):.1f} ms; with it: p50 {median_ms(walls):.1f} ms")
    return median_ms(rest)


def make_env(kind: str, display: str) -> Env:
    """The world of our steps: an ordinary page of 1280x720, or a full-HD desktop full of text."""
    if kind == "browser":
        from envs.browser import BrowserEnv, BrowserOptions

        return BrowserEnv(BrowserOptions(start_url=PAGE))
    from envs.desktop import DesktopEnv, DesktopOptions

    return DesktopEnv(DesktopOptions(display=display, app="xterm -maximized -e 'seq 1 2000; sleep 3600'"))


def show_peer(display: str, python: str, ours_ms: float) -> None:
    """Measure and print the usual way of a step on the same display."""
    found = peer(display, python, 10)
    for name, value in found.items():
        print(f"  peer, {name}: p50 {value:.0f} ms")
    screens = [value for name, value in found.items() if "action" not in name]
    if "action process" not in found or not screens:
        needs = (
            f"pyautogui in {python} (pip install pyautogui), and that or scrot for screenshots (apt-get install scrot)"
        )
        print(f"  peer: left out; it needs {needs}")
        return
    screen = min(screens)
    print(f"  one step the usual way / ours: {(found['action process'] + screen) / ours_ms:.1f}x")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=list(GOALS_MS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--peer-python")
    parser.add_argument("--no-fsync", action="store_true", help="record without waiting for the disk")
    arguments = parser.parse_args()
    if arguments.steps < 10:
        parser.error("--steps: at least 10; the first five are not counted")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        display = stack.enter_context(open_display())
        header = RunHeader(instruction="measure")
        with TrajectoryWriter.create(folder, header, is_durable=not arguments.no_fsync) as writer:
            env = make_env(arguments.env, display)
            try:
                stages, walls = await measure(env, arguments.steps, writer)
            finally:
                await env.close()
        print(f"{arguments.env}, {arguments.steps} steps")
        ours = show(stages, walls)
        goal = GOALS_MS[arguments.env]
        print(f"  goal {goal} ms: {'met' if ours <= goal else 'missed'}")
        if arguments.peer_python:
            await asyncio.to_thread(show_peer, display, arguments.peer_python, ours)


if __name__ == "__main__":
    asyncio.run(main())
