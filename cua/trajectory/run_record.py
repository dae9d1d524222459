"""A run as it was recorded: steps, notes and result, and where a resumed run starts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cua.messages import Part, Reply, Usage
from cua.run.end import End, RunResult
from cua.step import CallOutcome, Step, ToolStep, ToolTurn, Turn
from cua.trajectory.chain import Chain
from cua.trajectory.events import Note, RunHeader, SealedEvent
from cua.trajectory.images import ImageFolder
from envs import Action, Observation

MAIN = "main"
"""The name of a run's first agent."""

TOOLS_ENV = "tools"
"""`RunHeader.env` of a tool-using run."""

INTERRUPTED = (
    "The run was interrupted while this action was being carried out, so its outcome is unknown. "
    "Look at the screen to see what happened before you repeat anything."
)
"""`Step.error` of a step that began and never finished, as the model is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A step that began and was not finished.

    Attributes:
        index: Its number.
        observation: What the model saw.
        reply: What it answered, if it did.
        turn: The answer as it was read; set once actions may have been carried out.
        actions: What was about to be done.
        started_at: Unix time in seconds.
    """

    index: int
    observation: Observation
    reply: Reply | None = None
    turn: Turn | None = None
    actions: tuple[Action, ...] = ()
    started_at: float = 0.0

    @property
    def may_have_acted(self) -> bool:
        """Whether actions were possibly carried out; they must not be repeated then."""
        return self.turn is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionsOutcome:
    """What became of a step's actions, for the operator.

    Attributes:
        carried_out: Whether they were handed to the env; False when they were refused whole.
        reward: The env's reward.
        info: The env's `StepResult.info`.
        finished_at: Unix time in seconds.
    """

    carried_out: bool = True
    reward: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """All that is known of a run.

    Attributes:
        run_dir: The run's folder.
        header: What it was started with.
        steps: Finished steps in order; most of them without their image, see `load_run`.
        turns: What a tool-using run was asked, one question after the other, with its steps; empty for a GUI run.
        pending_calls: Number and reply of a step whose tool calls were begun and of which nothing more is known.
        outcomes: What became of each, same order.
        pending: The step that was going on when the record ends; after an end, the last screen.
        notes: Everything else worth knowing, in order of time.
        discarded: Replies that led to nothing (unreadable, or given up at a restart), with their step.
        result: How the run ended, with its totals; None while it runs or when it broke off.
        usage: Sum over all replies, those included that could not be read, and those of agents that worked for it.
        images: SHA-256 of the image by step index ("" for none), the pending step's included.
        resumed_at: When the run was taken up again, Unix time in seconds.
        last_at: When the last event was written, Unix time in seconds.
        sealed: Hashes of the files that the code of a tool-using run has written; None until its very end.
        chain: Whether the lines follow from each other, and the fingerprint of all of them.
        run_id: Name that the run's folder was given.
        agent: Whose record this is.
        parent: The agent that it worked for; "" for the run's first one.
        agents: The records of the run's other agents, by name; only in that of the first one.
    """

    run_dir: Path
    header: RunHeader
    steps: tuple[Step, ...] = ()
    turns: tuple[ToolTurn, ...] = ()
    pending_calls: tuple[int, Reply] | None = None
    outcomes: tuple[ActionsOutcome, ...] = ()
    pending: Pending | None = None
    notes: tuple[Note, ...] = ()
    discarded: tuple[tuple[int, Reply], ...] = ()
    result: RunResult | None = None
    usage: Usage = field(default_factory=Usage)
    images: Mapping[int, str] = field(default_factory=dict)
    resumed_at: tuple[float, ...] = ()
    last_at: float = 0.0
    sealed: SealedEvent | None = None
    chain: Chain = field(default_factory=Chain)
    run_id: str = ""
    agent: str = MAIN
    parent: str = ""
    agents: Mapping[str, "RunRecord"] = field(default_factory=dict)

    @property
    def is_tool_run(self) -> bool:
        """Whether tools were called, as `cua ask` does, and no screen was worked on."""
        return self.header.env == TOOLS_ENV

    @property
    def question(self) -> tuple[Part, ...]:
        """What a tool-using run was asked first; empty for a GUI run."""
        return self.turns[0].question if self.turns else ()

    @property
    def tool_steps(self) -> tuple[ToolStep, ...]:
        """Finished steps of a tool-using run, of all questions, in order."""
        return tuple(step for turn in self.turns for step in turn.steps)

    @property
    def call_outcomes(self) -> Iterator[CallOutcome]:
        """Results of all tool calls, in order."""
        return (outcome for step in self.tool_steps for outcome in step.outcomes)

    @property
    def num_steps(self) -> int:
        """Finished steps, of either kind."""
        return len(self.steps) + len(self.tool_steps)

    @property
    def end(self) -> End | None:
        """How the run ended; None while it runs or when it broke off."""
        return self.result.end if self.result else None

    @property
    def instruction(self) -> str:
        """What the agent was told last: a person may have redirected it since the start."""
        return self._last_note("instruction", "redirect") or self.header.instruction

    @property
    def task_instruction(self) -> str:
        """What the task said once it was set up."""
        return self._last_note("instruction") or self.header.instruction

    def _last_note(self, *kinds: str) -> str | None:
        return next((note.text for note in reversed(self.notes) if note.kind in kinds), None)

    def image(self, index: int) -> bytes:
        """The PNG that the model saw at a step, read from disk; b"" when there was none.

        Raises:
            TrajectoryError: The image is gone or damaged.
        """
        return ImageFolder(self.run_dir).get(self.images.get(index, ""))


def interrupted_step(pending: Pending) -> Step | None:
    """The step that stands for actions which may have been carried out; None when surely none was."""
    if pending.turn is None:
        return None
    return Step(
        index=pending.index,
        observation=pending.observation,
        reply=pending.reply or Reply(content=""),
        turn=pending.turn,
        actions=pending.actions,
        error=INTERRUPTED,
        started_at=pending.started_at,
    )


def resume_steps(record: RunRecord) -> tuple[tuple[Step, ...], str | None]:
    """The steps to go on from.

    Actions that were possibly carried out when the run broke off are not repeated: their step is kept
    with an error that tells the model that the outcome is unknown. A reply that led to no action is
    dropped, since the screen may have changed meanwhile: the model is asked again.

    Returns:
        The steps, and one line for the operator on what happened to the unfinished step (None when
        there was none).
    """
    pending = record.pending
    if pending is None or (record.result and not pending.may_have_acted):
        return record.steps, None
    step = interrupted_step(pending)
    if step:
        names = ", ".join(type(action).__name__ for action in step.actions) or "nothing"
        return (
            (*record.steps, step),
            f"step {step.index} broke off while its actions ({names}) were being carried out; they are not repeated",
        )
    if pending.reply:
        return record.steps, f"step {pending.index} broke off before its actions; the model is asked again"
    return record.steps, f"step {pending.index} broke off before the model answered; it is asked again"


def forget_image(step: Step) -> Step:
    """The step without its image, which stays on disk: for the list that a long run keeps in memory."""
    if not step.observation.screenshot:
        return step
    return replace(step, observation=replace(step.observation, screenshot=b""))
