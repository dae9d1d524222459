"""Runs the cells of a run again in a new kernel and compares the results; detects edits since the run.

`find_edits` checks the hash chain of the record, files, images and the derived evidence. It detects all changes except
a complete rewrite of the record, which changes its fingerprint.
"""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cua.answer import find_claims, read_text_answer
from cua.answer_files import find_invented_files
from cua.errors import ConfigError, TrajectoryError
from cua.evidence.bundle import CellCheck, Verification, derived_files
from cua.evidence.notebook import cell_data, repeating_code
from cua.evidence.recorded_inputs import restore_inputs
from cua.images import decode_image
from cua.json_text import JsonMapping, read_json, read_object
from cua.messages import ImagePart
from cua.step import CallOutcome
from cua.trajectory.chain import FILES, changed_files
from cua.trajectory.images import FOLDER as IMAGES
from cua.trajectory.images import sha256_of
from cua.trajectory.load import load_run
from cua.trajectory.run_files import read_inside
from cua.trajectory.run_record import RunRecord
from visual_tools.sandbox.contract import CellResult, KernelMaker

MAX_PIXEL_DIFFERENCE = 2.0
"""Maximum mean difference of equal images, in levels of 255: encoders and fonts cause small differences."""

MAX_DERIVED_BYTES = 512 * 2**20  # bounds the memory that an untrusted record takes
MAX_REPORTED = 20
"""Maximum number of findings of one kind; a folder may contain very many files."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_NEVER_SAME = ("interrupted", "died")
_NEVER_CHECKED = ("verification",)
"""Keys that are added to the answer's file after the run."""


async def verify_run(
    run_dir: Path,
    maker: KernelMaker,
    *,
    inputs: Sequence[Path] = (),
    expect: str | None = None,
    say: Callable[[CellCheck], None] = lambda check: None,
) -> Verification:
    """Check for changes, run every cell again on unmodified copies of the inputs, and compare text and images.

    Args:
        run_dir: Folder of the run.
        maker: Creates the new kernel.
        inputs: Files that the run read in place and that may be read there again; a record alone opens none.
        expect: Fingerprint that the record must have.
        say: Called with the check of each cell.

    Raises:
        ConfigError: If it is not a tool-using run, or its inputs are missing.
        TrajectoryError: If the record cannot be read, or names files that do not belong to the run.
        SandboxError: If no kernel can be started.
    """
    record = load_run(run_dir, images=None)
    if not record.is_tool_run:
        raise ConfigError(f"{run_dir.name} is not a run of `cua ask`: it has no cells to run again")
    edits = await asyncio.to_thread(lambda: find_edits(record, derived_files(record)))
    with tempfile.TemporaryDirectory(prefix="k25-verify-") as folder:
        work_dir = Path(folder) / "files"
        laid_out = await asyncio.to_thread(restore_inputs, record, work_dir, inputs)
        kernel = await maker.make_kernel(work_dir, readable=laid_out.readable)
        try:
            checks = []
            for outcome in record.call_outcomes:
                code = repeating_code(outcome)
                if code is None:
                    continue
                checks.append(await _check(outcome, lambda code=code: kernel.run(code)))  # type: ignore[misc]
                say(checks[-1])
        finally:
            await kernel.close()
    findings = (*_unexpected(record, expect), *edits, *laid_out.findings)
    return _verification(record, checks, findings)


def _unexpected(record: RunRecord, expect: str | None) -> tuple[str, ...]:
    """Return a finding if the record does not have the expected fingerprint."""
    fingerprint = record.chain.fingerprint
    if expect is None or "".join(expect.split()).replace("-", "").lower() == fingerprint:
        return ()
    return (f"the fingerprint is {fingerprint or 'lost'}, {expect.strip()} was expected",)


async def _check(outcome: CallOutcome, run: Callable[[], Any]) -> CellCheck:
    status = cell_data(outcome).status
    if status in _NEVER_SAME:
        return CellCheck(number=outcome.number, verdict="not repeated", why=f"it was {status} the first time")
    result: CellResult = await run()
    why = describe_difference(outcome, result)
    return CellCheck(number=outcome.number, verdict="differs" if why else "same", why=why)


def describe_difference(outcome: CallOutcome, result: CellResult) -> str:
    """Describe the difference between a cell's result and the recorded one; "" if they are equal."""
    data = cell_data(outcome)
    if (result.status == "ok") != (data.status == "ok"):
        return f"it ended with {result.status}, the first time with {data.status}"
    kept = [part.data for part in outcome.result.parts if isinstance(part, ImagePart)]
    if len(kept) != len(result.images):
        return f"{len(result.images)} images, the first time {len(kept)}"
    for number, (before, now) in enumerate(zip(kept, result.images, strict=True), start=1):
        difference = _image_difference(before, now.png)
        if difference > MAX_PIXEL_DIFFERENCE:
            return f"image {number} differs by {difference:.1f} levels on average"
    before_text, now_text = _comparable(data.text), _comparable(result.text)
    return "" if before_text == now_text else f"the text differs: {_first_difference(before_text, now_text)}"


def _comparable(text: str) -> str:
    """Remove memory addresses and trailing blanks, which differ between runs."""
    return "\n".join(line.rstrip() for line in _ADDRESS.sub("0x...", text).strip().splitlines())


