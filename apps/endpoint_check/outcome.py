"""What a probe found, and the report of all of them."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "warning", "failed", "not supported", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one probe found.

    Attributes:
        status: `failed` is a fault of serving; `inconclusive` means that the model did not do what the probe needs.
        text: One line: what was seen, what it means, what to do.
    """

    status: Status
    text: str


class Ended(Exception):
    """Ends a probe early with its outcome."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.outcome = Outcome(status=status, text=text)


class NoAnswer(Ended):
    """The server did not answer at all: refused, cut off, or too slow."""

    def __init__(self, text: str) -> None:
        super().__init__("failed", text)


def ok(text: str) -> Outcome:
    """It works as it should."""
    return Outcome(status="ok", text=text)


def warning(text: str) -> Outcome:
    """It works, but something will bite."""
    return Outcome(status="warning", text=text)


def failed(text: str) -> Ended:
    """A fault of serving; to be raised."""
    return Ended("failed", text)


def inconclusive(text: str) -> Ended:
    """The model did not do what the probe needs; to be raised."""
    return Ended("inconclusive", text)


def not_supported(text: str) -> Ended:
    """The server says that it does not do this; to be raised."""
    return Ended("not supported", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All outcomes, in the order of the probes."""

    url: str
    model: str
    outcomes: tuple[tuple[str, Outcome], ...]

    @property
    def exit_code(self) -> int:
        """1 when a probe failed."""
        return int(any(outcome.status == "failed" for _, outcome in self.outcomes))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        probes = [{"name": name, **asdict(outcome)} for name, outcome in self.outcomes]
        return {"url": self.url, "model": self.model, "is_good": not self.exit_code, "probes": probes}


def show_report(report: Report) -> str:
    """The report as a table with a last line that counts."""
    names = max((len(name) for name, _ in report.outcomes), default=0)
    states = max((len(outcome.status) for _, outcome in report.outcomes), default=0)
    rows = [f"{name:<{names}}  {outcome.status:<{states}}  {outcome.text}" for name, outcome in report.outcomes]
    counts = Counter(outcome.status for _, outcome in report.outcomes)
    counted = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    return "\n".join([f"{report.model} at {report.url}", "", *rows, "", counted])
