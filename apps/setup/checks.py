"""Checks of the doctor other than browser and display: interpreter, names, OCR, record, terminal, sandbox."""

import asyncio
import importlib.metadata
import importlib.util
import locale
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from apps.setup.command import Say
from apps.setup.packages import manual_command
from apps.setup.report import DoctorRow, Level, SetupReport
from apps.setup.verify import check_writable
from visual_tools.sandbox import Sandbox
from visual_tools.sandbox.backends import BackendReport, describe_backends
from visual_tools.sandbox.check.checks import check_sandbox
from visual_tools.sandbox.check.context import CheckOutcome

OUR_DISTRIBUTION = "cua-k25"
FOREIGN_DISTRIBUTIONS = ("cua", "cua-agent", "cua-computer", "cua-core", "cua-cli", "cua-som", "cua-bench")
"""Distributions of an unrelated project that is also named `cua`."""
OCR_MODULES = ("rapidocr", "onnxruntime", "cv2")
MIN_FREE_MB = 200  # a run with screenshots may not fit below this; below the next value a long one may not
GOOD_FREE_MB = 2000


def check_python() -> DoctorRow:
    """Check the interpreter, and whether it is in a virtual environment."""
    actual = f"Python {sys.version.split()[0]} at {sys.executable}"
    if sys.prefix == sys.base_prefix:
        return DoctorRow(
            name="python",
            level="warn",
            actual=f"{actual}, outside of a virtual environment",
            expected="a virtual environment",
            fix=f"python3 -m venv .venv && .venv/bin/pip install '{OUR_DISTRIBUTION}[all]'",
        )
    return DoctorRow(name="python", level="ok", actual=actual)


def check_command() -> DoctorRow:
    """Check which `cua` a shell would start, and whether it belongs to this project."""
    here = Path(sys.executable).parent
    first = shutil.which("cua")
    if first is None:
        own = here / "cua"
        actual = f"not on PATH; this one is {own}"
        return DoctorRow(name="cua on PATH", level="warn", actual=actual, fix=f'export PATH="{here}:$PATH"')
    if Path(first).resolve().parent == here.resolve():
        return DoctorRow(name="cua on PATH", level="ok", actual=first)
    owner = _owner_of(Path(first))
    return DoctorRow(
        name="cua on PATH",
        level="warn",
        actual=f"{first} comes first, and it is {owner}",
        expected=str(here / "cua"),
        fix=f'type k25 instead of cua, or: export PATH="{here}:$PATH"',
    )


def check_package() -> DoctorRow:
    """Check whether `import cua` imports this project, and whether a package with the same name is installed."""
    spec = importlib.util.find_spec("cua")
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    ours = Path(__file__).resolve().parents[2] / "cua" / "__init__.py"
    fix = "pip uninstall -y " + " ".join(FOREIGN_DISTRIBUTIONS[:4])
    if origin is None or origin.resolve() != ours:
        actual = f"import cua gets {origin or 'nothing with a file'}"
        return DoctorRow(name="cua package", level="fail", actual=actual, expected=str(ours), fix=fix)
    foreign = installed_namesakes()
    if foreign:
        actual = f"ours, but an unrelated project's {', '.join(foreign)} is also installed"
        expected = "each project in a virtual environment of its own"
        return DoctorRow(name="cua package", level="warn", actual=actual, expected=expected, fix=fix)
    return DoctorRow(
        name="cua package", level="ok", actual=f"{OUR_DISTRIBUTION} {_version(OUR_DISTRIBUTION)} at {ours.parent}"
    )


def installed_namesakes() -> tuple[str, ...]:
    """Return name and version of each installed distribution of the unrelated project."""
    return tuple(
        f"{name} {version}" for name in FOREIGN_DISTRIBUTIONS if (version := _version(name)) != "(not installed)"
    )


