"""How much a swarm of 100 costs besides the model: wall against the critical path, processor, memory, resume.

    python -m benchmarks.swarm [--children 100] [--calls 15] [--latency 0.05] [--sandboxes]

The model answers after a fixed time, so the shortest possible run is known: critical steps times that time. The tool
that is called does nothing, each agent has the core tools besides, and no sandbox is opened; with `--sandboxes` each
child runs a cell for each call, and the memory of all processes is looked at ten times a second.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cua.messages import Message, Reply, Sampling, TextPart, ToolCall, ToolResult
from cua.model import Tool
from cua.run.budget import Caps
from cua.swarm import SwarmOptions, SwarmPreset, resume_swarm, run_swarm
from cua.swarm.swarm import SwarmLimits
from cua.tool_agent.profile import VISUAL_TOOLS


class NoteTool:
    """Does nothing; implements `cua.model.Tool`."""

    name = "note"
    description = "Note something."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Nothing."""
        return ToolResult(parts=(TextPart(text="noted"),))


class TimedModel:
    """Orchestrator and children from one rule, each reply after `latency_s`; implements `cua.model.Model`."""

    name = "timed"

    def __init__(self, num_children: int, num_calls: int, latency_s: float, *, has_cells: bool = False) -> None:
        self._num_children, self._num_calls, self._latency_s = num_children, num_calls, latency_s
        self._has_cells = has_cells

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """What is due."""
        await asyncio.sleep(self._latency_s)
        number = sum(message.role == "assistant" for message in messages)
        question = messages[1].text
        if question != "all":
            text = json.dumps({"text": f"{question} {number}"})
            name, text = ("ipython", json.dumps({"code": f"print({number})"})) if self._has_cells else ("note", text)
            more = (ToolCall(id="x", name=name, arguments=text),) if number < self._num_calls else ()
            return Reply(content="" if more else f"done {question}", tool_calls=more)
        if number == 0:
            made = json.dumps({"name": "worker", "system_prompt": "You work."})
            return Reply(content="", tool_calls=(ToolCall(id="x", name="create_subagent", arguments=made),))
        if number == 1:
            prompts = [json.dumps({"agent": "worker", "prompt": f"item {n}"}) for n in range(self._num_children)]
            calls = tuple(ToolCall(id="x", name="assign_task", arguments=prompt) for prompt in prompts)
            return Reply(content="", tool_calls=calls)
        return Reply(content="all done")

    async def close(self) -> None:
        """Nothing to let go."""


async def watch_memory(peak: list[float]) -> None:
    """Keep the largest proportional memory (PSS) of this process and all below it, in MB."""
    import psutil

    while True:
        total = 0
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        peak[0] = max(peak[0], total / 1e6)
        await asyncio.sleep(0.1)


async def bench_sandboxes(num_children: int, num_calls: int, latency_s: float, runs_dir: Path) -> dict[str, Any]:
    """The swarm with a cell for each call."""
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=10 * num_children * num_calls))
    model = TimedModel(num_children, num_calls, latency_s, has_cells=True)
    peak = [0.0]
    watching = asyncio.create_task(watch_memory(peak))
    done = await run_swarm("all", model=model, options=SwarmOptions(limits=limits), runs_dir=runs_dir)
    watching.cancel()
    return {
        "children": dict(done.metrics.by_state),
        "cells": done.metrics.num_calls - num_children - 1,
        "sandboxes_at_a_time": SwarmOptions().num_kernels,
        "agents_s": round(done.run.duration_s, 1),
        "peak_memory_of_all_mb": round(peak[0]),
    }


async def bench(num_children: int, num_calls: int, latency_s: float, runs_dir: Path) -> dict[str, Any]:
    """Run the swarm once, then take its record up again without its end."""
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=10 * num_children * num_calls))
    preset = SwarmPreset(orchestrator_calls=10 * num_children, child_calls=10 * num_calls)
    options = SwarmOptions(tools=(lambda place: NoteTool(), *VISUAL_TOOLS), limits=limits, preset=preset)
    model = TimedModel(num_children, num_calls, latency_s)
    cpu_s, started = time.process_time(), time.monotonic()
    done = await run_swarm("all", model=model, options=options, runs_dir=runs_dir)
    wall_s, cpu_s = time.monotonic() - started, time.process_time() - cpu_s
    critical_s = done.metrics.critical_steps * latency_s
    run_dir = Path(str(done.run.run_dir))
    record = run_dir / "trajectory.jsonl"
    lines = record.read_bytes().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if b'"all done"' in line)
    record.write_bytes(b"".join(lines[:cut]))
    started = time.monotonic()
    again = await resume_swarm(run_dir, model=model, options=options)
    resume_s = time.monotonic() - started
    return {
        "children": len(done.children),
        "calls": done.metrics.num_calls,
        "critical_steps": done.metrics.critical_steps,
        "total_steps": done.metrics.total_steps,
        "step_speedup": round(done.metrics.step_speedup, 2),
        "wall_s": round(wall_s, 2),
        "agents_s": round(done.run.duration_s, 2),
        "ideal_critical_s": round(critical_s, 2),
        "critical_s_of_the_run": round(done.metrics.critical_s, 2),
        "wall_over_critical": round(done.run.duration_s / done.metrics.critical_s, 3),
        "cpu_ms_per_call": round(1000 * cpu_s / done.metrics.num_calls, 2),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "resume_s": round(resume_s, 2),
        "resumed_as": again.run.end.status,
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=100)
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--sandboxes", action="store_true")
    given = parser.parse_args()
    work = bench_sandboxes if given.sandboxes else bench
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(work(given.children, given.calls, given.latency, Path(folder)))
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
