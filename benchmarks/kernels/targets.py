"""What the kernels are to reach, and what became of it in a run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.kernels.case import OURS, Row
from benchmarks.kernels.cost.moe import MAX_GEMV_TOKENS

MET, MISSED, NOT_MEASURED = "met", "missed", "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the targets' table.

    Attributes:
        text: The target in words.
        kernel: Of the rows it is about.
        variant: Of the rows; empty is any.
        sizes: The rows it needs, each by one number of its size.
        value: The figure of a row.
        least: What the worst row has to reach; for times `most` is set instead.
        most: What the worst row must not pass.
        unit: Of the figure.
        factor: From the row's figure to the unit.
    """

    text: str
    kernel: str
    variant: str
    sizes: tuple[tuple[str, int], ...]
    value: Callable[[Row], float | None]
    least: float | None = None
    most: float | None = None
    unit: str = "%"
    factor: float = 100.0

    def holds(self, row: Row) -> bool:
        """True if the target is about a row of ours."""
        is_mine = row.peer == OURS and row.kernel == self.kernel and self.variant in ("", row.variant)
        return is_mine and (not self.sizes or any(row.size.get(name) == number for name, number in self.sizes))

    def reach(self, row: Row) -> float | None:
        """Return the part of the target that a row reaches, from 1 on all of it; None without a figure."""
        figure = self.value(row)
        if not figure:
            return None
        return self.most / figure if self.most is not None else figure * self.factor / (self.least or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedTarget:
    """A kernel to tune: what `tune` takes for `--only` and `--tokens`, and the part of its target that it reaches."""

    kernel: str
    tokens: int | None
    reach: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOutcome:
    """What became of one target; `found` is the worst row's figure."""

    text: str
    state: str
    found: str


def _floor(text: str, kernel: str, variant: str, sizes: tuple[tuple[str, int], ...], least: float) -> Target:
    return Target(
        text=f"{text}: >= {least} % of the floor",
        kernel=kernel,
        variant=variant,
        sizes=sizes,
        value=lambda row: row.floor_share,
        least=least,
    )


def _speed(text: str, variant: str, sizes: tuple[tuple[str, int], ...], least: float) -> Target:
    return Target(
        text=f"{text}: >= {least:g} TFLOP/s",
        kernel="moe",
        variant=variant,
        sizes=sizes,
        value=lambda row: row.tflop_s,
        least=least,
        unit="TFLOP/s",
        factor=1.0,
    )


DECODE = (("tokens", 1), ("tokens", 8), ("tokens", 64))
PREFILL = (("tokens", 16384),)
LONG = (("context", 65536), ("context", 131072), ("context", 262144))


def _list_targets() -> Iterator[Target]:
    for suffix, what in (("", "experts"), (" layer", "whole layer")):
        for least in (50, 70):
            yield _floor(f"INT4 {what}, 1 to 64 tokens", "moe", f"int4{suffix}", DECODE, least)
        yield _floor(f"bf16 {what}, 1 to 64 tokens", "moe", f"bf16{suffix}", DECODE, 75)
        for least in (400, 500):
            yield _speed(f"bf16 {what}, 16,384 tokens", f"bf16{suffix}", PREFILL, least)
        for tokens in (4096, 16384):
            yield _speed(f"INT4 {what}, {tokens:,} tokens", f"int4{suffix}", (("tokens", tokens),), 300)
    for half in ("gate_up", "down"):
        yield _floor(f"INT4 {half} alone, 1 and 8 tokens", "moe_gemv_int4", half, DECODE[:2], 70)
    yield Target(
        text="router, 1 to 64 tokens: <= 5 us",
        kernel="router",
        variant="",
        sizes=DECODE,
        value=lambda row: row.us,
        most=5,
        unit="us",
        factor=1.0,
    )
    yield _floor("MLA decode, 64k to 256k", "mla_decode", "", LONG, 60)
    yield _floor("vision attention, a screenshot", "vision_attention", "1 screenshot", (), 50)


TARGETS = tuple(_list_targets())


def judge(rows: Sequence[Row], *, is_measurement: bool) -> list[TargetOutcome]:
    """All targets; nothing that is no measurement meets or misses any."""
    rows = rows if is_measurement else ()
    beaten = [_compare(rows, f"bf16{suffix}") for suffix in ("", " layer")]
    return [*(_judge_one(target, rows) for target in TARGETS), *beaten]


def _judge_one(target: Target, rows: Sequence[Row]) -> TargetOutcome:
    mine = [row for row in rows if target.holds(row) and row.us is not None]
    wanted = [[row for row in mine if row.size.get(name) == number] for name, number in target.sizes] or [mine]
    figures = [target.value(row) for some in wanted for row in some]
    known = [figure * target.factor for figure in figures if figure is not None]
    if not all(wanted) or not known:
        return TargetOutcome(text=target.text, state=NOT_MEASURED, found="")
    worst = max(known) if target.most is not None else min(known)
    is_met = worst <= target.most if target.most is not None else worst >= (target.least or 0)
    return TargetOutcome(text=target.text, state=MET if is_met else MISSED, found=f"{worst:.3g} {target.unit}")


def _compare(rows: Sequence[Row], variant: str) -> TargetOutcome:
    """Whether ours is at least as quick as grouped_mm at the longest prefill."""
    times: Mapping[str, float] = {
        row.peer: row.us
        for row in rows
        if row.kernel == "moe" and row.variant == variant and row.size.get("tokens") == 16384 and row.us is not None
    }
    text = f"{variant}, 16,384 tokens: no slower than torch's grouped_mm"
    if not {OURS, "grouped_mm"} <= times.keys():
        return TargetOutcome(text=text, state=NOT_MEASURED, found="")
    ratio = times[OURS] / times["grouped_mm"]
    return TargetOutcome(text=text, state=MET if ratio <= 1 else MISSED, found=f"{ratio:.2f} of its time")


def rank_missed(rows: Sequence[Row], measured: Collection[str]) -> list[MissedTarget]:
    """Return the kernels that miss a target and that tiles can help, the first one to tune first.

    Kernels whose tiles were never searched come first; then the smallest part of its target that a kernel reaches
    counts. Not ranked: the router, whose time is that of its launches (its search gained 2 %), and layers, which are
    made of the same kernels.

    Args:
        rows: Measured rows.
        measured: Names of the kernels whose tiles were searched before.
    """
    reached: dict[tuple[str, int | None], float] = {}
    for target in TARGETS:
        for row in filter(target.holds, rows):
            tuned, reach = _find_tuned(row), target.reach(row)
            if tuned is not None and reach is not None and reach < 1:
                reached[tuned] = min(reach, reached.get(tuned, reach))
    missed = [MissedTarget(kernel=kernel, tokens=tokens, reach=reach) for (kernel, tokens), reach in reached.items()]
    return sorted(missed, key=lambda one: (any(name.startswith(one.kernel) for name in measured), one.reach))


def _find_tuned(row: Row) -> tuple[str, int | None] | None:
    """Return the kernels behind a row as `tune` names them, and the number of tokens to time them at."""
    if row.kernel == "moe" and row.variant in ("int4", "bf16"):
        kind = "int4" if row.variant == "int4" else "dense"
        tokens = row.size["tokens"]
        return (f"moe_gemv_{kind}", None) if tokens <= MAX_GEMV_TOKENS else (f"moe_{kind}", tokens)
    if row.kernel == "moe_gemv_int4":
        return f"{row.kernel}.{row.variant}", None
    return (row.kernel, None) if row.kernel in ("mla_decode", "vision_attention") else None
