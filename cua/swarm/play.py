"""How a child of a swarm works: a tool agent in a folder of its own, or a GUI agent in a browser of its own."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from cua.assemble import make_settings_model
from cua.errors import TrajectoryError
from cua.gui_agent.agent import Agent, AgentOptions
from cua.messages import TextPart, Usage
from cua.model import Model, Tool
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from cua.swarm.child import Child
from cua.swarm.sandboxes import AgentPlace, Sandboxes
from cua.swarm.swarm import ChildModel, Played, Swarm
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.assemble import SessionParts
from cua.tool_agent.profile import ContextOptions, Profile
from cua.tool_agent.resume import names_after, start_of
from cua.tools import Toolset
from cua.trajectory import RunRecord
from cua.trajectory.chain import FILES
from cua.trajectory.run_files import copy_inside
from envs import InstructionTask
from envs.env import EnvSpec
from envs.pool import EnvPool

CHILDREN = "children"
MAX_FILE_BYTES = 256 * 2**20
"""Of one file that is handed over."""
LOST_VARIABLES = "(This work broke off and goes on in a fresh Python: variables are gone, files are kept.)"


class ChildPlayer:
    """Plays children, each try of one from where the one before left off.

    Args:
        parts: Model, guard and settings of the run.
        context: What a child does when its context grows long.
        restarts: Whether half-done children of an earlier process start anew.
        sandboxes: Where kernels come from.
        make_tools: Makes a child's tools for its place.
        envs: Where browsers come from.
        num_envs: How many of them may be open at the same time.
        models: Model objects by the name that `create_subagent` gives.
        stack: Closes the models that are made here.
        run_dir: The swarm's folder.
    """

    def __init__(
        self,
        *,
        parts: SessionParts,
        context: ContextOptions,
        restarts: bool,
        sandboxes: Sandboxes,
        make_tools: Callable[[AgentPlace], list[Tool]],
        envs: EnvPool,
        num_envs: int,
        models: Mapping[str, Model],
        stack: AsyncExitStack,
        run_dir: Path,
    ) -> None:
        self._parts, self._context, self._restarts = parts, context, restarts
        self._sandboxes, self._make_tools, self._stack, self._run_dir = sandboxes, make_tools, stack, run_dir
        self._envs, self._env_places = envs, asyncio.Semaphore(num_envs)
        self._models = dict(models)
        self._agents: dict[str, ToolAgent] = {}

    async def play(self, swarm: Swarm, child: Child, scope: RunScope) -> Played:
        """Play a child to its end, in a folder of its own, with the files that it is to get."""
        if child.assignment.config.kind == "browser":
            return await self._play_browser(swarm, child, scope)
        place = AgentPlace(
            self._sandboxes, self._run_dir / CHILDREN / child.id / FILES, self._parts.settings.cell_timeout
        )
        try:
            problem = await asyncio.to_thread(self._hand_over, child, place.folder)
            if problem:
                return Played(result=_failed(problem))
            result, agent = await self._play_tools(swarm, child, scope, place)
        finally:
            await place.close()
        returned = await asyncio.to_thread(self._hand_back, child, place.folder)
        last = next((step.reply.content for step in reversed(agent.steps) if step.reply.content.strip()), "")
        return Played(result=result, last_text=last.strip(), returned=returned)

    async def _play_tools(
        self, swarm: Swarm, child: Child, scope: RunScope, place: AgentPlace
    ) -> tuple[RunResult, ToolAgent]:
        profile = Profile(
            name="child",
            system_prompt=child.assignment.config.system_prompt,
            sampling=self._parts.profile.sampling,
            context=self._context,
            is_loop_capped=True,
        )
        agent = ToolAgent(
            model=self._model_of(swarm, child),
            toolset=Toolset(self._make_tools(place)),
            profile=profile,
            is_isolated=self._sandboxes.backend != "none",
            guard=self._parts.guard,
            scope=scope,
        )
        before = self._agents.get(child.id)
        self._agents[child.id] = agent
        if before is not None:
            agent.take_over(before)
        elif child.earlier is not None and child.earlier.turns and not self._restarts:
            agent.load(start_of(child.earlier))
            child.num_calls = num_calls(child.earlier)
            child.num_steps = len(child.earlier.tool_steps)
            child.busy_s = sum(sum(step.timings.values()) for step in child.earlier.tool_steps)
        else:
            return await agent.run([TextPart(text=child.assignment.prompt)]), agent

        async def prepare() -> str | None:
            return LOST_VARIABLES if names_after(agent.steps) else None

        return await agent.go_on(prepare), agent

    async def _play_browser(self, swarm: Swarm, child: Child, scope: RunScope) -> Played:
        """A GUI agent with a browser of its own; a second try begins in a fresh one, under a name of its own."""
        options = {"url": child.assignment.url} if child.assignment.url else {}
        async with self._env_places:
            env = await self._envs.take(EnvSpec(name="browser", options=options))
            try:
                agent = Agent(
                    model=self._model_of(swarm, child),
                    env=env,
                    options=AgentOptions(caps=scope.caps),
                    guard=self._parts.guard,
                    secrets=self._parts.secrets,
                    scope=scope,
                )
                prompt = f"{child.assignment.config.system_prompt}\n\n{child.assignment.prompt}".strip()
                result = await agent.run(InstructionTask(instruction=prompt))
            finally:
                await env.close()
        return Played(result=result, last_text=result.end.reason)

    def _model_of(self, swarm: Swarm, child: Child) -> Model:
        name = child.assignment.config.model
        if not name:
            return ChildModel(self._parts.model, swarm)
        if name not in self._models:
            self._models[name] = make_settings_model(replace(self._parts.settings, model=name), None)
            self._stack.push_async_callback(self._models[name].close)
        return ChildModel(self._models[name], swarm)

    def _hand_over(self, child: Child, folder: Path) -> str:
        """Copy what the child gets; why that cannot be, or ""."""
        for name in child.assignment.files:
            target = folder / Path(name).name
            if target.exists():
                continue
            try:
                copy_inside(self._run_dir / FILES, name, target, max_bytes=MAX_FILE_BYTES)
            except (TrajectoryError, OSError) as error:
                return f"the file {name!r} cannot be handed over: {error}"
        return ""

    def _hand_back(self, child: Child, folder: Path) -> tuple[str, ...]:
        """Copy what the child leaves for the orchestrator; what is not there is left out."""
        returned = []
        for name in child.assignment.returns:
            target = self._run_dir / FILES / child.id / Path(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                copy_inside(folder, name, target, max_bytes=MAX_FILE_BYTES)
            except (TrajectoryError, OSError):
                continue
            returned.append(f"{child.id}/{target.name}")
        return tuple(returned)


def num_calls(record: RunRecord | None) -> int:
    """Calls and steps of a record."""
    return sum(len(step.outcomes) for step in record.tool_steps) + len(record.steps) if record else 0


def _failed(reason: str) -> RunResult:
    end = End(status="failed", reason=reason)
    return RunResult(end=end, num_steps=0, usage=Usage(), duration_s=0.0)
