"""Session of a swarm, from a question to a written result: record, folders, sandboxes and envs on demand, resume."""

import asyncio
import functools
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cua.errors import ConfigError
from cua.evidence import write_bundle
from cua.messages import Usage
from cua.model import Model, Tool
from cua.redaction import redacted
from cua.run.budget import Caps
from cua.run.end import Cap, End, RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope, Spent
from cua.swarm.agents import LocalAgentPool, SharedAgentConfig
from cua.swarm.budget import SwarmLimits
from cua.swarm.child import ENV_KINDS, OVER, TOOLS, Assignment, Child, load_children, num_calls
from cua.swarm.child_runner import AgentPool, SwarmChildRunner
from cua.swarm.custom_agent import CustomAgent
from cua.swarm.executor import ExecutorKind, check_ray, make_ray_pool
from cua.swarm.metrics import SwarmMetrics, compute_metrics
from cua.swarm.plan import FinalStep, PlannedAgent
from cua.swarm.protocol import DATA_NOTE, LAST_REQUEST, ORCHESTRATOR_PROMPT, PRESETS, SwarmPreset
from cua.swarm.sandboxes import AgentWorkspace, LendingTool, SandboxPool
from cua.swarm.swarm import NEWS_PATTERN, Swarm
from cua.swarm.tools import AssignTaskTool, CreateSubagentTool, ReadResultTool
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.assemble import SessionConfig, make_parts, make_tools_header, scope_within, settings_of_question
from cua.tool_agent.conversation import text_of
from cua.tool_agent.inputs import copy_inputs, find_inputs, make_question
from cua.tool_agent.mcp_servers import open_mcp_tools
from cua.tool_agent.outside import make_user_tools
from cua.tool_agent.profile import ContextOptions, Profile, ToolMaker
from cua.tool_agent.resume import load_snapshot
from cua.tools import Toolset
from cua.trajectory import RunRecord, TrajectoryWriter, default_runs_dir
from cua.trajectory.chain import FILES, hash_files
from cua.trajectory.images import write_atomically
from cua.trajectory.run_record import MAIN
from envs import QuestionTask
from envs.env import EnvSpec
from envs.pool import EnvPool
from visual_tools.sandbox import KernelLimits, KernelMaker

