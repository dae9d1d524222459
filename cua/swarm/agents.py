"""Agents of children: one with tools in a folder, one with mouse and keyboard in an env, or a user's own.

They run on the machine that makes them, which may differ from the parent's: model, limits and record come from a
`RunScope`, which may be remote (`cua.swarm.remote`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from cua.answer import AnswerSchema
from cua.errors import ConfigError, name_choices
from cua.guard import Guard
from cua.gui_agent.agent import Agent, AgentOptions
from cua.gui_agent.protocol import ProtocolOptions
from cua.messages import Sampling, TextPart
from cua.model import Model, Tool
from cua.models.gate import reported_wait
from cua.run.scope import RunScope
from cua.secrets import Secrets
from cua.swarm.child import ENV_KINDS, TOOLS, Assignment, AttemptResult
from cua.swarm.custom_agent import ChildTask, CustomAgent
from cua.swarm.sandboxes import AgentWorkspace, LendingTool, SandboxPool
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.conversation import RunSnapshot
from cua.tool_agent.profile import ContextOptions, Profile
from cua.tool_agent.resume import names_after
from cua.tools import Toolset
from envs import InstructionTask
from envs.env import EnvSpec
from envs.pool import EnvPool

LOST_VARIABLES = "(This work broke off and goes on in a fresh Python: variables are gone, files are kept.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One try of a child.

    Attributes:
        id: Id of the child.
        assignment: The assignment.
        start: State from which it resumes; None to start from the beginning.
    """

    id: str
    assignment: Assignment
    start: RunSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAgentConfig:
    """Options shared by all children of a swarm.

    Attributes:
        sampling: Sampling parameters of every model call.
        context: Context strategy of a child with tools when its conversation grows long.
        guard: Policy of allowed actions.
        secrets: Secrets that are typed without the model seeing them, for children in an env.
        cell_timeout_s: Timeout of a cell in seconds.
        num_envs: Maximum number of open envs.
        custom_agents: A user's own agents by kind.
        mark_untrusted: True to state in system prompts that pages and results are data, as the setting does.
    """

    sampling: Sampling | None
    context: ContextOptions
    guard: Guard
    secrets: Secrets
    cell_timeout_s: float
    num_envs: int = 4
    custom_agents: Mapping[str, CustomAgent] = field(default_factory=dict)
    mark_untrusted: bool = False


MakeTools = Callable[[AgentWorkspace], tuple[Sequence[Tool], Sequence[Tool]]]


class LocalAgentPool:
    """Factory and runner of agents.

    Args:
        shared: Options shared by the agents.
        sandboxes: Source of kernels.
        make_tools: Makes the core tools of an agent: those inside its sandbox, and those outside it.
        envs: Source of browsers and desktops.
    """

    def __init__(
        self, shared: SharedAgentConfig, *, sandboxes: SandboxPool, make_tools: MakeTools, envs: EnvPool
    ) -> None:
        self._shared, self._sandboxes, self._make_tools, self._envs = shared, sandboxes, make_tools, envs
        self._env_slots = asyncio.Semaphore(shared.num_envs)

    async def work(
        self, item: WorkItem, scope: RunScope, model: Model, folder: Path, more_tools: Sequence[Tool] = ()
    ) -> AttemptResult:
        """Run an agent to its end.

        Args:
            item: The try to run.
            scope: Limits and record of the agent.
            model: Model of the agent.
            folder: Working folder of the agent.
            more_tools: Tools in addition to the core tools.

        Raises:
            ConfigError: If the kind is unknown.
        """
        kind = item.assignment.config.kind
        if kind in ENV_KINDS:
            return await self._work_in_env(item, scope, model)
        agents = self._shared.custom_agents
        if kind != TOOLS and kind not in agents:
            raise ConfigError(f"there is no agent of the kind {kind!r}.{name_choices(kind, agents)}")
        workspace = AgentWorkspace(self._sandboxes, folder, self._shared.cell_timeout_s, item.id)
        try:
            inside, outside = self._make_tools(workspace)
            lending = [LendingTool(tool, workspace) for tool in more_tools]
            toolset = Toolset([*lending, *inside], outside=outside)
            if kind == TOOLS:
                return await self._work_with_tools(item, scope, model, toolset)
            return await self._work_by_custom_agent(agents[kind], item, scope, model, folder, toolset)
        finally:
            await workspace.close()

    async def _work_with_tools(self, item: WorkItem, scope: RunScope, model: Model, toolset: Toolset) -> AttemptResult:
        profile = Profile(
            name="child",
            system_prompt=item.assignment.config.system_prompt,
            sampling=self._shared.sampling,
            context=self._shared.context,
            is_loop_capped=True,
            mark_untrusted=self._shared.mark_untrusted,
        )
        agent = ToolAgent(
            model=model,
            toolset=toolset,
            profile=profile,
            answer_schema=AnswerSchema(item.assignment.schema) if item.assignment.schema is not None else None,
            is_isolated=self._is_isolated,
            guard=self._shared.guard,
            scope=scope,
            start=item.start,
        )

        async def prepare() -> str | None:
            return LOST_VARIABLES if names_after(agent.steps) else None

        if item.start is None:
            result = await agent.run([TextPart(text=item.assignment.prompt)])
        else:
            result = await agent.continue_question(prepare)
        replies = (step.reply.content.strip() for step in reversed(agent.steps))
        snapshot = RunSnapshot(conversation=agent.conversation, spent=scope.spent, end=result.end)
        return AttemptResult(result=result, last_text=next(filter(None, replies), ""), snapshot=snapshot)

    async def _work_by_custom_agent(
        self, custom_agent: CustomAgent, item: WorkItem, scope: RunScope, model: Model, folder: Path, toolset: Toolset
    ) -> AttemptResult:
        task = ChildTask(
            id=item.id,
            prompt=item.assignment.prompt,
            system_prompt=item.assignment.config.system_prompt,
            url=item.assignment.url,
            folder=folder,
            toolset=toolset,
            model=model,
            guard=self._shared.guard,
            is_isolated=self._is_isolated,
            scope=scope,
        )
        return AttemptResult(result=await task.run(custom_agent))

    async def _work_in_env(self, item: WorkItem, scope: RunScope, model: Model) -> AttemptResult:
        """Run a GUI agent in its own env; a retry starts in a fresh env."""
        assignment = item.assignment
        options = {"url": assignment.url} if assignment.config.kind == "browser" else {"app": assignment.app}
        spec = EnvSpec(name=assignment.config.kind, options={name: value for name, value in options.items() if value})
        async with AsyncExitStack() as stack:
            async with reported_wait("a free browser or desktop"):
                await scope.control.unless_stopped(stack.enter_async_context(self._env_slots))
            env = await self._envs.take(spec)
            try:
                agent = Agent(
                    model=model,
                    env=env,
                    options=AgentOptions(
                        protocol=ProtocolOptions(mark_untrusted=self._shared.mark_untrusted), caps=scope.caps
                    ),
                    guard=self._shared.guard,
                    secrets=self._shared.secrets,
                    scope=scope,
                )
                prompt = f"{assignment.config.system_prompt}\n\n{assignment.prompt}".strip()
                result = await agent.run(InstructionTask(instruction=prompt))
            finally:
                await env.close()
        return AttemptResult(result=result)

    @property
    def _is_isolated(self) -> bool:
        return self._sandboxes.backend != "none"
