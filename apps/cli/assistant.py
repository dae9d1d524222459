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
    port: Annotated[int, Flag(min=0, max=65535, help="Port to listen on; 0 for one that is free.")] = 7860,
    host: Annotated[str, Flag(help="Address to listen on; beyond this machine it needs --token-file.")] = "127.0.0.1",
    token_file: Annotated[Path | None, Flag(help="File with the token that lets people in.")] = None,
    allow_host: Annotated[list[str] | None, Flag(help="Further name under which it is reached; repeat.")] = None,
    browser: Annotated[bool, Flag("--browser/--no-browser", help="Open the page in the browser.")] = True,
    model: Annotated[str | None, Flag("--model", "-m", help="literal or nano (both run here), or a model id.")] = None,
    base_url: common.BaseUrl = None,
    other: common.Other = None,
) -> None:
    """Open a page on this machine: enter an instruction, watch the screen, approve, take over, review runs.

    Works at once with the embedded model on a practice page. Access needs the token in the printed address.
    """
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
    serve(options, preferences, tell=_tell, open_browser=_open if browser and _has_browser() else None)


def _tell(address: str) -> None:
    terminal.echo(f"The assistant is at {address}\nCtrl-C ends it.", err=True)


def _has_browser() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
