"""Time of a step in addition to the model and to the page's own settling: ours by stage, and the usual way.

    python benchmarks/step_overhead.py browser|desktop [--rounds 8] [--steps 25] [--model-s 0]

Ours: the agent loop with a scripted model, everything on (guard that looks up what each click hits, record on disk,
report of stages). The model answers at once, or after `--model-s`: before a click that was decided on a screenshot
older than 0.25 s, a browser captures the screen once more. The peer: what OSWorld's harness does for one step, on the
same display: a new `python -c "import pyautogui; ..."` process and a screenshot in another process, by scrot, pyautogui
or Pillow, whichever is fastest. Both take turns (`--rounds`), since other work on the machine slows them alike: read
the ratio. The first five steps of each turn are not counted. pyautogui is taken from `.venv/guest`
(`scripts/bootstrap.sh dev`); without it the peer is left out.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cua import Agent, AgentOptions, Caps, Guard, Message, Reply, Sampling, Tool
from cua.trajectory import RunHeader, TrajectoryWriter
from envs import Env, InstructionTask

PAGE = "data:text/html," + "<h1>Step</h1><input><button>Save</button>" + "<p>Some ordinary text on a page.</p>" * 20
GOALS_MS = {"browser": 40, "desktop": 15}
NUM_WARM_UP = 5
NUM_USUAL_STEPS = 2
"""Steps of the peer in each round."""
STAGES = ("interpret", "guard", "record", "act", "observe", "settle", "model")


class ClickingModel:
    """Answers after `latency_s` and keeps nothing: clicks at changing points, so that no two steps are alike."""

    name = "clicking"

    def __init__(self, latency_s: float = 0.0) -> None:
        self._count = itertools.count()
        self._latency_s = latency_s

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        number = next(self._count)
        await asyncio.sleep(self._latency_s)
        x, y = 0.1 + 0.8 * (number % 37) / 37, 0.5 + 0.4 * (number % 11) / 11
        return Reply(content=f"## Action:\nClick\n## Code:\n```python\npyautogui.click({x:.4f}, {y:.4f})\n```")

    async def close(self) -> None:
        pass


async def measure(
    env: Env, steps: int, record: TrajectoryWriter, model_s: float = 0.0
) -> tuple[list[dict[str, float]], list[float]]:
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
        model=ClickingModel(model_s),
        env=env,
        options=options,
        guard=Guard(mode="auto"),
        record=record,
        listener=listen,
    )
    await agent.run(InstructionTask(instruction="measure"))
    return stages[NUM_WARM_UP:], [after - before for before, after in itertools.pairwise(marks[NUM_WARM_UP:])]


def median_ms(values: list[float]) -> float:
    return 1000 * statistics.median(values) if values else 0.0


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


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Times of both ways, in seconds.

    Attributes:
        stages: Of our steps, by stage.
        walls: From step to step, without settling and the model.
        settles: Settling of each step.
        usual: Times of the peer's processes by name; empty if it cannot run here.
    """

    stages: list[dict[str, float]] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    settles: list[float] = field(default_factory=list)
    usual: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Median of the usual way over ours; None without a peer."""
        screens = [statistics.median(times) for name, times in self.usual.items() if name != ACTION]
        if ACTION not in self.usual or not screens:
            return None
        return (statistics.median(self.usual[ACTION]) + min(screens)) / statistics.median(self.walls)


ACTION = "action process"


def list_usual_commands(display: str) -> dict[str, list[str]]:
    """Processes of one step as OSWorld's harness starts them: the action, and ways to take a screenshot."""
    action = "import pyautogui; import time; pyautogui.FAILSAFE = False; pyautogui.click(500, 500)"
    file = "/dev/shm/k25-usual.png"
    return {
        ACTION: [sys.executable, "-c", action],
        "scrot process": ["scrot", "--overwrite", file],
        "pyautogui screenshot process": [sys.executable, "-c", f"import pyautogui; pyautogui.screenshot({file!r})"],
        "Pillow screenshot process": [
            *(sys.executable, "-c"),
            f"from PIL import ImageGrab; ImageGrab.grab(xdisplay={display!r}).save({file!r})",
        ],
    }


