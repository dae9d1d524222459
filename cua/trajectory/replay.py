"""Replay of a recorded run: as text, or executed in an environment and compared with the record."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cua.errors import TrajectoryError
from cua.images import decode_image
from cua.messages import Usage
from cua.step import Step, ToolStep
from cua.trajectory.describe import (
    describe_action,
    describe_cost,
    describe_duration,
    describe_tokens,
    printable,
    readable_arguments,
)
from cua.trajectory.run_record import ActionsOutcome, RunRecord
from envs import Action, Env, Observation, Task

_ALIKE = 0.995
"""Similarity from which two screenshots count as the same screen: a blinking caret or a clock may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedStep:
    """Step that was executed again.

    Attributes:
        step: Recorded step; its observation has no image.
        observation: Observation before acting, in the replay.
        similarity: Similarity of the two images before acting, in [0, 1]; 1.0 for equal images. None if the
            record has no image or the screens differ in size.
        error: Error of the replay, or None.
    """

    step: Step
    observation: Observation
    similarity: float | None
    error: str | None

    @property
    def is_alike(self) -> bool:
        """True if the screen matched the record and the actions had the recorded result."""
        looked = self.similarity is not None and self.similarity >= _ALIKE
        return looked and (self.error is None) == (self.step.error is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Result of a replay.

    Attributes:
        steps: Steps that were executed again.
        skipped: Numbers of recorded steps that were not executed: refused in the record, or after the end of the
            replay.
        score: Score of the replay; None if the task cannot evaluate it.
        recorded_score: Score of the recorded run.
    """

    steps: tuple[ReplayedStep, ...]
    skipped: tuple[int, ...]
    score: float | None
    recorded_score: float | None

    @property
    def first_difference(self) -> int | None:
        """Number of the first step that differs from the record."""
        return next((replayed.step.index for replayed in self.steps if not replayed.is_alike), None)


def show(record: RunRecord) -> Iterator[str]:
    """Yield a run step by step, as lines of text that are safe to print: control characters are replaced."""
    return (printable(line) for line in _show(record))


def _show(record: RunRecord) -> Iterator[str]:
    yield f"run {record.run_dir.name}"
    yield f"instruction: {record.task_instruction}"
    if record.chain.status == "broken":
        yield f"the record was {record.chain.describe()}"
    yield f"model: {record.header.model or 'unknown'}   env: {record.header.env or 'unknown'}"
    notes = list(record.notes)
    for step, outcome in zip(record.steps, record.outcomes, strict=True):
        while notes and notes[0].at < outcome.finished_at:
            note = notes.pop(0)
            yield f"  * {note.kind}: {note.text}"
        yield from _show_step(step, outcome)
    for tool_step in record.tool_steps:
        yield from _show_tool_step(tool_step)
    yield from (f"  * {note.kind}: {note.text}" for note in notes)
    yield from _show_end(record)


def actions_of(record: RunRecord) -> Iterator[tuple[Step, tuple[Action, ...]]]:
    """Yield the steps whose actions reached the environment, with the actions; an interrupted step counts."""
    for step, outcome in zip(record.steps, record.outcomes, strict=True):
        if outcome.carried_out and step.actions:
            yield step, step.actions


async def reexecute(
    record: RunRecord,
    env: Env,
    task: Task,
    on_step: Callable[[ReplayedStep], None] | None = None,
    fill: Callable[[Sequence[Action]], Sequence[Action]] | None = None,
) -> ReplayResult:
    """Execute the recorded actions in an environment, one step after the other, and compare.

    The actions are repeated blindly, whatever the screen shows; a difference is reported, never corrected.

    Args:
        record: The run.
        env: Environment of the same kind and screen size; the caller closes it.
        task: Task that sets up the environment and evaluates it at the end.
        on_step: Called with each finished step.
        fill: Replaces `{{name}}` by secret values.

    Returns:
        Result of the replay next to the recorded one.

    Raises:
        TrajectoryError: If the screen of the environment has another size, so that recorded positions are wrong.
        EnvError: If the environment could not be started, or died.
    """
    observation = await env.reset(task)
    replayed: list[ReplayedStep] = []
    try:
        for step, actions in actions_of(record):
            _check_same_screen(step, observation)
            seen = observation
            result = await env.step(fill(actions) if fill else actions)
            observation = result.observation
            replayed.append(
                ReplayedStep(
                    step=step,
                    observation=seen,
                    similarity=similarity(record.image(step.index), seen.screenshot),
                    error=observation.last_action_error,
                )
            )
            if on_step:
                on_step(replayed[-1])
            if result.terminated:
                break
        score = (await task.evaluate(env)).score
    finally:
        await task.teardown(env)
    done = {step.step.index for step in replayed}
    return ReplayResult(
        steps=tuple(replayed),
        skipped=tuple(step.index for step in record.steps if step.index not in done),
        score=score,
        recorded_score=record.end.score if record.end else None,
    )


def similarity(left: bytes, right: bytes) -> float | None:
    """Return the similarity of two PNG images: 1 minus the share of pixels that differ visibly.

    Returns:
        A number in [0, 1]; None if one is missing or not an image, or their sizes differ.
    """
    if not left or not right:
        return None
    if left == right:
        return 1.0
    import numpy as np
    from PIL import Image

    first, second = decode_image(left), decode_image(right)
    if first is None or second is None or first.shape != second.shape:
        return None
    images = [np.asarray(Image.fromarray(colours).convert("L"), dtype=np.int16) for colours in (first, second)]
    return 1.0 - float(np.mean(np.abs(images[0] - images[1]) > 16))


def _check_same_screen(step: Step, observation: Observation) -> None:
    then, now = step.observation.geometry, observation.geometry
    if (then.native_px, then.offset_px) != (now.native_px, now.offset_px):
        raise TrajectoryError(
            f"step {step.index} was recorded on a screen of {then.native_px[0]}x{then.native_px[1]} px at "
            f"{then.offset_px}, this one has {now.native_px[0]}x{now.native_px[1]} px at {now.offset_px}: "
            "its positions would mean other places. Start the environment with the recorded screen size"
        )


def _show_tool_step(step: ToolStep) -> Iterator[str]:
    yield f"step {step.index}  ({describe_duration(sum(step.timings.values()))})"
    yield from (f"  {line}" for line in step.reply.content.strip().splitlines())
    for outcome in step.outcomes:
        yield from (f"  {outcome.call.name}> {line}" for line in readable_arguments(outcome.call).splitlines())
        yield from (f"  [{outcome.number}] {line}" for line in outcome.result.text.splitlines())
    if step.remark:
        yield f"  to the model: {step.remark}"


def _show_step(step: Step, outcome: ActionsOutcome) -> Iterator[str]:
    yield ""
    location = step.observation.url or step.observation.title
    yield f"step {step.index}" + (f"  {location}" if location else "")
    if step.observation.last_action_error:
        yield f"  last action failed: {step.observation.last_action_error}"
    if step.turn.thought:
        yield f"  thought: {_one_line(step.turn.thought)}"
    yield f"  action: {_one_line(step.turn.action_text)}"
    yield from (f"    | {line}" for line in step.turn.code.splitlines())
    refused = "" if outcome.carried_out else "  (not carried out)"
    yield from (f"    -> {describe_action(action)}{refused}" for action in step.actions)
    if step.error:
        yield f"  error: {step.error}"
    yield f"  {describe_duration(sum(step.timings.values()))}, {_price(step.reply.usage)}"


def _show_end(record: RunRecord) -> Iterator[str]:
    yield ""
    if record.result is None:
        yield "the record has no end: the run is going on, or its process died"
        return
    end, result = record.result.end, record.result
    yield f"{end.status}: {end.reason}"
    if end.score is not None:
        yield f"score: {end.score:g}"
    if end.answer is not None:
        yield f"answer: {end.answer}"
    yield f"{result.num_steps} steps, {describe_duration(result.duration_s)}, {_price(result.usage)}"


def _price(usage: Usage) -> str:
    return f"{describe_tokens(usage.total_tokens)} tokens, {describe_cost(usage.cost_usd)}"


def _one_line(text: str, max_chars: int = 400) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= max_chars else flat[: max_chars - 3] + "..."
