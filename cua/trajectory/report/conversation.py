"""What the page of a tool-using run shows: files, steps with calls, results and costs, the answer with its evidence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cua.answer import MARK, find_claims
from cua.messages import ImagePart, Part, TextPart
from cua.step import CallOutcome, Step, ToolStep, ToolTurn
from cua.trajectory.describe import describe_cost, describe_duration, describe_tokens, told_arguments
from cua.trajectory.events import Note
from cua.trajectory.report.images import Format, make_page_image
from cua.trajectory.run_record import RunRecord

STAGES = ("model", "interpret", "guard", "act", "tools", "settle", "observe", "record")
"""Stages that have a colour of their own; any other is `other`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A piece of a time bar: shares of its length in percent."""

    stage: str
    name: str
    start: float
    length: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What a step took, in words; `since_start` and `duration` are "" where they are not known."""

    since_start: str = ""
    duration: str = ""
    tokens: str = ""
    cost: str = ""
    slices: tuple[Slice, ...] = ()


def step_cost(record: RunRecord, step: Step | ToolStep) -> StepCost:
    """What one step of a run took."""
    usage, since_s = step.reply.usage, step.started_at - record.header.started_at
    return StepCost(
        since_start=describe_duration(max(0.0, since_s)) if step.started_at else "",
        duration=describe_duration(sum(step.timings.values())) if step.timings else "",
        tokens=f"{describe_tokens(usage.input_tokens)} in, {describe_tokens(usage.output_tokens)} out",
        cost=describe_cost(usage.cost_usd),
        slices=time_slices(step.timings),
    )


def run_slices(record: RunRecord) -> tuple[Slice, ...]:
    """The time bar of a whole run."""
    totals: dict[str, float] = {}
    for timings in [step.timings for step in record.steps] + [step.timings for step in record.tool_steps]:
        for stage, seconds in timings.items():
            totals[stage] = totals.get(stage, 0.0) + seconds
    return time_slices(totals)


def time_slices(timings: Mapping[str, float]) -> tuple[Slice, ...]:
    """A bar of the stages in their order; nothing for less than a millisecond."""
    total_s = sum(timings.values())
    if total_s < 1e-3:
        return ()
    slices, start = [], 0.0
    rank = {stage: position for position, stage in enumerate(STAGES)}
    for name in sorted(timings, key=lambda stage: rank.get(stage, len(rank))):
        length = 100 * timings[name] / total_s
        stage = name if name in rank else "other"
        slices.append(Slice(stage=stage, name=name, start=start, length=length, text=describe_duration(timings[name])))
        start += length
    return tuple(slices)


