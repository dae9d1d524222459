"""Swarm of sub-agents: configurations, children, and the shared budget; children start and end only here."""

import asyncio
import collections
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

from cua.errors import ConfigError, ModelError, describe_defect, name_choices
from cua.messages import TextPart, ToolResult
from cua.models.gate import ON_WAIT, REPORT_AFTER_S, AgentWait
from cua.run.budget import CapReachedError, Caps
from cua.run.control import StoppedError
from cua.run.end import End, ErrorSource, RunResult
from cua.run.events import CallsStarted, Decided, Event, Listener, StepDone, ToolStepDone
from cua.run.scope import RunScope
from cua.step import ToolStep
from cua.swarm.answer_table import schema_problem
from cua.swarm.budget import BudgetWarnings, ChildBudget, SwarmLimits, share_of
from cua.swarm.child import (
    CANCELLED,
    CONFIG_NOTE,
    ENV_KINDS,
    FINAL,
    NEXT,
    ORDER_NOTE,
    OVER,
    STATE_NOTE,
    TOOLS,
    Assignment,
    AssignmentRound,
    AttemptResult,
    Child,
    Configs,
    State,
    SubagentConfig,
    assignment_data,
    config_data,
    made_calls,
    make_message,
    own_seconds,
    state_of,
)
from cua.swarm.metrics import SwarmMetrics, compute_metrics
from cua.tool_agent.conversation import RunSnapshot
from cua.tools.toolset import failed
from cua.trajectory.describe import readable_arguments
from cua.trajectory.run_record import MAIN
from envs import EnvError

NEWS = "The run was resumed, and sub-agents have gone on: {states}. Their messages replace the ones that you have seen."
NEWS_PATTERN = re.compile(r"^The run was resumed, and sub-agents have gone on: (.*)\. Their messages", re.M)
ABANDONED = "{parent}, which it works for, has ended"
WATCHDOG_S = 60.0
"""Seconds without any event of any child after which the record says who waits for whom."""
MAX_LOSSES = 10
"""Losses of its machine that do not use up a child's tries."""


class ChildRunner(Protocol):
    """Interface that runs children."""

    async def ended_before(self, swarm: "Swarm", child: Child) -> AttemptResult | None:
        """Return the result of an agent that ended in an earlier process before its state was written, or None."""
        ...

    def load_snapshot(self, child: Child) -> RunSnapshot | None:
        """Return the state from which the child resumes; None to start from the beginning."""
        ...

    async def play(self, swarm: "Swarm", child: Child, scope: RunScope, start: RunSnapshot | None) -> AttemptResult:
        """Run one try of a child to its end."""
        ...


