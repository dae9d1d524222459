"""A single agent against a swarm, on generated tasks of wide search, with the same embedded model and tools.

    python -m benchmarks.widesearch --size full --seeds 1

The single agent is measured twice: with one call a reply, and with up to `PARALLEL` calls a reply, as many as the swarm
has sub-agents. The swarm's agents make one call a reply, except for `assign_task`. A step is a reply of a model;
critical steps are those of the K2.5 report, section 3: 1 for each stage of the orchestrator, and the steps of the
stage's longest child. The model takes no time, so times are not measured.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.literal import LiteralModel
from apps.literal.research import MAX_CHILDREN, research
from cua.messages import Message, Reply, Sampling, TextPart
from cua.model import Tool
from cua.research.fetch import Web, make_world_web
from cua.run.budget import Caps
from cua.swarm.session import SwarmOptions, run_swarm
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.profile import Profile, ToolMaker
from cua.tools import Toolset
from cua.tools.research import BrowseTool, SearchTool, make_research_tools
from envs.registry import load_suite
from envs.suites.widesearch.tasks import WideSearchTask

PARALLEL = MAX_CHILDREN
FEW = 3.0
"""Ratio below which a table is counted as one where the swarm gains little."""


class MeasuredModel(LiteralModel):
    """Embedded model that makes up to `max_calls` calls a reply and measures its requests.

    Attributes:
        longest: Characters of the longest request.
    """

    def __init__(self, max_calls: int = 1) -> None:
        self._max_calls = max_calls
        self.longest = 0

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return the next reply."""
        texts = (len(message.text) + sum(len(call.arguments) for call in message.tool_calls) for message in messages)
        self.longest = max(self.longest, sum(texts))
        return await asyncio.to_thread(research, tuple(messages), tuple(tools), self.name, max_calls=self._max_calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one way to fill a table: item-F1, critical steps, all steps, characters of the longest request."""

    f1: float
    critical: int
    total: int
    longest: int
    children: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    task: str
    num_rows: int
    alone: Outcome
    parallel: Outcome
    swarm: Outcome

    def ratio_to(self, single: Outcome) -> float:
        return single.critical / self.swarm.critical


async def run_alone(task: WideSearchTask, web: Web, max_calls: int) -> Outcome:
    """Fill the table with a single agent."""
    model = MeasuredModel(max_calls)
    profile = Profile(system_prompt="Collect what is asked for.", caps=Caps(max_steps=5000))
    agent = ToolAgent(model=model, toolset=Toolset(make_research_tools(web, None)), profile=profile)
    result = await agent.run([TextPart(text=task.instruction)])
    score = task.score(result.end.answer).item_f1
    return Outcome(f1=score, critical=result.num_steps, total=result.num_steps, longest=model.longest)


async def run_as_swarm(task: WideSearchTask, web: Web) -> Outcome:
    """Fill the table with a swarm."""
    model = MeasuredModel()
    makers: tuple[ToolMaker, ...] = (lambda place: SearchTool(web), lambda place: BrowseTool(web, place.kernel.folder))
    with tempfile.TemporaryDirectory() as runs:
        result = await run_swarm(task.instruction, options=SwarmOptions(tools=makers), model=model, runs_dir=Path(runs))
    measures = result.metrics
    return Outcome(
        f1=task.score(result.run.end.answer).item_f1,
        critical=measures.critical_steps,
        total=measures.total_steps,
        longest=model.longest,
        children=len(result.children),
    )


async def measure(size: str, num_seeds: int, part: str) -> list[Row]:
    suite = load_suite("widesearch", size=size, num_seeds=num_seeds)
    rows = []
    for seed in suite.seeds:
        for task_id in (task_id for task_id in suite.task_ids if part in task_id):
            task = suite.make_task(task_id, seed)
            assert isinstance(task, WideSearchTask)
            alone, parallel = [
                await run_alone(task, make_world_web(seed or 0, size=size), max_calls) for max_calls in (1, PARALLEL)
            ]
            swarm = await run_as_swarm(task, make_world_web(seed or 0, size=size))
            name = f"{task_id.removeprefix('widesearch/')} #{seed}"
            rows.append(Row(task=name, num_rows=len(task.table.rows), alone=alone, parallel=parallel, swarm=swarm))
    return rows


def table(rows: Sequence[Row], command: str) -> str:
    names = "task | rows | F1 of each | steps alone | steps parallel | critical steps | total steps | children"
    head = f"| {names} | ratio to alone | ratio to parallel | longest request alone, parallel, swarm |"
    lines = []
    for row in rows:
        outcomes = (row.alone, row.parallel, row.swarm)
        cells: tuple[Any, ...] = (
            row.task,
            row.num_rows,
            " ".join(f"{outcome.f1:.3f}" for outcome in outcomes),
            *(outcome.critical for outcome in outcomes),
            row.swarm.total,
            row.swarm.children,
            *(f"{row.ratio_to(single):.1f}x" for single in (row.alone, row.parallel)),
            ", ".join(f"{outcome.longest / 1000:.0f}" for outcome in outcomes),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    names = ("alone", "parallel", "swarm")
    f1 = [statistics.mean(getattr(row, name).f1 for row in rows) for name in names]
    longest = [max(getattr(row, name).longest for row in rows) / 1000 for name in names]
    critical = [row.swarm.critical for row in rows]
    summary = [
        f"All {len(rows)} tables: item-F1 {f1[0]:.3f} alone, {f1[1]:.3f} with parallel calls, {f1[2]:.3f} as a swarm.",
        f"Longest request: {longest[0]:.0f}, {longest[1]:.0f} and {longest[2]:.0f} thousand characters.",
        "Ratio to the swarm's critical steps:",
        f"    - of a single agent with one call a reply, {_ratios([row.alone.total for row in rows], critical)}",
        f"    - of a single agent with up to {PARALLEL} calls a reply, "
        + _ratios([row.parallel.total for row in rows], critical),
        f"    - of the swarm's steps one after the other, {_ratios([row.swarm.total for row in rows], critical)}",
    ]
    items = [line if line.startswith(" ") else f"- {line}" for line in summary]
    return "\n".join([f"    {command}", "", *items, "", head, f"|{'---|' * 11}", *lines])


def _ratios(steps: Sequence[int], critical: Sequence[int]) -> str:
    ratios = [single / swarm for single, swarm in zip(steps, critical, strict=True)]
    few = sum(ratio < FEW for ratio in ratios)
    return (
        f"{sum(steps) / sum(critical):.1f} (of the sums), {statistics.median(ratios):.1f} in the median, "
        f"{min(ratios):.1f} to {max(ratios):.1f}; below {FEW:g} in {few} of {len(ratios)} tables"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="small", choices=("tiny", "small", "full"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", default="", help="Only tasks with this in their id.")
    given = parser.parse_args()
    rows = asyncio.run(measure(given.size, given.seeds, given.part))
    print(
        table(
            rows,
            f"python -m benchmarks.widesearch --size {given.size} --seeds {given.seeds}"
            + (f" --part {given.part}" if given.part else ""),
        )
    )


if __name__ == "__main__":
    main()
