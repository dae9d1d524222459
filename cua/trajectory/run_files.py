"""Folders of runs: their location and names, and safe access to files in them by recorded names.

A record may come from an untrusted source, so a name in it is untrusted data: it must be plain and relative, its path
must not contain links, and its target must be a regular file of limited size.
"""

import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from cua.errors import TrajectoryError

TRAJECTORY = "trajectory.jsonl"
REPORT = "report.html"
TASK_FILES = "task"
"""Name of the folder of files that a task left."""
_MAX_SLUG_CHARS = 32  # of the instruction in a folder's name, which a terminal shows in one line


def default_runs_dir() -> Path:
    """Return `$K25_RUNS_DIR`, or `k25/runs` in the user's state folder."""
    chosen = os.environ.get("K25_RUNS_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_state_path("k25", appauthor=False) / "runs"


def make_run_dir(runs_dir: Path, title: str, started_at: float) -> Path:
    """Make a new, unique folder `<UTC time>-<words of the title>-<random>`.

    Returns:
        Path of the folder, readable by its owner only: screenshots may be private.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at))
    while True:
        run_dir = runs_dir / f"{stamp}-{slug(title)}-{secrets.token_hex(3)}"
        try:
            run_dir.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return run_dir


def show_run_dir(folder: Path, run_dir: str | None) -> str | None:
    """Return a run's folder relative to the batch's folder, so that the batch's folder can be moved."""
    if run_dir is None or not Path(run_dir).is_relative_to(folder):
        return run_dir
    return Path(run_dir).relative_to(folder).as_posix()


def slug(title: str) -> str:
    """Return lower-case letters, digits and dashes of a title, cut at a word: `"Add 2 items!"` is `add-2-items`."""
    words = re.findall(r"[a-z0-9]+", title[:1000].lower())
    text = ""
    for word in words:
        if len(text) + len(word) + 1 > _MAX_SLUG_CHARS:
            break
        text = f"{text}-{word}" if text else word
    return text or (words[0][:_MAX_SLUG_CHARS] if words else "run")


MAX_DEPTH = 32
"""Maximum number of folders in the path of a file."""
MAX_NAME_BYTES = 255  # limit of ext4 and most other file systems
MAX_RECORD_BYTES = 2**30  # bounds the memory that an untrusted record takes
MAX_IMAGE_BYTES = 128 * 2**20  # as above, of one image

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: int = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_HAS_DIR_FD = os.open in os.supports_dir_fd
_CHUNK_BYTES = 2**20
_SHOWN_CHARS = 80  # of a foreign name in an error text


def check_name(name: str) -> tuple[str, ...]:
    """Return the parts of a plain relative name.

    Raises:
        TrajectoryError: If it is absolute, contains `..`, or is not a valid file name.
    """
    parts = tuple(name.split("/"))
    if "\0" in name or any(0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise TrajectoryError(f"{_shown(name)} cannot be the name of a file in the run's folder")
    if any(part in ("", ".", "..") for part in parts) or (os.sep != "/" and set(name) & set("\\:")):
        raise TrajectoryError(f"{_shown(name)} leads out of the run's folder; a plain relative name was expected")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise TrajectoryError(f"{_shown(name)} is too long for the name of a file in the run's folder")
    return parts


@contextmanager
def open_inside(folder: Path, name: str, *, max_bytes: int) -> Iterator[BufferedReader]:
    """Open a file of a folder for reading.

    Args:
        folder: Folder that must contain the file; chosen by the user, so its own path may contain links.
        name: Plain relative name, with `/` between its parts.
        max_bytes: Size limit; a larger file is refused.

    Raises:
        TrajectoryError: If the name is not plain, its path contains a link, or it is not a regular file or too large.
        OSError: If it does not exist, or cannot be read.
    """
    parts = check_name(name)
    fd = _open_below(folder, parts, name) if _HAS_DIR_FD else _open_path(folder, parts, name)
    with os.fdopen(fd, "rb") as file:
        _check_regular(os.fstat(file.fileno()), name, max_bytes)
        yield file


def read_inside(folder: Path, name: str, *, max_bytes: int) -> bytes:
    """Return the content of a file of a folder; errors as in `open_inside`."""
    with open_inside(folder, name, max_bytes=max_bytes) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise TrajectoryError(f"{_shown(name)} grew past {max_bytes} bytes while it was read")
    return data


def copy_inside(folder: Path, name: str, target: Path, *, max_bytes: int) -> None:
    """Copy a file of a folder to an unused path; errors as in `open_inside`."""
    with open_inside(folder, name, max_bytes=max_bytes) as file, target.open("xb") as copy:
        num_left = max_bytes
        while num_left > 0 and (chunk := file.read(min(_CHUNK_BYTES, num_left))):
            copy.write(chunk)
            num_left -= len(chunk)


def hash_inside(folder: Path, name: str, *, max_bytes: int) -> tuple[str, int]:
    """Return SHA-256 in hex and size of a file of a folder; errors as in `open_inside`."""
    with open_inside(folder, name, max_bytes=max_bytes) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_no_link(path: Path) -> None:
    """Check that a folder or file of a run is not a link; a missing one is accepted."""
    if path.is_symlink():
        raise TrajectoryError(f"{path} is a link; a run's own folder was expected there, so nothing is written to it")


def _open_below(folder: Path, parts: tuple[str, ...], name: str) -> int:
    """Open part by part, so that no link is followed."""
    here = os.open(folder, os.O_RDONLY | _FOLDER)
    try:
        for part in parts[:-1]:
            _check_no_link(os.stat(part, dir_fd=here, follow_symlinks=False), name)
            inner = os.open(part, os.O_RDONLY | _FOLDER | _NO_FOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        status = os.stat(parts[-1], dir_fd=here, follow_symlinks=False)
        _check_regular(status, name, None)  # before it is opened: opening a pipe or device may block or act
        return os.open(parts[-1], os.O_RDONLY | _NO_FOLLOW | _NO_WAIT, dir_fd=here)
    finally:
        os.close(here)


def _open_path(folder: Path, parts: tuple[str, ...], name: str) -> int:
    """Open by path, on systems that cannot open relative to a folder."""
    path = folder
    for part in parts:
        path = path / part
        _check_no_link(path.lstat(), name)
    _check_regular(path.lstat(), name, None)
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _check_no_link(status: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise TrajectoryError(f"{_shown(name)} is reached through a link, which is not followed")


def _check_regular(status: os.stat_result, name: str, max_bytes: int | None) -> None:
    _check_no_link(status, name)
    if not stat.S_ISREG(status.st_mode):
        raise TrajectoryError(f"{_shown(name)} is not a regular file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise TrajectoryError(f"{_shown(name)} has {status.st_size} bytes, at most {max_bytes} are read")


def _shown(name: str) -> str:
    return ascii(name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "...")
