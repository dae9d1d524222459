"""Which files of a folder were made or changed between two looks."""

import contextlib
import os
import stat
from collections.abc import Mapping

MAX_FILES = 20_000

Snapshot = Mapping[str, tuple[int, int, int]]


def take_snapshot(folder: str, max_files: int = MAX_FILES) -> Snapshot:
    """Time of change, size and number of each file below a folder; links, hidden folders and caches are left out.

    Args:
        folder: Where to look.
        max_files: The rest is not looked at.
    """
    found: dict[str, tuple[int, int, int]] = {}
    for root, names, files, fd in os.fwalk(folder, follow_symlinks=False):
        names[:] = [name for name in names if name != "__pycache__" and not name.startswith(".")]
        below = os.path.relpath(root, folder)
        for name in files:
            with contextlib.suppress(OSError):
                about = os.stat(name, dir_fd=fd, follow_symlinks=False)
                path = name if below == "." else f"{below}/{name}"
                if stat.S_ISREG(about.st_mode):
                    found[path] = (about.st_mtime_ns, about.st_size, about.st_ino)
        if len(found) > max_files:
            break
    return found


def find_written(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Files that are new or differ, sorted."""
    changed = (path for path, about in after.items() if before.get(path) != about)
    return tuple(sorted(path.encode("utf-8", "replace").decode() for path in changed))
