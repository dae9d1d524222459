"""Values of flags that come from a short list."""

from collections.abc import Sequence

import typer

from envs.errors import did_you_mean


def choice(flag: str, value: str, options: Sequence[str]) -> str:
    """The value, when it is one of the options.

    Raises:
        typer.BadParameter: It is not; the text names the nearest one.
    """
    if value in options:
        return value
    expected = f"expected one of {', '.join(options)}{did_you_mean(value, options)}"
    raise typer.BadParameter(f"{flag} is {value!r}, {expected}")
