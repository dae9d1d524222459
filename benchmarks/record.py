"""What it costs to keep the record of a hundred agents at once, beside writing it on the event loop.

    python benchmarks/record.py [--agents 100] [--steps 4]

Each step is what the GUI agent writes: a screenshot of its own (about 150 kB), what was seen, said, done and finished;
two of the four lines wait for the disk. Ours: `cua.trajectory.journal`. The peer: the same writer, called directly.
The pause is the longest time that the event loop did not come round.
"""

import argparse
import asyncio
import io
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from PIL import Image

from cua.messages import Reply
from cua.step import Step, Turn
from cua.trajectory import RunHeader, TrajectoryWriter
from cua.trajectory.journal import Journal
from envs import Click, Observation, ScreenGeometry

GOAL_S, GOAL_PAUSE_MS = 1.5, 30
TURN = Turn(thought="The button is in the middle.", action_text="Click Save", code="pyautogui.click(0.5, 0.5)")
REPLY = Reply(
    content="## Action:\nClick Save\n## Code:\n```python\npyautogui.click(0.5, 0.5)\n```", reasoning="x" * 800
)
ACTIONS = (Click(x_px=640, y_px=360),)


def make_images(number: int) -> list[bytes]:
    """Screenshots that compress about as real ones do, no two alike."""
    random = np.random.default_rng(0)
    base = np.full((720, 1280, 3), 240, np.uint8)
    base[100:220, 100:500] = random.integers(0, 256, (120, 400, 3), dtype=np.uint8)
    images = []
    for at in range(number):
        base[0, :4] = [[at & 255, at >> 8, 0]] * 4
        file = io.BytesIO()
        Image.fromarray(base).save(file, "PNG", compress_level=1)
        images.append(file.getvalue())
    return images


def make_observation(png: bytes) -> Observation:
    return Observation(screenshot=png, geometry=ScreenGeometry(native_px=(1280, 720), sent_px=(1280, 720)))


async def through_journal(writer: TrajectoryWriter, images: list[bytes], num_agents: int, num_steps: int) -> None:
    """All agents at the same time."""
    journal = Journal(writer)

    async def work(agent: int) -> None:
        own = journal.for_agent(f"agent-{agent}")
        for index in range(1, num_steps + 1):
            seen = make_observation(images[agent * num_steps + index - 1])
            await own.observed(index, seen)
            await own.replied(index, REPLY)
            await own.acting(index, TURN, ACTIONS)
            step = Step(index=index, observation=seen, reply=REPLY, turn=TURN, actions=ACTIONS)
            await own.acted(step, 0.0, {})

    await asyncio.gather(*(work(agent) for agent in range(num_agents)))
    await journal.close()


async def on_the_loop(writer: TrajectoryWriter, images: list[bytes], num_agents: int, num_steps: int) -> None:
    """The same lines, each written and waited for where it comes up."""

    async def work(agent: int) -> None:
        own = writer.for_agent(f"agent-{agent}")
        for index in range(1, num_steps + 1):
            seen = make_observation(images[agent * num_steps + index - 1])
            own.observed(index, seen)
            await asyncio.sleep(0)
            own.replied(index, REPLY)
            own.acting(index, TURN, ACTIONS)
            await asyncio.sleep(0)
            own.acted(Step(index=index, observation=seen, reply=REPLY, turn=TURN, actions=ACTIONS))

    await asyncio.gather(*(work(agent) for agent in range(num_agents)))


async def measure(work: Callable[[TrajectoryWriter], Awaitable[None]], folder: Path) -> tuple[float, float]:
    """Seconds of the work and the longest pause of the event loop."""
    longest_s = 0.0

    async def watch() -> None:
        nonlocal longest_s
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.001)
            longest_s = max(longest_s, time.perf_counter() - started - 0.001)

    with TrajectoryWriter.create(folder, RunHeader(instruction="measure")) as writer:
        watching = asyncio.create_task(watch())
        started = time.perf_counter()
        await work(writer)
        took_s = time.perf_counter() - started
        await asyncio.sleep(0.005)
        watching.cancel()
    return took_s, longest_s


def main() -> None:
    """Print both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--steps", type=int, default=4, help="of each agent; a step is four lines and an image")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    images = make_images(chosen.agents * chosen.steps)
    num_lines = 4 * chosen.agents * chosen.steps
    print(f"{num_lines} lines and {len(images)} images of {len(images[0]) // 1024} kB, {chosen.agents} agents")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in (("ours", through_journal), ("on the loop", on_the_loop)):
            took = [
                asyncio.run(
                    measure(lambda writer: work(writer, images, chosen.agents, chosen.steps), Path(folder))  # noqa: B023
                )
                for _ in range(chosen.rounds)
            ]
            seconds = statistics.median(one[0] for one in took)
            pause_ms = 1000 * statistics.median(one[1] for one in took)
            found[name] = seconds
            print(f"  {name:<12} {seconds:6.2f} s   longest pause of the loop {pause_ms:6.1f} ms")
    print(f"  ours / on the loop: {found['ours'] / found['on the loop']:.2f}x   goal: {GOAL_S} s, {GOAL_PAUSE_MS} ms")


if __name__ == "__main__":
    main()