_BUDGET_BYTES = 18 * 2**20
_MAX_OUTPUT_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownImage:
    """An image with what stands below it."""

    source: str
    caption: str
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of text, or a mark that leads to `target`."""

    text: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """One statement and its marks."""

    text: str
    is_supported: bool
    marks: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """One call and its result."""

    number: int
    name: str
    code: str
    text: str
    is_error: bool
    duration: str
    images: tuple[ShownImage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedView:
    """A question after the first one."""

    words: str
    files: tuple[ShownImage, ...]
    other_files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One step, and the question before it where a new one begins."""

    asked: AskedView | None
    number: int
    is_answer: bool
    thought: str
    said: str
    pieces: tuple[Piece, ...]
    calls: tuple[CallView, ...]
    remark: str
    claims: tuple[ClaimView, ...]
    notes: tuple[Note, ...]
    cost: StepCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The whole run."""

    files: tuple[ShownImage, ...]
    other_files: tuple[str, ...]
    turns: tuple[TurnView, ...]
    unanswered: tuple[AskedView, ...]


def conversation_view(record: RunRecord, form: Format) -> Conversation:
    """Everything that the page shows of a tool-using run.

    Args:
        record: The run, loaded with its images.
        form: See `page_images`.
    """
    parts = [
        *(part for turn in record.turns for part in turn.question),
        *(part for outcome in _outcomes(record) for part in outcome.result.parts),
    ]
    budget_bytes = _BUDGET_BYTES // max(1, sum(isinstance(part, ImagePart) for part in parts))
    show = _Images(form, budget_bytes)
    files, others = _files(record.question, record.header.instruction, show)
    asked = [_asked(turn, show) if number else None for number, turn in enumerate(record.turns)]
    return Conversation(
        files=files,
        other_files=others,
        turns=tuple(
            _turn(record, turn, step, question if step is turn.steps[0] else None, show)
            for turn, question in zip(record.turns, asked, strict=True)
            for step in turn.steps
        ),
        unanswered=tuple(
            question for turn, question in zip(record.turns, asked, strict=True) if question and not turn.steps
        ),
    )


def _asked(turn: ToolTurn, show: "_Images") -> AskedView:
    files, others = _files(turn.question, turn.words, show)
    return AskedView(words=turn.words.strip(), files=files, other_files=others)


def _claims(text: str, record: RunRecord) -> Iterator[ClaimView]:
    for claim in find_claims(text, record.tool_steps):
        marks = tuple(
            Piece(text=_number(c.number, c.image), target=_target(c.number, c.image)) for c in claim.citations
        )
        yield ClaimView(text=claim.text, is_supported=claim.is_supported, marks=marks)


@dataclass(frozen=True, slots=True)
class _Images:
    form: Format
    budget_bytes: int

    def source(self, part: ImagePart) -> str:
        return make_page_image(part.data, form=self.form, budget_bytes=self.budget_bytes).full if part.data else ""


def _outcomes(record: RunRecord) -> Iterator[CallOutcome]:
    return (outcome for step in record.tool_steps for outcome in step.outcomes)


def _files(question: Sequence[Part], instruction: str, show: _Images) -> tuple[tuple[ShownImage, ...], tuple[str, ...]]:
    """Images with the text before each; texts that no image follows."""
    images, others, pending = [], [], ""
    for part in question:
        if isinstance(part, ImagePart):
            images.append(ShownImage(source=show.source(part), caption=pending.strip()))
            pending = ""
        elif isinstance(part, TextPart):
            others += [pending.strip()] if pending.strip() else []
            pending = part.text
    others += [pending.strip()] if pending.strip() and pending.strip() != instruction.strip() else []
    return tuple(images), tuple(others)


def _turn(record: RunRecord, turn: ToolTurn, step: ToolStep, asked: AskedView | None, show: _Images) -> TurnView:
    said = step.reply.content.strip()
    is_answer = step is turn.steps[-1] and turn.result is not None and turn.result.end.answer is not None
    return TurnView(
        asked=asked,
        number=step.index,
        is_answer=is_answer,
        thought=step.reply.reasoning.strip(),
        said=said,
        pieces=tuple(_pieces(said)),
        calls=tuple(_view_call(outcome, show) for outcome in step.outcomes),
        remark=step.remark or "",
        claims=tuple(_claims(step.reply.content, record)) if is_answer else (),
        notes=tuple(note for note in record.notes if note.index == step.index and note.kind != "parse_error"),
        cost=step_cost(record, step),
    )


def _view_call(outcome: CallOutcome, show: _Images) -> CallView:
    images = [part for part in outcome.result.parts if isinstance(part, ImagePart)]
    return CallView(
        number=outcome.number,
        name=outcome.call.name,
        code=told_arguments(outcome.call),
        text=outcome.result.text[:_MAX_OUTPUT_CHARS],
        is_error=outcome.result.is_error,
        duration=describe_duration(outcome.duration_s),
        images=tuple(
            ShownImage(
                source=show.source(part),
                caption=_number(outcome.number, position),
                anchor=_target(outcome.number, position),
            )
            for position, part in enumerate(images, start=1)
        ),
    )


def _pieces(text: str) -> Iterator[Piece]:
    start = 0
    for match in MARK.finditer(text):
        number, image = int(match[1]), int(match[2]) if match[2] else None
        yield Piece(text=text[start : match.start()])
        yield Piece(text=_number(number, image), target=_target(number, image))
        start = match.end()
    yield Piece(text=text[start:])


def _number(number: int, image: int | None) -> str:
    return str(number) if image is None else f"{number}.{image}"


def _target(number: int, image: int | None) -> str:
    return f"call-{number}" if image is None else f"image-{number}-{image}"
