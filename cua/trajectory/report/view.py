"""Template values of a run's page, as plain data under the names that the template uses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cua.answer import MARK, find_claims
from cua.json_text import Json, JsonMapping
from cua.messages import ImagePart, Part, Reply, TextPart
from cua.step import CallOutcome, Exchange, Step, ToolStep
from cua.trajectory.describe import (
    describe_action,
    describe_cost,
    describe_duration,
    describe_time,
    describe_tokens,
    readable_arguments,
)
from cua.trajectory.disk import is_locked
from cua.trajectory.report.images import LOST, Format, PageImage, make_page_image, page_images
from cua.trajectory.run_record import INTERRUPTED, ActionsOutcome, RunRecord, interrupted_step
from envs import Action, Click, Drag, MouseDown, MouseUp, Move, Observation, ScreenGeometry, Scroll

View = Json
"""Values for the template; the keys are set in the function that makes it."""

STAGES = ("model", "interpret", "guard", "act", "tools", "settle", "observe", "record")
"""Stages with a color of their own; any other is `other`."""


def step_cost(record: RunRecord, step: Step | ToolStep) -> View:
    """Return time, tokens and cost of a step as text; `since_start` and `duration` are "" if unknown."""
    usage, since_s = step.reply.usage, step.started_at - record.header.started_at
    return {
        "since_start": describe_duration(max(0.0, since_s)) if step.started_at else "",
        "duration": describe_duration(sum(step.timings.values())) if step.timings else "",
        "tokens": f"{describe_tokens(usage.input_tokens)} in, {describe_tokens(usage.output_tokens)} out",
        "cost": describe_cost(usage.cost_usd),
        "slices": time_slices(step.timings),
    }


def run_slices(record: RunRecord) -> list[View]:
    """Return the time bar of a whole run."""
    totals: dict[str, float] = {}
    for timings in [step.timings for step in record.steps] + [step.timings for step in record.tool_steps]:
        for stage, seconds in timings.items():
            totals[stage] = totals.get(stage, 0.0) + seconds
    return time_slices(totals)


def time_slices(timings: Mapping[str, float]) -> list[View]:
    """Return a bar of the stages in their order, in percent of its length; stages below a millisecond are left out."""
    total_s = sum(timings.values())
    if total_s < 1e-3:
        return []
    slices: list[View] = []
    start = 0.0
    rank = {stage: position for position, stage in enumerate(STAGES)}
    for name in sorted(timings, key=lambda stage: rank.get(stage, len(rank))):
        length = 100 * timings[name] / total_s
        stage = name if name in rank else "other"
        text = describe_duration(timings[name])
        slices.append({"stage": stage, "name": name, "start": start, "length": length, "text": text})
        start += length
    return slices


_BUDGET_BYTES = 18 * 2**20  # of all images in a report, so that browsers and mail programs open it
_MAX_OUTPUT_CHARS = 20_000  # of one result; the record has the whole text


def conversation_view(record: RunRecord, form: Format) -> View:
    """Return all values for the page of a tool-using run."""
    parts = [
        *(part for exchange in record.exchanges for part in exchange.question),
        *(part for outcome in record.call_outcomes for part in outcome.result.parts),
    ]
    budget_bytes = _BUDGET_BYTES // max(1, sum(isinstance(part, ImagePart) for part in parts))
    show = _Images(form, budget_bytes)
    asked = [
        _asked(exchange.question, exchange.words, show) if at else None for at, exchange in enumerate(record.exchanges)
    ]
    return {
        **_asked(record.question, record.header.instruction, show),
        "steps": [
            _tool_step(record, exchange, number, asked[at] if number == 0 else None, show)
            for at, exchange in enumerate(record.exchanges)
            for number in range(len(exchange.steps))
        ],
        "unanswered": [asked[at] for at, exchange in enumerate(record.exchanges) if at and not exchange.steps],
    }


def _claims(text: str, record: RunRecord) -> Iterator[View]:
    for claim in find_claims(text, record.tool_steps):
        marks = [_piece(citation.number, citation.image) for citation in claim.citations]
        yield {"text": claim.text, "is_supported": claim.is_supported, "marks": marks}


@dataclass(frozen=True, slots=True)
class _Images:
    form: Format
    budget_bytes: int

    def source(self, part: ImagePart) -> str:
        return make_page_image(part.data, form=self.form, budget_bytes=self.budget_bytes).full if part.data else ""


def _asked(question: Sequence[Part], words: str, show: _Images) -> View:
    """Return the text of a question, its images with the text before each, and the remaining texts."""
    images, others, pending = [], [], ""
    for part in question:
        if isinstance(part, ImagePart):
            images.append({"source": show.source(part), "caption": pending.strip(), "anchor": ""})
            pending = ""
        elif isinstance(part, TextPart):
            others += [pending.strip()] if pending.strip() else []
            pending = part.text
    others += [pending.strip()] if pending.strip() and pending.strip() != words.strip() else []
    return {"words": words.strip(), "files": images, "other_files": others}


def _tool_step(record: RunRecord, exchange: Exchange, number: int, asked: View | None, show: _Images) -> View:
    """Return a step of an exchange by its position, and the question before it if one begins there."""
    step = exchange.steps[number]
    content = step.reply.content.strip()
    is_last = number == len(exchange.steps) - 1
    is_answer = is_last and exchange.result is not None and exchange.result.end.answer is not None
    return {
        "asked": asked,
        "number": step.index,
        "is_answer": is_answer,
        "thought": step.reply.reasoning.strip(),
        "said": content,
        "pieces": _pieces(content),
        "calls": [_view_call(outcome, show) for outcome in step.outcomes],
        "remark": step.remark or "",
        "claims": list(_claims(step.reply.content, record)) if is_answer else [],
        "notes": [note for note in record.notes if note.index == step.index and note.kind != "parse_error"],
        "cost": step_cost(record, step),
    }


def _view_call(outcome: CallOutcome, show: _Images) -> View:
    images = [part for part in outcome.result.parts if isinstance(part, ImagePart)]
    return {
        "number": outcome.number,
        "name": outcome.call.name,
        "code": readable_arguments(outcome.call),
        "text": outcome.result.text[:_MAX_OUTPUT_CHARS],
        "is_error": outcome.result.is_error,
        "duration": describe_duration(outcome.duration_s),
        "images": [
            {
                "source": show.source(part),
                "caption": f"{outcome.number}.{position}",
                "anchor": f"image-{outcome.number}-{position}",
            }
            for position, part in enumerate(images, start=1)
        ],
    }


def _pieces(text: str) -> Iterator[View]:
    """Yield the pieces of a text, and marks that link to a target."""
    start = 0
    for match in MARK.finditer(text):
        yield {"text": text[start : match.start()], "target": ""}
        yield _piece(int(match[1]), int(match[2]) if match[2] else None)
        start = match.end()
    yield {"text": text[start:], "target": ""}


def _piece(number: int, image: int | None) -> View:
    if image is None:
        return {"text": str(number), "target": f"call-{number}"}
    return {"text": f"{number}.{image}", "target": f"image-{number}-{image}"}


Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenMarker:
    """Shape drawn over a screenshot.

    Attributes:
        number: 1-based number of the action within its step, the same as in the list next to the image.
        kind: Kind of shape: `click`, `move`, `scroll`, or `drag` (an arrow from `x_from, y_from`).
        x: Share of the width, 0 left to 1 right.
        y: Share of the height, 0 top to 1 bottom.
        x_from: Start of a drag, as share of the width.
        y_from: Start of a drag, as share of the height.
        turn_deg: Direction of a scroll arrow: 0 down, 90 left, 180 up, 270 right.
    """

    number: int
    kind: Literal["click", "move", "scroll", "drag"]
    x: float
    y: float
    x_from: float = 0.0
    y_from: float = 0.0
    turn_deg: int = 0


def markers(actions: Sequence[Action], observation: Observation) -> tuple[ScreenMarker, ...]:
    """Return shapes for the actions of a step, for the image that the model saw before them."""
    return tuple(_markers(actions, observation))


def _markers(actions: Sequence[Action], observation: Observation) -> Iterator[ScreenMarker]:
    geometry = observation.geometry
    pointer_px = observation.pointer_px
    held_at_px: tuple[int, int] | None = None
    for number, action in enumerate(actions, start=1):
        if not isinstance(action, Click | Move | Drag | Scroll | MouseDown | MouseUp):
            continue
        before_px = pointer_px
        target_px = _target_px(action, pointer_px)
        if target_px is None:
            continue
        x, y = _share(geometry, target_px)
        pointer_px = target_px
        match action:
            case Scroll():
                yield ScreenMarker(number=number, kind="scroll", x=x, y=y, turn_deg=_turn_deg(action))
            case Drag() if before_px is not None:
                yield _drag(number, geometry, before_px, target_px)
            case MouseUp() if held_at_px is not None:
                if held_at_px != target_px:
                    yield _drag(number, geometry, held_at_px, target_px)
                held_at_px = None
            case Move():
                if held_at_px is None:
                    yield ScreenMarker(number=number, kind="move", x=x, y=y)
            case _:
                held_at_px = target_px if isinstance(action, MouseDown) else held_at_px
                yield ScreenMarker(number=number, kind="click", x=x, y=y)


def _target_px(
    action: Click | Move | Drag | Scroll | MouseDown | MouseUp, pointer_px: tuple[int, int] | None
) -> tuple[int, int] | None:
    if action.x_px is None or action.y_px is None:
        return pointer_px
    return action.x_px, action.y_px


def _share(geometry: ScreenGeometry, at_px: tuple[int, int]) -> Point:
    """Return the position as share of the image, clipped to it so that a marker stays visible."""
    x, y = geometry.to_model(*at_px)
    return min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)


def _drag(number: int, geometry: ScreenGeometry, from_px: tuple[int, int], to_px: tuple[int, int]) -> ScreenMarker:
    x_from, y_from = _share(geometry, from_px)
    x, y = _share(geometry, to_px)
    return ScreenMarker(number=number, kind="drag", x=x, y=y, x_from=x_from, y_from=y_from)


def _turn_deg(action: Scroll) -> int:
    if action.dy:
        return 180 if action.dy > 0 else 0
    return 270 if action.dx > 0 else 90


def run_view(record: RunRecord, form: Format = "small") -> View:
    """Return all values for the page of a GUI run."""
    images = page_images(record, sorted(record.images), form)
    steps = [
        _step_view(record, step, outcome, images) for step, outcome in zip(record.steps, record.outcomes, strict=True)
    ]
    steps += _last_view(record, images)
    numbers = {step["number"] for step in steps} | {step.index for step in record.tool_steps}
    status, reason = _status(record)
    return {
        "run_id": record.run_dir.name,
        "instruction": record.task_instruction,
        "status": status,
        "reason": reason,
        "verdict": _verdict(record),
        "answer": record.end.answer if record.end else None,
        "facts": _facts(record),
        "slices": run_slices(record),
        "settings": _settings(record),
        "early_notes": [note for note in record.notes if note.index not in numbers],
        "steps": steps,
        "conversation": conversation_view(record, form) if record.is_tool_run else None,
    }


def _step_view(record: RunRecord, step: Step, outcome: ActionsOutcome, images: Mapping[int, PageImage]) -> View:
    """Return the card of a step; `state` is `done`, `failed`, `refused`, `interrupted`, or `last` (screen only)."""
    shapes = markers(step.actions, step.observation)
    marked = {shape.number for shape in shapes}
    return {
        **_card(record, step.index, _state(step, outcome), step.observation, images),
        "shapes": shapes,
        "thought": step.turn.thought.strip(),
        "action_text": step.turn.action_text.strip(),
        "code": step.turn.code.strip(),
        "actions": [
            {"number": number, "text": describe_action(action), "has_marker": number in marked}
            for number, action in enumerate(step.actions, start=1)
        ],
        "error": step.error or "",
        "cost": step_cost(record, step),
    }


def _last_view(record: RunRecord, images: Mapping[int, PageImage]) -> list[View]:
    """Return the card of the unfinished step at the end of the record, or of the last screen after an end."""
    pending = record.pending
    if pending is None:
        return []
    step = interrupted_step(pending)
    if step:
        return [_step_view(record, step, ActionsOutcome(), images)]
    card = _card(record, pending.index, "last", pending.observation, images)
    return [card | {"raw_reply": _raw(pending.reply) if pending.reply else ""}]


def _card(record: RunRecord, index: int, state: str, observation: Observation, images: Mapping[int, PageImage]) -> View:
    empty = dict.fromkeys(("thought", "action_text", "code", "error", "raw_reply"), "")
    return {
        **empty,
        "number": index,
        "state": state,
        "observation": observation,
        "image": images.get(index, LOST),
        "shapes": (),
        "actions": (),
        "discarded": [_raw(reply) for at, reply in record.discarded if at == index],
        "notes": [note for note in record.notes if note.index == index],
    }


def _state(step: Step, outcome: ActionsOutcome) -> str:
    if step.error == INTERRUPTED:
        return "interrupted"
    if not outcome.carried_out:
        return "refused"
    return "failed" if step.error else "done"


def _raw(reply: Reply) -> str:
    return "\n\n".join(text for text in (reply.reasoning.strip(), reply.content.strip()) if text) or "(empty)"


def _status(record: RunRecord) -> tuple[str, str]:
    if record.end:
        return record.end.status, record.end.reason
    if is_locked(record.run_dir):
        return "running", "this page was made while the run was going on"
    return "interrupted", "the run was interrupted before its end; it can be resumed"


def _verdict(record: RunRecord) -> str:
    if record.end is None or record.end.score is None:
        return ""
    return f"checked by the task: score {record.end.score:g} of 1"


def _facts(record: RunRecord) -> Sequence[tuple[str, str, str]]:
    """Return name, value and details of the totals."""
    usage = record.result.usage if record.result else record.usage
    duration_s = record.result.duration_s if record.result else max(0.0, record.last_at - record.header.started_at)
    cached = f", {describe_tokens(usage.cached_tokens)} cached" if usage.cached_tokens else ""
    steps = record.num_steps
    return (
        ("Steps", str(steps), f"{describe_duration(duration_s / steps)} each" if steps else ""),
        ("Time", describe_duration(duration_s), describe_time(record.header.started_at)),
        (
            "Tokens",
            describe_tokens(usage.total_tokens),
            f"{describe_tokens(usage.input_tokens)} in, {describe_tokens(usage.output_tokens)} out{cached}",
        ),
        ("Cost", describe_cost(usage.cost_usd), "no price known for this model" if usage.cost_usd is None else ""),
        ("Model", record.header.model or "unknown", record.header.env),
    )


def _settings(record: RunRecord) -> Sequence[tuple[str, str]]:
    header = record.header
    rows: list[tuple[str, Any]] = [
        ("run", record.run_dir.name),
        ("started", describe_time(header.started_at)),
        *(("resumed", describe_time(at)) for at in record.resumed_at),
        ("record", record.chain.describe()),
        ("model", header.model),
        ("task", header.task),
        ("env", header.env),
        ("env options", header.env_options),
        ("protocol", header.protocol),
        ("sampling", header.sampling),
        ("limits", header.limits),
        ("settings", header.settings),
        ("versions", header.versions),
    ]
    return [(name, _text(value)) for name, value in rows if value]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(_lines(value))
    return str(value)


def _lines(values: JsonMapping, prefix: str = "") -> Iterator[str]:
    for key, item in values.items():
        if isinstance(item, Mapping):
            yield from _lines(item, f"{prefix}{key}.")
        elif item is not None:
            yield f"{prefix}{key} = {json.dumps(item, ensure_ascii=False)}"
