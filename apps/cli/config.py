"""Settings from flags, and `cua config`, which shows each setting and its source."""

from collections.abc import Sequence
from typing import Any

import typer

from apps.cli import common, terminal
from apps.cli.help_page import App

_OTHER_NAMES = {"allow_domain": "allow_domains", "deny_domain": "deny_domains", "env_option": "env_options"}


def choice(flag: str, value: str, options: Sequence[str]) -> str:
    """Return the value if it is one of the options.

    Raises:
        typer.BadParameter: If it is not; the message names the nearest option.
    """
    from envs.errors import did_you_mean

    if value in options:
        return value
    expected = f"expected one of {', '.join(options)}{did_you_mean(value, options)}"
    raise typer.BadParameter(f"{flag} is {value!r}, {expected}")


def chosen_settings(context: typer.Context) -> dict[str, Any]:
    """Return the settings of the command line: flags with a setting's name, `--yolo`, and `--set`.

    Raises:
        typer.BadParameter: If a `--set` is not of the form NAME=VALUE.
    """
    from cua.config import FIELDS

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


app = App(help="Show the settings and their sources.")
SECRET = ("api_key", "password")


@app.command("show")
def show(as_json: common.AsJson = False) -> None:
    """Print each setting with its value and its source.

    Sources by priority: command line, environment (K25_NAME), k25.toml in the current folder, the user's config file,
    default.
    """
    from cua.config import FIELDS, PROJECT_FILE, load_settings, user_config_file

    resolved = load_settings()
    rows = [(name, _shown(name, getattr(resolved.settings, name)), resolved.sources[name]) for name in FIELDS]
    if as_json:
        terminal.echo_json({name: {"value": value, "source": source} for name, value, source in rows})
        return
    terminal.echo(f"# user file: {user_config_file()}\n# project file: {PROJECT_FILE} in the current folder\n")
    width, value_width = max(len(name) for name in FIELDS), max(len(str(value)) for _, value, _ in rows)
    for name, value, source in rows:
        about = FIELDS[name].metadata["about"]
        terminal.echo(f"{name:<{width}}  {value!s:<{value_width}}  {source:<10}  {about}")


def _shown(name: str, value: object) -> object:
    if name in SECRET and value:
        return "(set)"
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else value
