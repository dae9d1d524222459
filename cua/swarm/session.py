"""A swarm from its question to a written end: record, folders, sandboxes and envs on demand, resume."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cua.assemble import make_settings_model
from cua.config import Settings
from cua.errors import ConfigError, TrajectoryError
from cua.evidence import write_bundle
from cua.gui_agent.agent import Agent, AgentOptions
from cua.messages import TextPart, Usage
from cua.model import Model, Tool
from cua.redaction import redacted
from cua.run.budget import Caps
from cua.run.end import End, RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope, Spent
from cua.swarm.child import Child, load_children
from cua.swarm.measure import SwarmMeasures, measure
from cua.swarm.protocol import (
    DATA_NOTE,
    LAST_REQUEST,
    ORCHESTRATOR_PROMPT,
    PRESETS,
    SwarmPreset,
)
from cua.swarm.swarm import ChildModel, Played, Swarm, SwarmLimits
from cua.swarm.tools import AssignTaskTool, CreateSubagentTool, ReadResultTool
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.assemble import Given, make_parts, make_tools_header, start_sandbox
from cua.tool_agent.inputs import copy_inputs, find_inputs, make_question
from cua.tool_agent.outside import make_user_tools
from cua.tool_agent.profile import Profile, ToolMaker, Workplace
from cua.tool_agent.resume import names_after, start_of
from cua.tools import Toolset
from cua.tools.service import Service
from cua.trajectory import RunRecord, TrajectoryWriter, default_runs_dir
from cua.trajectory.chain import FILES, hash_files
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import copy_inside
from envs import InstructionTask
from envs.env import EnvSpec
from envs.pool import EnvPool
from visual_tools.sandbox import CellResult, Kernel, KernelMaker, Limits

CHILDREN, INPUTS, RESULT = "children", "inputs", "swarm.json"
MAX_FILE_BYTES = 256 * 2**20
"""Of one file that is handed over."""
LOST_VARIABLES = "(This work broke off and goes on in a fresh Python: variables are gone, files are kept.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmOptions:
    """How a swarm works.

    Attributes:
        preset: Limits and context strategies.
        limits: Of the run; `child_calls` and what the settings name go before.
        tools: Makers of the core tools, which orchestrator and children have alike; None: those of `cua ask`, which
            search and browse when the settings name a search engine; all agents share it.
        is_extended: Whether the orchestrator is told of the arguments that are not published.
        num_kernels: Children that may have a sandbox open at the same time.
        num_envs: Children that may have a browser open at the same time.
        restarts_children: On resume, half-done children start anew instead of going on.
        make_env: Makes the envs of GUI children; None for those of the registry.
        models: Model objects by the name that `create_subagent` gives; others are made from the settings.
    """

    preset: SwarmPreset = PRESETS["standard"]
    limits: SwarmLimits = field(default_factory=SwarmLimits)
    tools: tuple[ToolMaker, ...] | None = None
    is_extended: bool = False
    num_kernels: int = field(default_factory=lambda: max(4, 2 * (os.cpu_count() or 1)))
    num_envs: int = 4
    restarts_children: bool = False
    make_env: Callable[[EnvSpec], Any] | None = None
    models: Mapping[str, Model] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmResult:
    """How a swarm ended.

    Attributes:
        run: As of any run; usage is that of all agents.
        measures: Critical steps, speed-up and the like.
        children: All children, ended.
    """

    run: RunResult
    measures: SwarmMeasures
    children: tuple[Child, ...]

    def to_json(self) -> dict[str, Any]:
        """Figures and children as JSON values."""
        return {"measures": self.measures.to_json(), "children": [child.to_json() for child in self.children]}


OnSwarm = Callable[[Swarm], None]


async def run_swarm(
    question: str,
    files: Sequence[Path | str] = (),
    *,
    options: SwarmOptions | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    on_swarm: OnSwarm | None = None,
    **settings: Any,
) -> SwarmResult:
    """Have a swarm answer a question.

    Args:
        question: What is asked.
        files: Copied into the orchestrator's folder.
        options: How it works.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Makes the kernels (the caller closes it), or what isolates them as in the settings.
        watch: Who follows the run; children's events carry their names.
        on_swarm: Gets the swarm before it starts, for a live view.
        settings: Single settings by name, such as `max_tokens=1_000_000`.

    Raises:
        ConfigError: A setting or file is wrong; nothing was started.
    """
    session = _Session(options or SwarmOptions(), _given(None, model, sandbox, watch, settings), on_swarm)
    return await session.run(question, [Path(file) for file in files])


async def resume_swarm(
    run_dir: Path,
    *,
    options: SwarmOptions | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    on_swarm: OnSwarm | None = None,
    **settings: Any,
) -> SwarmResult:
    """Go on with a swarm that broke off, was stopped or was capped; finished children are not run again.

    Args:
        run_dir: The run's folder.
        options: As for `run_swarm`; so are the others.
        model: See there.
        sandbox: See there.
        watch: See there.
        on_swarm: See there.
        settings: Settings that change.

    Raises:
        TrajectoryError: The record cannot be read, or another process writes it.
        ConfigError: The question was answered, or a setting is wrong.
    """
    session = _Session(options or SwarmOptions(), _given(run_dir, model, sandbox, watch, settings), on_swarm)
    return await session.resume()


def _given(
    resume: Path | None,
    model: Model | str | None,
    sandbox: KernelMaker | str | None,
    watch: Watch | None,
    settings: dict[str, Any],
) -> Given:
    named = {"model": model, "sandbox": sandbox}
    return Given(
        profile=None,
        resume=resume,
        schema=None,
        model=None if isinstance(model, str) else model,
        maker=None if isinstance(sandbox, str) else sandbox,
        watch=watch or Watch(),
        flags={**settings, **{name: value for name, value in named.items() if isinstance(value, str)}},
    )


class _Sandboxes:
    """Kernels when they are first used; the sandbox itself too."""

    def __init__(self, maker: KernelMaker | None, settings: Settings, num_open: int) -> None:
        self.backend = maker.backend if maker is not None else settings.sandbox
        self._maker, self._settings = maker, settings
        self._is_own = maker is None
        self._places = asyncio.Semaphore(num_open)
        self._lock = asyncio.Lock()

    async def open(self, folder: Path) -> Kernel:
        async with self._lock:
            if self._maker is None:
                self._maker = await start_sandbox(self._settings)
        return await self._maker.make_kernel(folder)

    async def take_place(self) -> None:
        await self._places.acquire()

    def give_place(self) -> None:
        self._places.release()

    async def close(self) -> None:
        if self._is_own and self._maker is not None:
            await self._maker.close()


class _LazyKernel:
    """A kernel that is started by its first cell; implements `Kernel`."""

    inside_dir = "the working folder"

    def __init__(self, open_kernel: Callable[[], Awaitable[Kernel]], folder: Path, backend: Any) -> None:
        self.folder, self.backend = folder, backend
        self._open = open_kernel
        self._kernel: Kernel | None = None
        self._lock = asyncio.Lock()

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        async with self._lock:
            if self._kernel is None:
                self._kernel = await self._open()
            kernel = self._kernel
        return await kernel.run(code, timeout_s=timeout_s, store_history=store_history)

    async def interrupt(self) -> None:
        if self._kernel is not None:
            await self._kernel.interrupt()

    async def close(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            await kernel.close()


class _Place:
    """Folder and kernels of one agent."""

    def __init__(self, sandboxes: _Sandboxes, folder: Path, cell_s: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._sandboxes = sandboxes
        self._has_place = False
        self._lock = asyncio.Lock()
        self._kernel = _LazyKernel(self._open, folder, sandboxes.backend)
        self._service = Service(self._open)
        self.workplace = Workplace(kernel=self._kernel, service=self._service, limits=Limits(wall_s=cell_s))

    async def _open(self) -> Kernel:
        async with self._lock:
            if not self._has_place:
                await self._sandboxes.take_place()
                self._has_place = True
        return await self._sandboxes.open(self.folder)

    async def close(self) -> None:
        try:
            await self._service.close()
            await self._kernel.close()
        finally:
            if self._has_place:
                self._sandboxes.give_place()
            self._has_place = False


class _Session:
    def __init__(self, options: SwarmOptions, given: Given, on_swarm: OnSwarm | None) -> None:
        self._options, self._given, self._on_swarm = options, given, on_swarm
        self._stack = AsyncExitStack()
        self._models: dict[str, Model] = dict(options.models)
        self._agents: dict[str, ToolAgent] = {}

    async def run(self, question: str, files: Sequence[Path]) -> SwarmResult:
        if not question.strip():
            raise ConfigError('the question is empty; expected a text such as "Compare the prices of ..."')
        self._parts = parts = await asyncio.to_thread(make_parts, self._given)
        inputs = await asyncio.to_thread(lambda: find_inputs([file.expanduser() for file in files]))
        if any(not file.is_copied for file in inputs):
            raise ConfigError("a file is too large to be copied into the swarm's folder")
        asked = await asyncio.to_thread(make_question, question, inputs)
        self._sandboxes = _Sandboxes(self._given.maker, parts.settings, self._options.num_kernels)
        header = make_tools_header(parts, question, inputs, self._sandboxes)  # type: ignore[arg-type]
        header = replace(header, protocol={"profile": "swarm"})
        runs_dir = parts.settings.runs_dir or default_runs_dir()
        self._writer = TrajectoryWriter.create(runs_dir, header, parts.secrets.redact)
        await asyncio.to_thread(copy_inputs, inputs, self._writer.run_dir / INPUTS, self._writer.run_dir / FILES)
        return await self._play_whole(None, lambda agent: agent.run(asked))

    async def resume(self) -> SwarmResult:
        self._parts = parts = await asyncio.to_thread(make_parts, self._given)
        record = parts.record
        assert record is not None
        if record.end is not None and record.end.status in ("succeeded", "failed", "unverified"):
            raise ConfigError(f"the run {record.run_dir.name} ended as {record.end.status}; there is nothing to resume")
        if record.header.protocol.get("profile") != "swarm":
            raise ConfigError(f"{record.run_dir.name} is no run of a swarm; go on with it by: cua ask --resume")
        self._sandboxes = _Sandboxes(self._given.maker, parts.settings, self._options.num_kernels)
        self._writer = TrajectoryWriter.reopen(record.run_dir, parts.secrets.redact)
        return await self._play_whole(record, lambda agent: agent.go_on())

    async def _play_whole(
        self, record: RunRecord | None, work: Callable[[ToolAgent], Awaitable[RunResult]]
    ) -> SwarmResult:
        parts, started = self._parts, time.monotonic()
        async with self._stack as stack:
            stack.callback(self._writer.close)
            if self._given.model is None:
                stack.push_async_callback(parts.model.close)
            stack.push_async_callback(self._sandboxes.close)
            self._envs = await stack.enter_async_context(
                EnvPool(self._options.make_env) if self._options.make_env else _default_envs()
            )
            self._env_places = asyncio.Semaphore(self._options.num_envs)
            scope, swarm, agent = await self._assemble(record)
            stack.push_async_callback(swarm.close)
            earlier_s = record.result.duration_s if record and record.result else 0.0
            result = await work(agent)
            await swarm.close()
            await scope.record.close()
            result = replace(result, usage=scope.budget.usage)
            wall_s = time.monotonic() - started + earlier_s
            done = SwarmResult(
                run=redacted(result, parts.secrets.redact),
                measures=measure(agent.steps, swarm.children, wall_s=wall_s),
                children=tuple(swarm.children),
            )
            await self._main_place.close()
            await asyncio.to_thread(self._write_result, done)
        return done

    async def _assemble(self, record: RunRecord | None) -> tuple[RunScope, Swarm, ToolAgent]:
        parts, preset = self._parts, self._options.preset
        limits = self._limits()
        scope = RunScope(caps=limits.run, record=self._writer, listener=parts.watch.listener)
        scope.control.attach()
        if parts.watch.on_control:
            parts.watch.on_control(scope.control)
        swarm = Swarm(scope=scope, limits=limits, play=self._play, listener=parts.watch.listener)
        swarm.pool.control.attach()
        self._main_place = _Place(self._sandboxes, self._writer.run_dir / FILES, parts.settings.cell_timeout)
        tools: list[Tool] = [
            CreateSubagentTool(swarm, is_extended=self._options.is_extended),
            AssignTaskTool(swarm, is_extended=self._options.is_extended),
            ReadResultTool(swarm),
        ]
        own, _ = preset.contexts
        profile = Profile(
            name="swarm",
            system_prompt=f"{ORCHESTRATOR_PROMPT}\n\n{DATA_NOTE}",
            sampling=parts.profile.sampling,
            context=own,
            last_request=LAST_REQUEST,
        )
        agent = ToolAgent(
            model=parts.model,
            toolset=Toolset([*tools, *self._core_tools(self._main_place)]),
            profile=profile,
            is_isolated=self._sandboxes.backend != "none",
            guard=parts.guard,
            scope=scope.make_turn(Caps(max_steps=None, max_calls=preset.orchestrator_calls)),
        )
        if record is not None:
            configs, children = load_children(record)
            await swarm.take_up(configs, children)
            main = replace(record, usage=Usage())
            start = start_of(main)
            agent.load(replace(start, spent=Spent(num_calls=start.spent.num_calls)))
            scope.budget.add(record.usage)
            child_calls = sum(_num_calls(child.earlier) for child in children if child.earlier)
            scope.budget.num_calls += start.spent.num_calls + child_calls
            swarm.pool.budget.num_calls += child_calls
        if self._on_swarm:
            self._on_swarm(swarm)
        return scope, swarm, agent

    def _limits(self) -> SwarmLimits:
        settings, limits = self._parts.settings, self._options.limits
        run = replace(
            limits.run,
            max_calls=settings.max_calls or limits.run.max_calls,
            max_tokens=settings.max_tokens or limits.run.max_tokens,
            max_cost_usd=settings.max_cost or limits.run.max_cost_usd,
            max_time_s=settings.max_time or limits.run.max_time_s,
        )
        return replace(limits, run=run)

    def _core_tools(self, place: _Place) -> list[Tool]:
        makers = self._parts.profile.tools if self._options.tools is None else self._options.tools
        made = [make(place.workplace) for make in makers]
        return [*made, *make_user_tools(self._parts.user_tools, place.workplace, self._parts.secrets.redact)]

    async def _play(self, swarm: Swarm, child: Child, scope: RunScope) -> Played:
        if child.assignment.config.kind == "browser":
            return await self._play_browser(swarm, child, scope)
        place = _Place(self._sandboxes, self._folder_of(child), self._parts.settings.cell_timeout)
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
        self, swarm: Swarm, child: Child, scope: RunScope, place: _Place
    ) -> tuple[RunResult, ToolAgent]:
        _, context = self._options.preset.contexts
        profile = Profile(
            name="child",
            system_prompt=child.assignment.config.system_prompt,
            sampling=self._parts.profile.sampling,
            context=context,
            is_loop_capped=True,
        )
        agent = ToolAgent(
            model=self._model_of(swarm, child),
            toolset=Toolset(self._core_tools(place)),
            profile=profile,
            is_isolated=self._sandboxes.backend != "none",
            guard=self._parts.guard,
            scope=scope,
        )
        before = self._agents.get(child.id)
        self._agents[child.id] = agent
        if before is not None:
            agent.take_over(before)
        elif child.earlier is not None and child.earlier.turns and not self._options.restarts_children:
            agent.load(start_of(child.earlier))
            child.num_calls = _num_calls(child.earlier)
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

    def _folder_of(self, child: Child) -> Path:
        return self._writer.run_dir / CHILDREN / child.id / FILES

    def _hand_over(self, child: Child, folder: Path) -> str:
        """Copy what the child gets; why that cannot be, or ""."""
        for name in child.assignment.files:
            target = folder / Path(name).name
            if target.exists():
                continue
            try:
                copy_inside(self._writer.run_dir / FILES, name, target, max_bytes=MAX_FILE_BYTES)
            except (TrajectoryError, OSError) as error:
                return f"the file {name!r} cannot be handed over: {error}"
        return ""

    def _hand_back(self, child: Child, folder: Path) -> tuple[str, ...]:
        """Copy what the child leaves for the orchestrator; what is not there is left out."""
        returned = []
        for name in child.assignment.returns:
            target = self._writer.run_dir / FILES / child.id / Path(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                copy_inside(folder, name, target, max_bytes=MAX_FILE_BYTES)
            except (TrajectoryError, OSError):
                continue
            returned.append(f"{child.id}/{target.name}")
        return tuple(returned)

    def _write_result(self, done: SwarmResult) -> None:
        """The figures beside the record, and the evidence of the answer."""
        if done.run.end.source == "record":
            return
        text = json.dumps(done.to_json(), ensure_ascii=False, indent=1)
        write_atomically(self._writer.run_dir / RESULT, text.encode("utf-8", "replace"))
        files, is_whole = hash_files(self._writer.run_dir)
        self._writer.sealed(files, is_whole=is_whole)
        write_bundle(self._writer.run_dir)


def _default_envs() -> EnvPool:
    from envs import registry

    return EnvPool(registry.make_env)


def _num_calls(record: RunRecord | None) -> int:
    return sum(len(step.outcomes) for step in record.tool_steps) + len(record.steps) if record else 0


def _failed(reason: str) -> RunResult:
    end = End(status="failed", reason=reason)
    return RunResult(end=end, num_steps=0, usage=Usage(), duration_s=0.0)
