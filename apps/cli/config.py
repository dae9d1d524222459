"""`cua config`: show what is set, and by what."""

from typing import Annotated

import typer

from apps.cli import terminal

app = typer.Typer(help="Show the settings and where each one comes from.", no_args_is_help=True, rich_markup_mode=None)
SECRET = ("api_key", "password")


@app.command("show")
def show(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print each setting with its value and its source: flag > environment > k25.toml > user file > default."""
    from cua.config import load_settings, user_config_file
    from cua.config.load import FIELDS, PROJECT_FILE

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
