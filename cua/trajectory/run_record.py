"""Recorded run: steps, notes and result, and the steps from which a resumed run starts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cua.json_text import JsonMapping
from cua.messages import Part, Reply, Usage
from cua.run.end import End, RunResult
from cua.step import CallOutcome, Exchange, Step, ToolStep, Turn
from cua.trajectory.chain import HashChain
from cua.trajectory.events import TOOLS_ENV, NoteEvent, RunHeader, SealedEvent
from cua.trajectory.images import ImageFolder
from envs import Action, Observation

MAIN = "main"
"""Name of a run's first agent."""

INTERRUPTED = (
    "The run was interrupted while this action was being carried out, so its outcome is unknown. "
    "Look at the screen to see what happened before you repeat anything."
)
"""`Step.error` of a step that began and never finished, as shown to the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingStep:
    """Step that began and was not finished.

    Attributes:
        index: Number of the step.
        observation: Observation of the model.
        reply: Reply of the model, if any.
        turn: Parsed reply; set once actions may have been executed.
        actions: Actions to be executed.
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
        """True if actions may have been executed; they must not be repeated then."""
        return self.turn is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionsOutcome:
    """Outcome of a step's actions, for the operator.

    Attributes:
        carried_out: True if they were passed to the env; False if all were refused.
        reward: Reward of the env.
        info: `StepResult.info` of the env.
        finished_at: Unix time in seconds.
    """

    carried_out: bool = True
    reward: float = 0.0
    info: JsonMapping = field(default_factory=dict)
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Complete record of a run.

    Attributes:
        run_dir: The run's folder.
        header: Configuration of the run.
        steps: Finished steps in order; most of them without their image, see `load_run`.
        exchanges: Questions of a tool-using run, in order, with their steps; empty for a GUI run.
        pending_calls: Number and reply of a step whose tool calls were started and have no recorded outcome.
        outcomes: Outcomes of the steps, same order.
        pending: Unfinished step at the end of the record; after an end, the last screen.
        notes: Other events, in order of time.
        discarded: Unused replies (unreadable, or dropped at a resume), with their step.
        result: Result of the run, with its totals; None while it runs or if it was interrupted.
        usage: Sum over all replies, including unreadable ones, and over child agents.
        images: SHA-256 of the image by step index ("" for none), including the pending step.
        resumed_at: Times when the run was resumed, Unix time in seconds.
        last_at: Time of the last event, Unix time in seconds.
        active_s: Seconds from the first to the last event of each process that wrote the record, summed.
        sealed: Hashes of the files that the code of a tool-using run has written; None until the folder is sealed.
        chain: Result of checking the chain of lines, and its fingerprint.
        run_id: Name of the run's folder when it was made.
        agent: Agent of this record.
        parent: Parent of the agent; "" for the run's first one.
        agents: Records of the run's other agents, by name; only in the record of the first agent.
    """

    run_dir: Path
    header: RunHeader
    steps: tuple[Step, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    pending_calls: tuple[int, Reply] | None = None
    outcomes: tuple[ActionsOutcome, ...] = ()
    pending: PendingStep | None = None
    notes: tuple[NoteEvent, ...] = ()
    discarded: tuple[tuple[int, Reply], ...] = ()
    result: RunResult | None = None
    usage: Usage = field(default_factory=Usage)
    images: Mapping[int, str] = field(default_factory=dict)
    resumed_at: tuple[float, ...] = ()
    last_at: float = 0.0
    active_s: float = 0.0
    sealed: SealedEvent | None = None
    chain: HashChain = field(default_factory=HashChain)
    run_id: str = ""
    agent: str = MAIN
    parent: str = ""
    agents: Mapping[str, "RunRecord"] = field(default_factory=dict)

    @property
    def is_tool_run(self) -> bool:
        """True if the run called tools, like `cua ask`, and used no screen."""
        return self.header.env == TOOLS_ENV

    @property
    def question(self) -> tuple[Part, ...]:
        """First question of a tool-using run; empty for a GUI run."""
        return self.exchanges[0].question if self.exchanges else ()

    @property
    def tool_steps(self) -> tuple[ToolStep, ...]:
        """Finished steps of a tool-using run, of all questions, in order."""
        return tuple(step for exchange in self.exchanges for step in exchange.steps)

    @property
    def call_outcomes(self) -> Iterator[CallOutcome]:
        """Yield the results of all tool calls, in order."""
        return (outcome for step in self.tool_steps for outcome in step.outcomes)

    @property
    def num_steps(self) -> int:
        """Number of finished steps, of either kind."""
        return len(self.steps) + len(self.tool_steps)

    @property
    def end(self) -> End | None:
        """End of the run; None while it runs or if it was interrupted."""
        return self.result.end if self.result else None

    @property
    def instruction(self) -> str:
        """Latest instruction of the agent: a person may have redirected it since the start."""
        return self._last_note("instruction", "redirect") or self.header.instruction

    @property
    def task_instruction(self) -> str:
        """Instruction of the task after its setup."""
        return self._last_note("instruction") or self.header.instruction

    def _last_note(self, *kinds: str) -> str | None:
        return next((note.text for note in reversed(self.notes) if note.kind in kinds), None)

    def image(self, index: int) -> bytes:
        """Read the PNG that the model saw at a step from disk; b"" if there was none.

        Raises:
            TrajectoryError: If the image is missing or damaged.
        """
        return ImageFolder(self.run_dir).get(self.images.get(index, ""))


def interrupted_step(pending: PendingStep) -> Step | None:
    """Return a step for actions that may have been executed; None if certainly none was."""
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
    """Return the steps from which a run is resumed.

    Actions that may have been executed when the run was interrupted are not repeated: their step is kept with an error
    that informs the model that the outcome is unknown. A reply that led to no action is dropped, since the screen may
    have changed meanwhile: the model is called again.

    Returns:
        The steps, and one line for the operator about the unfinished step (None if there was
        none).
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
    """Return the step without its image, which stays on disk, to save memory in a long run."""
    if not step.observation.screenshot:
        return step
    return replace(step, observation=replace(step.observation, screenshot=b""))
