"""Inputs of a child's run: a folder, its files, its model, and the state from which it resumes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cua.assemble import make_settings_model
from cua.config import Settings
from cua.errors import TrajectoryError
from cua.messages import Usage
from cua.model import Model, Tool
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from cua.swarm.agents import WorkItem
from cua.swarm.answer_table import SOURCE, make_table, table_name
from cua.swarm.budget import ChildModel
from cua.swarm.child import TOOLS, AttemptResult, Child
from cua.swarm.swarm import Swarm
from cua.tool_agent.conversation import RunSnapshot
from cua.tool_agent.resume import load_snapshot
from cua.trajectory.chain import FILES
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import copy_inside

CHILDREN = "children"
MAX_FILE_BYTES = 256 * 2**20
"""Limit of one file that is copied between folders."""


class AgentPool(Protocol):
    """Interface that runs agents: `LocalAgentPool` in this process, or `RayAgentPool`."""

    async def work(
        self, item: WorkItem, scope: RunScope, model: Model, folder: Path, more_tools: Sequence[Tool] = ()
    ) -> AttemptResult:
        """Run one try to its end; its folder is up to date afterwards, even if a machine was lost."""
        ...


class SwarmChildRunner:
    """Runner that continues each try of a child from the previous one; implements `ChildRunner`.

    Args:
        agent_pool: Runner of the agents.
        settings: Settings of the run, for models that are made here.
        model: Default model of the children.
        models: Model objects by the name passed to `create_subagent`.
        swarm_tools: Factory of the tools of a child that may have children of its own.
        restarts: True to restart half-done children of an earlier process.
        stack: Exit stack that closes the models made here.
        run_dir: The swarm's folder.
    """

    def __init__(
        self,
        *,
        agent_pool: AgentPool,
        settings: Settings,
        model: Model,
        models: Mapping[str, Model],
        swarm_tools: Callable[[Swarm, str], list[Tool]],
        restarts: bool,
        stack: AsyncExitStack,
        run_dir: Path,
    ) -> None:
        self._agent_pool, self._settings, self._restarts = agent_pool, settings, restarts
        self._models = {"": model, **models}
        self._swarm_tools, self._stack, self._run_dir = swarm_tools, stack, run_dir
        self._snapshots: dict[str, RunSnapshot] = {}
        self._answers: dict[Path, dict[str, str]] = {}
        self._table_lock = asyncio.Lock()

    async def ended_before(self, swarm: Swarm, child: Child) -> AttemptResult | None:
        """Return an earlier result, as in `ChildRunner.ended_before`."""
        result = child.earlier.result if child.earlier is not None else None
        if result is None or child.is_continued or result.end.status in ("error", "stopped"):
            return None
        folder = self._run_dir / CHILDREN / child.id / FILES
        attempt = AttemptResult(result=result, returned=await self._handed_back(child, folder))
        return replace(attempt, summary=await self._merged_rows(child, attempt, swarm.children))

    def load_snapshot(self, child: Child) -> RunSnapshot | None:
        """Return the state of the child's last try, in this process or an earlier one; None for GUI children."""
        if child.assignment.config.kind != TOOLS:
            return None
        earlier = child.earlier
        if child.id not in self._snapshots and earlier is not None and earlier.exchanges and not self._restarts:
            return load_snapshot(earlier)
        return self._snapshots.get(child.id)

    async def play(self, swarm: Swarm, child: Child, scope: RunScope, start: RunSnapshot | None) -> AttemptResult:
        """Run a child to its end, in its own folder with the files of its assignment."""
        folder = self._run_dir / CHILDREN / child.id / FILES
        problem = await asyncio.to_thread(self._hand_over, child, folder)
        if problem:
            return AttemptResult(result=_failed(problem))
        item = WorkItem(id=child.id, assignment=child.assignment, start=start)
        has_tools = child.assignment.config.kind == TOOLS and child.depth < swarm.limits.max_depth
        extra_tools = self._swarm_tools(swarm, child.id) if has_tools else []
        name = child.assignment.config.model
        model = self._model(name) if name else ChildModel(self._model(name), swarm.suspend)
        attempt = await self._agent_pool.work(item, scope, model, folder, extra_tools)
        if attempt.snapshot is not None:
            self._snapshots[child.id] = attempt.snapshot
        summary = await self._merged_rows(child, attempt, swarm.children)
        return replace(attempt, returned=await self._handed_back(child, folder), summary=summary)

    async def _merged_rows(self, child: Child, attempt: AttemptResult, children: Sequence[Child]) -> str:
        """Add a child's rows to the table of its agent; return what its parent is shown of it, "" without a table."""
        end = attempt.result.end
        if child.assignment.schema is None or end.status not in ("unverified", "succeeded") or end.answer is None:
            return ""
        name = table_name(child.assignment.config.name)
        path = self._folder_of(child.parent) / name
        async with self._table_lock:
            answers = self._answers.setdefault(path, {})
            for other in children:  # of earlier processes
                is_alike = other.parent == child.parent and table_name(other.assignment.config.name) == name
                if is_alike and other.assignment.schema is not None and other.state == "finished":
                    answers.setdefault(other.id, other.answer)
            answers[child.id] = end.answer
            text, num_rows = make_table(answers)
            await asyncio.to_thread(_write_table, path, text)
        return f"{num_rows[child.id]} rows are in {name} of your folder, in the column `{SOURCE}` marked {child.id}."

    def _model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = make_settings_model(replace(self._settings, model=name), None)
            self._stack.push_async_callback(self._models[name].close)
        return self._models[name]

    def _hand_over(self, child: Child, folder: Path) -> str:
        """Copy the child's input files; return an error message, or ""."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in child.assignment.files:
            target = folder / Path(name).name
            if target.exists():
                continue
            try:
                copy_inside(self._folder_of(child.parent), name, target, max_bytes=MAX_FILE_BYTES)
            except (TrajectoryError, OSError) as error:
                return f"the file {name!r} cannot be handed over: {error}"
        return ""

    async def _handed_back(self, child: Child, folder: Path) -> tuple[str, ...]:
        return await asyncio.to_thread(self._hand_back, child, folder) if child.assignment.returns else ()

    def _hand_back(self, child: Child, folder: Path) -> tuple[str, ...]:
        """Copy the child's output files to its parent; skip missing files."""
        returned = []
        for name in child.assignment.returns:
            target = self._folder_of(child.parent) / child.id / Path(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                copy_inside(folder, name, target, max_bytes=MAX_FILE_BYTES)
            except (TrajectoryError, OSError):
                continue
            returned.append(f"{child.id}/{target.name}")
        return tuple(returned)

    def _folder_of(self, parent: str) -> Path:
        inside = self._run_dir / CHILDREN / parent
        return inside / FILES if inside.is_dir() else self._run_dir / FILES


def _write_table(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode("utf-8", "replace"))


def _failed(reason: str) -> RunResult:
    end = End(status="failed", reason=reason)
    return RunResult(end=end, num_steps=0, usage=Usage(), duration_s=0.0)
