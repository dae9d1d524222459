"""Files of packages are found by the package; where one is not installed, the reason is said."""

import gzip
from pathlib import Path

import pytest

from apps.office.safe_xml import OfficeError
from apps.office.suite.case import OfficeCase, prepare_nothing
from apps.office.suite.package_files import PackageFile, with_package_file


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_file_of_a_python_package(tmp_path: Path) -> None:
    file = PackageFile(kind="python", package="python-docx", path="templates/default.docx")
    assert file.lacks == ""
    assert file.copy_to(tmp_path / "a.docx").read_bytes()[:2] == b"PK"


def test_a_file_of_a_debian_package_that_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manual.pdf.gz").write_bytes(gzip.compress(b"%PDF-1.7"))
    program(tmp_path / "bin", "dpkg-query", f'echo "/nowhere/manual.pdf.gz"; echo "{tmp_path}/manual.pdf.gz"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    file = PackageFile(kind="debian", package="a-manual", path="manual.pdf.gz")
    assert file.copy_to(tmp_path / "manual.pdf").read_bytes() == b"%PDF-1.7"


def test_a_file_of_an_npm_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "lib" / "node_modules" / "npm" / "bin", "npm", "")
    (tmp_path / "lib" / "node_modules" / "a-package").mkdir()
    (tmp_path / "lib" / "node_modules" / "a-package" / "notes.md").write_text("# Notes")
    monkeypatch.setenv("PATH", str(tmp_path / "lib" / "node_modules" / "npm" / "bin"))
    file = PackageFile(kind="npm", package="a-package", path="notes.md")
    assert file.copy_to(tmp_path / "notes.md").read_text() == "# Notes"


@pytest.mark.parametrize("kind", ["python", "debian", "npm"])
def test_what_is_not_installed_is_left_out_with_the_reason(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = PackageFile(kind=kind, package="no-such-thing", path="x.pdf")  # type: ignore[arg-type]
    reason = f"x.pdf of the {kind.title()} package no-such-thing is not installed"
    case = OfficeCase(
        name="x",
        family="edit",
        instruction="",
        prepare=prepare_nothing,
        check=lambda *_: [],
        solve=prepare_nothing,
        miss=prepare_nothing,
    )
    given = with_package_file(file, "x.pdf", case)
    assert given.lacks() == reason and case.lacks() == ""
    with pytest.raises(OfficeError, match="no-such-thing is not installed"):
        given.prepare(tmp_path)
