"""What in a run's folder is not as the run left it: the chain of the record, files, pictures, the derived evidence.

This notices changes by anybody who does not write the whole record anew. Who does gets another fingerprint.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cua.answer import read_text_answer
from cua.errors import TrajectoryError
from cua.evidence.notebook import cell_data
from cua.json_text import read_json
from cua.messages import ImagePart
from cua.step import CallOutcome, ToolStep
from cua.trajectory.chain import changed_files
from cua.trajectory.images import FOLDER as PICTURES
from cua.trajectory.images import sha256_of
from cua.trajectory.run_files import read_inside
from cua.trajectory.run_record import RunRecord

MAX_DERIVED_BYTES = 512 * 2**20
MAX_TOLD = 20
"""Findings of one kind; a folder may hold very many files."""

_NEVER_CHECKED = ("verification",)
"""What is written into the answer's file later."""


def find_edits(record: RunRecord, derived: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """What was changed since the run ended, in words; nothing for a run that is as it was.

    Args:
        record: A tool-using run, loaded with its pictures.
        derived: What the files that are made from the record should hold, by name; objects of JSON.
    """
    finders: tuple[Callable[[], Iterator[str]], ...] = (
        lambda: _of_chain(record),
        lambda: _of_answer(record),
        lambda: _of_calls(record),
        lambda: _of_pictures(record),
        lambda: _of_derived(record, derived),
        lambda: changed_files(record.run_dir, record.sealed) if record.sealed else iter(()),
    )
    return tuple(text for finder in finders for text in _first(finder()))


def _first(found: Iterator[str]) -> Iterator[str]:
    for position, text in enumerate(found):
        if position == MAX_TOLD:
            yield "... and more of that kind"
            return
        yield text


def _of_chain(record: RunRecord) -> Iterator[str]:
    if record.chain.status == "broken":
        yield f"the record was {record.chain.describe()}; it was edited, or lines were cut out or put in"
    elif record.chain.status == "whole" and record.result is None:
        yield "the record has no end: the run broke off, or its last lines were cut off"
    elif record.chain.status == "whole" and record.sealed is None:
        yield "the record has no seal: the run broke off while it ended, or its last line was cut off"


def _of_answer(record: RunRecord) -> Iterator[str]:
    """The answer at the end must be what the last reply says, as it is or as the JSON in it."""
    for turn in record.turns:
        answer = turn.result.end.answer if turn.result else None
        if answer is not None and answer != turn.answer_text.strip() and not _is_json_in(answer, turn.answer_text):
            where = "" if turn is record.turns[-1] else f" to {turn.words[:60]!r}"
            yield f"the answer{where} at the end of the record is not what the model's last reply says"


def _is_json_in(answer: str, said: str) -> bool:
    try:
        return bool(read_json(answer) in read_text_answer(said))
    except ValueError:
        return False


def _of_calls(record: RunRecord) -> Iterator[str]:
    number = 0
    for step in record.tool_steps:
        if step.outcomes and [outcome.call for outcome in step.outcomes] != list(step.reply.tool_calls):
            yield f"the calls of step {step.index} are not those of the model's reply"
        for outcome in step.outcomes:
            if outcome.number != number:
                yield f"call {outcome.number} stands where call {number} was expected"
            number += 1
            yield from _of_call(outcome)


def _of_call(outcome: CallOutcome) -> Iterator[str]:
    data = cell_data(outcome)
    asked = _asked_code(outcome)
    if asked is not None and data.kind and data.code != asked:
        yield f"the cell of call {outcome.number} is not the code that the model called"
    shown = data.text.rstrip("\n")
    if shown.strip() and not outcome.result.text.startswith(shown):
        yield f"the text of call {outcome.number} is not what its cell printed"


def _asked_code(outcome: CallOutcome) -> str | None:
    """What a call asks to run, for tools that take it as one text."""
    name = {"ipython": "code", "shell": "command"}.get(outcome.call.name)
    if name is None:
        return None
    try:
        arguments = read_json(outcome.call.arguments, strict=False)
    except ValueError:
        return None
    code = arguments.get(name) if isinstance(arguments, dict) else None
    return code if isinstance(code, str) else None


def _of_pictures(record: RunRecord) -> Iterator[str]:
    """Pictures are named by their hash, which loading them has checked; here: those that no line names."""
    known = {f"{sha256_of(part.data)}.png" for part in _parts(record) if isinstance(part, ImagePart)}
    try:
        names = sorted(os.listdir(record.run_dir / PICTURES))  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if name not in known and not (name.startswith(".") and name.endswith(".part")):
            yield f"{PICTURES}/{name} is in no line of the record"


def _parts(record: RunRecord) -> Iterator[Any]:
    for turn in record.turns:
        yield from turn.question
    for outcome in _outcomes(record.tool_steps):
        yield from outcome.result.parts


def _outcomes(steps: tuple[ToolStep, ...]) -> Iterator[CallOutcome]:
    return (outcome for step in steps for outcome in step.outcomes)


def _of_derived(record: RunRecord, derived: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Files that are made from the record must still hold what it says; earlier versions made them otherwise."""
    if record.chain.status == "none":
        return
    for name, expected in derived.items():
        try:
            found = read_json(read_inside(record.run_dir, name, max_bytes=MAX_DERIVED_BYTES))
        except (OSError, ValueError, TrajectoryError) as error:
            yield f"{name} cannot be read: {error}"
            continue
        plain = json.loads(json.dumps(expected, default=str))
        if not isinstance(found, dict) or any(
            found.get(key) != value for key, value in plain.items() if key not in _NEVER_CHECKED
        ):
            yield f"{name} does not say what the record says"