def check_ocr(*, is_needed: bool) -> DoctorRow:
    """Check whether the packages that read text from screenshots can be imported; the literal model needs them."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime fails during its import
    broken: list[str] = []
    for name in OCR_MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            broken.append(f"{name}: {error}")
    if not broken:
        versions = ", ".join(f"{name} {_version(name)}" for name in ("rapidocr", "onnxruntime"))
        return DoctorRow(name="ocr", level="ok", actual=versions)
    return DoctorRow(
        name="ocr",
        level="fail" if is_needed else "warn",
        actual="\n".join(broken),
        expected=f"{', '.join(OCR_MODULES)} import",
        fix=f"pip install '{OUR_DISTRIBUTION}[literal]'",
    )


def check_runs_folder(folder: Path) -> DoctorRow:
    """Check whether runs can be recorded, and the free disk space."""
    reason = check_writable(folder)
    if reason is not None:
        actual, fix = f"{folder}: {reason}", "export K25_RUNS_DIR=/a/folder/you/may/write"
        return DoctorRow(name="runs folder", level="fail", actual=actual, expected="a folder to write to", fix=fix)
    free_mb = shutil.disk_usage(folder).free // 2**20
    actual = f"{folder}, {free_mb:,} MB free"
    if free_mb >= GOOD_FREE_MB:
        return DoctorRow(name="runs folder", level="ok", actual=actual)
    level: Level = "warn" if free_mb >= MIN_FREE_MB else "fail"
    return DoctorRow(name="runs folder", level=level, actual=actual, expected=f"{GOOD_FREE_MB:,} MB free", fix="df -h")


def check_terminal() -> DoctorRow:
    """Check whether the terminal supports any text, and is interactive."""
    encoding = sys.stdout.encoding or locale.getpreferredencoding(False)
    kind = "a person can be asked" if sys.stdin.isatty() else "not interactive, so risky steps are refused"
    actual = f"{encoding}, {kind}"
    if encoding.lower().replace("-", "") != "utf8":
        return DoctorRow(
            name="terminal", level="warn", actual=actual, expected="utf-8", fix="export PYTHONUTF8=1 LC_ALL=C.UTF-8"
        )
    return DoctorRow(name="terminal", level="ok", actual=actual)


def check_clock() -> DoctorRow:
    """Check whether the clock is plausible: certificate checks fail if it is in the past."""
    now = datetime.now(UTC)
    newest = max((path.stat().st_mtime for path in Path(__file__).parent.glob("*.py")), default=0.0)
    actual = f"{now:%Y-%m-%d %H:%M} UTC"
    if time.time() + 86400 < newest:
        return DoctorRow(
            name="clock", level="warn", actual=actual, expected="later than this program's files", fix="date -s ..."
        )
    return DoctorRow(name="clock", level="ok", actual=actual)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _owner_of(script: Path) -> str:
    """Return the project that a console script belongs to, based on its text."""
    try:
        text = script.read_text("utf-8", errors="replace")[:2000]
    except OSError:
        return "of unknown origin"
    return f"{OUR_DISTRIBUTION} of another environment" if "apps.cli.main" in text else "another project's"


_INSTALL = "pip install 'cua-k25[sandbox]'"


def find_backend(reports: Sequence[BackendReport]) -> BackendReport | None:
    """Return the best backend that works and isolates; None if there is none."""
    return next((report for report in reports if report.works and report.backend != "none"), None)


def make_row(reports: Sequence[BackendReport]) -> DoctorRow:
    """Return one row: the backend in use, and why each better one is not used."""
    best, fix = find_backend(reports), manual_command("sandbox") or "install bubblewrap"
    failed = [f"{report.backend}: {report.reason}" for report in reports if not report.works]
    if best is None:
        actual = "\n".join(["nothing here can isolate code: cua ask runs none", *failed])
        return DoctorRow(name="sandbox", level="warn", actual=actual, expected="bubblewrap or Landlock", fix=fix)
    better = [report for report in reports[: reports.index(best)] if not report.works]
    actual = "\n".join(
        [f"{best.backend}: {best.reason}", *(f"not {report.backend}: {report.reason}" for report in better)]
    )
    if better:
        return DoctorRow(name="sandbox", level="warn", actual=actual, expected="bubblewrap", fix=fix)
    return DoctorRow(name="sandbox", level="ok", actual=actual)


def missing_packages() -> list[str]:
    """Return missing packages that every kernel needs."""
    return [name for name in ("ipykernel", "jupyter_client", "zmq") if importlib.util.find_spec(name) is None]


def check_backends() -> DoctorRow:
    """Test the isolation backends of this machine; takes about a second."""
    if missing := missing_packages():
        actual = f"not installed: {', '.join(missing)}; cua ask cannot run code"
        return DoctorRow(name="sandbox", level="warn", actual=actual, fix=_INSTALL)
    return make_row(describe_backends())


async def run_sandbox_checks(say: Say = print) -> SetupReport:
    """Test the current backend against escapes, resource exhaustion and other faults; takes about a minute.

    Args:
        say: Called with one line for each check as it ends.

    Returns:
        A row for the backend, one for each check, and a summary row; `exit_code` is 1 if any check failed.
    """
    reports = [] if missing_packages() else await asyncio.to_thread(describe_backends)
    row = make_row(reports) if reports else check_backends()
    best = find_backend(reports)
    if best is None:
        return SetupReport(rows=(replace(row, level="fail"),))
    say(f"trying to break out of {best.backend}")
    outcomes = await check_sandbox(lambda: Sandbox.start(best.backend), say=say)
    return SetupReport(rows=(row, *map(row_of, outcomes), count_row(outcomes)))


def row_of(outcome: CheckOutcome) -> DoctorRow:
    """Return the row of a check: its duration, or its failure."""
    actual = f"{outcome.duration_s:.1f} s" if outcome.passed else outcome.detail
    return DoctorRow(name=f"{outcome.kind}: {outcome.name}", level="ok" if outcome.passed else "fail", actual=actual)


def count_row(outcomes: Sequence[CheckOutcome]) -> DoctorRow:
    """Return the summary row: number of passed checks."""
    num_passed = sum(outcome.passed for outcome in outcomes)
    level: Level = "ok" if num_passed == len(outcomes) else "fail"
    return DoctorRow(name="all", level=level, actual=f"{num_passed} of {len(outcomes)} hold")
