"""Assignment of a sub-agent: its state machine, its lines in the journal, and the one message that it returns."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from cua.errors import TrajectoryError
from cua.messages import Reply, TextPart, ToolResult, Usage
from cua.run.control import Control
from cua.run.end import Cap, RunResult
from cua.step import Step, ToolStep
from cua.swarm.protocol import ASSIGN_TASK
from cua.tool_agent.calls import NO_MORE_CALLS, NOT_MADE
from cua.tool_agent.conversation import CHARS_PER_TOKEN, RunSnapshot, cut_middle
from cua.trajectory.run_record import MAIN, RunRecord

State = Literal[
    "created", "queued", "running", "waiting", "suspended", "finished", "capped", "failed", "stopped", "cancelled"
]
TOOLS = "tools"
ENV_KINDS = ("browser", "desktop")
"""Kinds of children that are GUI agents, each with an env of that name."""

_ENDS: tuple[State, ...] = ("finished", "capped", "failed", "stopped", "cancelled")
NEXT: Mapping[State, frozenset[State]] = {
    "created": frozenset(("queued", "stopped", "cancelled")),
    "queued": frozenset(("running", "suspended", *_ENDS)),
    "running": frozenset(("waiting", "suspended", "queued", *_ENDS)),
    "waiting": frozenset(("running", "suspended", "queued", *_ENDS)),
    "suspended": frozenset(("suspended", "running", "waiting", "queued", *_ENDS)),
    "finished": frozenset(),
    "capped": frozenset(("queued",)),
    "failed": frozenset(),
    "stopped": frozenset(("queued", "cancelled")),
    "cancelled": frozenset(),
}
"""Allowed transitions of each state. `waiting` is for the rate limit of the model's endpoint, or for a free sandbox
or env; `suspended` is for an endpoint or env that is away, or a key that is refused, and ends when it is back or when
the run is resumed. A stopped child is continued when its run is resumed, a capped one if its limit was raised; a
finished, failed or cancelled child never runs again."""

OVER: frozenset[State] = frozenset(("finished", "failed", "cancelled"))
"""States of children that never run again."""
FINAL: frozenset[State] = OVER | {"capped"}
AT_WORK: frozenset[State] = frozenset(("created", "queued", "running", "waiting"))
"""States that a child has only while a process runs it; one that is suspended may wait for a resume."""
STATE_NOTE, CONFIG_NOTE, ORDER_NOTE = "child", "subagent", "order"
CANCELLED = "the user cancelled it"
MESSAGE_CHARS, MIN_MESSAGE_CHARS = 14_000, 400
"""Limit of a child's message in characters, about 4,000 tokens, and the least that is shown of it when the context of
the orchestrator is nearly full; the whole text stays in the record."""
MESSAGES_SHARE = 0.75
"""Share of an agent's free context that the messages of the sub-agents of one reply may take."""
_MARK = re.compile(r"\[\^(\d+(?:\.\d+)?)\^\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentConfig:
    """Configuration made by `create_subagent`, which starts nothing.

    Attributes:
        name: Name used to assign tasks to it.
        system_prompt: Its role.
        kind: `tools`; `browser` or `desktop`, for a GUI agent; or the name of a user's own agent.
        model: Model that differs from the orchestrator's; "" for the same.
    """

    name: str
    system_prompt: str
    kind: str = TOOLS
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Arguments of an `assign_task` call.

    Attributes:
        config: Configuration of the agent.
        prompt: The task.
        files: Files to copy from the orchestrator's folder before it starts.
        returns: Files to copy back when it has ended, to `NAME-OF-THE-TASK/FILE`.
        url: Start page of a browser.
        app: Application that a desktop starts.
        schema: JSON schema of the answer, an object or a list of objects: the rows of a table; None for free text.
    """

    config: SubagentConfig
    prompt: str
    files: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    url: str = ""
    app: str = ""
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """Result of one try of a child.

    Attributes:
        result: Result of its agent; usage and steps include the tries that it continued.
        last_text: Last text of its model, for a child without an answer.
        returned: Files that it returned, by their names in the parent's folder.
        summary: Text for the orchestrator in place of the answer; "" for the answer.
        is_lost: True if the machine that ran it was lost.
        snapshot: State from which another try continues.
    """

    result: RunResult
    last_text: str = ""
    returned: tuple[str, ...] = ()
    summary: str = ""
    is_lost: bool = False
    snapshot: RunSnapshot | None = None


@dataclass(slots=True, kw_only=True)
class Child:
    """State of one assignment.

    Attributes:
        id: `t001`, `t002`, ... in the order of assignment.
        call: Number of its parent's call that made it.
        assignment: Its assignment.
        state: Its state; changed by `Swarm` only, which writes the journal first.
        reason: Reason for its end or its wait.
        answer: Full text of its answer, once it has ended.
        message: Message for the orchestrator, once it has ended.
        num_steps: Number of replies of its model.
        num_calls: Number of tool calls and actions.
        last_action: Its last action as one line.
        usage: Tokens and money.
        started_at: Unix time of its start in seconds; 0 before.
        ended_at: Unix time of its end in seconds; 0 before.
        busy_s: Seconds of model and tool calls, without reported waits (state `waiting`).
        waited_s: Seconds of waits in the current step.
        waits_since: Start of its current wait, on the monotonic clock; 0 if it does not wait.
        num_tries: Number of tries.
        num_losses: Number of tries that ended with the loss of their machine.
        agent_id: Its name in the journal: the id; `t001.2` for a second try from the beginning.
        parent: Agent that assigned it: `main`, or the id of another child.
        depth: 1 for the orchestrator's children, 2 for theirs.
        stage: Number of the parent's step that made it, if the parent is a child.
        steps_before: Steps of abandoned tries.
        usage_before: Tokens and cost of abandoned tries.
        num_awaited: Number of its own children that it waits for.
        has_slot: True if it counts as at work.
        cap: Limit that ended it, for the state `capped`.
        limits: Values of this limit when it was reached, its own and the run's; None is unlimited.
        is_continued: True if it ended in an earlier process and continues in this one.
        is_cancelled: True if the user cancelled it; it ends as soon as it can.
        redirects: New instructions of the user, in order.
        earlier: Record of its last try in an earlier process.
        control: Stops and redirects it, in all of its tries.
        task: Asyncio task that runs it.
    """

    id: str
    call: int
    assignment: Assignment
    state: State = "created"
    reason: str = ""
    answer: str = ""
    message: str = ""
    num_steps: int = 0
    num_calls: int = 0
    last_action: str = ""
    usage: Usage = field(default_factory=Usage)
    started_at: float = 0.0
    ended_at: float = 0.0
    busy_s: float = 0.0
    waited_s: float = 0.0
    waits_since: float = 0.0
    num_tries: int = 0
    num_losses: int = 0
    agent_id: str = ""
    parent: str = MAIN
    depth: int = 1
    stage: int = 0
    steps_before: int = 0
    usage_before: Usage = field(default_factory=Usage)
    num_awaited: int = 0
    has_slot: bool = False
    cap: Cap | None = None
    limits: Sequence[float | None] = ()
    is_continued: bool = False
    is_cancelled: bool = False
    redirects: tuple[str, ...] = ()
    earlier: RunRecord | None = None
    control: Control = field(default_factory=Control)
    task: "asyncio.Task[None] | None" = None

    @property
    def is_at_work(self) -> bool:
        """True while it runs or waits in this process, so that it can be cancelled and redirected."""
        return self.task is not None and not self.task.done()

    def check_next(self, state: State) -> None:
        """Check that a transition to a state is allowed.

        Raises:
            ValueError: If it is not allowed; a defect of the caller.
        """
        if state not in NEXT[self.state]:
            raise ValueError(f"{self.id} is {self.state} and cannot become {state}")

    def count_step(self, num_steps: int, own_s: float) -> None:
        """Count a step and the seconds of its model and tools, without waits."""
        self.num_steps = num_steps
        self.busy_s += max(0.0, own_s - self.waited_s)
        self.waited_s = 0.0

    def start_over(self) -> None:
        """Abandon the previous tries: the next one is recorded under a new name, and their usage still counts."""
        self.agent_id = f"{self.id}.{self.num_tries + 1}"
        self.steps_before, self.usage_before = self.num_steps, self.usage

    def to_json(self) -> dict[str, Any]:
        """Return the data for live views, results and the journal."""
        return {
            "task": self.id,
            "agent": self.assignment.config.name,
            "call": self.call,
            "parent": self.parent,
            "state": self.state,
            "reason": self.reason,
            "steps": self.num_steps,
            "calls": self.num_calls,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost_usd": self.usage.cost_usd,
            "started_at": round(self.started_at, 3),
            "ended_at": round(self.ended_at, 3),
            "busy_s": round(self.busy_s, 4),
            "tries": self.num_tries,
        }

    def result(self) -> ToolResult:
        """Return the one message for the orchestrator."""
        data = {"task": self.id, "state": self.state}
        return ToolResult(parts=(TextPart(text=self.message),), is_error=self.state == "failed", data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRound:
    """Reply of an agent that assigned tasks.

    Attributes:
        num_assigned: Number of assigned tasks.
        num_tokens: Tokens of the conversation with this reply, as the server counts them; 0 if it does not.
        at: Unix time in seconds.
    """

    num_assigned: int = 1
    num_tokens: int = 0
    at: float = 0.0

    @classmethod
    def of(cls, reply: Reply) -> "AssignmentRound":
        """Return the round of a reply."""
        num_assigned = sum(call.name == ASSIGN_TASK["name"] for call in reply.tool_calls)
        return cls(num_assigned=num_assigned, num_tokens=reply.usage.total_tokens, at=time.time())

    def message_chars(self, text: str, context_tokens: int) -> int:
        """Return the length of a child's message: an equal share of the context that its parent has left.

        Args:
            text: The whole message.
            context_tokens: Context of the parent's model in tokens.
        """
        num_bytes = MESSAGES_SHARE * (context_tokens - self.num_tokens) * CHARS_PER_TOKEN
        num_chars = num_bytes / max(1, self.num_assigned) * len(text) / max(1, len(text.encode("utf-8", "replace")))
        return int(min(MESSAGE_CHARS, max(MIN_MESSAGE_CHARS, num_chars)))


def state_of(result: RunResult) -> State:
    """Return the state that corresponds to the end of an agent's run."""
    match result.end.status:
        case "capped":
            return "capped"
        case "stopped":
            return "stopped"
        case "error" if result.end.retryable:
            return "suspended"
        case "failed" if result.end.cap == "context":
            return "capped"
        case "error" | "failed":
            return "failed"
        case _:
            return "finished"


def make_message(
    child: Child,
    state: State,
    reason: str,
    answer: str,
    returned: Sequence[str],
    max_chars: int = MESSAGE_CHARS,
) -> str:
    """Return the message for the orchestrator: any failure first, then the answer, cut if it is too long."""
    mark = f'[cut: {{num_left_out}} more characters; read_result(task="{child.id}", offset={{head}}) reads on]'
    shown = cut_middle(_MARK.sub(rf"[^{child.id}.\1^]", answer), max_chars, mark)
    pieces = [shown] if shown else []
    if state != "finished":
        pieces[:0] = [f"[{child.id} {state}: {reason}]" + (" What it said last:" if shown else "")]
    if returned:
        pieces.append(f"[files: {', '.join(returned)}]")
    return "\n".join(pieces) or f"[{child.id} finished without a message]"


def config_data(config: SubagentConfig) -> dict[str, Any]:
    """Return the journal data of a configuration."""
    return asdict(config)


def assignment_data(assignment: Assignment) -> dict[str, Any]:
    """Return the journal data of an assignment without its configuration, which has its own line."""
    return {
        "prompt": assignment.prompt,
        "files": list(assignment.files),
        "returns": list(assignment.returns),
        "url": assignment.url,
        "app": assignment.app,
        **({"schema": assignment.schema} if assignment.schema is not None else {}),
    }


Configs = dict[tuple[str, str], SubagentConfig]
"""Configurations by parent and name."""


def load_children(record: RunRecord) -> tuple[Configs, list[Child]]:
    """Load configurations and children from a run's journal.

    Raises:
        TrajectoryError: If the journal is not from a swarm.
    """
    try:
        configs = {
            (note.data.get("parent", MAIN), note.data["config"]["name"]): SubagentConfig(**note.data["config"])
            for note in record.notes
            if note.kind == CONFIG_NOTE
        }
        children: dict[str, Child] = {}
        notes = [note for agent in record.agents.values() for note in agent.notes]
        for note in sorted(notes, key=lambda note: note.at):
            data = note.data
            if note.kind == ORDER_NOTE:
                child = children[data["task"]]
                child.is_cancelled |= data.get("is_cancelled", False)
                child.redirects = (*child.redirects, *data.get("redirects", ()))
            elif note.kind == STATE_NOTE:
                if data["state"] == "created":
                    children[data["task"]] = _created(data, configs)
                _apply(children[data["task"]], data)
        tries: dict[str, list[RunRecord]] = {}
        for name, agent_record in record.agents.items():
            tries.setdefault(name.partition(".")[0], []).append(agent_record)
        for child in children.values():
            _sum_attempts(child, tries.get(child.id, []), record.agents.get(child.agent_id))
    except (KeyError, TypeError, ValueError) as error:
        raise TrajectoryError(
            f"the record {record.run_dir} is damaged in its lines about sub-agents: {error}"
        ) from error
    return configs, sorted(children.values(), key=lambda child: child.id)


def _created(data: Mapping[str, Any], configs: Mapping[tuple[str, str], SubagentConfig]) -> Child:
    fields, parent = data["assignment"], data.get("parent", MAIN)
    assignment = Assignment(
        config=configs[parent, data["agent"]],
        prompt=fields["prompt"],
        files=tuple(fields["files"]),
        returns=tuple(fields["returns"]),
        url=fields["url"],
        app=fields.get("app", ""),
        schema=fields.get("schema"),
    )
    child = Child(id=data["task"], call=data["call"], assignment=assignment, parent=parent)
    child.depth, child.stage = data.get("depth", 1), data.get("stage", 0)
    return child


def _sum_attempts(child: Child, tries: Sequence[RunRecord], latest: RunRecord | None) -> None:
    """Sum the usage of a child over all its tries, for a child whose end is not recorded."""
    child.earlier = latest
    if child.state in FINAL or child.earlier is None:
        return
    child.num_steps = sum(len(attempt.tool_steps) + len(attempt.steps) for attempt in tries)
    child.num_calls = sum(made_calls(step) for attempt in tries for step in attempt.tool_steps)
    child.num_calls += sum(len(attempt.steps) for attempt in tries)
    child.usage = sum((attempt.usage for attempt in tries), Usage())
    child.busy_s = sum(own_seconds(step) for attempt in tries for step in attempt.tool_steps)
    child.busy_s += sum(own_seconds(step) for attempt in tries for step in attempt.steps)
    child.steps_before = child.num_steps - len(child.earlier.tool_steps) - len(child.earlier.steps)
    child.usage_before = sum((attempt.usage for attempt in tries if attempt is not child.earlier), Usage())


def num_calls(record: RunRecord) -> int:
    """Return the number of calls and steps of a record, including calls without a result yet."""
    pending = len(record.pending_calls[1].tool_calls) if record.pending_calls else 0
    granted = sum(outcome.result.text != NO_MORE_CALLS for step in record.tool_steps for outcome in step.outcomes)
    return granted + pending + len(record.steps)


def _apply(child: Child, data: Mapping[str, Any]) -> None:
    child.state, child.reason = data["state"], data["reason"]
    child.num_steps, child.num_calls, child.num_tries = data["steps"], data["calls"], data["tries"]
    child.usage = Usage(
        input_tokens=data["input_tokens"], output_tokens=data["output_tokens"], cost_usd=data["cost_usd"]
    )
    child.started_at, child.ended_at, child.busy_s = data["started_at"], data["ended_at"], data["busy_s"]
    child.answer, child.message = data.get("answer", child.answer), data.get("message", child.message)
    child.agent_id = data.get("agent_id", child.id)
    child.cap, child.limits = data.get("cap"), data.get("limits", ())


def made_calls(step: ToolStep) -> int:
    """Return the number of calls of a step that were carried out."""
    return sum(not outcome.result.text.startswith(NOT_MADE) for outcome in step.outcomes)


def own_seconds(step: Step | ToolStep) -> float:
    """Return the seconds of an agent itself: its model and tools, without the wait for children."""
    outcomes = step.outcomes if isinstance(step, ToolStep) else ()
    has_children = any(outcome.call.name == "assign_task" for outcome in outcomes)
    return step.timings.get("model", 0.0) if has_children else sum(step.timings.values())
