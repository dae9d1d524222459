"""Entry point of `cua` and `k25`: commands are loaded when they are called, so `--help` is quick."""

import sys
from typing import Annotated

import typer

from apps.cli import config, demo, doctor, runs, task

HELP = """A computer-use agent: give it an instruction, it works a browser or a desktop.

    cua task "Click the second Delete, then click OK" --url https://example.com

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

        typer.echo(f"cua-k25 {version('cua-k25')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("task")(task.task)
app.command("demo")(demo.demo)
app.command("runs")(runs.runs)
app.command("replay")(runs.replay)
app.command("report")(runs.report)
app.command("export")(runs.export)
app.command("setup")(doctor.setup)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")


def main() -> None:
    """Run the command line; an error that the user can mend is one line on stderr, never a traceback."""
    from cua.errors import CuaError, ModelError
    from envs import EnvError

    try:
        app()
    except CuaError as error:
        retryable = isinstance(error, ModelError) and error.retryable
        typer.echo(f"cua: {error}", err=True)
        sys.exit(75 if retryable else 2)
    except EnvError as error:
        typer.echo(f"cua: {error}", err=True)
        sys.exit(75)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


if __name__ == "__main__":
    main()
