"""Outcome of a probe, and the report of all outcomes."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed", "not supported", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of one probe.

    Attributes:
        status: `failed` is a fault of the server; `inconclusive` means that the model did not do what the probe needs.
        text: One line: the observation, its meaning, and the remedy.
    """

    status: Status
    text: str


class ProbeEnded(Exception):
    """Exception that ends a probe early with its outcome."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.outcome = Outcome(status=status, text=text)


class NoResponse(ProbeEnded):
    """Exception for a server that did not answer: it refused, cut the connection, or was too slow."""

    def __init__(self, text: str) -> None:
        super().__init__("failed", text)


def ok(text: str) -> Outcome:
    """Return the outcome of a probe that passed."""
    return Outcome(status="ok", text=text)


def warning(text: str) -> Outcome:
    """Return the outcome of a probe that passed, but found something that will cause problems."""
    return Outcome(status="warning", text=text)


def failed(text: str) -> ProbeEnded:
    """Return the exception for a fault of the server."""
    return ProbeEnded("failed", text)


def inconclusive(text: str) -> ProbeEnded:
    """Return the exception for a model that did not do what the probe needs."""
    return ProbeEnded("inconclusive", text)


def not_supported(text: str) -> ProbeEnded:
    """Return the exception for a feature that the server reports as not supported."""
    return ProbeEnded("not supported", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport:
    """All outcomes, in the order of the probes."""

    url: str
    model: str
    outcomes: tuple[tuple[str, Outcome], ...]

    @property
    def exit_code(self) -> int:
        """Exit code: 1 if a probe failed, else 0."""
        return int(any(outcome.status == "failed" for _, outcome in self.outcomes))

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON-compatible values."""
        probes = [{"name": name, **asdict(outcome)} for name, outcome in self.outcomes]
        return {"url": self.url, "model": self.model, "is_good": not self.exit_code, "probes": probes}


def show_report(report: EndpointReport) -> str:
    """Format the report as a table; the last line has the counts."""
    names = max((len(name) for name, _ in report.outcomes), default=0)
    states = max((len(outcome.status) for _, outcome in report.outcomes), default=0)
    rows = [f"{name:<{names}}  {outcome.status:<{states}}  {outcome.text}" for name, outcome in report.outcomes]
    counts = Counter(outcome.status for _, outcome in report.outcomes)
    counted = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    return "\n".join([f"{report.model} at {report.url}", "", *rows, "", counted])
