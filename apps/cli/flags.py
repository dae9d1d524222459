"""From flags to settings, and values of flags that come from a short list."""

from collections.abc import Sequence
from typing import Any

import typer

_OTHER_NAMES = {"allow_domain": "allow_domains", "deny_domain": "deny_domains", "env_option": "env_options"}


def choice(flag: str, value: str, options: Sequence[str]) -> str:
    """The value, when it is one of the options.

    Raises:
        typer.BadParameter: It is not; the text names the nearest one.
    """
    from envs.errors import did_you_mean

    if value in options:
        return value
    expected = f"expected one of {', '.join(options)}{did_you_mean(value, options)}"
    raise typer.BadParameter(f"{flag} is {value!r}, {expected}")


def chosen_settings(context: typer.Context) -> dict[str, Any]:
    """The settings that were given on the command line: flags that bear a setting's name, `--yolo`, and `--set`.

    Raises:
        typer.BadParameter: A `--set` is not of the form NAME=VALUE.
    """
    from cua.config.load import FIELDS

    given = {_OTHER_NAMES.get(name, name): value for name, value in context.params.items()}
    chosen = {name: value for name, value in given.items() if name in FIELDS and value not in (None, (), [])}
    if given.get("yolo"):
        chosen["approve"] = "yolo"
    pairs = given.get("other") or ()
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise typer.BadParameter(f"--set {wrong[0]!r} is not NAME=VALUE; `cua config show` lists the names")
    more = {name.strip(): value for name, _, value in (pair.partition("=") for pair in pairs)}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()} | more
