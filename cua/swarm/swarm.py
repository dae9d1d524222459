"""The swarm itself: configurations, children, one budget, and the only place that starts and ends a child."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cua.errors import ConfigError, ModelAccessError, ModelError, name_choices
from cua.messages import Message, Reply, Sampling, TextPart, ToolResult
from cua.model import Model, Tool
from cua.models.gate import ON_WAIT
from cua.run.budget import Budget, CapReachedError, Caps
from cua.run.control import StoppedError
from cua.run.end import End, ErrorSource, RunResult
from cua.run.events import CallReturned, CallsStarted, Decided, Event, Listener, StepDone, ToolStepDone
from cua.run.scope import RunScope
from cua.swarm.child import (
    CONFIG_NOTE,
    FINAL,
    STATE_NOTE,
    Assignment,
    Child,
    State,
    SubagentConfig,
    assignment_data,
    config_data,
    make_message,
    state_of,
)
from cua.swarm.protocol import MAX_CALLS, MAX_CHILDREN
from cua.tool_agent.calls import NO_MORE_CALLS
from cua.tools.toolset import failed
from envs import EnvError

WARN_SHARE = 0.8
"""From this share of a limit on, the orchestrator is told how much is left."""
CHILDREN_SHARE = 0.9
"""Of tokens, money and time that all children together may use, so that the orchestrator can still answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmLimits:
    """What a swarm may use, each a setting.

    Attributes:
        max_children: Assignments in a run.
        max_parallel: Children at work at the same time; more are queued.
        child_calls: Tool calls of each child.
        child_time_s: Seconds of each child.
        num_retries: How often a child is taken up again after an error that may pass.
        max_message_chars: Of a child's prompt.
        run: Limits of parent and children together.
    """

    max_children: int = MAX_CHILDREN
    max_parallel: int = MAX_CHILDREN
    child_calls: int = 100
    child_time_s: float | None = 7200.0
    num_retries: int = 2
    max_message_chars: int = 100_000
    run: Caps = field(default_factory=lambda: Caps(max_steps=None, max_calls=MAX_CALLS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of one try of a child.

    Attributes:
        result: How its agent ended.
        last_text: What its model said last, for one that did not come to an answer.
        returned: Files that it gave back, as the orchestrator may name them.
    """

    result: RunResult
    last_text: str = ""
    returned: tuple[str, ...] = ()


Play = Callable[["Swarm", Child, RunScope], Awaitable[Played]]
"""Has a child's agent work, from the start or from where it was; gives how it ended."""


class Swarm:
    """Children of one orchestrator.

    Args:
        scope: Of the whole run: its limits hold for parent and children together.
        limits: Of the swarm.
        play: Has a child work.
        listener: Told what happens; children's events carry their names.

    Attributes:
        children: All, in the order of assignment.
        configs: Configurations by name.
        pool: The part of the run that all children share.
    """

    def __init__(self, *, scope: RunScope, limits: SwarmLimits, play: Play, listener: Listener | None = None) -> None:
        self.scope, self.limits = scope, limits
        self.children: list[Child] = []
        self.configs: dict[str, SubagentConfig] = {}
        self.pool = scope.make_turn(_share_of(limits.run))
        self._play, self._listener = play, listener
        self._places = asyncio.Semaphore(limits.max_parallel)
        self._budgets: dict[str, Budget] = {}
        self._refused: ModelAccessError | None = None
        self._warned: set[str] = set()
        self._making = asyncio.Lock()

    async def create(self, config: SubagentConfig) -> ToolResult:
        """Keep a configuration; nothing is started."""
        known = self.configs.get(config.name)
        if known == config:
            return ToolResult(parts=(TextPart(text=f"{config.name} exists already, just so."),))
        if known is not None:
            return failed(f"There is a sub-agent {config.name!r} with another system prompt. Choose another name.")
        if not config.name.strip() or len(config.name) > 200:
            return failed("The name of a sub-agent has 1 to 200 characters.", is_unusable=True)
        self.configs[config.name] = config
        await self.scope.record.noted(CONFIG_NOTE, config.name, config=config_data(config))
        return ToolResult(parts=(TextPart(text="success"),))

    async def assign(self, call: int, agent: str, prompt: str, **more: Any) -> ToolResult:
        """Have a new agent work on a task, and wait for its one message.

        Args:
            call: Number of the orchestrator's call; a call that has a child already gets the message of that one.
            agent: Name of a configuration.
            prompt: The task.
            more: Other fields of `Assignment`.

        Raises:
            ModelAccessError: The model refuses every agent's key: the run cannot go on.
        """
        child = next((child for child in self.children if child.call == call), None)
        if child is None:
            config = self.configs.get(agent)
            why = self._why_not(config, agent, prompt)
            if config is None or why:
                return failed(why, is_unusable=config is None)
            child = await self._make(call, Assignment(config=config, prompt=prompt, **more))
        if child.state not in FINAL:
            if child.task is None:
                child.task = asyncio.create_task(self._work(child), name=child.id)
            await asyncio.shield(child.task)
        if self._refused is not None:
            raise self._refused
        return child.result()

    async def take_up(self, configs: dict[str, SubagentConfig], children: Sequence[Child]) -> None:
        """Go on with what an earlier process has recorded; children start when their call is made again."""
        self.configs.update(configs)
        self.children.extend(children)

    async def close(self) -> None:
        """Stop what still runs and wait for its end. May be called twice."""
        self.pool.control.stop("the run is over")
        tasks = [child.task for child in self.children if child.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self.pool.control.clock.end()

    def refuse(self, error: ModelAccessError) -> None:
        """No model call will ever work: stop all children; the orchestrator's next result is this error."""
        self._refused = self._refused or error
        self.pool.control.stop(str(error))

    def _why_not(self, config: SubagentConfig | None, agent: str, prompt: str) -> str:
        if config is None:
            return f"There is no sub-agent {agent!r}; make it with create_subagent.{name_choices(agent, self.configs)}"
        if not prompt.strip():
            return "The prompt is empty: say what is to be done."
        if len(prompt) > self.limits.max_message_chars:
            return f"The prompt has {len(prompt)} characters; at most {self.limits.max_message_chars}: use a file."
        if len(self.children) >= self.limits.max_children:
            return f"This run has had {len(self.children)} sub-agents, and so many are the limit. Go on without."
        return ""

    async def _make(self, call: int, assignment: Assignment) -> Child:
        child = Child(id=f"t{len(self.children) + 1:03}", call=call, assignment=assignment)
        child.agent_id = child.id
        self.children.append(child)
        await self._write(child, "created", assignment=assignment_data(assignment))
        await self._enter(child, "queued")
        return child

    async def _enter(self, child: Child, state: State, reason: str = "", **more: Any) -> None:
        """Change a child's state: first in the journal, then here."""
        child.check_next(state)
        await self._write(child, state, reason, **more)
        child.state, child.reason = state, reason

    async def _write(self, child: Child, state: State, reason: str = "", **more: Any) -> None:
        data = {**child.to_json(), "state": state, "reason": reason, "agent_id": child.agent_id, **more}
        scope = self.pool.record.for_agent(child.agent_id)
        await scope.noted(STATE_NOTE, f"{child.id} {state}" + (f": {reason}" if reason else ""), **data)
        self.scope.note_child(child.agent_id, f"{child.id} {state}" + (f": {reason}" if reason else ""))

    async def _work(self, child: Child) -> None:
        """From queued to its end; whatever breaks ends this child alone."""
        if child.state != "queued":
            child.state = "stopped" if child.state != "created" else "created"  # what an earlier process left
            await self._enter(child, "queued", "taken up again")
        try:
            await self.pool.control.unless_stopped(self._places.acquire())
        except (StoppedError, CapReachedError) as why:
            is_cap = isinstance(why, CapReachedError)
            await self._finish(child, "capped" if is_cap else "stopped", str(why), "")
            return
        try:
            await self._try(child)
        finally:
            self._places.release()

    async def _try(self, child: Child) -> None:
        ON_WAIT.set(lambda is_waiting: self._waits(child, is_waiting=is_waiting))
        while True:
            child.num_tries += 1
            child.started_at = child.started_at or time.time()
            await self._enter(child, "running")
            scope = self._scope_of(child)
            played = await self._play_safely(child, scope)
            self._count(child, played.result)
            end = played.result.end
            may_pass = end.status == "error" and end.retryable and self._refused is None
            if may_pass and child.num_tries <= self.limits.num_retries and not self.pool.control.is_stopped:
                await self._enter(child, "queued", f"again after: {end.reason}")
                continue
            text = end.answer or played.last_text
            await self._finish(child, state_of(played.result), end.reason, text, played.returned)
            return

    async def _play_safely(self, child: Child, scope: RunScope) -> Played:
        """Play it; a model or a world that cannot be opened is how the child ended."""
        try:
            return await self._play(self, child, scope)
        except (ConfigError, ModelError, EnvError) as error:
            may_pass = not isinstance(error, ConfigError) and error.retryable
            source: ErrorSource = "env" if isinstance(error, EnvError) else "model"
            end = End(status="error", reason=str(error), source=source, retryable=may_pass)
            return Played(result=RunResult(end=end, num_steps=child.num_steps, usage=child.usage, duration_s=0.0))

    async def _finish(self, child: Child, state: State, reason: str, answer: str, returned: Sequence[str] = ()) -> None:
        child.ended_at = time.time()
        message = make_message(child, state, reason, answer, returned) + self._warning()
        child.answer, child.message = answer, message
        await self._enter(child, state, reason, answer=answer, message=message)
        self._budgets.pop(child.id, None)

    def _count(self, child: Child, result: RunResult) -> None:
        child.usage, child.num_steps = result.usage, result.num_steps

    def _waits(self, child: Child, *, is_waiting: bool) -> None:
        """The child stands at the gate of its model, or has passed it; written in its turn."""
        state: State = "waiting" if is_waiting else "running"
        if state in _WAIT_STATES and child.state in _WAIT_STATES and state != child.state:
            data = {**child.to_json(), "state": state, "agent_id": child.agent_id}
            self.pool.record.for_agent(child.agent_id).note(STATE_NOTE, f"{child.id} {state}", **data)
            child.state = state

    def _scope_of(self, child: Child) -> RunScope:
        caps = Caps(max_steps=None, max_calls=self.limits.child_calls, max_time_s=self.limits.child_time_s)
        scope = self.pool.make_child(child.agent_id, caps)
        scope.listen(lambda event: self._heard(child, event))
        scope.budget = _FairBudget(caps, parent=self.pool.budget, name=child.id, others=self._budgets)
        self._budgets[child.id] = scope.budget
        return scope

    def _heard(self, child: Child, event: Event) -> None:
        match event:
            case CallsStarted(reply=reply):
                call = reply.tool_calls[0]
                child.last_action = f"{call.name} {call.arguments}"[:120]
            case CallReturned(outcome=outcome):
                child.num_calls += outcome.result.text != NO_MORE_CALLS
            case Decided(turn=turn):
                child.last_action = turn.action_text[:120]
            case ToolStepDone(step=step) | StepDone(step=step):
                child.num_steps, child.busy_s = step.index, child.busy_s + sum(step.timings.values())
                child.num_calls += isinstance(event, StepDone)
                child.usage += step.reply.usage
            case _:
                pass
        if self._listener is not None:
            self._listener(event)

    def _warning(self) -> str:
        """A line about limits that are nearly used up, told once for each."""
        caps, used = self.limits.run, self.scope.budget
        pairs = (
            ("tool calls", used.num_calls, caps.max_calls),
            ("tokens", used.usage.total_tokens, caps.max_tokens),
            ("US dollars", used.usage.cost_usd, caps.max_cost_usd),
            ("seconds", self.scope.control.time_s, caps.max_time_s),
        )
        told = []
        for name, number, most in pairs:
            if most is not None and number is not None and number >= WARN_SHARE * most and name not in self._warned:
                self._warned.add(name)
                told.append(f"{number:.6g} of {most:g} {name} are used")
        if not told:
            return ""
        self.scope.note("budget", "; ".join(told))
        return f"\n[{'; '.join(told)}; answer before they are gone]"


_WAIT_STATES = ("running", "waiting")


def _share_of(caps: Caps) -> Caps:
    """What all children together may use."""
    return replace(
        caps,
        max_steps=None,
        max_tokens=None if caps.max_tokens is None else int(CHILDREN_SHARE * caps.max_tokens),
        max_cost_usd=None if caps.max_cost_usd is None else CHILDREN_SHARE * caps.max_cost_usd,
        max_time_s=None if caps.max_time_s is None else CHILDREN_SHARE * caps.max_time_s,
    )


class _FairBudget(Budget):
    """A child's budget. Above an equal share it gets only what the others leave of theirs.

    The share is that of the pool's limit over the children that are at work. What is free beyond the others' open
    shares may be used by whoever needs it, so nobody stops early while there is plenty.
    """

    def __init__(self, caps: Caps, *, parent: Budget, name: str, others: dict[str, Budget]) -> None:
        super().__init__(caps, parent=parent, name=name)
        self._pool, self._others = parent, others

    def check(self) -> None:
        """As `Budget.check`; and that this child leaves the others their shares.

        Raises:
            CapReachedError: A limit is used up, here, further up, or the child's share of it.
        """
        super().check()
        caps, pool = self._pool.caps, self._pool
        self._check_share("calls", caps.max_calls, pool.num_calls, lambda budget: budget.num_calls)
        self._check_share("tokens", caps.max_tokens, pool.usage.total_tokens, lambda one: one.usage.total_tokens)
        cost = pool.usage.cost_usd or 0.0
        self._check_share("cost", caps.max_cost_usd, cost, lambda budget: budget.usage.cost_usd or 0.0)

    def _check_share(self, cap: Any, most: float | None, used: float, use_of: Callable[[Budget], float]) -> None:
        budgets = list(self._others.values())
        if most is None or len(budgets) < 2:
            return
        left, own = most - used, use_of(self)
        share = (left + sum(use_of(one) for one in budgets)) / len(budgets)
        kept = sum(max(0.0, share - use_of(one)) for one in budgets if one is not self)
        if own >= share and left <= kept:
            raise CapReachedError(cap, f"{own:g} {cap} used, a fair share of the {most:g} of the run is {share:.4g}")


class ChildModel:
    """A model as children are given it: a key that is refused stops them all; implements `Model`.

    Args:
        model: Asked.
        swarm: Told.
    """

    def __init__(self, model: Model, swarm: Swarm) -> None:
        self.name = model.name
        self._model, self._swarm = model, swarm

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """As `Model.generate`.

        Raises:
            ModelError: As the model raises it.
        """
        try:
            return await self._model.generate(messages, tools, sampling)
        except ModelAccessError as error:
            self._swarm.refuse(error)
            raise

    async def close(self) -> None:
        """Whoever made the model closes it."""