class Swarm:
    """Children of one orchestrator.

    Args:
        scope: Scope of the whole run: its limits cover orchestrator and children together.
        limits: Limits of the swarm.
        child_runner: Runs the children.
        listener: Called with every event; children's events carry their names.

    Attributes:
        children: All children, in the order of assignment.
        configs: Configurations by parent and name.
        pool: The part of the run that all children share.
        steps: Steps of the orchestrator up to now.
    """

    def __init__(
        self, *, scope: RunScope, limits: SwarmLimits, child_runner: ChildRunner, listener: Listener | None = None
    ) -> None:
        self.scope, self.limits = scope, limits
        self.children: list[Child] = []
        self.configs: Configs = {}
        self.steps: Sequence[ToolStep] = ()
        self.pool = scope.make_part(share_of(limits.run))
        self._child_runner, self._listener = child_runner, listener
        self._slots = asyncio.Semaphore(limits.max_parallel)
        self._budgets: dict[str, ChildBudget] = {}
        self._suspended: ModelError | None = None
        self._rounds: dict[str, AssignmentRound] = {}
        self._moved_at = time.monotonic()
        self._watchdog: asyncio.Task[None] | None = None
        self._warnings = BudgetWarnings(scope, limits.run)

    async def create(self, config: SubagentConfig, *, parent: str = MAIN) -> ToolResult:
        """Store a configuration; nothing is started."""
        known = self.configs.get((parent, config.name))
        if known == config:
            return ToolResult(parts=(TextPart(text=f"{config.name} already exists with this system prompt."),))
        if known is not None:
            return failed(f"There is a sub-agent {config.name!r} with another system prompt. Choose another name.")
        if not config.name.strip() or len(config.name) > 200:
            return failed("The name of a sub-agent has 1 to 200 characters.", is_unusable=True)
        self.configs[parent, config.name] = config
        await self.scope.record.noted(CONFIG_NOTE, config.name, config=config_data(config), parent=parent)
        return ToolResult(parts=(TextPart(text="success"),))

    async def assign(self, call: int, agent: str, prompt: str, *, parent: str = MAIN, **fields: Any) -> ToolResult:
        """Run a new agent on a task, and wait for its one message.

        Args:
            call: Number of the parent's call; if it already has a child, that child's message is returned.
            agent: Name of a configuration.
            prompt: The task.
            parent: Id of the agent that assigns the task.
            fields: Other fields of `Assignment`.

        Raises:
            ModelError: If the model that all agents share is away or refuses the API key: the run cannot continue.
        """
        child = next((child for child in self.children if (child.parent, child.call) == (parent, call)), None)
        if child is None:
            config = self.configs.get((parent, agent))
            why = self._refusal(config, agent, prompt, parent, fields.get("schema"))
            if config is None or why:
                return failed(why, is_unusable=config is None)
            assignment = Assignment(config=config, prompt=prompt, **fields)
            known = self._finished_before(assignment, parent)
            if known is not None:
                note = f"[{known.id} did this task before; this is its message.]\n"
                return replace(known.result(), parts=(TextPart(text=note + known.message),))
            child = await self._make(call, assignment, parent)
        if child.state not in FINAL or child.is_continued:
            async with self._lent_slot(parent):
                await asyncio.shield(self._start(child))
        if self._suspended is not None:
            raise self._suspended
        return child.result()

    def _finished_before(self, assignment: Assignment, parent: str) -> Child | None:
        """Return a child that finished the same task in an earlier round: its parent no longer sees the message."""
        began = self._rounds[parent].at if parent in self._rounds else 0.0
        return next(
            (
                child
                for child in self.children
                if child.parent == parent
                and child.assignment == assignment
                and child.state == "finished"
                and child.ended_at < began
            ),
            None,
        )

    async def restore(self, configs: Configs, children: Sequence[Child]) -> None:
        """Restore the recorded state of an earlier process; children start when their call is repeated."""
        self.configs.update(configs)
        self.children.extend(children)
        for child in children:
            is_raised = child.state == "capped" and self.limits.is_raised_for(child)
            child.is_continued = child.state in ("suspended", "stopped") or is_raised
        for child in children:
            await self._cancel_below(child)

    async def cancel(self, name: str) -> None:
        """End a child for good, also for later processes; its parent gets its last text.

        Raises:
            ConfigError: If no child of this name is at work.
        """
        child = self._at_work(name)
        await self._write_order(child, CANCELLED, is_cancelled=True)
        child.is_cancelled = True
        child.control.stop(CANCELLED)

    async def redirect(self, name: str, instruction: str) -> None:
        """Give a child a new instruction of the user, which it sees in its next step.

        Raises:
            ConfigError: If no child of this name is at work, or the instruction is not a text of 1 to
                `SwarmLimits.max_message_chars` characters.
        """
        most = self.limits.max_message_chars
        if not isinstance(instruction, str) or not instruction.strip() or len(instruction) > most:
            raise ConfigError(f"expected an instruction of 1 to {most} characters for {name}")
        child = self._at_work(name)
        await self._write_order(child, f"the user says: {instruction}", redirects=[instruction])
        child.redirects = (*child.redirects, instruction)
        child.control.redirect(instruction)

    def _at_work(self, name: str) -> Child:
        name = str(name)
        known = {child.id: child for child in self.children if child.is_at_work}
        if name in known:
            return known[name]
        child = self._find(name)
        if child is not None:
            raise ConfigError(f"{name} is not at work: it is {child.state}")
        raise ConfigError(f"there is no sub-agent {name!r} at work.{name_choices(name, known)}")

    async def _write_order(self, child: Child, text: str, **order: Any) -> None:
        await self.pool.record.for_agent(child.agent_id).noted(ORDER_NOTE, text, task=child.id, **order)
        self.scope.note_child(child.agent_id, f"{child.id}: {text}")

    async def continue_children(self, returned: Mapping[str, str]) -> str | None:
        """Continue the orchestrator's children that did not finish in earlier processes.

        Args:
            returned: State in which each child was last shown to the orchestrator, by its id.

        Returns:
            Their messages, and those of children that have ended since they were shown; None if there are none.
        """
        own = [child for child in self.children if child.parent == MAIN and child.id in returned]
        continued = [child for child in own if child.is_continued or child.state not in FINAL]
        await asyncio.gather(*(asyncio.shield(self._start(child)) for child in continued))
        if self._suspended is not None:
            raise self._suspended
        news = [child for child in own if child in continued or child.state != returned[child.id]]
        if not news:
            return None
        self._rounds[MAIN] = AssignmentRound(
            num_tokens=self._rounds.get(MAIN, AssignmentRound()).num_tokens, num_assigned=len(news)
        )
        head = NEWS.format(states=", ".join(f"{child.id} {child.state}" for child in news))
        return "\n\n".join([head, *(f"{child.id}: {child.message}" for child in news)])

    def final_end(self, end: End) -> End:
        """Return the end of the run, which tells a partial answer and one from failed children only."""
        over = {child.id for child in self.children if child.state in FINAL}  # their children continue with them only
        unfinished = [
            child
            for child in self.children
            if child.state in ("suspended", "stopped", "capped") and child.parent not in over
        ]
        if end.status not in ("unverified", "succeeded") or not self.children:
            return end
        wanted = [child for child in self.children if child.state != "cancelled"]
        if wanted and all(child.state == "failed" for child in wanted):
            first = wanted[0]
            reason = f"all {len(wanted)} sub-agents failed, {first.id}: {first.reason}"
            return replace(end, status="failed", reason=reason)
        if not unfinished:
            return end
        first, counts = unfinished[0], collections.Counter(child.state for child in unfinished)
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        reason = f"{end.reason}; partial: of {len(self.children)} sub-agents {states} ({first.id}: {first.reason})"
        is_resumable = any(child.state != "capped" for child in unfinished)
        return replace(end, reason=reason, num_unfinished=len(unfinished), retryable=is_resumable)

    async def _watch(self) -> None:
        """Note who waits for whom if nothing moves while no child has anything to do but wait."""
        while True:
            await asyncio.sleep(WATCHDOG_S / 4)
            live = [child for child in self.children if child.is_at_work]
            is_idle = bool(live) and all(child.num_awaited or child.state in ("queued", "waiting") for child in live)
            silent_s = time.monotonic() - self._moved_at
            if is_idle and silent_s >= WATCHDOG_S:
                waits = "; ".join(f"{child.id} waits for {self._awaited(child, live)}" for child in live[:20])
                self.scope.note("child", f"no sub-agent has moved for {silent_s:.0f} s: {waits}")
                self._moved_at = time.monotonic()

    def _awaited(self, child: Child, live: Sequence[Child]) -> str:
        below = [other.id for other in live if other.parent == child.id]
        return ", ".join(below) or child.reason or "a slot among the sub-agents at work"

    def _start(self, child: Child) -> "asyncio.Task[None]":
        if self._watchdog is None:
            self._watchdog = asyncio.create_task(self._watch())
        if child.task is None:
            child.control = self.pool.control.make_child(max_time_s=self.limits.child_time_s)
            if child.is_cancelled:
                child.control.stop(CANCELLED)
            child.task = asyncio.create_task(self._work(child), name=child.id)
        return child.task

    async def close(self) -> None:
        """Stop running children and wait for their end; safe to call twice."""
        self.pool.control.stop("the run is over")
        if self._watchdog is not None:
            self._watchdog.cancel()
        tasks = [child.task for child in self.children if child.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self.pool.control.clock.end()

    def metrics(self) -> SwarmMetrics:
        """Return the figures of the swarm up to now."""
        return compute_metrics(self.steps, self.children, wall_s=self.scope.control.time_s)

    def on_orchestrator_event(self, event: Event) -> None:
        """Process an event of the orchestrator itself."""
        if isinstance(event, CallsStarted):
            self._rounds[MAIN] = AssignmentRound.of(event.reply)
        if isinstance(event, ToolStepDone):
            self.steps = (*self.steps, event.step)
            self._warnings.check()
        if self._listener is not None:
            self._listener(event)

    def suspend(self, error: ModelError) -> None:
        """Suspend all children because no model call can succeed; the orchestrator's next result is this error."""
        self._suspended = self._suspended or error
        self.pool.control.stop(str(error))

    def _refusal(
        self, config: SubagentConfig | None, agent: str, prompt: str, parent: str, schema: Mapping[str, Any] | None
    ) -> str:
        if config is None:
            known = [name for whose, name in self.configs if whose == parent]
            return f"There is no sub-agent {agent!r}; make it with create_subagent.{name_choices(agent, known)}"
        if not prompt.strip():
            return "The prompt is empty: say what is to be done."
        if len(prompt) > self.limits.max_message_chars:
            return f"The prompt has {len(prompt)} characters; at most {self.limits.max_message_chars}: use a file."
        if schema is not None and (problem := schema_problem(schema)):
            return f"The schema cannot be used: {problem}"
        if len(self.children) >= self.limits.max_children:
            return f"This run has had {len(self.children)} sub-agents, which is the limit. Go on without."
        return ""

    async def _make(self, call: int, assignment: Assignment, parent: str) -> Child:
        child = Child(id=f"t{len(self.children) + 1:03}", call=call, assignment=assignment, parent=parent)
        child.agent_id = child.id
        above = self._find(parent)
        if above is not None:
            child.depth, child.stage = above.depth + 1, above.num_steps + 1
        self.children.append(child)
        fields = assignment_data(assignment)
        await self._write(child, "created", has_follower=True, assignment=fields, depth=child.depth, stage=child.stage)
        await self._enter(child, "queued")
        return child

    def _find(self, name: str) -> Child | None:
        return next((child for child in self.children if child.id == name), None)

    @asynccontextmanager
    async def _lent_slot(self, parent: str) -> AsyncIterator[None]:
        """Free a child's slot while it waits for children of its own."""
        above = self._find(parent)
        if above is None:
            yield
            return
        above.num_awaited += 1
        self._release_slot(above)
        try:
            yield
        finally:
            above.num_awaited -= 1
        if not above.num_awaited:
            await self._acquire_slot(above)

    async def _acquire_slot(self, child: Child) -> None:
        control = child.control
        if control.is_stopped:
            raise StoppedError(control.stop_reason)
        if not child.has_slot:
            with control.clock.waiting():
                taking = self._slots.acquire()
                await (control.unless_stopped(taking) if self._slots.locked() else taking)
            child.has_slot = True

    def _release_slot(self, child: Child) -> None:
        if child.has_slot:
            child.has_slot = False
            self._slots.release()

    async def _enter(
        self, child: Child, state: State, reason: str = "", *, has_follower: bool = False, **fields: Any
    ) -> None:
        """Change a child's state: first in the journal, then in memory."""
        child.check_next(state)
        await self._write(child, state, reason, has_follower=has_follower, **fields)
        child.state, child.reason = state, reason

    async def _write(
        self, child: Child, state: State, reason: str = "", *, has_follower: bool = False, **fields: Any
    ) -> None:
        """Write a state; skip the wait for the disk if a later line is awaited before any effect (`has_follower`)."""
        self._moved_at = time.monotonic()
        data = {**child.to_json(), "state": state, "reason": reason, "agent_id": child.agent_id, **fields}
        scope = self.pool.record.for_agent(child.agent_id)
        text = f"{child.id} {state}" + (f": {reason}" if reason else "")
        if has_follower:
            scope.note(STATE_NOTE, text, **data)
        else:
            await scope.noted(STATE_NOTE, text, **data)
        self.scope.note_child(child.agent_id, text)

    async def _work(self, child: Child) -> None:
        """Run a child from queued to its end; an unexpected error ends this child alone."""
        if child.state != "queued":
            child.state = "stopped" if child.state != "created" else "created"  # state left by an earlier process
            await self._enter(child, "queued", "taken up again")
        try:
            await self._acquire_slot(child)
        except (StoppedError, CapReachedError) as why:
            child.cap = why.cap if isinstance(why, CapReachedError) else None
            await self._finish(child, "capped" if child.cap else "stopped", str(why), "")
            return
        try:
            await self._try(child)
        except Exception as error:  # a defect; recorded in the run
            await self._finish(child, "failed", describe_defect(error), "")
            raise
        finally:
            self._release_slot(child)

    async def _try(self, child: Child) -> None:
        ON_WAIT.set(lambda wait: self._on_wait(child, wait))
        final_attempt = await self._child_runner.ended_before(self, child)
        while final_attempt is None:
            start = self._child_runner.load_snapshot(child)
            if start is None and child.num_tries:
                child.start_over()
            child.num_tries += 1
            child.started_at = child.started_at or time.time()
            is_asked_next = child.assignment.config.kind == TOOLS and start is None  # its question is awaited
            await self._enter(child, "running", has_follower=is_asked_next)
            scope = self._scope_of(child, start)
            attempt = await self._play_safely(child, scope, start)
            child.usage = child.usage_before + attempt.result.usage
            child.num_steps = child.steps_before + attempt.result.num_steps
            end = attempt.result.end
            may_pass = end.status == "error" and end.retryable and self._suspended is None
            child.num_losses += attempt.is_lost
            num_own = child.num_tries - min(child.num_losses, MAX_LOSSES)
            if may_pass and num_own <= self.limits.num_retries and not child.control.is_stopped:
                await self._enter(child, "queued", f"again after: {end.reason}")
            else:
                final_attempt = attempt
        result = final_attempt.result
        last_action = child.last_action if child.assignment.config.kind in ENV_KINDS else ""
        answer = result.end.answer or final_attempt.last_text or last_action
        child.cap = result.end.cap
        await self._finish(child, state_of(result), result.end.reason, answer, final_attempt)

    async def _stop_descendants(self, child: Child) -> None:
        """Stop the children of a child that has ended."""
        below = [other for other in self.children if other.parent == child.id]
        for other in below:
            other.control.stop(ABANDONED.format(parent=child.id))
        await asyncio.gather(*(other.task for other in below if other.task is not None), return_exceptions=True)

    async def _cancel_below(self, child: Child) -> None:
        """Cancel the children of a child that never runs again: no call would continue them."""
        if child.state in OVER:
            for other in self.children:
                if other.parent == child.id and other.state not in FINAL:
                    await self._enter(other, "cancelled", ABANDONED.format(parent=child.id))
                    await self._cancel_below(other)

    async def _play_safely(self, child: Child, scope: RunScope, start: RunSnapshot | None) -> AttemptResult:
        """Run one try; return it as the child's end if its model or env cannot be opened, or it is stopped before."""
        try:
            return await self._child_runner.play(self, child, scope, start)
        except StoppedError as error:
            end = End(status="stopped", reason=str(error))
        except CapReachedError as error:
            end = End(status="capped", cap=error.cap, reason=str(error))
        except (ConfigError, ModelError, EnvError) as error:
            may_pass = not isinstance(error, ConfigError) and error.retryable
            source: ErrorSource = "env" if isinstance(error, EnvError) else "model"
            end = End(status="error", reason=str(error), source=source, retryable=may_pass)
        num_steps, usage = child.num_steps - child.steps_before, scope.budget.usage
        return AttemptResult(result=RunResult(end=end, num_steps=num_steps, usage=usage, duration_s=0.0))

    async def _finish(
        self, child: Child, state: State, reason: str, answer: str = "", attempt: AttemptResult | None = None
    ) -> None:
        await self._stop_descendants(child)
        if child.is_cancelled and state in ("stopped", "suspended"):
            state, reason = "cancelled", CANCELLED
        elif self._suspended is not None and (state == "stopped" or reason == str(self._suspended)):
            state, reason = "suspended", str(self._suspended)
        child.ended_at, child.is_continued = time.time(), False
        child.limits = self.limits.of_cap(child.cap) if state == "capped" else ()
        waiting = [other for other in self.children if other.parent == child.parent and other.state not in FINAL]
        now = self._rounds.get(child.parent) or AssignmentRound(num_assigned=len(waiting))  # of a step that was resumed
        chars = now.message_chars(answer, self.limits.context_tokens)
        text, returned = (attempt.summary or answer, attempt.returned) if attempt is not None else (answer, ())
        message = make_message(child, state, reason, text, returned, chars) + self._warnings.take()
        child.answer, child.message = answer, message
        fields: dict[str, Any] = {"cap": child.cap, "limits": child.limits} if state == "capped" else {}
        await self._enter(child, state, reason, answer=answer, message=message, **fields)
        self._budgets.pop(child.id, None)
        await self._cancel_below(child)
        for instruction in child.control.take_redirects() if state in FINAL else ():
            self.scope.note("child", f"{child.id} ended before it read: {instruction}")

    async def _on_wait(self, child: Child, wait: AgentWait | None) -> None:
        """Record that the child starts or stops (None) waiting for its model's endpoint or for a slot.

        Its clock stands still meanwhile, so that waiting does not use up its time limit.
        """
        now = time.monotonic()
        if wait is not None:
            if not child.waits_since:
                child.control.clock.pause()
            child.waits_since = child.waits_since or now - REPORT_AFTER_S
        elif child.waits_since:
            child.waited_s, child.waits_since = child.waited_s + now - child.waits_since, 0.0
            child.control.clock.resume()
        state: State = "running" if wait is None else "suspended" if wait.is_outage else "waiting"
        if state in NEXT[child.state] and state != child.state:
            await self._enter(child, state, wait.reason if wait is not None else "")

    def _scope_of(self, child: Child, start: RunSnapshot | None) -> RunScope:
        """Return the scope of the next try, which gets the instructions of the user that its start does not contain."""
        caps = Caps(max_steps=None, max_calls=self.limits.child_calls, max_time_s=self.limits.child_time_s)
        scope = self.pool.make_child(child.agent_id, caps)
        scope.listen(lambda event: self._on_event(child, event))
        scope.budget = ChildBudget(caps, parent=self.pool.budget, name=child.id, others=self._budgets)
        scope.control, self._budgets[child.id] = child.control, scope.budget
        child.control.take_redirects()
        for instruction in child.redirects[start.conversation.num_redirects if start else 0 :]:
            child.control.redirect(instruction)
        return scope

    def _on_event(self, child: Child, event: Event) -> None:
        """Count a child's actions; raise before an action that would exceed a limit."""
        self._moved_at = time.monotonic()
        match event:
            case CallsStarted(reply=reply):
                self._rounds[child.id] = AssignmentRound.of(reply)
                call = reply.tool_calls[0]
                child.last_action = " ".join(f"{call.name}: {readable_arguments(call)}".split())[:120]
            case Decided(turn=turn):
                child.last_action = turn.action_text[:120]
                self._budgets[child.id].take_interaction()
                child.num_calls += 1
            case ToolStepDone(step=step) | StepDone(step=step):
                child.count_step(child.steps_before + step.index, own_seconds(step))
                child.usage += step.reply.usage
                child.num_calls += made_calls(step) if isinstance(step, ToolStep) else 0
                self._warnings.check()
            case _:
                pass
        if self._listener is not None:
            self._listener(event)
