"""The nearest valid choice, for error texts."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Name the closest valid choice and all of them.

    Args:
        name: What was given.
        choices: What would have been valid.

    Returns:
        A clause to append to an error text, with a leading space; empty when there are no choices.
    """
    known = sorted(set(choices))
    if not known:
        return ""
    by_lower = {choice.lower(): choice for choice in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    guess = f" Did you mean {by_lower[close[0]]!r}?" if close else ""
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return f"{guess} Known: {shown}."
