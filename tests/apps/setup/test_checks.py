import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from apps.setup.checks import (
    GOOD_FREE_MB,
    MIN_FREE_MB,
    check_clock,
    check_command,
    check_ocr,
    check_package,
    check_python,
    check_runs_folder,
    check_terminal,
    installed_namesakes,
)
from tests.apps.setup.machine import BareMachine

HERE = Path(sys.executable).parent


def test_python_in_a_virtual_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/some/venv")
    assert check_python().level == "ok"
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert check_python().level == "warn"
    assert check_python().fix.startswith("python3 -m venv .venv")


def test_no_command_on_path(machine: BareMachine) -> None:
    row = check_command()
    assert (row.level, row.actual) == ("warn", f"not on PATH; this one is {HERE}/cua")
    assert row.fix == f'export PATH="{HERE}:$PATH"'


def test_a_namesake_on_path(machine: BareMachine) -> None:
    foreign = machine.add("cua")
    row = check_command()
    assert row.level == "warn"
    assert row.actual == f"{foreign} comes first, and it is another project's"
    assert "type k25 instead" in row.fix
    foreign.write_text("#!/usr/bin/python3\nfrom apps.cli.main import main\n")
    assert check_command().actual.endswith("it is cua-k25 of another environment")


def test_our_command_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{HERE}{os.pathsep}/usr/bin")
    assert (check_command().level, check_command().actual) == ("ok", f"{HERE}/cua")


def test_namesakes_in_the_same_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_namesakes() == ()
    assert check_package().level == "ok"
    for name in ("cua_agent", "cua"):
        info = tmp_path / f"{name}-0.4.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.4.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_namesakes() == ("cua 0.4.1", "cua-agent 0.4.1")
    row = check_package()
    assert row.level == "warn"
    assert "cua 0.4.1, cua-agent 0.4.1 is also installed" in row.actual


def test_a_namesake_that_shadows_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cua").mkdir()
    (tmp_path / "cua" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cua")
    row = check_package()
    assert row.level == "fail"
    assert row.actual == f"import cua gets {tmp_path}/cua/__init__.py"


def test_missing_ocr_is_worse_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)  # as if it were not installed
    assert [check_ocr(is_needed=needed).level for needed in (True, False)] == ["fail", "warn"]
    assert check_ocr(is_needed=True).fix == "pip install 'cua-k25[literal]'"


def test_ocr_is_here() -> None:
    pytest.importorskip("rapidocr")
    assert check_ocr(is_needed=True).level == "ok"


def test_runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = check_runs_folder(tmp_path / "new" / "runs")
    assert row.level in ("ok", "warn")
    assert row.actual.startswith(f"{tmp_path}/new/runs, ")
    assert list((tmp_path / "new" / "runs").iterdir()) == []

    free_mb = {"free": GOOD_FREE_MB - 1}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free_mb["free"] * 2**20))
    assert check_runs_folder(tmp_path).level == "warn"
    free_mb["free"] = MIN_FREE_MB - 1
    assert check_runs_folder(tmp_path).level == "fail"

    (tmp_path / "file").touch()
    blocked = check_runs_folder(tmp_path / "file" / "runs")
    assert (blocked.level, blocked.actual) == ("fail", f"{tmp_path}/file/runs: Not a directory")


def test_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_clock().level == "ok"
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert check_clock().level == "warn"


def test_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Latin:
        encoding = "latin-1"

    monkeypatch.setattr(sys, "stdout", Latin())
    row = check_terminal()
    assert (row.level, row.fix) == ("warn", "export PYTHONUTF8=1 LC_ALL=C.UTF-8")
