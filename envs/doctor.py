"""Findings of the checks that a suite or an environment makes of this machine."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that was looked at.

    Attributes:
        name: What it is, one or two words.
        level: `warn`: something optional will not work; `fail`: the main job will not.
        found: What is there.
        expected: What should be there; empty when it is.
        fix: The command that fixes it; empty when there is nothing to fix.
    """

    name: str
    level: Level
    found: str
    expected: str = ""
    fix: str = ""
