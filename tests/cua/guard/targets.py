"""Targets from the lines that describe them."""

import re

from envs import UNKNOWN_TARGET, Target

_LINE = re.compile(r'([^"]+?)(?: "(.*?)")?(?: -> (\S+))?')
_WINDOWS = ("window", "frame of window", "popup of")


def target_of(line: str | None) -> Target:
    """`button "Delete"`, `link "Next" -> https://...`, `window "Files"`; None is unknown."""
    found = _LINE.fullmatch(line) if line else None
    if not found:
        return UNKNOWN_TARGET
    names = (found[2],) if found[2] else ()
    return Target(role=found[1], names=names, url=found[3], is_element=found[1] not in _WINDOWS)
