"""Values of flags that come from a short list."""

import difflib
from collections.abc import Sequence

import typer


def choice(flag: str, value: str, options: Sequence[str]) -> str:
    """The value, when it is one of the options.

    Raises:
        typer.BadParameter: It is not; the text names the nearest one.
    """
    if value in options:
        return value
    near = difflib.get_close_matches(value, options, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise typer.BadParameter(f"{flag} is {value!r}, expected one of {', '.join(options)}{hint}")
