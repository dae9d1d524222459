"""Export of a run to ATIF, the Agent Trajectory Interchange Format for training pipelines and viewers.

Source: Harbor's RFC 0001 (docs/rfcs/0001-trajectory-format.md) and its models, format version 1.6 (images as files).
"""

import datetime
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cua.errors import TrajectoryError
from cua.json_text import Json, read_json
from cua.messages import ImagePart, Part, Reply, TextPart, Usage
from cua.step import Step, ToolStep
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import FOLDER, ImageFolder, write_atomically
from cua.trajectory.run_record import RunRecord

VERSION = "ATIF-v1.6"
FILE = "trajectory.json"
COMPUTER = "computer"
"""Function name of the tool call that represents the code of a GUI step."""

_SHA256 = re.compile("[0-9a-f]{64}")

ShowImage = Callable[[str], str]
"""Map from the SHA-256 of an image to its path in the file."""


def export_atif(record: RunRecord, path: Path, *, copy_images: bool = True) -> Path:
    """Write a run as one ATIF file.

    Args:
        record: The run; a run of `cua ask` must be loaded with its images.
        path: Path of the file.
        copy_images: True to copy the images to `images/` next to the file; False to refer to the run's folder.

    Raises:
        TrajectoryError: If the file cannot be written, or an image is missing.
    """
    shown: set[str] = set()
    folder = FOLDER if copy_images else os.path.relpath(record.run_dir / FOLDER, path.parent)

    def show(sha256: str) -> str:
        if not _SHA256.fullmatch(sha256):
            raise TrajectoryError(f"the record names an image {sha256!r}, which is not a hash")
        shown.add(sha256)
        return f"{Path(folder).as_posix()}/{sha256}.png"

    content = to_atif(record, show)
    with translate_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if copy_images:
            _copy_images(record, sorted(shown), path.parent / FOLDER)
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)
        write_atomically(path, (text + "\n").encode("utf-8", "replace"))
    return path


def to_atif(record: RunRecord, show: ShowImage) -> Json:
    """Convert a run to an ATIF object. Refused or interrupted actions are steps too, with an error as observation."""
    header, end = record.header, record.end
    usage = record.result.usage if record.result else record.usage
    steps = list(_tool_steps(record, show) if record.is_tool_run else _gui_steps(record, show))
    ended = {"status": end.status, "reason": end.reason, "score": end.score, "answer": end.answer} if end else {}
    return {
        "schema_version": VERSION,
        "session_id": record.run_id or record.run_dir.name,
        "agent": _filled(
            name="cua-k25",
            version=header.versions.get("cua-k25", "unknown"),
            model_name=header.model,
            extra=_filled(protocol=dict(header.protocol), sampling=dict(header.sampling)),
        ),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        "final_metrics": _filled(
            total_prompt_tokens=usage.input_tokens,
            total_completion_tokens=usage.output_tokens,
            total_cached_tokens=usage.cached_tokens,
            total_cost_usd=usage.cost_usd,
            total_steps=len(steps),
        ),
        "extra": _filled(env=header.env, task=dict(header.task), end=ended or "interrupted"),
    }


def _gui_steps(record: RunRecord, show: ShowImage) -> Iterator[Json]:
    """Yield the instruction with the first screenshot, then each step of the run."""
    screens = [record.images[index] for index in sorted(record.images) if record.images[index]]
    first = [_image(sha256, show) for sha256 in screens[:1]]
    instruction = record.header.instruction
    yield {
        "timestamp": _time(record.header.started_at),
        "source": "user",
        "message": [{"type": "text", "text": instruction}, *first] if first else instruction,
    }
    for step in record.steps:
        call_id = f"step_{step.index}"
        yield _agent_step(step, step.turn.action_text or step.reply.content) | _filled(
            reasoning_content=step.turn.thought or step.reply.reasoning,
            tool_calls=[{"tool_call_id": call_id, "function_name": COMPUTER, "arguments": {"code": step.turn.code}}],
            observation={"results": [{"source_call_id": call_id, "content": list(_seen_after(record, step, show))}]},
        )


def _seen_after(record: RunRecord, step: Step, show: ShowImage) -> Iterator[Json]:
    """Yield the observation after a step: an error, and the next screenshot."""
    yield {"type": "text", "text": f"error: {step.error}" if step.error else "carried out"}
    after = [record.images[index] for index in sorted(record.images) if index > step.index]
    yield from (_image(sha256, show) for sha256 in after[:1] if sha256)


def _tool_steps(record: RunRecord, show: ShowImage) -> Iterator[Json]:
    """Yield each question, and a step for each reply with its calls and their results."""
    for exchange in record.exchanges:
        yield {"source": "user", "message": _content(exchange.question, show) or record.header.instruction}
        for step in exchange.steps:
            calls = [
                {
                    "tool_call_id": outcome.call.id,
                    "function_name": outcome.call.name,
                    "arguments": _arguments(outcome.call.arguments),
                }
                for outcome in step.outcomes
            ]
            results = [
                {"source_call_id": outcome.call.id, "content": _content(outcome.result.parts, show)}
                for outcome in step.outcomes
            ]
            yield _agent_step(step, step.reply.content) | _filled(
                reasoning_content=step.reply.reasoning,
                tool_calls=calls,
                observation={"results": results} if results else None,
            )


def _agent_step(step: Step | ToolStep, message: str) -> Json:
    return _filled(
        timestamp=_time(step.started_at) if step.started_at else None,
        source="agent",
        model_name=step.reply.model,
        message=message,
        metrics=_metrics(step.reply),
    ) | {"message": message}


def _metrics(reply: Reply) -> Json:
    usage: Usage = reply.usage
    return _filled(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
    )


def _arguments(text: str) -> Json:
    """Return the arguments of a call; a text that is not a JSON object is kept under the key `text`."""
    try:
        value = read_json(text, strict=False)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"text": text}


def _content(parts: Sequence[Part], show: ShowImage) -> str | list[Json]:
    """Return text alone as a string, with images as a list."""
    if not any(isinstance(part, ImagePart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    shown: list[Json] = []
    for part in parts:
        if isinstance(part, TextPart):
            shown.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart) and part.data:
            shown.append(_image(hashlib.sha256(part.data).hexdigest(), show))
    return shown


def _image(sha256: str, show: ShowImage) -> Json:
    return {"type": "image", "source": {"media_type": "image/png", "path": show(sha256)}}


def _copy_images(record: RunRecord, hashes: Sequence[str], folder: Path) -> None:
    images = ImageFolder(record.run_dir)
    if hashes:
        folder.mkdir(parents=True, exist_ok=True)
    for sha256 in hashes:
        write_atomically(folder / f"{sha256}.png", images.get(sha256))


def _time(unix_s: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(unix_s, datetime.UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError) as error:  # a record may contain any number
        raise TrajectoryError(f"the record has an invalid time: {unix_s!r}") from error


def _filled(**values: Any) -> Json:
    """Return the values without None and empty ones."""
    return {name: value for name, value in values.items() if value not in (None, "", {}, [])}
