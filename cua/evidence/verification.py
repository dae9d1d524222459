"""What came of checking a run: its cells run again, and what was changed in its folder."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from cua.trajectory.chain import ChainStatus

CellVerdict = Literal["same", "differs", "not repeated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCheck:
    """One cell, run again.

    Attributes:
        number: The tool call.
        verdict: `not repeated` for cells that were cut off or lost their kernel the first time.
        why: What differs.
    """

    number: int
    verdict: CellVerdict
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of running a run again.

    Attributes:
        cells: One for each call that ran something.
        num_claims: Statements of the answer that cite results.
        num_reproduced: Those of them whose every cited result exists and came out the same.
        has_answer: Whether there is an answer; then it must cite something.
        findings: What was changed since the run ended, in words.
        chain: Whether the lines of the record follow from each other; `none` in records of earlier versions.
        fingerprint: Of the record.
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
        """Whether nothing was changed, nothing differs, and every claim's evidence was repeated."""
        is_same = all(cell.verdict != "differs" for cell in self.cells)
        is_cited = self.num_claims > 0 or not self.has_answer
        return is_same and is_cited and self.num_claims == self.num_reproduced and not self.findings

    def to_json(self) -> dict[str, Any]:
        """As it stands in `answer.json`."""
        return {"is_reproduced": self.is_reproduced, **asdict(self)}
