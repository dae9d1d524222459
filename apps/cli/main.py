"""Entry point of `cua` and `k25`; commands are loaded when called, so that `--help` is fast."""

import signal
import sys
from typing import Annotated

import typer

from apps.cli import (
    ask,
    assistant,
    config,
    doctor,
    office,
    rollout,
    runs,
    see,
    serve,
    swarm,
    task,
    terminal,
    train,
    video,
    web,
)
from apps.cli import eval as eval_commands
from apps.cli.help_page import App

HELP = """Use a browser or a desktop with an agent, and ask questions about files.

    cua task "Click the second Delete, then click OK" --url https://example.com
    cua ask "How many coins are there?" coins.png --model kimi-k2.5
    cua see count coins.png

`cua COMMAND --help` describes a command. Progress goes to stderr, the result to stdout. Exit codes: 0 succeeded or
unverified, 1 failed, 2 wrong usage, 3 a limit was reached, 75 an error worth retrying, 130 stopped."""

app = App(
    name="cua",
    help=HELP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        terminal.echo(f"cua-k25 {version('cua-k25')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_COMMANDS: dict[str, dict[str, object]] = {
    "Run": {
        "task": task.task,
        "assistant": assistant.assistant,
        "web": web.app,
        "office": office.app,
        "demo": task.demo,
    },
    "Ask": {"ask": ask.ask, "video": video.video, "swarm": swarm.swarm, "see": see.app},
    "Train and evaluate": {"train": train.train, "eval": eval_commands.app, "rollout": rollout.app},
    "Serve": {"serve": serve.serve, "mcp": serve.mcp},
    "Recorded runs": {"runs": runs.runs, "replay": runs.replay, "report": runs.report, "export": runs.export},
    "Manage": {"setup": doctor.setup, "doctor": doctor.doctor, "config": config.app},
}
"""Commands and groups of commands, by their section of the help page."""

for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, App):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_command)


def main() -> None:
    """Run the command line; an error that the user can fix is printed as one line on stderr, without traceback."""
    terminal.clean_stderr()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a run connects its own handler, Ctrl-C ends the process
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        from apps.cli.running import exit_code_of

        code = exit_code_of(error)
        if code is None:
            raise
        terminal.echo(f"cua: {error}", err=True)
        sys.exit(code)


if __name__ == "__main__":
    main()
