"""Files of a site: read from folders that model-written code may have tampered with, and replaced atomically."""

import difflib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from cua.errors import CuaError, TrajectoryError
from cua.trajectory.run_files import read_inside

Files = Mapping[str, bytes]
"""File contents by path relative to the site's folder, with `/` as separator."""

MAX_FILES = 500
MAX_SITE_BYTES = 50 * 2**20
_CODE = (".html", ".htm", ".css", ".js", ".mjs", ".json", ".svg", ".txt", ".md")
_MAX_DIFF_LINES = 2000


def read_site(folder: Path, *, page: str = "index.html") -> dict[str, bytes]:
    """Read all files of a site. Links are skipped, whatever their target.

    Args:
        folder: The site's folder.
        page: A file that must be there.

    Raises:
        CuaError: If there is no such folder, it lacks that page, or it is too large.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise CuaError(f"{folder} is no folder; expected one with an index.html")
    files: dict[str, bytes] = {}
    left = MAX_SITE_BYTES
    for name in _walk(folder, ""):
        if len(files) >= MAX_FILES:
            raise CuaError(f"{folder} holds more than {MAX_FILES} files; a site of at most so many is taken")
        try:
            files[name] = read_inside(folder, name, max_bytes=left)
        except TrajectoryError as error:
            raise CuaError(f"{folder}: {error}; a site has at most {MAX_SITE_BYTES // 2**20} MiB") from error
        except OSError as error:
            raise CuaError(f"{folder / name} cannot be read: {error.strerror}") from error
        left -= len(files[name])
    if page not in files:
        raise CuaError(f"{folder} has no {page}; found {', '.join(sorted(files)[:5]) or 'no files'}")
    return files


def _walk(folder: Path, below: str, depth: int = 0) -> Iterator[str]:
    with os.scandir(folder / below) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        name = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir(follow_symlinks=False) and depth < 8:
            yield from _walk(folder, name, depth + 1)
        elif entry.is_file(follow_symlinks=False):
            yield name


def write_site(files: Files, folder: Path, *, staging: Path | None = None) -> None:
    """Replace a folder by a site, completely or not at all.

    Args:
        files: New contents.
        folder: Folder, replaced if it exists.
        staging: Temporary folder on the same disk; next to `folder` if omitted.

    Raises:
        CuaError: If the site cannot be written.
    """
    fresh = (staging or folder.parent) / f".{folder.name}-{secrets.token_hex(4)}"
    try:
        for name, content in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(content)
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.is_dir():
            shutil.rmtree(folder)
        fresh.rename(folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise CuaError(f"the site cannot be written to {folder}: {error.strerror}") from error


def code_bytes(files: Files) -> int:
    """Return the size of the code files, without images."""
    return sum(len(content) for name, content in files.items() if name.endswith(_CODE))


def diff_code(before: Files, after: Files) -> str:
    """Return the unified diff of the code of two sites; binary files are only named."""
    lines: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if not name.endswith(_CODE):
            change = "added" if old is None else "removed" if new is None else "changed"
            lines.append(f"{change}: {name}")
            continue
        texts = [(content or b"").decode("utf-8", "replace").splitlines() for content in (old, new)]
        lines += difflib.unified_diff(texts[0], texts[1], f"a/{name}", f"b/{name}", n=2, lineterm="")
    if len(lines) > _MAX_DIFF_LINES:
        lines[_MAX_DIFF_LINES:] = [f"... and {len(lines) - _MAX_DIFF_LINES} more lines"]
    return "\n".join(lines)
