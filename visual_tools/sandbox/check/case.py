"""What a check is, and how one is written down."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from visual_tools.sandbox.check.scene import Scene

Kind = Literal["attack", "behaviour", "limit"]
"""Gets out or at something; does what the contract says; stays within what a kernel may use."""

Place = Literal["shared", "own", "alone"]
"""On the kernel that all gentle checks share; on kernels of its own; and nothing else may run meanwhile."""

Judge = Callable[["Scene"], Awaitable[str | None]]


class Breach(Exception):
    """The sandbox did not pass the check; the text says what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that every sandbox must stand.

    Attributes:
        name: What holds when it passes, a sentence.
        kind: Attack, behaviour or limit.
        place: Where it may run.
        judge: Tries it; returns a detail worth telling, raises `Breach` when the sandbox does not pass.
    """

    name: str
    kind: Kind
    place: Place
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """How a check ended.

    Attributes:
        name: What holds when it passes.
        kind: Attack, behaviour or limit.
        passed: Whether it holds.
        detail: What refused the attack, or what happened instead.
        duration_s: Seconds.
    """

    name: str
    kind: Kind
    passed: bool
    detail: str = ""
    duration_s: float = 0.0


def check(kind: Kind, name: str, *, place: Place = "shared") -> Callable[[Judge], Check]:
    """Make a check of a function that judges."""
    return lambda judge: Check(name=name, kind=kind, place=place, judge=judge)


def cell_attack(name: str, cell: str, *, at_least: int = 1) -> Check:
    """An attack that is over with one cell: everything that it attempts must be refused.

    Args:
        name: What holds when it passes.
        cell: Code that calls `attempt`, see `prelude`.
        at_least: How many attempts it must have made; fewer are a failure of the check.
    """

    async def judge(scene: "Scene") -> str:
        return (await scene.attempt(cell, at_least=at_least)).why_refused()

    return Check(name=name, kind="attack", place="shared", judge=judge)
