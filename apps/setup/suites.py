"""Suites for `cua setup NAME`: each has a function that installs its data."""

import asyncio
import importlib.util
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from apps.setup.command import Say, run_command
from apps.setup.office import install_office
from apps.setup.osworld import install_official_evaluators, install_osworld_local, install_osworld_minimal
from apps.setup.report import DoctorRow
from apps.setup.webapps import install_apps
from cua.errors import ConfigError
from envs.errors import did_you_mean
from envs.suites.miniwob.pages import VERSION, find_pages, has_pages, installed_dir

_PIP_TIMEOUT_S = 300.0  # a few MB over a slow network
_MAX_FILES = 5_000  # with the limit below: bounds what an archive unpacks to
_MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedWheel:
    """File from PyPI that is downloaded but not installed.

    Attributes:
        name: Name of the distribution.
        version: Exact version.
        sha256: Checksum of the file; pip rejects any other file.
    """

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """Line of a requirements file."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


MINIWOB = PinnedWheel(
    name="miniwob", version=VERSION, sha256="297006e84219d56ad037e843527ed773a4a82509dc43b6031ec4a3ad3e3e61d9"
)


async def install_miniwob(say: Say, wheel: PinnedWheel = MINIWOB) -> DoctorRow:
    """Download the wheel of MiniWoB++ with pip, and unpack its pages into the user's data folder."""
    pages, target = find_pages(), installed_dir()
    if pages is None:
        say(f"getting the pages of MiniWoB++: {wheel.name} {wheel.version} by pip")
        problem = await _get_miniwob(say, wheel, target)
        if problem is not None:
            return DoctorRow(
                name="miniwob",
                level="fail",
                actual=problem,
                expected=f"{wheel.name} {wheel.version} from PyPI, or from where PIP_INDEX_URL or PIP_FIND_LINKS say",
                fix="cua setup miniwob" if _has_pip() else f"{shlex.quote(sys.executable)} -m ensurepip",
            )
        pages = target / "html"
    return DoctorRow(name="miniwob", level="ok", actual=f"the pages of MiniWoB++ {wheel.version} in {pages}")


async def _get_miniwob(say: Say, wheel: PinnedWheel, target: Path) -> str | None:
    """Download the pages to `target`; return the reason of a failure, None on success."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="miniwob-", dir=target.parent) as scratch_name:
            scratch = Path(scratch_name)
            problem = await download_wheel(say, wheel, scratch)
            return problem or await asyncio.to_thread(_move_pages, scratch, target)
    except (OSError, zipfile.BadZipFile) as error:
        return f"the pages could not be unpacked: {error}"


def _move_pages(scratch: Path, target: Path) -> str | None:
    """Unpack the wheel in `scratch` and move the pages atomically to `target`; return why it failed, else None."""
    ready, wheel = scratch / "ready", next(scratch.glob("*.whl"))
    unpack(wheel, ready, {"miniwob/html": "html"})
    if not has_pages(ready / "html"):
        return f"{wheel.name} has no pages in it"
    if not has_pages(target / "html"):  # else another process was faster, and may be reading them
        shutil.rmtree(target, ignore_errors=True)
        ready.rename(target)
    return None


async def download_wheel(say: Say, wheel: PinnedWheel, folder: Path) -> str | None:
    """Download a wheel with pip into `folder`, without its dependencies.

    Returns:
        None on success, else the reason of the failure.
    """
    if not _has_pip():
        return f"{sys.executable} has no pip"
    wanted = folder / "requirements.txt"
    wanted.write_text(wheel.requirement + "\n", "utf-8")
    options = ("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-input", "--retries=2", "--quiet")
    argv = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options)
    files = ("--requirement", str(wanted), "--dest", str(folder))
    result = await run_command((*argv, *files), timeout_s=_PIP_TIMEOUT_S, say=say)
    return None if result.code == 0 else f"pip did not get {wheel.name} {wheel.version}: {result.why}"


def unpack(archive: Path, target: Path, folders: Mapping[str, str]) -> None:
    """Unpack some folders of a zip file and its licenses, and nothing else.

    Args:
        archive: The zip file.
        target: Target folder, which is created.
        folders: Path in `target`, by the folder's path in the archive.

    Raises:
        zipfile.BadZipFile: If the archive is damaged, too large, or has names that point outside `target`.
        OSError: If the archive cannot be read, or the disk is full.
    """
    with zipfile.ZipFile(archive) as file:
        wanted = [(entry, place) for entry in file.infolist() if (place := _place_of(entry.filename, folders))]
        if len(wanted) > _MAX_FILES or sum(entry.file_size for entry, _ in wanted) > _MAX_BYTES:
            raise zipfile.BadZipFile(f"more than {_MAX_FILES} files or {_MAX_BYTES} bytes in it")
        for entry, place in wanted:
            goal = target / place
            goal.parent.mkdir(parents=True, exist_ok=True)
            with file.open(entry) as source, goal.open("xb") as sink:
                shutil.copyfileobj(source, sink)


def _place_of(name: str, folders: Mapping[str, str]) -> PurePosixPath | None:
    """Return the target path of a member; None if it is not unpacked."""
    path = PurePosixPath(name)
    if name.endswith("/"):
        return None
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise zipfile.BadZipFile(f"it holds {name!r}, which points elsewhere")
    if path.name == "LICENSE":
        return PurePosixPath("LICENSE")
    return next(
        (PurePosixPath(to, path.relative_to(old)) for old, to in folders.items() if path.is_relative_to(old)), None
    )


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


async def _install_miniwob(say: Say) -> tuple[DoctorRow, ...]:
    return (await install_miniwob(say),)


InstallSuite = Callable[[Say], Awaitable[tuple[DoctorRow, ...]]]
"""Function that installs missing data of a suite, and returns a row for each part."""

SUITES: Mapping[str, InstallSuite] = {
    "miniwob": _install_miniwob,
    "apps": install_apps,
    "webarena-lite": install_apps,  # the sites of this suite are these apps
    "osworld-local": install_osworld_local,
    "osworld-local-minimal": install_osworld_minimal,
    "osworld-evaluators": install_official_evaluators,
    "office": install_office,
}
"""Installers by name for `cua setup`."""


def find_installers(names: Sequence[str]) -> tuple[InstallSuite, ...]:
    """Return the functions for these names, without duplicates.

    Raises:
        ConfigError: If a suite does not exist.
    """
    for name in names:
        if name not in SUITES:
            raise ConfigError(
                f"{name!r} is not a suite that can be set up; available: {', '.join(sorted(SUITES))}"
                f"{did_you_mean(name, SUITES)}"
            )
    return tuple(SUITES[name] for name in dict.fromkeys(names))
