"""The search for faster tiles: from the table's line on, one number at a time, as long as it gets quicker.

Lines of one file for the same tokens are searched together, since what they do depends on each other: their rows are
cut alike, so that `block_m` changes in all of them at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from benchmarks.kernels.table import Line

LIMITS = {
    "block_m": (16, 256),
    "block_n": (16, 256),
    "block_k": (16, 256),
    "num_warps": (1, 16),
    "num_stages": (1, 6),
    "split_k": (1, 64),
}
"""The least and the most of each number; stages go up by one, all else doubles."""

WIDEST = 4096
"""Of blocks that are wider already, since no matmul keeps them in registers."""

SHARED = "block_m"
"""Of the kernels of `SHARED_FILES`, which work on the same tiles of rows."""

SHARED_FILES = ("moe_dense", "moe_int4")
MIN_GAIN = 0.01
"""Less is noise."""

Judge = Callable[[Sequence[Line]], str | None]
"""Why lines cannot be shipped, by what the compiler makes of them; None: they can."""

Timer = Callable[[Sequence[Line]], float]
"""Microseconds with these lines; raises where they do not run or give a wrong result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Lines that are searched together.

    Attributes:
        file: The kernels' file.
        tokens: The most that the lines are for; with an open end, as many as are worth timing.
        lines: As the table has them.
        size: Of the case that times them.
    """

    file: str
    tokens: int
    lines: tuple[Line, ...]
    size: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.file}, {self.tokens} tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of one group: the quickest lines, and microseconds before and now."""

    lines: tuple[Line, ...]
    before_us: float
    us: float
    num_timed: int


def find_groups(lines: Sequence[Line], only: str, most_tokens: int, tokens: int | None = None) -> list[Group]:
    """Groups with a line whose kernel's name begins with `only`; an open end is timed at `most_tokens`.

    With `tokens`, only the lines that the kernels take for that number, timed at it.
    """

    def order(line: Line) -> tuple[str, float]:
        most = line["max_tokens"]
        return line["kernel"].split(".")[0], float("inf") if most is None else most

    groups: list[Group] = []
    for (file, most), some in groupby(sorted(lines, key=order), order):
        members = tuple(some)
        is_taken = tokens is None or (most >= tokens and not any(group.file == file for group in groups))
        if is_taken and any(line["kernel"].startswith(only) for line in members):
            groups.append(Group(file=file, tokens=tokens or int(min(most, most_tokens)), lines=members))
    return groups


def list_neighbours(lines: Sequence[Line], only: str = "") -> Iterator[tuple[Line, ...]]:
    """Everything that is one step away; lines whose kernel does not begin with `only` change with others at most."""
    has_shared = lines[0]["kernel"].split(".")[0] in SHARED_FILES
    if has_shared:
        for value in _steps(SHARED, max(line[SHARED] for line in lines if SHARED in line)):
            yield tuple({**line, SHARED: value} if SHARED in line else line for line in lines)
    for place, line in enumerate(lines):
        if not line["kernel"].startswith(only):
            continue
        for name in LIMITS:
            if name in line and not (has_shared and name == SHARED):
                for value in _steps(name, line[name]):
                    yield (*lines[:place], {**line, name: value}, *lines[place + 1 :])


def _steps(name: str, value: int) -> list[int]:
    low, high = LIMITS[name]
    high = high if value <= high else WIDEST
    around = (value - 1, value + 1) if name == "num_stages" else (value // 2, value * 2)
    return [step for step in around if low <= step <= high]


def search(
    group: Group,
    judge: Judge,
    timer: Timer,
    seconds_left: Callable[[], float],
    *,
    only: str = "",
    emit: Callable[[str], None] = lambda _: None,
) -> Found:
    """The quickest lines that can be reached from the table's.

    Args:
        group: Where to begin; its lines must run.
        judge: Asked first, since compiling is cheaper than a broken run.
        timer: Times what the judge lets pass.
        seconds_left: The search ends when none are.
        only: Kernels whose lines may change.
        emit: Is told each try.
    """
    best, best_us = group.lines, timer(group.lines)
    before_us, seen, num_timed = best_us, {_freeze(best)}, 1
    emit(f"{group.name}: {best_us:.1f} us as it is")
    is_better = True
    while is_better:
        is_better, centre = False, best
        for lines in list_neighbours(centre, only):
            if _freeze(lines) in seen:
                continue
            if seconds_left() <= 0:
                return Found(lines=best, before_us=before_us, us=best_us, num_timed=num_timed)
            seen.add(_freeze(lines))
            us = _try(lines, centre, judge, timer, emit)
            num_timed += us is not None
            if us is not None and us < best_us * (1 - MIN_GAIN):
                best, best_us, is_better = lines, us, True
    return Found(lines=best, before_us=before_us, us=best_us, num_timed=num_timed)


def _try(
    lines: Sequence[Line], centre: Sequence[Line], judge: Judge, timer: Timer, emit: Callable[[str], None]
) -> float | None:
    change = describe_change(centre, lines)
    if reason := judge(lines):
        emit(f"  {change}: not tried, {reason}")
        return None
    try:
        us = timer(lines)
    except Exception as error:
        emit(f"  {change}: {type(error).__name__}: {' '.join(str(error).split())[:120]}")
        return None
    emit(f"  {change}: {us:.1f} us")
    return us


def describe_change(before: Sequence[Line], now: Sequence[Line]) -> str:
    """The numbers that differ."""
    parts = [
        f"{line['kernel']} {name} {old[name]} -> {line[name]}"
        for old, line in zip(before, now, strict=True)
        for name in LIMITS
        if old.get(name) != line.get(name)
    ]
    return ", ".join(parts) or "no change"


def mark(group: Group, found: Found, measured: Mapping[str, Any], only: str) -> list[dict[str, Any]]:
    """The lines to write: those that were searched, and those that changed along with them."""
    times = {"us": round(found.us, 2), "before_us": round(found.before_us, 2)}
    figures = {**measured, "size": dict(group.size), **times}
    return [
        {**line, "measured": figures}
        for before, line in zip(group.lines, found.lines, strict=True)
        if line["kernel"].startswith(only) or line != before
    ]


def _freeze(lines: Sequence[Line]) -> tuple[Any, ...]:
    return tuple(tuple(line.get(name) for name in LIMITS) for line in lines)
