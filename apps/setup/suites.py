"""What `cua setup NAME` installs: the data of suites of tasks, each by a function of its own."""

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
from apps.setup.osworld import install_osworld_local, install_osworld_minimal
from apps.setup.osworld_evaluators import install_official_evaluators
from apps.setup.report import Row
from apps.setup.webapps import install_apps
from cua.errors import ConfigError
from envs.errors import did_you_mean
from envs.suites.miniwob.pages import VERSION, find_pages, has_pages, installed_dir

_PIP_TIMEOUT_S = 300.0
_MAX_FILES = 5_000
_MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedWheel:
    """One file of PyPI, of which nothing is installed.

    Attributes:
        name: Of the distribution.
        version: Exactly this one.
        sha256: Of the file; pip takes no other.
    """

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """A line of a requirements file."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


MINIWOB = PinnedWheel(
    name="miniwob", version=VERSION, sha256="297006e84219d56ad037e843527ed773a4a82509dc43b6031ec4a3ad3e3e61d9"
)


async def install_miniwob(say: Say, wheel: PinnedWheel = MINIWOB) -> Row:
    """Have the pages of MiniWoB++ in the user's data folder: pip fetches the wheel, its pages are unpacked."""
    found, target = find_pages(), installed_dir()
    if found is None:
        say(f"getting the pages of MiniWoB++: {wheel.name} {wheel.version} by pip")
        obstacle = await _get_miniwob(say, wheel, target)
        if obstacle is not None:
            return Row(
                name="miniwob",
                level="fail",
                found=obstacle,
                expected=f"{wheel.name} {wheel.version} from PyPI, or from where PIP_INDEX_URL or PIP_FIND_LINKS say",
                fix="cua setup miniwob" if _has_pip() else f"{shlex.quote(sys.executable)} -m ensurepip",
            )
        found = target / "html"
    return Row(name="miniwob", level="ok", found=f"the pages of MiniWoB++ {wheel.version} in {found}")


async def _get_miniwob(say: Say, wheel: PinnedWheel, target: Path) -> str | None:
    """Returns why the pages are not in `target` then; None when they are."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="miniwob-", dir=target.parent) as scratch_name:
            scratch = Path(scratch_name)
            obstacle = await download_wheel(say, wheel, scratch)
            return obstacle or await asyncio.to_thread(_move_pages, scratch, target)
    except (OSError, zipfile.BadZipFile) as error:
        return f"the pages could not be unpacked: {error}"


def _move_pages(scratch: Path, target: Path) -> str | None:
    """Unpack the wheel in `scratch` and move what came out to `target` in one go; returns why not, else None."""
    ready, wheel = scratch / "ready", next(scratch.glob("*.whl"))
    unpack(wheel, ready, {"miniwob/html": "html"})
    if not has_pages(ready / "html"):
        return f"{wheel.name} has no pages in it"
    if not has_pages(target / "html"):  # else somebody else was quicker, and may be reading them
        shutil.rmtree(target, ignore_errors=True)
        ready.rename(target)
    return None


async def download_wheel(say: Say, wheel: PinnedWheel, folder: Path) -> str | None:
    """Have pip fetch a wheel into `folder`, without its dependencies.

    Returns:
        None when it lies there, else why not.
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
        target: Where to; made.
        folders: By the folder's path in the archive, its path in `target`.

    Raises:
        zipfile.BadZipFile: It is damaged, holds too much, or names that point elsewhere.
        OSError: It cannot be read, or the disk is full.
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
    """Where a member goes; None when it is not wanted."""
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


async def _install_miniwob(say: Say) -> tuple[Row, ...]:
    return (await install_miniwob(say),)


InstallSuite = Callable[[Say], Awaitable[tuple[Row, ...]]]
"""Makes sure that what a suite needs is there: tries first, fetches what is missing; says how each part went."""

SUITES: Mapping[str, InstallSuite] = {
    "miniwob": _install_miniwob,
    "apps": install_apps,
    "webarena-lite": install_apps,  # its sites are these apps
    "osworld-local": install_osworld_local,
    "osworld-local-minimal": install_osworld_minimal,
    "osworld-evaluators": install_official_evaluators,
    "office": install_office,
}
"""What can be named at `cua setup`."""


def find_installers(names: Sequence[str]) -> tuple[InstallSuite, ...]:
    """The functions for these names, each once.

    Raises:
        ConfigError: There is no such suite.
    """
    for name in names:
        if name not in SUITES:
            raise ConfigError(
                f"{name!r} is no suite that can be set up; there are: {', '.join(sorted(SUITES))}"
                f"{did_you_mean(name, SUITES)}"
            )
    return tuple(SUITES[name] for name in dict.fromkeys(names))