INPUTS, RESULT = "inputs", "swarm.json"
_RAISED_BY: Mapping[Cap, str] = {
    "steps": "--max-steps",
    "calls": "--max-calls, or choose a --preset that allows an agent more calls",
    "time": "--max-time, or SwarmLimits.child_time_s for one sub-agent",
    "tokens": "--max-tokens",
    "cost": "--max-cost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmOptions:
    """Options of a swarm.

    Attributes:
        preset: Limits and context strategies.
        limits: Limits of the run; `child_calls` and values from the settings take precedence.
        tools: Factories of the core tools, which orchestrator and children share; None for the tools of `cua ask`, with
            search and a browser shared by all agents when the settings name a search engine.
        is_extended: True to show the orchestrator the unpublished tool arguments too.
        num_kernels: Children that may have a sandbox open at the same time.
        num_envs: Children that may have a browser open at the same time.
        restarts_children: True to restart half-done children on resume; False to continue them.
        make_env: Factory of the envs of GUI children; None to use the registry.
        models: Model objects by the name passed to `create_subagent`; others are made from the settings.
        agents: A user's own agents by the kind passed to `create_subagent`; see `cua.swarm.custom_agent`.
        executor: Place where children run: `local`, in this process; `ray`, in actors of a Ray cluster.
        ray_address: As for `cua.cluster.connect_ray`.
        relays_model: True to call models from this process only, for nodes that cannot reach the endpoint.
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
    agents: Mapping[str, CustomAgent] = field(default_factory=dict)
    executor: ExecutorKind = "local"
    ray_address: str | None = None
    relays_model: bool = False

    def __post_init__(self) -> None:
        taken = [name for name in (TOOLS, *ENV_KINDS) if name in self.agents]
        if taken:
            raise ConfigError(f"{taken[0]!r} is an existing kind of agent: give yours another name")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmResult:
    """Result of a swarm run.

    Attributes:
        run: Result of the run as a whole; its usage covers all agents.
        metrics: Critical steps, speed-up and other figures.
        children: All children, in their final states.
    """

    run: RunResult
    metrics: SwarmMetrics
    children: tuple[Child, ...]

    def to_json(self) -> dict[str, Any]:
        """Return figures and children as JSON values."""
        return {"measures": self.metrics.to_json(), "children": [child.to_json() for child in self.children]}


OnSwarm = Callable[[Swarm], None]


async def run_swarm(
    question: str | QuestionTask,
    files: Sequence[Path | str] = (),
    *,
    options: SwarmOptions | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    on_swarm: OnSwarm | None = None,
    scope: RunScope | None = None,
    **settings: Any,
) -> SwarmResult:
    """Answer a question with a swarm.

    Args:
        question: The question, or a task of a suite that evaluates the answer.
        files: Files to copy into the orchestrator's folder.
        options: Options of the swarm.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Factory of the kernels (the caller closes it), or the kind of isolation as in the settings.
        watch: Listener of the run; children's events carry their names.
        on_swarm: Called with the swarm before it starts, for a live view.
        scope: Scope of the parent run, such as a batch.
        settings: Single settings by name, such as `max_tokens=1_000_000`.

    Raises:
        ConfigError: If a setting or file is wrong; nothing was started.
    """
    task = None if isinstance(question, str) else question
    if task is not None:
        settings = settings_of_question(task, settings)
    config = replace(_session_config(None, model, sandbox, watch, settings), task=task, scope=scope)
    words = question if isinstance(question, str) else question.instruction
    return await _SwarmSession(options or SwarmOptions(), config, on_swarm).run(words, [Path(file) for file in files])


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
    """Resume a swarm that was interrupted, stopped or capped; finished children are not run again.

    Args:
        run_dir: The run's folder.
        options: As for `run_swarm`.
        model: As for `run_swarm`.
        sandbox: As for `run_swarm`.
        watch: As for `run_swarm`.
        on_swarm: As for `run_swarm`.
        settings: Settings that override the recorded ones.

    Raises:
        TrajectoryError: If the record cannot be read, or another process writes it.
        ConfigError: If the question was already answered, or a setting is wrong.
    """
    config = _session_config(run_dir, model, sandbox, watch, settings)
    return await _SwarmSession(options or SwarmOptions(), config, on_swarm).resume()


async def run_plan(
    question: str,
    assignments: Sequence[Assignment],
    then: FinalStep,
    *,
    resume: Path | None = None,
    options: SwarmOptions | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    on_swarm: OnSwarm | None = None,
    **settings: Any,
) -> SwarmResult:
    """Run children on given assignments, all at once, without an orchestrator that plans them.

    Args:
        question: Question of the run, answered by the model at the end.
        assignments: Assignments of the children, recorded as if an orchestrator had made them.
        then: Steps after all assignments have ended.
        resume: Folder of an earlier run of the same assignments to resume.
        options: As for `run_swarm`.
        model: As for `run_swarm`.
        sandbox: As for `run_swarm`.
        watch: As for `run_swarm`.
        on_swarm: As for `run_swarm`.
        settings: As for `run_swarm`.

    Raises:
        TrajectoryError: If the record of the earlier run cannot be read, or another process writes it.
        ConfigError: If a setting is wrong, or the question was already answered.
    """
    config = _session_config(resume, model, sandbox, watch, settings)
    make_agent = functools.partial(PlannedAgent, assignments, then)
    session = _SwarmSession(options or SwarmOptions(), config, on_swarm, make_agent)
    return await (session.run(question, ()) if resume is None else session.resume())


def _session_config(
    resume: Path | None,
    model: Model | str | None,
    sandbox: KernelMaker | str | None,
    watch: Watch | None,
    settings: dict[str, Any],
) -> SessionConfig:
    named = {"model": model, "sandbox": sandbox}
    return SessionConfig(
        profile=None,
        resume=resume,
        schema=None,
        model=None if isinstance(model, str) else model,
        maker=None if isinstance(sandbox, str) else sandbox,
        watch=watch or Watch(),
        flags={**settings, **{name: value for name, value in named.items() if isinstance(value, str)}},
    )


class _SwarmSession:
    def __init__(
        self,
        options: SwarmOptions,
        config: SessionConfig,
        on_swarm: OnSwarm | None,
        make_agent: Callable[..., ToolAgent] = ToolAgent,
    ) -> None:
        self._options, self._config, self._on_swarm, self._make_agent = options, config, on_swarm, make_agent
        self._stack = AsyncExitStack()

    async def run(self, question: str, files: Sequence[Path]) -> SwarmResult:
        if not question.strip():
            raise ConfigError('the question is empty; expected a text such as "Compare the prices of ..."')
        if self._options.executor == "ray":
            check_ray(has_objects=self._config.maker is not None or self._options.make_env is not None)
        self._parts = parts = await asyncio.to_thread(make_parts, self._config)
        inputs = await asyncio.to_thread(lambda: find_inputs([file.expanduser() for file in files]))
        if any(not file.is_copied for file in inputs):
            raise ConfigError("a file is too large to be copied into the swarm's folder")
        question_parts = await asyncio.to_thread(make_question, question, inputs)
        self._sandboxes = SandboxPool(self._config.maker, parts.settings, self._options.num_kernels)
        header = make_tools_header(parts, question, inputs, self._sandboxes, self._config.task)  # type: ignore[arg-type]
        header = replace(header, protocol={"profile": "swarm"})
        runs_dir = parts.settings.runs_dir or default_runs_dir()
        self._writer = TrajectoryWriter.create(runs_dir, header, parts.secrets.redact)
        await asyncio.to_thread(copy_inputs, inputs, self._writer.run_dir / INPUTS, self._writer.run_dir / FILES)
        return await self._run(None, lambda agent: agent.run(question_parts))

    async def resume(self) -> SwarmResult:
        if self._options.executor == "ray":
            check_ray(has_objects=self._config.maker is not None or self._options.make_env is not None)
        self._parts = parts = await asyncio.to_thread(make_parts, self._config)
        record = parts.record
        assert record is not None
        if record.header.protocol.get("profile") != "swarm":
            raise ConfigError(f"{record.run_dir.name} is not a run of a swarm; resume it with: cua ask --resume")
        end = record.end
        is_over = end is not None and end.status in ("succeeded", "failed", "unverified")
        if end is not None and is_over and not end.num_unfinished and end.cap != "context":
            raise ConfigError(f"the run {record.run_dir.name} ended as {end.status}; there is nothing to resume")
        if end is not None and (end.status == "capped" or end.num_unfinished):
            self._check_raised(record, end)
        self._sandboxes = SandboxPool(self._config.maker, parts.settings, self._options.num_kernels)
        self._writer = TrajectoryWriter.reopen(record.run_dir, parts.secrets.redact)
        return await self._run(record, self._continue)

    async def _continue(self, agent: ToolAgent) -> RunResult:
        """Continue the question, after the children that the orchestrator believes to have ended unfinished."""
        outcomes = {outcome.number: outcome.result.data for step in agent.steps for outcome in step.outcomes}
        own = [child for child in self._swarm.children if child.parent == MAIN and child.call in outcomes]
        shown = {child.id: str(outcomes[child.call].get("state", "")) for child in own}
        for question in agent.conversation.questions:
            news = NEWS_PATTERN.search(text_of(question.parts))  # the first match: texts of children come after it
            shown |= dict(part.split(" ") for part in news[1].split(", ")) if news else {}

        async def continue_children() -> str | None:
            news = await self._swarm.continue_children(shown)
            if isinstance(agent, PlannedAgent):
                agent.replace_results({child.call: child.result() for child in own})
            return news

        return await agent.continue_question(news=continue_children)

    async def _run(self, record: RunRecord | None, work: Callable[[ToolAgent], Awaitable[RunResult]]) -> SwarmResult:
        parts, started = self._parts, time.monotonic()
        async with self._stack as stack:
            stack.callback(self._writer.close)
            if self._config.model is None:
                stack.push_async_callback(parts.model.close)
            stack.push_async_callback(self._sandboxes.close)
            limits = KernelLimits(wall_s=parts.settings.cell_timeout)
            self._served = await open_mcp_tools(parts.servers, stack, limits=limits, redact=parts.secrets.redact)
            earlier_s = 0.0 if record is None else _earlier_s(record)
            scope, swarm, agent = await self._assemble(record, await self._make_child_runner(), earlier_s)
            for note in self._served.notes:
                scope.note("tools", note)
            stack.push_async_callback(swarm.close)
            result = await work(agent)
            await swarm.close()
            await scope.record.close()
            result = replace(result, usage=scope.budget.usage)
            wall_s = time.monotonic() - started + earlier_s
            swarm_result = SwarmResult(
                run=redacted(result, parts.secrets.redact),
                metrics=compute_metrics(agent.steps, swarm.children, wall_s=wall_s),
                children=tuple(swarm.children),
            )
            await self._main_workspace.close()
            await asyncio.to_thread(self._write_result, swarm_result)
        return swarm_result

    def _check_raised(self, record: RunRecord, end: End) -> None:
        """Check that the limits that ended a run leave more to do than to ask for its last answer again.

        Raises:
            ConfigError: If the limits that ended the run or its unfinished children are not raised.
        """
        name, limits = record.run_dir.name, self._limits()
        is_same_model = self._parts.model.name == record.header.model
        if end.cap == "context" and is_same_model and self._contexts()[0].strategy == "none":
            raise ConfigError(f"the context of the run {name} was full; resume it with --set context=summary")
        children = load_children(record)[1]
        used = _spent_of(record, children)
        reached = limits.run.reached(
            num_steps=used.num_steps, num_calls=used.num_calls, time_s=used.time_s, usage=used.usage
        ) or self._own_caps().reached(num_calls=num_calls(record))
        if reached is not None:
            raise ConfigError(f"a limit of the run {name} is used up: {reached[1]}; raise {_RAISED_BY[reached[0]]}")
        own = [child for child in children if child.parent == MAIN]
        capped = [child for child in own if child.state == "capped" and not limits.is_raised_for(child)]
        if end.num_unfinished and all(child in capped or child.state in OVER for child in own):
            first = capped[0]
            flag = _RAISED_BY.get(first.cap) if first.cap else None
            how = f"raise {flag}" if flag else "no setting raises this limit"
            raise ConfigError(
                f"no sub-agent of the run {name} can go on: {first.id} is capped ({first.reason}); {how}"
                + (f". {len(capped) - 1} more are capped" if len(capped) > 1 else "")
            )

    def _own_caps(self) -> Caps:
        """Return the limits of the orchestrator alone."""
        return Caps(max_steps=None, max_calls=self._options.preset.orchestrator_calls)

    async def _make_child_runner(self) -> SwarmChildRunner:
        options, parts = self._options, self._parts
        return SwarmChildRunner(
            agent_pool=await self._make_agent_pool(),
            settings=parts.settings,
            model=parts.model,
            models=options.models,
            swarm_tools=self._swarm_tools,
            restarts=options.restarts_children,
            stack=self._stack,
            run_dir=self._writer.run_dir,
        )

    async def _make_agent_pool(self) -> AgentPool:
        options, parts = self._options, self._parts
        _, context = self._contexts()
        shared = SharedAgentConfig(
            sampling=parts.profile.sampling,
            context=context,
            guard=parts.guard,
            secrets=parts.secrets,
            cell_timeout_s=parts.settings.cell_timeout,
            num_envs=options.num_envs,
            custom_agents=options.agents,
            mark_untrusted=parts.settings.mark_untrusted,
        )
        if options.executor == "ray":
            if self._served.tools:
                raise ConfigError("MCP servers are reached from this process; drop --executor ray or the setting mcp")
            agent_pool = await asyncio.to_thread(
                make_ray_pool, parts.settings, shared, options.tools, options.ray_address, options.relays_model
            )
            self._stack.push_async_callback(agent_pool.close)
            return agent_pool
        pool = EnvPool(options.make_env) if options.make_env else _default_envs()
        envs = await self._stack.enter_async_context(pool)
        return LocalAgentPool(shared, sandboxes=self._sandboxes, make_tools=self._core_tools, envs=envs)

    def _swarm_tools(self, swarm: Swarm, parent: str) -> list[Tool]:
        """Return the tools of an agent that may have children."""
        is_extended, kinds = self._options.is_extended, tuple(self._options.agents)
        return [
            CreateSubagentTool(swarm, parent, is_extended=is_extended, kinds=kinds),
            AssignTaskTool(swarm, parent, is_extended=is_extended),
            ReadResultTool(swarm, parent),
        ]

    async def _assemble(
        self, record: RunRecord | None, runner: SwarmChildRunner, earlier_s: float
    ) -> tuple[RunScope, Swarm, ToolAgent]:
        parts, limits = self._parts, self._limits()
        scope = scope_within(self._config, limits.run, self._writer) or RunScope(
            caps=limits.run, record=self._writer, listener=parts.watch.listener
        )
        scope.control.attach(earlier_s=earlier_s)
        if parts.watch.on_control:
            parts.watch.on_control(scope.control)
        swarm = Swarm(scope=scope, limits=limits, child_runner=runner, listener=parts.watch.listener)
        swarm.pool.control.attach(earlier_s=earlier_s)
        self._swarm = swarm
        self._main_workspace = AgentWorkspace(
            self._sandboxes, self._writer.run_dir / FILES, parts.settings.cell_timeout
        )
        inside, outside = self._core_tools(self._main_workspace)
        lending = [LendingTool(tool, self._main_workspace) for tool in self._swarm_tools(swarm, MAIN)]
        context, _ = self._contexts()
        own_scope = scope.make_part(self._own_caps())
        own_scope.listen(swarm.on_orchestrator_event)
        profile = Profile(
            name="swarm",
            system_prompt=f"{ORCHESTRATOR_PROMPT}\n\n{DATA_NOTE}",
            sampling=parts.profile.sampling,
            context=context,
            last_request=LAST_REQUEST,
            mark_untrusted=parts.settings.mark_untrusted,
        )
        start = load_snapshot(record) if record is not None else None
        agent = self._make_agent(
            model=parts.model,
            toolset=Toolset([*lending, *inside], outside=outside),
            profile=profile,
            task=self._config.task,
            is_isolated=self._sandboxes.backend != "none",
            guard=parts.guard,
            scope=own_scope,
            start=start and record and replace(start, spent=Spent(num_calls=num_calls(record), time_s=earlier_s)),
            final_end=swarm.final_end,
        )
        if record is not None and start is not None:
            configs, children = load_children(record)
            await swarm.restore(configs, children)
            spent = _spent_of(record, children)
            scope.budget.add(spent.usage)
            scope.budget.num_calls += spent.num_calls
            scope.budget.num_steps += spent.num_steps
            swarm.pool.budget.num_calls += spent.num_calls - num_calls(record)
            swarm.pool.budget.usage += sum((child.usage for child in children), Usage())
        swarm.steps = agent.steps
        if self._on_swarm:
            self._on_swarm(swarm)
        return scope, swarm, agent

    def _contexts(self) -> tuple[ContextOptions, ContextOptions]:
        """Return the context options of the orchestrator and of a child; settings take precedence over the preset."""
        settings = self._parts.settings
        orchestrator, child = self._options.preset.contexts
        if settings.context != "none":
            orchestrator = replace(orchestrator, strategy=settings.context)
        if settings.max_context is not None:
            orchestrator, child = (
                replace(options, max_tokens=settings.max_context) for options in (orchestrator, child)
            )
        return orchestrator, child

    def _limits(self) -> SwarmLimits:
        settings, limits = self._parts.settings, self._options.limits
        run = replace(
            limits.run,
            max_calls=settings.max_calls or limits.run.max_calls,
            max_tokens=settings.max_tokens or limits.run.max_tokens,
            max_cost_usd=settings.max_cost or limits.run.max_cost_usd,
            max_time_s=settings.max_time or limits.run.max_time_s,
        )
        return replace(limits, run=run, context_tokens=settings.max_context or limits.context_tokens)

    def _core_tools(self, workspace: AgentWorkspace) -> tuple[Sequence[Tool], Sequence[Tool]]:
        """Return the tools inside an agent's sandbox and those outside it; all agents share the MCP connections."""
        makers = self._parts.profile.tools if self._options.tools is None else self._options.tools
        user_tools = make_user_tools(self._parts.user_tools, workspace.tool_context, self._parts.secrets.redact)
        return [make(workspace.tool_context) for make in makers], [*user_tools, *self._served.tools]

    def _write_result(self, result: SwarmResult) -> None:
        """Write the figures next to the record, and the evidence of the answer."""
        if result.run.end.source == "record":
            return
        text = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        write_atomically(self._writer.run_dir / RESULT, text.encode("utf-8", "replace"))
        files, is_whole = hash_files(self._writer.run_dir)
        self._writer.sealed(files, is_whole=is_whole)
        write_bundle(self._writer.run_dir)


def _spent_of(record: RunRecord, children: Sequence[Child]) -> Spent:
    """Return what all agents of a run have used."""
    return Spent(
        usage=record.usage,
        num_steps=len(record.tool_steps) + sum(child.num_steps for child in children),
        num_calls=sum(map(num_calls, (record, *record.agents.values()))),
        time_s=_earlier_s(record),
    )


def _earlier_s(record: RunRecord) -> float:
    return record.active_s if record.result is None else record.result.duration_s


def _default_envs() -> EnvPool:
    from envs import registry

    return EnvPool(registry.make_env)
