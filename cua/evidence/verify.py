"""Runs the cells of a run again in a fresh kernel and compares what comes out."""

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cua.answer import find_claims
from cua.errors import ConfigError
from cua.evidence.bundle import CellCheck, Verification, derived_files
from cua.evidence.edits import find_edits
from cua.evidence.notebook import cell_data, repeating_code
from cua.evidence.recorded_inputs import lay_out
from cua.messages import ImagePart
from cua.pictures import decode_picture
from cua.step import CallOutcome
from cua.trajectory.load import load_run
from cua.trajectory.run_record import RunRecord
from visual_tools.sandbox import CellResult, KernelMaker

MAX_PIXEL_DIFFERENCE = 2.0
"""Mean difference of two pictures, in levels of 255, below which they count as equal: encoders and fonts wobble."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_NEVER_SAME = ("interrupted", "died")


async def verify_run(
    run_dir: Path,
    maker: KernelMaker,
    *,
    inputs: Sequence[Path] = (),
    expect: str | None = None,
    say: Callable[[CellCheck], None] = lambda check: None,
) -> Verification:
    """Look for what was changed, run every cell again on untouched copies of the inputs, compare text and pictures.

    Args:
        run_dir: The run's folder.
        maker: Makes the fresh kernel.
        inputs: Files that the run read where they lay and may be read there again; a record alone opens none.
        expect: The fingerprint that the record must have.
        say: Told each cell as it is done.

    Raises:
        ConfigError: It is no tool-using run, or its inputs are gone.
        TrajectoryError: The record cannot be read, or names files that are not the run's.
        SandboxError: No kernel can be had.
    """
    record = load_run(run_dir, images=None)
    if not record.is_tool_run:
        raise ConfigError(f"{run_dir.name} is no run of `cua ask`: it has no cells to run again")
    edits = await asyncio.to_thread(lambda: find_edits(record, derived_files(record)))
    with tempfile.TemporaryDirectory(prefix="k25-verify-") as folder:
        work_dir = Path(folder) / "files"
        laid_out = await asyncio.to_thread(lay_out, record, work_dir, inputs)
        kernel = await maker.make_kernel(work_dir, readable=laid_out.readable)
        try:
            checks = []
            for outcome in (outcome for step in record.tool_steps for outcome in step.outcomes):
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
    """A finding when the record's fingerprint is not the one that was demanded."""
    found = record.chain.fingerprint
    if expect is None or "".join(expect.split()).replace("-", "").lower() == found:
        return ()
    return (f"the fingerprint is {found or 'lost'}, {expect.strip()} was demanded",)


async def _check(outcome: CallOutcome, run: Callable[[], Any]) -> CellCheck:
    status = cell_data(outcome).status
    if status in _NEVER_SAME:
        return CellCheck(number=outcome.number, verdict="not repeated", why=f"it was {status} the first time")
    result: CellResult = await run()
    why = why_different(outcome, result)
    return CellCheck(number=outcome.number, verdict="differs" if why else "same", why=why)


def why_different(outcome: CallOutcome, result: CellResult) -> str:
    """In what a cell's result differs from the recorded one; "" when it is the same."""
    data = cell_data(outcome)
    if (result.status == "ok") != (data.status == "ok"):
        return f"it ended with {result.status}, the first time with {data.status}"
    kept = [part.data for part in outcome.result.parts if isinstance(part, ImagePart)]
    if len(kept) != len(result.images):
        return f"{len(result.images)} pictures, the first time {len(kept)}"
    for number, (before, now) in enumerate(zip(kept, result.images, strict=True), start=1):
        difference = _picture_difference(before, now.png)
        if difference > MAX_PIXEL_DIFFERENCE:
            return f"picture {number} differs by {difference:.1f} levels on average"
    before_text, now_text = _comparable(data.text), _comparable(result.text)
    return "" if before_text == now_text else f"the text differs: {_first_difference(before_text, now_text)}"


def _comparable(text: str) -> str:
    """Text without memory addresses and trailing blanks, which differ from run to run."""
    return "\n".join(line.rstrip() for line in _ADDRESS.sub("0x...", text).strip().splitlines())


def _first_difference(before: str, now: str) -> str:
    lines = zip(before.splitlines() + [""] * 9999, now.splitlines() + [""] * 9999, strict=False)
    first = next(((old, new) for old, new in lines if old != new), ("", ""))
    return f"{first[0][:120]!r} became {first[1][:120]!r}"


def _picture_difference(before: bytes, now: bytes) -> float:
    """Mean difference in levels; infinite for pictures of different size, and for what is none."""
    import numpy as np

    if before == now:
        return 0.0
    first, second = decode_picture(before), decode_picture(now)
    if first is None or second is None or first.shape != second.shape:
        return float("inf")
    return float(np.abs(first.astype(np.int16) - second).mean())


def _verification(record: RunRecord, checks: Sequence[CellCheck], findings: tuple[str, ...]) -> Verification:
    same = {check.number for check in checks if check.verdict == "same"}
    words = [turn.answer_text for turn in record.turns]
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
