"""Walk a folder that hostile code may have filled and may still be changing.

The walk uses no recursion, no paths and two descriptors. Folders are opened relative to their parent, links are never
followed, and the way back up is verified by device and inode. So any depth, path length or name is harmless, and so is
a folder that is moved meanwhile; `max_entries` bounds the rest.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_ENTRIES, _MAX_DEPTH = 10**9, 10**9  # no limit in practice
_REMOVED_AT_ONCE = 50_000  # entries, which are held in memory


@dataclass(slots=True)
class Folder:
    """Folder that the walk has reached.

    Attributes:
        fd: Descriptor, open only while the walk is at this folder.
        parts: Names from the top to this folder, if requested.
        entries: Entries of the folder, links not followed.
        skip: Names of subfolders that are not entered; the caller may add names.
    """

    fd: int
    parts: tuple[bytes, ...]
    entries: dict[bytes, os.stat_result]
    skip: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class _Level:
    identity: tuple[int, int]  # device and inode
    waiting: list[bytes]
    name: bytes = b""  # name of the subfolder that the walk is in


@dataclass(slots=True, kw_only=True)
class Walk:
    """Walk through everything below a folder; a folder comes before its contents.

    Args:
        max_entries: Maximum number of files, folders and other entries; the rest is ignored.
        max_depth: Maximum depth below the top; deeper folders are not entered.
        unlock: True to open folders of this user that deny their owner access; folders of others are left as they are.
        has_parts: True to provide the names on the way, at a cost proportional to the depth.
        on_leave: Called with the parent folder and the name when everything below a folder has been visited.

    Attributes:
        num_entries: Number of entries seen so far.
        is_whole: True if nothing was left out so far.
    """

    max_entries: int = _MAX_ENTRIES
    max_depth: int = _MAX_DEPTH
    unlock: bool = False
    has_parts: bool = False
    on_leave: Callable[[int, bytes], None] | None = None
    num_entries: int = 0
    is_whole: bool = True
    _levels: list[_Level] = field(default_factory=list)

    def below(self, top: int | str) -> Iterator[Folder]:
        """Yield each folder, starting with the top; its descriptor is valid until the next one is requested.

        Args:
            top: Folder to walk, as a path or as a descriptor, which stays open.

        Raises:
            OSError: If the top itself cannot be opened.
        """
        fd: int | None = os.open(".", _FOLDER, dir_fd=top) if isinstance(top, int) else os.open(top, _FOLDER)
        try:
            while fd is not None:
                folder = Folder(fd, self._parts(), self._list(fd))
                yield folder
                below = [name for name, about in folder.entries.items() if stat.S_ISDIR(about.st_mode)]
                self._levels.append(_Level(identify(fd), [name for name in below if name not in folder.skip]))
                leaving, fd = fd, None
                fd = self._move_on(leaving)
        finally:
            if fd is not None:
                os.close(fd)

    def _parts(self) -> tuple[bytes, ...]:
        return tuple(level.name for level in self._levels) if self.has_parts else ()

    def _list(self, fd: int) -> dict[bytes, os.stat_result]:
        children: dict[bytes, os.stat_result] = {}
        with contextlib.suppress(OSError), os.scandir(fd) as entries:
            for entry in entries:
                if self.num_entries >= self.max_entries:
                    self.is_whole = False
                    break
                self.num_entries += 1
                with contextlib.suppress(OSError):  # it was deleted meanwhile
                    name = os.fsencode(entry.name)
                    children[name] = os.stat(name, dir_fd=fd, follow_symlinks=False)
        return children

    def _move_on(self, fd: int) -> int | None:
        """Move to the next folder, going up if no subfolder is left; closes the given descriptor."""
        while True:
            child = self._enter(fd)
            if child is not None:
                os.close(fd)
                return child
            self._levels.pop()
            above = self._find_above(fd) if self._levels else None
            os.close(fd)
            if above is None:
                self.is_whole = self.is_whole and not self._levels
                return None
            fd = above
            if self.on_leave is not None:
                self.on_leave(fd, self._levels[-1].name)

    def _enter(self, fd: int) -> int | None:
        level = self._levels[-1]
        while level.waiting:
            if len(self._levels) > self.max_depth:
                self.is_whole = False
                return None
            level.name = level.waiting.pop()
            try:
                return open_folder(level.name, fd, unlock=self.unlock)
            except OSError:
                self.is_whole = False
        return None

    def _find_above(self, fd: int) -> int | None:
        """Open the parent folder; None if this folder was moved elsewhere meanwhile."""
        with contextlib.suppress(OSError):
            above = os.open("..", _FOLDER, dir_fd=fd)
            if identify(above) == self._levels[-1].identity:
                return above
            os.close(above)
        return None


def identify(fd: int) -> tuple[int, int]:
    """Return the device and inode."""
    about = os.fstat(fd)
    return about.st_dev, about.st_ino


def open_folder(name: bytes, above: int, *, unlock: bool = False) -> int:
    """Open a folder by name in its parent, never through a link; `unlock` first gives the owner access.

    Raises:
        OSError: If it is not a folder, or is closed to this user.
    """
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        if not unlock:
            raise
    folder_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
    try:  # by the descriptor, so that a link that replaces the name meanwhile is not followed
        os.chmod(f"/proc/self/fd/{folder_fd}", 0o700)  # noqa: PTH101
        return os.open(f"/proc/self/fd/{folder_fd}", _FOLDER & ~os.O_NOFOLLOW)
    finally:
        os.close(folder_fd)


@contextlib.contextmanager
def _opened(top: str | bytes, above: int | None) -> Iterator[int]:
    fd = os.open(top, _FOLDER) if above is None else open_folder(os.fsencode(top), above, unlock=True)
    try:
        yield fd
    finally:
        os.close(fd)


def remove_tree(top: str | bytes, above: int | None = None) -> bool:
    """Remove a folder tree of any names, depth and modes, by path or by name in a parent folder.

    Returns True if it is gone.
    """
    num_removed = 0

    def remove(above: int, name: bytes, *, is_folder: bool) -> None:
        nonlocal num_removed
        with contextlib.suppress(OSError):
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=above)
            num_removed += 1

    while True:
        walk = Walk(max_entries=_REMOVED_AT_ONCE, unlock=True, on_leave=partial(remove, is_folder=True))
        with contextlib.suppress(OSError), _opened(top, above) as fd:
            for folder in walk.below(fd):
                for name, about in folder.entries.items():
                    if not stat.S_ISDIR(about.st_mode):
                        remove(folder.fd, name, is_folder=False)
        with contextlib.suppress(OSError):
            os.rmdir(top, dir_fd=above)
        try:
            os.stat(top, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            return True
        if num_removed == 0:
            return False
        num_removed = 0
