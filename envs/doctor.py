"""Results of the checks that a suite or an environment runs on this machine."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorRow:
    """Result of one check.

    Attributes:
        name: Name of the check, one or two words.
        level: `warn`: something optional will not work; `fail`: the main function will not.
        actual: State of this machine.
        expected: Expected state; empty if `actual` is right.
        fix: Command that fixes it; empty if there is nothing to fix.
    """

    name: str
    level: Level
    actual: str
    expected: str = ""
    fix: str = ""
