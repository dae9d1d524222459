"""One agent alone against a swarm, on generated tasks of wide search, with the same embedded model and tools.

    python benchmarks/widesearch.py --size small --seeds 2 > benchmarks/widesearch.md

Both make one call a reply, but for `assign_task`. A step is a reply of a model; critical steps are those of the K2.5
report, section 3: 1 for each stage of the orchestrator, and the steps of the stage's longest child. The model costs no
time, so seconds say nothing about a real one and are not told.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.literal import LiteralModel
from cua.messages import TextPart
from cua.research.fetch import Web, make_world_web
from cua.run.budget import Caps
from cua.swarm.session import SwarmOptions, run_swarm
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.profile import Profile, ToolMaker
from cua.tools import Toolset
from cua.tools.research import BrowseTool, SearchTool, make_research_tools
from envs.registry import load_suite
from envs.suites.widesearch.tasks import WideSearchTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    task: str
    num_rows: int
    alone_f1: float
    alone_steps: int
    swarm_f1: float
    critical: int
    total: int
    children: int

    @property
    def speedup(self) -> float:
        return self.alone_steps / self.critical


async def alone(task: WideSearchTask, web: Web) -> tuple[float, int]:
    """Item-F1 and steps of one agent."""
    profile = Profile(system_prompt="Collect what is asked for.", caps=Caps(max_steps=5000))
    agent = ToolAgent(model=LiteralModel(), toolset=Toolset(make_research_tools(web, None)), profile=profile)
    result = await agent.run([TextPart(text=task.instruction)])
    return task.score(result.end.answer).item_f1, result.num_steps


async def swarm(task: WideSearchTask, web: Web) -> tuple[float, int, int, int]:
    """Item-F1, critical and total steps, children."""
    makers: tuple[ToolMaker, ...] = (lambda place: SearchTool(web), lambda place: BrowseTool(web, place.kernel.folder))
    with tempfile.TemporaryDirectory() as runs:
        result = await run_swarm(
            task.instruction, options=SwarmOptions(tools=makers), model=LiteralModel(), runs_dir=Path(runs)
        )
    measures = result.metrics
    score = task.score(result.run.end.answer).item_f1
    return score, measures.critical_steps, measures.total_steps, len(result.children)


async def measure(size: str, num_seeds: int, part: str) -> list[Row]:
    suite = load_suite("widesearch", size=size, num_seeds=num_seeds)
    rows = []
    for seed in suite.seeds:
        for task_id in (task_id for task_id in suite.task_ids if part in task_id):
            task = suite.make_task(task_id, seed)
            assert isinstance(task, WideSearchTask)
            f1, steps = await alone(task, make_world_web(seed or 0, size=size))
            swarm_f1, critical, total, children = await swarm(task, make_world_web(seed or 0, size=size))
            name = f"{task_id.removeprefix('widesearch/')} #{seed}"
            counts = {"critical": critical, "total": total, "children": children}
            rows.append(
                Row(
                    task=name,
                    num_rows=len(task.table.rows),
                    alone_f1=f1,
                    alone_steps=steps,
                    swarm_f1=swarm_f1,
                    **counts,
                )
            )
    return rows


def table(rows: Sequence[Row], command: str) -> str:
    head = "| task | rows | F1 alone | F1 swarm | steps alone | critical steps | total steps | children | ratio |"
    lines = [
        f"| {row.task} | {row.num_rows} | {row.alone_f1:.3f} | {row.swarm_f1:.3f} | {row.alone_steps} | {row.critical} "
        f"| {row.total} | {row.children} | {row.speedup:.1f}x |"
        for row in rows
    ]
    f1 = [statistics.mean(getattr(row, name) for row in rows) for name in ("alone_f1", "swarm_f1")]
    ratio = sum(row.alone_steps for row in rows) / sum(row.critical for row in rows)
    summary = (
        f"All {len(rows)} tasks: item-F1 {f1[0]:.3f} alone, {f1[1]:.3f} as a swarm; {ratio:.1f}x fewer critical steps "
        f"(ratio of sums), {statistics.median(row.speedup for row in rows):.1f}x in the median, "
        f"{min(row.speedup for row in rows):.1f}x at least."
    )
    return "\n".join([f"    {command}", "", summary, "", head, f"|{'---|' * 9}", *lines])


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
            f"python benchmarks/widesearch.py --size {given.size} --seeds {given.seeds}"
            + (f" --part {given.part}" if given.part else ""),
        )
    )


if __name__ == "__main__":
    main()