def _first_difference(before: str, now: str) -> str:
    lines = zip(before.splitlines() + [""] * 9999, now.splitlines() + [""] * 9999, strict=False)
    first = next(((old, new) for old, new in lines if old != new), ("", ""))
    return f"{first[0][:120]!r} became {first[1][:120]!r}"


def _image_difference(before: bytes, now: bytes) -> float:
    """Return the mean difference in levels; infinite for images of different size, and for invalid images."""
    import numpy as np

    if before == now:
        return 0.0
    first, second = decode_image(before), decode_image(now)
    if first is None or second is None or first.shape != second.shape:
        return float("inf")
    return float(np.abs(first.astype(np.int16) - second).mean())


def _verification(record: RunRecord, checks: Sequence[CellCheck], findings: tuple[str, ...]) -> Verification:
    same = {check.number for check in checks if check.verdict == "same"}
    words = [exchange.answer_text for exchange in record.exchanges]
    cited = [claim for text in words for claim in find_claims(text, record.tool_steps) if claim.citations]
    reproduced = [
        claim for claim in cited if claim.is_supported and all(citation.number in same for citation in claim.citations)
    ]
    return Verification(
        cells=tuple(checks),
        num_claims=len(cited),
        num_reproduced=len(reproduced),
        has_answer=any(words),
        findings=findings,
        chain=record.chain.status,
        fingerprint=record.chain.fingerprint,
    )


def find_edits(record: RunRecord, derived: Mapping[str, JsonMapping]) -> tuple[str, ...]:
    """Return descriptions of changes since the run ended, and of files that only an answer names."""
    finders: tuple[Callable[[], Iterator[str]], ...] = (
        lambda: _of_chain(record),
        lambda: _of_answer(record),
        lambda: _of_named_files(record),
        lambda: _of_calls(record),
        lambda: _of_images(record),
        lambda: _of_derived(record, derived),
        lambda: changed_files(record.run_dir, record.sealed) if record.sealed else iter(()),
    )
    return tuple(text for finder in finders for text in _first(finder()))


def _first(findings: Iterator[str]) -> Iterator[str]:
    for position, text in enumerate(findings):
        if position == MAX_REPORTED:
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
    """Check that the recorded answer is the text of the last reply, or the JSON in it."""
    for exchange in record.exchanges:
        answer = exchange.result.end.answer if exchange.result else None
        if (
            answer is not None
            and answer != exchange.answer_text.strip()
            and not _is_json_in(answer, exchange.answer_text)
        ):
            suffix = "" if exchange is record.exchanges[-1] else f" to {exchange.words[:60]!r}"
            yield f"the answer{suffix} at the end of the record is not what the model's last reply says"


def _is_json_in(answer: str, content: str) -> bool:
    try:
        return bool(read_json(answer) in read_text_answer(content))
    except ValueError:
        return False


def _of_named_files(record: RunRecord) -> Iterator[str]:
    """Yield a finding for each file that an answer names and the run does not have."""
    questions = [exchange.question for exchange in record.exchanges]
    for exchange in record.exchanges:
        text = exchange.answer_text
        for name in find_invented_files(text, record.tool_steps, questions, record.run_dir / FILES):
            yield f"the answer names the file {name}, which the run does not have"


def _of_calls(record: RunRecord) -> Iterator[str]:
    number = 0
    for step in record.tool_steps:
        if step.outcomes and [outcome.call for outcome in step.outcomes] != list(step.reply.tool_calls):
            yield f"the calls of step {step.index} are not those of the model's reply"
        for outcome in step.outcomes:
            if outcome.number != number:
                yield f"call {outcome.number} was found where call {number} was expected"
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
    """Return the code that a call requests to run, for tools that take it as one text."""
    name = {"ipython": "code", "shell": "command"}.get(outcome.call.name)
    if name is None:
        return None
    code = (read_object(outcome.call.arguments, strict=False) or {}).get(name)
    return code if isinstance(code, str) else None


def _of_images(record: RunRecord) -> Iterator[str]:
    """Find images that no line of the record names; loading has checked the hashes of the others."""
    known = {f"{sha256_of(part.data)}.png" for part in _parts(record) if isinstance(part, ImagePart)}
    try:
        names = sorted(os.listdir(record.run_dir / IMAGES))  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if name not in known and not (name.startswith(".") and name.endswith(".part")):
            yield f"{IMAGES}/{name} is in no line of the record"


def _parts(record: RunRecord) -> Iterator[Any]:
    for exchange in record.exchanges:
        yield from exchange.question
    for outcome in record.call_outcomes:
        yield from outcome.result.parts


def _of_derived(record: RunRecord, derived: Mapping[str, JsonMapping]) -> Iterator[str]:
    """Check that derived files match the record; not for earlier versions, which derived them differently."""
    if record.chain.status == "none":
        return
    for name, expected in derived.items():
        try:
            stored = read_json(read_inside(record.run_dir, name, max_bytes=MAX_DERIVED_BYTES))
        except (OSError, ValueError, TrajectoryError) as error:
            yield f"{name} cannot be read: {error}"
            continue
        plain = json.loads(json.dumps(expected, default=str))
        if not isinstance(stored, dict) or any(
            stored.get(key) != value for key, value in plain.items() if key not in _NEVER_CHECKED
        ):
            yield f"{name} does not say what the record says"
