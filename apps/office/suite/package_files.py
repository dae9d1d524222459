"""Real files that ship inside installed packages: found by the package, never downloaded."""

import gzip
import importlib.metadata
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from apps.office.safe_xml import OfficeError
from apps.office.suite.case import Case

_DPKG_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A file of a package.

    Attributes:
        kind: Where the package comes from: `python`, `debian` or `npm`.
        package: Its name there.
        path: How the file's path ends.
    """

    kind: Literal["python", "debian", "npm"]
    package: str
    path: str

    @property
    def lacks(self) -> str:
        """Why it is not here, or ""."""
        if _find(self.kind, self.package, self.path) is not None:
            return ""
        return f"{self.path} of the {self.kind.title()} package {self.package} is not installed"

    def copy_to(self, target: Path) -> Path:
        """Copy it, unpacked where the package has it compressed.

        Raises:
            OfficeError: It is not here.
        """
        found = _find(self.kind, self.package, self.path)
        if found is None:
            raise OfficeError(self.lacks)
        data = found.read_bytes()
        target.write_bytes(gzip.decompress(data) if found.suffix == ".gz" else data)
        return target


def given_file(file: PackageFile, name: str, case: Case) -> Case:
    """A case that is given a file of a package, under a name, and lacks it where the package is not installed."""

    def prepare(folder: Path) -> None:
        file.copy_to(folder / name)

    return replace(case, prepare=prepare, lacks=lambda: case.lacks() or file.lacks)


@cache
def _find(kind: str, package: str, path: str) -> Path | None:
    for one in {"python": _python_files, "debian": _debian_files, "npm": _npm_files}[kind](package, path):
        if one.as_posix().endswith(path) and one.is_file():
            return one
    return None


def _python_files(package: str, path: str) -> list[Path]:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(one.locate())) for one in files if one.as_posix().endswith(path)]


def _debian_files(package: str, path: str) -> list[Path]:
    """What dpkg lists; documentation may be left out on a small system, so that a listed file may be missing."""
    if shutil.which("dpkg-query") is None:
        return []
    argv = ["dpkg-query", "--listfiles", package]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_DPKG_S, check=False)
    except subprocess.TimeoutExpired:
        return []
    return [Path(line) for line in done.stdout.splitlines() if line.endswith(path)]


def _npm_files(package: str, path: str) -> list[Path]:
    """In the folder of packages that are installed for the whole machine."""
    program = shutil.which("npm")
    if program is None:
        return []
    places = [one for one in Path(program).resolve().parents if one.name == "node_modules"]
    return [place / package / path for place in places]
