"""Entry point of `cua` and `k25`; commands are loaded when called, so that `--help` is fast."""

import signal
import sys
from typing import Annotated

import typer

from apps.cli import ask, assistant, config, doctor, office, runs, see, serve, swarm, task, terminal, train, video, web
from apps.cli import eval as eval_commands

HELP = """A computer-use and visual tool-use agent: it works a browser or a desktop, and answers questions about files.

\b
    cua task "Click the second Delete, then click OK" --url https://example.com
    cua ask "How many coins are there?" coins.png
    cua see count coins.png

Progress goes to stderr, the result to stdout. Exit codes: 0 succeeded or unverified, 1 failed,
2 wrong usage, 3 a limit was reached, 75 an error worth retrying, 130 stopped."""

app = typer.Typer(
    name="cua",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("task")(task.task)
app.command("ask")(ask.ask)
app.command("swarm")(swarm.swarm)
app.command("video")(video.video)
app.command("assistant")(assistant.assistant)
app.command("serve", help=serve.HELP)(serve.serve)
app.command("mcp")(serve.mcp)
app.command("train", help=train.HELP)(train.train)
app.command("demo")(task.demo)
app.command("runs")(runs.runs)
app.command("replay")(runs.replay)
app.command("report")(runs.report)
app.command("export")(runs.export)
app.command("setup")(doctor.setup)
app.command("doctor")(doctor.doctor)
app.add_typer(eval_commands.app, name="eval")
app.add_typer(see.app, name="see")
app.add_typer(web.app, name="web")
app.add_typer(office.app, name="office")
app.add_typer(config.app, name="config")


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
