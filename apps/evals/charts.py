"""Histograms of the episodes of an evaluation, as plain values that a page lays out."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from apps.evals.statistics import is_success
from cua.batch import EpisodeResult
from cua.trajectory.describe import describe_duration

_MAX_BARS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a bar, in percent from the top."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of a histogram, in percent of its width."""

    x: float
    width: float
    label: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A histogram."""

    title: str
    summary: str
    low: str
    high: str
    bars: tuple[Bar, ...]


def make_charts(results: Sequence[EpisodeResult]) -> Iterator[Chart]:
    """How many steps and how much time the episodes took; nothing without any."""
    if results:
        yield _histogram(
            "Steps of an episode", results, lambda one: float(one.num_steps), lambda value: f"{value:.0f}", 1
        )
        yield _histogram("Time of an episode", results, lambda one: one.duration_s, describe_duration, 0)


def _histogram(
    title: str,
    results: Sequence[EpisodeResult],
    value_of: Callable[[EpisodeResult], float],
    describe: Callable[[float], str],
    least_width: float,
) -> Chart:
    """Bars from 0 to the largest value, each split by outcome."""
    values = [value_of(one) for one in results]
    most = max(values)
    num_bars = max(1, min(_MAX_BARS, int(most) + 1) if least_width else _MAX_BARS)
    width = max((most + least_width) / num_bars, 1e-9)
    counts: list[Counter[str]] = [Counter() for _ in range(num_bars)]
    for one, value in zip(results, values, strict=True):
        kind = "err" if one.score is None else "good" if is_success(one.score) else "part"
        counts[min(num_bars - 1, int(value / width))][kind] += 1
    tallest = max(sum(count.values()) for count in counts)
    bars = [
        Bar(
            x=100 * place / num_bars,
            width=100 / num_bars,
            label=f"{describe(place * width)} to {describe((place + 1) * width)}: {sum(count.values())} episodes",
            pieces=tuple(_pieces(count, tallest)),
        )
        for place, count in enumerate(counts)
    ]
    summary = f"median {describe(median(values))}, longest {describe(most)}"
    return Chart(title=title, summary=summary, low=describe(0.0), high=describe(num_bars * width), bars=tuple(bars))


def _pieces(count: Counter[str], tallest: int) -> Iterator[Piece]:
    top = 100.0
    for kind in ("good", "part", "err"):
        if count[kind]:
            height = 100 * count[kind] / tallest
            top -= height
            yield Piece(kind=kind, y=top, height=height)
