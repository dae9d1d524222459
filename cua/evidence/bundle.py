"""Writes the evidence of a run next to its record, as `answer.json` and `notebook.ipynb`, and its verification."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cua.answer import Claim, find_claims
from cua.evidence.notebook import cell_data, code_of, make_notebook
from cua.evidence.recorded_inputs import listed_inputs
from cua.json_text import Json, JsonMapping
from cua.messages import ImagePart
from cua.run.end import End
from cua.step import CallOutcome
from cua.trajectory.chain import ChainStatus
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import FOLDER, sha256_of, write_atomically
from cua.trajectory.load import load_run
from cua.trajectory.run_record import RunRecord

CellVerdict = Literal["same", "differs", "not repeated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCheck:
    """Result of running one cell again.

    Attributes:
        number: Number of the tool call.
        verdict: `not repeated` for cells that were interrupted or lost their kernel in the original run.
        why: Description of the difference.
    """

    number: int
    verdict: CellVerdict
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of running a run again.

    Attributes:
        cells: One check for each call that ran code.
        num_claims: Number of statements of the answer that cite results.
        num_reproduced: Number of them whose cited results all exist and were reproduced.
        has_answer: True if there is an answer; then it must cite at least one result.
        findings: Descriptions of changes since the run ended.
        chain: Status of the hash chain of the record; `none` in records of earlier versions.
        fingerprint: Fingerprint of the record.
    """

    cells: tuple[CellCheck, ...]
    num_claims: int
    num_reproduced: int
    has_answer: bool = True
    findings: tuple[str, ...] = ()
    chain: ChainStatus = "none"
    fingerprint: str = ""

    @property
    def is_reproduced(self) -> bool:
        """True if nothing was changed, no cell differs, and the evidence of every claim was reproduced."""
        is_same = all(cell.verdict != "differs" for cell in self.cells)
        is_cited = self.num_claims > 0 or not self.has_answer
        return is_same and is_cited and self.num_claims == self.num_reproduced and not self.findings

    def to_json(self) -> Json:
        """Return the content for `answer.json`."""
        return {"is_reproduced": self.is_reproduced, **asdict(self)}


ANSWER = "answer.json"
NOTEBOOK = "notebook.ipynb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Files of the evidence and its claims."""

    answer_path: Path
    notebook_path: Path
    claims: tuple[Claim, ...]


def write_bundle(run_dir: Path, verification: Verification | None = None) -> Bundle:
    """Write the evidence of a tool-using run; can be repeated.

    Raises:
        TrajectoryError: If the record cannot be read, or a file cannot be written.
    """
    record = load_run(run_dir, images=None)
    claims = _claims(record)
    bundle = Bundle(answer_path=record.run_dir / ANSWER, notebook_path=record.run_dir / NOTEBOOK, claims=claims)
    with translate_os_errors("write", record.run_dir):
        write_atomically(bundle.notebook_path, _json(make_notebook(record)))
        write_atomically(bundle.answer_path, _json(_answer(record, claims, verification)))
    return bundle


def derived_files(record: RunRecord) -> Mapping[str, JsonMapping]:
    """Return the content of the evidence files for a record, by name."""
    return {ANSWER: _answer(record, _claims(record), None), NOTEBOOK: make_notebook(record)}


def _claims(record: RunRecord) -> tuple[Claim, ...]:
    return find_claims(record.exchanges[-1].answer_text, record.tool_steps) if record.exchanges else ()


def _earlier(record: RunRecord) -> JsonMapping:
    """Return the questions before the last one with their answers, if there are several."""
    earlier = [
        {
            "question": exchange.words,
            "answer": exchange.result.end.answer if exchange.result else None,
            "text": exchange.answer_text,
            "end": _end(exchange.result.end) if exchange.result else None,
            "claims": [_claim(claim, record) for claim in find_claims(exchange.answer_text, record.tool_steps)],
        }
        for exchange in record.exchanges[:-1]
    ]
    return {"earlier": earlier} if earlier else {}


def _end(end: End) -> Json:
    """Return the end of a run as JSON; empty fields of the task are left out, as in files of earlier versions."""
    return {
        name: value
        for name, value in asdict(end).items()
        if name not in ("claim", "num_unfinished", "other_scores", "info") or value
    }


def _answer(record: RunRecord, claims: Sequence[Claim], verification: Verification | None) -> Json:
    header, result = record.header, record.result
    return {
        "question": record.exchanges[-1].words if len(record.exchanges) > 1 else header.instruction,
        **_earlier(record),
        "answer": record.end.answer if record.end else None,
        "text": record.tool_steps[-1].reply.content if record.tool_steps else "",
        "end": _end(record.end) if record.end else None,
        "claims": [_claim(claim, record) for claim in claims],
        "fingerprint": record.chain.fingerprint if record.chain.status == "whole" else None,
        "verification": verification.to_json() if verification else None,
        "results": [_result(outcome) for outcome in record.call_outcomes],
        "notebook": NOTEBOOK,
        "inputs": list(listed_inputs(record)),
        "sandbox": header.env_options.get("sandbox"),
        "model": header.model,
        "steps": record.num_steps,
        "usage": asdict(record.usage),
        "duration_s": result.duration_s if result else None,
        "versions": dict(header.versions),
    }


def _claim(claim: Claim, record: RunRecord) -> Json:
    outcomes = {outcome.number: outcome for outcome in record.call_outcomes}
    return {
        "text": claim.text,
        "is_supported": claim.is_supported,
        "evidence": [
            {
                "mark": citation.mark,
                "call": citation.number,
                "exists": citation.exists,
                **_source_of(outcomes.get(citation.number), citation.image),
            }
            for citation in claim.citations
        ],
    }


def _source_of(outcome: CallOutcome | None, image: int | None) -> JsonMapping:
    if outcome is None:
        return {}
    images = _image_files(outcome)
    chosen = images if image is None else images[image - 1 : image]
    return {"tool": outcome.call.name, "cell": code_of(outcome), "pictures": chosen}


def _result(outcome: CallOutcome) -> Json:
    data = cell_data(outcome)
    return {
        "mark": f"[^{outcome.number}^]",
        "id": outcome.call.id,
        "tool": outcome.call.name,
        "is_error": outcome.result.is_error,
        "execution_count": data.execution_count,
        "text": outcome.result.text,
        "pictures": _image_files(outcome),
        "files_written": data.files_written,
        "duration_s": round(outcome.duration_s, 4),
    }


def _image_files(outcome: CallOutcome) -> list[str]:
    """Return the files of a result's images, relative to the run's folder."""
    return [f"{FOLDER}/{sha256_of(part.data)}.png" for part in outcome.result.parts if isinstance(part, ImagePart)]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str).encode("utf-8", "replace") + b"\n"
