"""Real files that ship inside installed packages; they are located there and never downloaded."""

import gzip
import importlib.metadata
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from apps.office.safe_xml import OfficeError
from apps.office.suite.case import OfficeCase

_DPKG_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """File of a package.

    Attributes:
        kind: Package system: `python`, `debian` or `npm`.
        package: Name of the package.
        path: End of the file's path.
    """

    kind: Literal["python", "debian", "npm"]
    package: str
    path: str

    @property
    def lacks(self) -> str:
        """Reason why the file is missing, or ""."""
        if _find(self.kind, self.package, self.path) is not None:
            return ""
        return f"{self.path} of the {self.kind.title()} package {self.package} is not installed"

    def copy_to(self, target: Path) -> Path:
        """Copy the file, decompressed if the package has it compressed.

        Raises:
            OfficeError: If the file is not installed.
        """
        source = _find(self.kind, self.package, self.path)
        if source is None:
            raise OfficeError(self.lacks)
        data = source.read_bytes()
        target.write_bytes(gzip.decompress(data) if source.suffix == ".gz" else data)
        return target


def with_package_file(file: PackageFile, name: str, case: OfficeCase) -> OfficeCase:
    """Return a case with a file of a package as input; it lacks the file if the package is not installed."""

    def prepare(folder: Path) -> None:
        file.copy_to(folder / name)

    return replace(case, prepare=prepare, lacks=lambda: case.lacks() or file.lacks)


@cache
def _find(kind: str, package: str, path: str) -> Path | None:
    for candidate in {"python": _python_files, "debian": _debian_files, "npm": _npm_files}[kind](package, path):
        if candidate.as_posix().endswith(path) and candidate.is_file():
            return candidate
    return None


def _python_files(package: str, path: str) -> list[Path]:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if file.as_posix().endswith(path)]


def _debian_files(package: str, path: str) -> list[Path]:
    """Return the files listed by dpkg; small systems omit documentation, so a listed file may be missing."""
    if shutil.which("dpkg-query") is None:
        return []
    argv = ["dpkg-query", "--listfiles", package]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_DPKG_S, check=False)
    except subprocess.TimeoutExpired:
        return []
    return [Path(line) for line in done.stdout.splitlines() if line.endswith(path)]


def _npm_files(package: str, path: str) -> list[Path]:
    """Return candidate paths in the machine-wide npm folder."""
    program = shutil.which("npm")
    if program is None:
        return []
    places = [parent for parent in Path(program).resolve().parents if parent.name == "node_modules"]
    return [place / package / path for place in places]
