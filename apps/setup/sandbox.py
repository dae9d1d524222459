"""What the doctor says about the sandbox: which backend is in force and why no better one, and whether it holds."""

import asyncio
import importlib.util
from collections.abc import Sequence
from dataclasses import replace

from apps.setup.command import Say
from apps.setup.packages import find_package_manager
from apps.setup.report import Level, Report, Row
from visual_tools.sandbox import BackendReport, Sandbox, describe_backends
from visual_tools.sandbox.check import CheckOutcome, check_sandbox

_INSTALL = "pip install 'cua-k25[sandbox]'"


def _install_line() -> str:
    manager = find_package_manager()
    return manager.manual_command(("bubblewrap",)) if manager else "install bubblewrap"


def find_backend(reports: Sequence[BackendReport]) -> BackendReport | None:
    """The best backend that works and isolates; None when there is none."""
    return next((report for report in reports if report.works and report.backend != "none"), None)


def make_row(reports: Sequence[BackendReport]) -> Row:
    """One row: the backend in use, and why each better one is not."""
    best = find_backend(reports)
    failed = [f"{report.backend}: {report.reason}" for report in reports if not report.works]
    if best is None:
        found = "\n".join(["nothing here can isolate code: cua ask runs none", *failed])
        return Row(name="sandbox", level="warn", found=found, expected="bubblewrap or Landlock", fix=_install_line())
    better = [report for report in reports[: reports.index(best)] if not report.works]
    found = "\n".join(
        [f"{best.backend}: {best.reason}", *(f"not {report.backend}: {report.reason}" for report in better)]
    )
    if better:
        return Row(name="sandbox", level="warn", found=found, expected="bubblewrap", fix=_install_line())
    return Row(name="sandbox", level="ok", found=found)


def missing_packages() -> list[str]:
    """Packages without which no kernel can be made."""
    return [name for name in ("ipykernel", "jupyter_client", "zmq") if importlib.util.find_spec(name) is None]


def check_backends() -> Row:
    """Try what can isolate code on this machine; about a second."""
    if missing := missing_packages():
        found = f"not installed: {', '.join(missing)}; cua ask cannot run code"
        return Row(name="sandbox", level="warn", found=found, fix=_INSTALL)
    return make_row(describe_backends())


async def run_sandbox_checks(say: Say = print) -> Report:
    """Try to break out of the backend in force, to use up the machine, and to find it wanting; about a minute.

    Args:
        say: Gets one line for each check as it ends.

    Returns:
        A row for the backend, one for each check, and a last one that counts; `exit_code` is 1 when any failed.
    """
    reports = [] if missing_packages() else await asyncio.to_thread(describe_backends)
    row = make_row(reports) if reports else check_backends()
    best = find_backend(reports)
    if best is None:
        return Report(rows=(replace(row, level="fail"),))
    say(f"trying to break out of {best.backend}")
    outcomes = await check_sandbox(lambda: Sandbox.start(best.backend), say=say)
    return Report(rows=(row, *map(row_of, outcomes), count_row(outcomes)))


def row_of(outcome: CheckOutcome) -> Row:
    """A check as a row: how long it took, or what happened instead."""
    found = f"{outcome.duration_s:.1f} s" if outcome.passed else outcome.detail
    return Row(name=f"{outcome.kind}: {outcome.name}", level="ok" if outcome.passed else "fail", found=found)


def count_row(outcomes: Sequence[CheckOutcome]) -> Row:
    """How many checks held."""
    num_passed = sum(outcome.passed for outcome in outcomes)
    level: Level = "ok" if num_passed == len(outcomes) else "fail"
    return Row(name="all", level=level, found=f"{num_passed} of {len(outcomes)} hold")