def run_usual_step(display: str, usual: dict[str, list[float]]) -> None:
    """Time each process of the usual way once; what cannot run here is left out."""
    env = {**os.environ, "DISPLAY": display, "XAUTHORITY": "/dev/null", "PYTHONPATH": str(Path(sys.prefix) / "guest")}
    for name, command in list_usual_commands(display).items():
        started = time.perf_counter()
        with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):
            subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            usual.setdefault(name, []).append(time.perf_counter() - started)


async def compare(kind: str, *, rounds: int, steps: int, is_durable: bool = True, model_s: float = 0.0) -> Comparison:
    """Take steps of both ways in turn, on one display.

    Args:
        kind: `browser` or `desktop`.
        rounds: Number of turns.
        steps: Steps of ours in each turn, including those that are not counted.
        is_durable: False to record without waiting for the disk.
        model_s: Seconds that the model takes.
    """
    found = Comparison()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        display = stack.enter_context(open_display())
        run_usual_step(display, {})  # compiles what it imports
        env = make_env(kind, display)
        try:
            for number in range(rounds):
                header = RunHeader(instruction="measure")
                with TrajectoryWriter.create(folder / str(number), header, is_durable=is_durable) as writer:
                    stages, walls = await measure(env, steps, writer, model_s)
                found.stages += stages
                found.settles += [step.get("settle", 0.0) for step in stages]
                found.walls += [
                    wall - step.get("settle", 0.0) - step["model"] for wall, step in zip(walls, stages, strict=False)
                ]
                for _ in range(NUM_USUAL_STEPS):
                    await asyncio.to_thread(run_usual_step, display, found.usual)
        finally:
            await env.close()
    return found


def show(found: Comparison, goal_ms: float) -> None:
    """Print medians by stage, of the whole step, and of the usual way."""
    print(f"  {'stage':<10} {'p50 ms':>8} {'p95 ms':>8}")
    for stage in STAGES:
        values = sorted(step.get(stage, 0.0) for step in found.stages)
        print(f"  {stage:<10} {median_ms(values):8.2f} {1000 * values[int(len(values) * 0.95)]:8.2f}")
    ours_ms = median_ms(found.walls)
    print(f"  whole step without settling: p50 {ours_ms:.1f} ms; settling: p50 {median_ms(found.settles):.1f} ms")
    print(f"  goal {goal_ms:g} ms: {'met' if ours_ms <= goal_ms else 'missed'}")
    for name, times in found.usual.items():
        print(f"  peer, {name}: p50 {median_ms(times):.0f} ms")
    if found.ratio is None:
        print(f"  peer: left out; {Path(sys.prefix) / 'guest'} has no pyautogui (scripts/bootstrap.sh dev)")
    else:
        print(f"  one step the usual way / ours: {found.ratio:.1f}x")


def make_env(kind: str, display: str) -> Env:
    """Environment of our steps: an ordinary page of 1280x720, or a full-HD desktop full of text."""
    if kind == "browser":
        from envs.browser import BrowserEnv, BrowserOptions

        return BrowserEnv(BrowserOptions(start_url=PAGE))
    from envs.desktop import DesktopEnv, DesktopOptions

    return DesktopEnv(DesktopOptions(display=display, app="xterm -maximized -e 'seq 1 2000; sleep 3600'"))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=list(GOALS_MS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--model-s", type=float, default=0.0, help="seconds that the model takes")
    parser.add_argument("--no-fsync", action="store_true", help="record without waiting for the disk")
    arguments = parser.parse_args()
    if arguments.steps < 2 * NUM_WARM_UP:
        parser.error(f"--steps: at least {2 * NUM_WARM_UP}; the first {NUM_WARM_UP} are not counted")
    found = await compare(
        arguments.env,
        rounds=arguments.rounds,
        steps=arguments.steps,
        is_durable=not arguments.no_fsync,
        model_s=arguments.model_s,
    )
    print(f"{arguments.env}, {arguments.rounds} x {arguments.steps} steps")
    show(found, GOALS_MS[arguments.env])


if __name__ == "__main__":
    asyncio.run(main())
