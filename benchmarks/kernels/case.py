"""A case: one operator at one size, with everybody who can do it; and the rows that come of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.kernels.cost.hardware import Work

Copy = tuple[Any, ...]
"""The arguments of one call."""

OURS = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Somebody who does what the case asks.

    Attributes:
        name: `ours`, or whose it is.
        make: Gives the function; what cannot be imported or built fails here, and its row says so.
        adapt: One copy of the case's inputs to the function's arguments, before timing.
        is_recorded: Whether it can go into a CUDA graph.
        is_checked: Whether its result is the operator's, so that the error means something.
        note: What a reader of the row has to know.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    adapt: Callable[..., Copy] = lambda *copy: copy
    is_recorded: bool = True
    is_checked: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a case needs in memory.

    Attributes:
        copies: The operator's arguments, several times with different values.
        work: The least of one call.
        error: How far a function is from float64; it gets a function from one copy to the result. None: not checked.
        is_cold: Whether the copies are more than the L2 cache holds.
    """

    copies: Sequence[Copy]
    work: Work
    error: Callable[[Callable[[Copy], Any]], float] | None = None
    is_cold: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operator at one size.

    Attributes:
        kernel: The operator, as in the table.
        variant: What kind of it, for example `int4`.
        size: Its numbers by name.
        peers: Who is timed, in this order.
        setup: Makes the inputs.
        shows_flops: Whether the figure is TFLOP/s instead of GB/s.
        needs_bytes: Memory that `setup` takes.
    """

    kernel: str
    variant: str
    size: Mapping[str, int]
    peers: Sequence[Peer]
    setup: Callable[[], Inputs]
    shows_flops: bool = False
    needs_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. Figures are None where there is none, and `note` says why.

    `is_wrong`: the result is not finite, or its check compared nothing; the run fails.
    """

    kernel: str
    variant: str
    peer: str
    size: Mapping[str, int] = field(default_factory=dict)
    us: float | None = None
    gb_s: float | None = None
    tflop_s: float | None = None
    floor_share: float | None = None
    error: float | None = None
    note: str = ""
    is_wrong: bool = False

    @property
    def key(self) -> tuple[str, str, tuple[tuple[str, int], ...]]:
        """What rows of the same case share."""
        return self.kernel, self.variant, tuple(self.size.items())
