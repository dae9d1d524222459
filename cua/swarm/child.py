"""A sub-agent's assignment: its state machine, what the journal keeps of it, and the one message that it gives back."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from cua.errors import TrajectoryError
from cua.messages import TextPart, ToolResult, Usage
from cua.run.end import RunResult
from cua.step import Step, ToolStep
from cua.tool_agent.conversation import ToolStart
from cua.trajectory.run_record import MAIN, RunRecord

State = Literal["created", "queued", "running", "waiting", "finished", "capped", "failed", "stopped"]
TOOLS = "tools"
ENV_KINDS = ("browser", "desktop")
"""Kinds of children that are GUI agents, with an env of that name each."""

NEXT: Mapping[State, frozenset[State]] = {
    "created": frozenset(("queued", "stopped")),
    "queued": frozenset(("running", "finished", "capped", "failed", "stopped")),
    "running": frozenset(("waiting", "queued", "finished", "capped", "failed", "stopped")),
    "waiting": frozenset(("running", "queued", "finished", "capped", "failed", "stopped")),
    "finished": frozenset(),
    "capped": frozenset(),
    "failed": frozenset(),
    "stopped": frozenset(("queued",)),
}
"""What a state may be followed by. `waiting` is at the gate of the model's endpoint, or for a place for a
sandbox or an env. A stopped child may be taken up
again when its run is; the other ends are final, so that no finished child ever runs again."""

FINAL: frozenset[State] = frozenset(("finished", "capped", "failed"))
STATE_NOTE, CONFIG_NOTE = "child", "subagent"
MESSAGE_CHARS = 14_000
"""Of a child's message; the whole text stays in the record. About 4,000 tokens."""
_HEAD_SHARE = 0.7
_MARK = re.compile(r"\[\^(\d+(?:\.\d+)?)\^\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentConfig:
    """What `create_subagent` makes: it starts nothing.

    Attributes:
        name: By which tasks are assigned to it.
        system_prompt: Its role.
        kind: `tools`; `browser` or `desktop`, for a GUI agent; or the name of a user's own agent.
        model: Another model than the orchestrator's; "" for the same.
    """

    name: str
    system_prompt: str
    kind: str = TOOLS
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What `assign_task` asks for.

    Attributes:
        config: Which agent.
        prompt: The task.
        files: Copied from the orchestrator's folder before it starts.
        returns: Copied back when it has ended, to `NAME-OF-THE-TASK/FILE`.
        url: Where a browser starts.
        app: What a desktop starts.
    """

    config: SubagentConfig
    prompt: str
    files: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    url: str = ""
    app: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of one try of a child.

    Attributes:
        result: How its agent ended; usage and steps over the tries that it went on from.
        last_text: What its model said last, for one that did not come to an answer.
        returned: Files that it gave back, as its parent may name them.
        left: What another try goes on from.
    """

    result: RunResult
    last_text: str = ""
    returned: tuple[str, ...] = ()
    left: ToolStart | None = None


@dataclass(slots=True, kw_only=True)
class Child:
    """One assignment at work.

    Attributes:
        id: `t001`, `t002`, ... in the order of assignment.
        call: Number of its parent's call that made it.
        assignment: What it was asked.
        state: Where it stands; changed by `Swarm` only, which writes the journal first.
        reason: Why it ended, or waits.
        answer: The whole text that it gave, once it has ended.
        message: What the orchestrator is given, once it has ended.
        num_steps: Replies of its model.
        num_calls: Tool calls and actions.
        last_action: What it did last, one line.
        usage: Tokens and money.
        started_at: Unix time in seconds; 0 before.
        ended_at: Likewise.
        busy_s: Seconds in which its model was asked or its tools worked; waits that are told (`waiting`) left out.
        waited_s: Seconds of waits in the step that is going on.
        waits_since: When it began to wait, on the monotonic clock; 0 while it does not.
        num_tries: How often it was begun.
        agent_id: Its name in the journal: the id; `t001.2` for a second try that begins anew.
        parent: Who assigned it: `main`, or another child.
        depth: 1 for the orchestrator's children, 2 for theirs.
        stage: Number of the parent's step that made it; of a child as parent.
        steps_before: Steps of tries that were given up for a new begin.
        usage_before: Tokens and money, likewise.
        num_awaited: Children of its own that it waits for.
        has_place: Whether it counts as at work.
        earlier: What an earlier process has recorded of its last try.
        task: Works on it.
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
    agent_id: str = ""
    parent: str = MAIN
    depth: int = 1
    stage: int = 0
    steps_before: int = 0
    usage_before: Usage = field(default_factory=Usage)
    num_awaited: int = 0
    has_place: bool = False
    earlier: RunRecord | None = None
    task: "asyncio.Task[None] | None" = None

    def check_next(self, state: State) -> None:
        """Check that the child may come into a state.

        Raises:
            ValueError: It may not; a defect of the caller.
        """
        if state not in NEXT[self.state]:
            raise ValueError(f"{self.id} is {self.state} and cannot become {state}")

    def count_step(self, num_steps: int, own_s: float) -> None:
        """Count a step, and its seconds: of its model and its tools, without waits."""
        self.num_steps = num_steps
        self.busy_s += max(0.0, own_s - self.waited_s)
        self.waited_s = 0.0

    def begin_anew(self) -> None:
        """Give the tries before up: what comes is recorded under a name of its own, and what they took still counts."""
        self.agent_id = f"{self.id}.{self.num_tries + 1}"
        self.steps_before, self.usage_before = self.num_steps, self.usage

    def to_json(self) -> dict[str, Any]:
        """What is told of it live, in results and in the journal."""
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
        """The one message that the orchestrator gets."""
        data = {"task": self.id, "state": self.state}
        return ToolResult(parts=(TextPart(text=self.message),), is_error=self.state == "failed", data=data)


def state_of(result: RunResult) -> State:
    """The state that the end of an agent's run means."""
    match result.end.status:
        case "capped":
            return "capped"
        case "stopped":
            return "stopped"
        case "error" | "failed":
            return "failed"
        case _:
            return "finished"


def make_message(child: Child, state: State, reason: str, answer: str, returned: Sequence[str]) -> str:
    """What the orchestrator is told: the answer as it is, or cut; what is not a plain success is said first."""
    shown = cut_text(_MARK.sub(rf"[^{child.id}.\1^]", answer), child.id)
    pieces = [shown] if shown else []
    if state != "finished":
        pieces[:0] = [f"[{child.id} {state}: {reason}]" + (" What it said last:" if shown else "")]
    if returned:
        pieces.append(f"[files: {', '.join(returned)}]")
    return "\n".join(pieces) or f"[{child.id} finished without a word]"


def cut_text(text: str, task: str) -> str:
    """Head and tail of a long text, with a pointer to the whole."""
    if len(text) <= MESSAGE_CHARS:
        return text
    head = int(MESSAGE_CHARS * _HEAD_SHARE)
    tail = MESSAGE_CHARS - head
    left_out = len(text) - MESSAGE_CHARS
    pointer = f'[cut: {left_out} of {len(text)} characters; read_result(task="{task}", offset={head}) reads on]'
    return f"{text[:head]}\n{pointer}\n{text[-tail:]}"


def config_data(config: SubagentConfig) -> dict[str, Any]:
    """A configuration as the journal keeps it."""
    return asdict(config)


def assignment_data(assignment: Assignment) -> dict[str, Any]:
    """An assignment as the journal keeps it, but for its configuration, which stands in a line of its own."""
    return {
        "prompt": assignment.prompt,
        "files": list(assignment.files),
        "returns": list(assignment.returns),
        "url": assignment.url,
        "app": assignment.app,
    }


Configs = dict[tuple[str, str], SubagentConfig]
"""By who made it and its name."""


def load_children(record: RunRecord) -> tuple[Configs, list[Child]]:
    """Configurations and children as a run's journal tells them.

    Raises:
        TrajectoryError: The journal is not one of a swarm.
    """
    try:
        configs = {
            (note.data.get("parent", MAIN), note.data["config"]["name"]): SubagentConfig(**note.data["config"])
            for note in record.notes
            if note.kind == CONFIG_NOTE
        }
        children: dict[str, Child] = {}
        notes = [note for one in record.agents.values() for note in one.notes if note.kind == STATE_NOTE]
        for note in sorted(notes, key=lambda note: note.at):
            data = note.data
            if data["state"] == "created":
                children[data["task"]] = _created(data, configs)
            _apply(children[data["task"]], data)
        tries: dict[str, list[RunRecord]] = {}
        for name, one in record.agents.items():
            tries.setdefault(name.partition(".")[0], []).append(one)
        for child in children.values():
            _add_up(child, tries.get(child.id, []), record.agents.get(child.agent_id))
    except (KeyError, TypeError, ValueError) as error:
        raise TrajectoryError(
            f"the record {record.run_dir} is damaged in what it says of sub-agents: {error}"
        ) from error
    return configs, sorted(children.values(), key=lambda child: child.id)


def _created(data: Mapping[str, Any], configs: Mapping[tuple[str, str], SubagentConfig]) -> Child:
    given, parent = data["assignment"], data.get("parent", MAIN)
    assignment = Assignment(
        config=configs[parent, data["agent"]],
        prompt=given["prompt"],
        files=tuple(given["files"]),
        returns=tuple(given["returns"]),
        url=given["url"],
        app=given.get("app", ""),
    )
    child = Child(id=data["task"], call=data["call"], assignment=assignment, parent=parent)
    child.depth, child.stage = data.get("depth", 1), data.get("stage", 0)
    return child


def _add_up(child: Child, tries: Sequence[RunRecord], latest: RunRecord | None) -> None:
    """What a child has used, over all its tries, where its end is not on record."""
    child.earlier = latest
    if child.state in FINAL or child.earlier is None:
        return
    child.num_steps = sum(len(one.tool_steps) + len(one.steps) for one in tries)
    child.num_calls = sum(len(step.outcomes) for one in tries for step in one.tool_steps)
    child.num_calls += sum(len(one.steps) for one in tries)
    child.usage = sum((one.usage for one in tries), Usage())
    child.busy_s = sum(sum(map(own_seconds, one.tool_steps)) + sum(map(own_seconds, one.steps)) for one in tries)
    child.steps_before = child.num_steps - len(child.earlier.tool_steps) - len(child.earlier.steps)
    child.usage_before = sum((one.usage for one in tries if one is not child.earlier), Usage())


def num_calls(record: RunRecord) -> int:
    """Calls and steps of a record; calls that were being made count."""
    pending = len(record.pending_calls[1].tool_calls) if record.pending_calls else 0
    return sum(len(step.outcomes) for step in record.tool_steps) + pending + len(record.steps)


def _apply(child: Child, data: Mapping[str, Any]) -> None:
    child.state, child.reason = data["state"], data["reason"]
    child.num_steps, child.num_calls, child.num_tries = data["steps"], data["calls"], data["tries"]
    child.usage = Usage(
        input_tokens=data["input_tokens"], output_tokens=data["output_tokens"], cost_usd=data["cost_usd"]
    )
    child.started_at, child.ended_at, child.busy_s = data["started_at"], data["ended_at"], data["busy_s"]
    child.answer, child.message = data.get("answer", child.answer), data.get("message", child.message)
    child.agent_id = data.get("agent_id", child.id)


def own_seconds(step: Step | ToolStep) -> float:
    """Of an agent itself: its model, and its tools but for the wait for children."""
    outcomes = step.outcomes if isinstance(step, ToolStep) else ()
    has_children = any(outcome.call.name == "assign_task" for outcome in outcomes)
    return step.timings.get("model", 0.0) if has_children else sum(step.timings.values())
