"""Whether memory stays flat over thousands of steps, and how many X clients are open at the end.

    python benchmarks/memory.py browser|desktop [--steps 2000]

Prints the memory (PSS) of this process and of all its children every tenth of the way.
"""

import argparse
import asyncio
import contextlib
import gc
import tempfile
from pathlib import Path

import psutil
from step_overhead import PAGE, ClickingModel

from cua import Agent, AgentOptions, Caps, Guard
from cua.trajectory import RunHeader, TrajectoryWriter
from envs import Env, InstructionTask


def pss_mb(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.memory_full_info().pss) / 1e6
    return 0.0


def count_x_clients(display: str) -> int:
    """Connections to the display's socket, as the kernel lists them."""
    name = f"/tmp/.X11-unix/X{display.lstrip(':').split('.')[0]}"
    return sum(line.rstrip().endswith(name) for line in Path("/proc/net/unix").read_text().splitlines()) - 2


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", choices=["browser", "desktop"])
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    this = psutil.Process()
    done = 0

    def listen(event: object) -> None:
        nonlocal done
        if getattr(event, "step", None) is None:
            return
        done += 1
        if done % max(arguments.steps // 10, 1) == 0:
            gc.collect()
            children = sum(pss_mb(child) for child in this.children(recursive=True))
            clients = ""
            if display is not None:
                clients = f"  X clients {count_x_clients(display)}"
            print(
                f"step {done:>5}: this process {pss_mb(this):7.1f} MB, its children {children:7.1f} MB{clients}",
                flush=True,
            )

    display: str | None = None
    if arguments.env == "browser":
        from envs.browser import BrowserEnv, BrowserOptions

        env: Env = BrowserEnv(BrowserOptions(start_url=PAGE))
    else:
        from envs.desktop import DesktopEnv, DesktopOptions

        env = DesktopEnv(DesktopOptions(app="xterm"))
    with tempfile.TemporaryDirectory() as folder:
        writer = TrajectoryWriter.create(Path(folder), RunHeader(instruction="measure"))
        try:
            await env.reset(InstructionTask(instruction="measure"))
            display = getattr(env, "display", None)
            agent = Agent(
                model=ClickingModel(),
                env=env,
                options=AgentOptions(caps=Caps(max_steps=arguments.steps)),
                guard=Guard(mode="yolo"),
                record=writer,
                listener=listen,
            )
            result = await agent.run(InstructionTask(instruction="measure"))
            print(f"ended: {result.end.status} ({result.end.reason}), {result.num_steps} steps")
        finally:
            await env.close()
            writer.close()


if __name__ == "__main__":
    asyncio.run(main())
