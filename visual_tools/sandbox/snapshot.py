"""Which files of a folder were made or changed between two looks."""

import stat
from collections.abc import Mapping
from typing import Any, Protocol

from visual_tools.sandbox.walk import Walk
from visual_tools.sandbox.zygote.filesystem import hand_over

MAX_FILES = 20_000
MAX_DEPTH = 64
_CACHES = b"__pycache__"

Snapshot = Mapping[str, tuple[int, int, int]]


def take_snapshot(folder: str | int, max_files: int = MAX_FILES, max_depth: int = MAX_DEPTH) -> Snapshot:
    """Time of change, size and number of each file below a folder; links, hidden folders and caches are left out.

    Args:
        folder: Where to look, a path or a descriptor.
        max_files: The rest is not looked at; nor are more than ten times as many entries of other kinds.
        max_depth: Folders that lie deeper are not looked at.
    """
    found: dict[str, tuple[int, int, int]] = {}
    for level in Walk(max_entries=10 * max_files, max_depth=max_depth, has_parts=True).below(folder):
        level.skip |= {name for name in level.entries if name == _CACHES or name.startswith(b".")}
        for name, about in level.entries.items():
            if stat.S_ISREG(about.st_mode):
                path = b"/".join((*level.parts, name)).decode("utf-8", "surrogateescape")
                found[path] = (about.st_mtime_ns, about.st_size, about.st_ino)
        if len(found) > max_files:
            break
    return found


def find_written(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Files that are new or differ, sorted."""
    changed = (path for path, about in after.items() if before.get(path) != about)
    return tuple(sorted(path.encode("utf-8", "replace").decode() for path in changed))


class WorkFolder(Protocol):
    """Where kernels work, as their host sees it; both calls read and write files and belong into a thread."""

    def begin(self) -> tuple[Any, tuple[str, ...]]:
        """Make it ready for a cell: what is there, for `end`, and what the model must be told."""
        ...

    def end(self, before: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """After a cell: files that it wrote, and what the model must be told."""
        ...


class FolderOnDisk:
    """The working folder itself, where nothing can take its place.

    Args:
        folder: Its path.
        owner: User that kernels run as, when that is another one.
    """

    def __init__(self, folder: str, owner: int | None) -> None:
        self._folder = folder
        self._owner = owner

    def begin(self) -> tuple[Snapshot, tuple[str, ...]]:
        """See `WorkFolder.begin`."""
        if self._owner is not None:  # files that were put there since
            hand_over(self._folder, self._owner)
        return take_snapshot(self._folder), ()

    def end(self, before: Snapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """See `WorkFolder.end`."""
        return find_written(before, take_snapshot(self._folder)), ()
