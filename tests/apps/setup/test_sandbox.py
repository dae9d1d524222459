"""What the doctor says about the sandbox."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from apps.setup.checks import count_row, make_row, row_of, run_sandbox_checks
from apps.setup.report import DoctorRow
from tests.ordinary_user import ROOT, as_ordinary_user, find_obstacle
from visual_tools.sandbox.backends import BackendReport, describe_backends
from visual_tools.sandbox.check.checks import CHECKS
from visual_tools.sandbox.check.context import CheckOutcome

BEST = BackendReport("bubblewrap", True, "namespaces")
NO_BEST = BackendReport("bubblewrap", False, "not installed")
SECOND = BackendReport("landlock", True, "a filter")
NO_SECOND = BackendReport("landlock", False, "an old kernel")
NONE = BackendReport("none", True, "limits only")


def test_the_backend_in_force_is_a_row() -> None:
    assert make_row([BEST, NO_SECOND, NONE]) == DoctorRow(name="sandbox", level="ok", actual="bubblewrap: namespaces")


def test_a_second_best_backend_says_what_the_best_one_lacks() -> None:
    row = make_row([NO_BEST, SECOND, NONE])
    assert (row.level, row.actual) == ("warn", "landlock: a filter\nnot bubblewrap: not installed")
    assert "bubblewrap" in row.fix


def test_no_isolation_is_said_with_every_reason() -> None:
    row = make_row([NO_BEST, NO_SECOND, NONE])
    assert row.level == "warn"
    assert row.actual.splitlines() == [
        "nothing here can isolate code: cua ask runs none",
        "bubblewrap: not installed",
        "landlock: an old kernel",
    ]


def test_outcomes_become_rows() -> None:
    held = CheckOutcome(name="it holds", kind="attack", passed=True, detail="EPERM", duration_s=0.25)
    fell = CheckOutcome(name="it falls", kind="limit", passed=False, detail="400 processes", duration_s=2.0)
    assert row_of(held) == DoctorRow(name="attack: it holds", level="ok", actual="0.2 s")
    assert row_of(fell) == DoctorRow(name="limit: it falls", level="fail", actual="400 processes")
    assert count_row([held, fell]) == DoctorRow(name="all", level="fail", actual="1 of 2 hold")
    assert count_row([held]) == DoctorRow(name="all", level="ok", actual="1 of 1 hold")


@pytest.fixture
def backend() -> BackendReport:
    best = describe_backends()[0]
    if not best.works:
        pytest.skip(best.reason)
    return best


@pytest.mark.slow
async def test_everything_is_tried_on_this_machine(backend: BackendReport) -> None:
    said: list[str] = []
    report = await run_sandbox_checks(said.append)
    assert [row for row in report.rows if row.level != "ok"] == []
    assert [report.rows[0].name, report.rows[-1].actual] == ["sandbox", f"{len(CHECKS)} of {len(CHECKS)} hold"]
    assert (len(report.rows), len(said)) == (len(CHECKS) + 2, len(CHECKS) + 1)
    assert report.exit_code == 0


@pytest.mark.slow
def test_the_command_holds_as_an_ordinary_user(backend: BackendReport) -> None:
    if problem := find_obstacle():
        pytest.skip(problem)
    with tempfile.TemporaryDirectory(prefix="k") as name:
        home = Path(name) / "home"
        home.mkdir()
        Path(name).chmod(0o755)
        home.chmod(0o777)
        argv = [*as_ordinary_user(Path(name)), sys.executable, "-m", "apps.cli.main", "doctor", "--sandbox", "--json"]
        environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert [row for row in report["rows"] if row["level"] != "ok"] == []
    assert report["rows"][0]["found"].startswith("bubblewrap: ")
    assert report["rows"][-1]["found"] == f"{len(CHECKS)} of {len(CHECKS)} hold"
    assert done.returncode == 0
