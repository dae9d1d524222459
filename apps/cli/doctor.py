"""`cua setup` and `cua doctor`: check what is installed on this machine and fix what is missing."""

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from apps.cli import common, terminal

if TYPE_CHECKING:
    from apps.evals.request import EvalRequest
    from apps.setup.report import SetupReport


def setup(
    suites: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUITE",
            help="Suites of tasks to install: miniwob, apps, webarena-lite, osworld-local, "
            "osworld-local-minimal, osworld-evaluators, office.",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser", help="Install a browser.", show_default="yes, unless only office is named"
        ),
    ] = None,
    desktop: Annotated[
        bool | None,
        typer.Option("--desktop/--no-desktop", help="Install a virtual display.", show_default="yes without suites"),
    ] = None,
    sandbox: Annotated[
        bool | None,
        typer.Option(
            "--sandbox/--no-sandbox",
            help="Install an isolation for code.",
            show_default="yes without suites, and for office",
        ),
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Install what is missing: browser, display, sandbox, suites.

    Nothing that works already is replaced. Each choice is printed with its reason, and so is the exact command where
    setup may not run it. Named suites are installed with the browser that they need.

        cua setup
        cua setup miniwob office
    """
    from apps.setup.install import run_setup

    is_all = not suites
    desktop = is_all if desktop is None else desktop
    sandbox = is_all or "office" in (suites or ()) if sandbox is None else sandbox
    browser = suites != ["office"] if browser is None else browser
    work = run_setup(terminal.echo_err, browser=browser, desktop=desktop, sandbox=sandbox, suites=suites or ())
    _report_and_exit(work, as_json)


def doctor(
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="Model whose endpoint is tested.")
    ] = None,
    click_test: Annotated[
        bool, typer.Option("--click-test", help="Also click drawn targets and print the error in pixels.")
    ] = False,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Only try to break out of the sandbox in force; about a minute.")
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Check the installation: browser, display, sandbox, model, disk.

    Also checks Python, OCR and the `cua` on PATH. Exit code 1 if a check fails.
    """
    from apps.setup.checks import run_sandbox_checks
    from apps.setup.doctor import run_doctor

    say = terminal.echo_err
    work = run_sandbox_checks(say) if sandbox else run_doctor(say, model=model, click_test=click_test)
    _report_and_exit(work, as_json)


def examine_suite(request: "EvalRequest", output_format: str) -> None:
    """Print what a run of `cua eval osworld` or `cua eval webarena` would find, and exit.

    Raises:
        typer.BadParameter: If it is another suite.
    """
    from functools import partial

    from apps.setup.doctor import run_osworld_doctor, run_webarena_doctor

    doctors: dict[str, Callable[..., Coroutine[object, object, SetupReport]]] = {
        "osworld": run_osworld_doctor,
        "webarena": run_webarena_doctor,
        "webarena-verified": partial(run_webarena_doctor, suite_name="webarena-verified"),
    }
    run = doctors.get(request.suite or "")
    if run is None:
        raise typer.BadParameter(
            "--doctor is for the suites osworld, webarena and webarena-verified; `cua doctor` looks at all else"
        )
    work = run(terminal.echo_err, request.suite_options, request.settings)
    _report_and_exit(work, as_json=output_format != "text")


def _report_and_exit(work: "Coroutine[object, object, SetupReport]", as_json: bool) -> NoReturn:
    from apps.cli.running import run_cancelled_by_signals

    report = run_cancelled_by_signals(work)
    terminal.echo(report.to_json() if as_json else report.to_text())
    sys.exit(report.exit_code)
