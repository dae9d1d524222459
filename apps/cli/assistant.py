"""`cua assistant`: browser page for using the agent."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from apps.cli import common, terminal
from apps.cli.config import chosen_settings

Flag = typer.Option
FILE = "assistant.json"


def assistant(
    given: typer.Context,
    port: Annotated[
        int, Flag(metavar="PORT", min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 7860,
    host: Annotated[
        str, Flag(metavar="ADDRESS", help="Address to listen on; other than this machine needs --token-file.")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None, Flag(metavar="FILE", help="File with the access token.", show_default="a new random token")
    ] = None,
    allow_host: Annotated[
        list[str] | None, Flag(metavar="HOST", help="Further host name of this server; repeatable.")
    ] = None,
    browser: Annotated[bool, Flag("--browser/--no-browser", help="Open the page in the browser.")] = True,
    other: common.Other = None,
    model: common.EmbeddedModel = None,
    base_url: common.BaseUrl = None,
) -> None:
    """Open a web page to use the agent: instruct, watch, approve.

    The page also takes over mouse and keyboard, and shows recorded runs. It works without a key: the embedded model
    acts on a practice page. Access needs the token in the printed address.

        cua assistant --model kimi-k2.5 --base-url http://127.0.0.1:8000/v1
    """
    terminal.echo("Starting the assistant ...", err=True)  # what is imported below takes seconds
    import platformdirs

    from apps.assistant.preferences import Preferences, find_keyring
    from apps.assistant.server import ServeOptions, read_token, serve

    options = ServeOptions(
        host=host,
        port=port,
        token=read_token(token_file) if token_file is not None else None,
        hosts=tuple(allow_host or ()),
    )
    kept = platformdirs.user_state_path("k25", appauthor=False) / FILE
    preferences = Preferences(kept, chosen_settings(given), find_keyring())
    serve(options, preferences, tell=_print_address, open_browser=_open if browser and _has_browser() else None)


def _print_address(address: str) -> None:
    terminal.echo(f"The assistant is at {address}\nCtrl-C ends it.", err=True)


def _has_browser() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
