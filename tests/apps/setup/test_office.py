import importlib.metadata
import os

import pytest

from apps.setup.office import install_office, missing_requirements
from apps.setup.report import DoctorRow
from tests.apps.setup.machine import BareMachine

PACKAGES = "libreoffice-calc-nogui libreoffice-writer-nogui libreoffice-impress-nogui libreoffice-math-nogui"
SOFFICE = """
while [ "$1" != --outdir ]; do shift; done
mkdir -p "$2"; echo "%PDF-1.7" > "$2/source.pdf"
"""


def test_extras_that_an_extra_names_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "pydantic>=2",
        'cua-k25[sandbox,other]; extra == "office"',
        'no-such-thing[speed]>=1.5; extra == "office"',
        'pytest>=1; extra == "office"',
        'no-such-kernel>=7; extra == "sandbox"',
        'no-such-thing[speed]>=1.5; extra == "sandbox"',
        'no-such-model>=1; extra == "desktop"',
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    assert missing_requirements() == ["no-such-kernel>=7", "no-such-thing[speed]>=1.5"]


async def libreoffice_row(said: list[str]) -> DoctorRow:
    """What `cua setup office` says of LibreOffice."""
    return next(row for row in await install_office(said.append) if row.name == "libreoffice")


async def test_libreoffice_comes_by_apt(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    soffice = machine.add("soffice", SOFFICE)
    soffice.rename(machine.home / "soffice")
    machine.add(
        "apt-get",
        f'[ "$1" = update ] || {{ cp {machine.home}/soffice {machine.programs}; : > {machine.programs}/libsmlo.so; }}',
    )
    said: list[str] = []
    row = await libreoffice_row(said)
    assert (row.level, row.actual) == ("ok", f"{machine.programs}/soffice turns a document into PDF")
    assert machine.log[0] == "apt-get update"
    assert machine.log[1].startswith("apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends ")
    assert PACKAGES in machine.log[1]
    assert machine.log[2].startswith("soffice --headless") and len(machine.log) == 3
    assert said[0] == "getting LibreOffice by apt-get (some 110 MB, 320 MB on disk)"
    assert said[2].strip() == machine.log[1]


async def test_why_apt_failed_is_said(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.add(
        "apt-get", 'echo "Reading lists"; echo "E: Unable to locate package libreoffice-calc-nogui"', exit_code=100
    )
    row = await libreoffice_row([])
    assert (row.level, row.expected) == ("fail", "soffice on PATH")
    assert row.actual == "not installed: apt-get: E: Unable to locate package libreoffice-calc-nogui"
    assert row.fix.startswith("apt-get update && apt-get install -y --no-install-recommends libreoffice-calc-nogui ")


async def test_apt_that_says_yes_and_brings_nothing(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.add("apt-get")
    row = await libreoffice_row([])
    assert (row.level, row.actual) == ("fail", "not installed: there is still no soffice")


async def test_without_root_nothing_is_installed(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.add("apt-get")
    row = await libreoffice_row([])
    assert machine.log == []
    assert (row.level, row.actual) == ("fail", "not installed: only root may install it by apt-get")
    assert row.fix.startswith("sudo apt-get update && sudo apt-get install ")


async def test_no_package_manager_at_all(machine: BareMachine) -> None:
    row = await libreoffice_row([])
    assert (row.level, row.actual) == ("fail", "not installed: no known package manager is on PATH")
    assert row.fix == "install LibreOffice"


async def test_a_soffice_that_makes_nothing_is_broken(machine: BareMachine) -> None:
    machine.add("soffice", "echo 'Fatal: no fonts'", exit_code=1)
    (machine.programs / "libsmlo.so").touch()
    row = await libreoffice_row([])
    assert row.level == "fail" and row.actual == "LibreOffice did not convert page.html to pdf: Fatal: no fonts"


async def test_a_missing_asian_font_comes_by_apt(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.add("soffice", SOFFICE)
    (machine.programs / "libsmlo.so").touch()
    machine.add("fc-list", "echo ':charset=20-7e 4e00-9fff'")
    machine.add("apt-get")
    said: list[str] = []
    rows = {row.name: row for row in await install_office(said.append)}
    assert said[0] == "getting fonts by apt-get (2 MB, 5 MB on disk)"
    assert any("fonts-wqy-microhei" in line for line in machine.log)
    assert rows["office fonts"].level == "warn" and rows["office fonts"].actual.startswith("no font has かなカナ한글, ")
    assert "fonts-wqy-microhei" in rows["office fonts"].fix
    machine.add("fc-list", "echo ':charset=20-7e 4e00-9fff'; echo ':charset=3040-30ff ac00-d7a3'")
    before = machine.log.count(next(line for line in machine.log if " install " in line))
    rows = {row.name: row for row in await install_office(said.append)}
    assert rows["office fonts"].level == "ok"
    assert sum(" install " in line for line in machine.log) == before
