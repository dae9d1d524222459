"""Working folder of kernels, on disk or as a copy in memory, and detection of the files that a cell wrote.

The in-memory copy cannot grow beyond a fixed size, and is synchronized with the folder on disk around each cell. The
zygote mounts a tmpfs with a fixed size and number of files and passes its descriptor; kernels see that, never the
folder on this machine's disk. Before a cell, new content of the folder is copied in; afterwards, changes made by the
code are copied out. Only regular files and folders are copied, by descriptors, never through a link. A link created by
code is copied out as another name of the target file if that is in the folder, otherwise it is left out. The same
applies to links in a folder on disk.
"""

import contextlib
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from visual_tools.sandbox.walk import Walk, open_folder, remove_tree
from visual_tools.sandbox.zygote.filesystem import hand_over

ODD = "a pipe, a socket or a device"
_MAX_STEPS = 256  # names and links followed to reach one target
_PIECES = (b"", b".")


def find_target(top: int, path: bytes, inside_dir: bytes) -> tuple[bytes, os.stat_result]:
    """Resolve a link to a regular file: return the link-free path from the top and the file's status.

    The folder may be changing, so callers must open the path name by name, without following links.

    Args:
        top: Descriptor of the working folder.
        path: Path of the link, from the top.
        inside_dir: Where the code sees the top, for links with absolute targets.

    Raises:
        OSError: If it leads to something else, or out of the folder; `strerror` says so.
    """
    done: list[bytes] = []
    waiting = path.split(b"/")[::-1]
    about = os.stat(top)
    for _ in range(_MAX_STEPS):
        while waiting and waiting[-1] in _PIECES:
            waiting.pop()
        if not waiting:
            if not stat.S_ISREG(about.st_mode):
                raise OSError(0, "a link to a folder" if stat.S_ISDIR(about.st_mode) else ODD)
            return b"/".join(done), about
        name = waiting.pop()
        if name == b"..":
            if not done:
                raise OSError(0, "a link that leads out of the working folder")
            done.pop()
            about = os.stat(b"/".join(done) or b".", dir_fd=top, follow_symlinks=False)
            continue
        here = b"/".join((*done, name))
        about = _look(top, here)
        if not stat.S_ISLNK(about.st_mode):
            done.append(name)
            continue
        target = os.readlink(here, dir_fd=top)
        if target.startswith(b"/"):
            target, done = _strip(target, inside_dir), []
        waiting += target.split(b"/")[::-1]
    raise OSError(0, "a link in a circle, or over too many others")


def _look(top: int, path: bytes) -> os.stat_result:
    try:
        return os.stat(path, dir_fd=top, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        raise OSError(0, "a link to nothing") from None


def _strip(target: bytes, inside_dir: bytes) -> bytes:
    if target != inside_dir and not target.startswith(inside_dir + b"/"):
        raise OSError(0, "a link that leads out of the working folder")
    return target[len(inside_dir) :]


Mark = tuple[int, ...]
TEMPORARY = b".k25-carried"
_SEND_BYTES = 1 << 24  # bounds one system call, so that a cancelled copy ends soon


@dataclass(slots=True)
class FolderSide:
    """One of the two folders: on disk or in memory.

    Attributes:
        fd: Descriptor of the folder.
        owner: Owner of files copied here; None for the user of this process.
        is_hostile: True if code can change files here and reset their times.
        inside_dir: Where code sees this folder.
        marks: Marks at the last time when both folders were equal, by path.
    """

    fd: int
    owner: int | None
    is_hostile: bool
    inside_dir: bytes = b""
    marks: dict[bytes, Mark] = field(default_factory=dict)

    def mark(self, about: os.stat_result) -> Mark:
        """Return a value that differs if a file was changed."""
        value = mark(about)
        return (*value, about.st_ctime_ns) if self.is_hostile and len(value) > 1 else value


def mark(about: os.stat_result) -> Mark:
    """Return a value that differs if a file was changed; constant for a folder."""
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFDIR:
        return (kind,)
    return (kind, about.st_ino, about.st_size, about.st_mtime_ns)


@contextlib.contextmanager
def parent_of(top: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Open the folder that contains a path, name by name so that no link is followed; also return the last name."""
    *parts, name = path.split(b"/")
    fd = os.dup(top)
    try:
        for part in parts:
            below = open_folder(part, fd, unlock=True)
            os.close(fd)
            fd = below
        yield fd, name
    finally:
        os.close(fd)


def carry_one(
    source: FolderSide, target: FolderSide, path: bytes, from_path: bytes, about: os.stat_result, leader: bytes
) -> os.stat_result:
    """Create one file, folder or link on the other side; return its status there."""
    with parent_of(source.fd, from_path) as (from_fd, from_name), parent_of(target.fd, path) as (to_fd, name):
        if stat.S_ISDIR(about.st_mode):
            _make_folder(to_fd, name, about, target.owner)
        else:
            remove(to_fd, TEMPORARY)
            if leader != path:
                with parent_of(target.fd, leader) as (leader_fd, leader_name):
                    os.link(leader_name, TEMPORARY, src_dir_fd=leader_fd, dst_dir_fd=to_fd, follow_symlinks=False)
            elif stat.S_ISLNK(about.st_mode):
                os.symlink(os.readlink(from_name, dir_fd=from_fd), TEMPORARY, dir_fd=to_fd)
                _give(to_fd, target.owner)
            else:
                _copy(from_fd, from_name, to_fd, target.owner)
            _put_in_place(to_fd, name)
        return os.stat(name, dir_fd=to_fd, follow_symlinks=False)


def _make_folder(to_fd: int, name: bytes, about: os.stat_result, owner: int | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=to_fd, follow_symlinks=False).st_mode):
            return
        os.unlink(name, dir_fd=to_fd)
    os.mkdir(name, stat.S_IMODE(about.st_mode) & 0o777 | 0o700, dir_fd=to_fd)
    if owner is not None:
        os.chown(name, owner, owner, dir_fd=to_fd, follow_symlinks=False)


def _give(to_fd: int, owner: int | None) -> None:
    if owner is not None:
        os.chown(TEMPORARY, owner, owner, dir_fd=to_fd, follow_symlinks=False)


def _put_in_place(to_fd: int, name: bytes) -> None:
    try:
        os.rename(TEMPORARY, name, src_dir_fd=to_fd, dst_dir_fd=to_fd)
    except IsADirectoryError:
        remove(to_fd, name)
        os.rename(TEMPORARY, name, src_dir_fd=to_fd, dst_dir_fd=to_fd)
    remove(to_fd, TEMPORARY)  # a rename onto another name of the same file does nothing


def _copy(from_fd: int, name: bytes, to_fd: int, owner: int | None) -> None:
    """Copy a file's data (keeping holes), its mode without special bits, and its time."""
    reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=from_fd)
    try:
        about = os.fstat(reading)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is no longer a file")
        writing = os.open(TEMPORARY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=to_fd)
        try:
            _copy_data(reading, writing, about.st_size)
            if owner is not None:
                os.fchown(writing, owner, owner)
            os.fchmod(writing, stat.S_IMODE(about.st_mode) & 0o777 | 0o600)
            os.utime(writing, ns=(about.st_atime_ns, about.st_mtime_ns))
        except OSError:
            os.unlink(TEMPORARY, dir_fd=to_fd)
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_data(reading: int, writing: int, size: int) -> None:
    os.ftruncate(writing, size)
    offset = 0
    while offset < size:
        try:
            offset = os.lseek(reading, offset, os.SEEK_DATA)
        except OSError:  # only a hole remains
            return
        end = min(size, os.lseek(reading, offset, os.SEEK_HOLE))
        os.lseek(writing, offset, os.SEEK_SET)
        while offset < end:
            sent = os.sendfile(writing, reading, offset, min(end - offset, _SEND_BYTES))
            if sent == 0:
                return
            offset += sent


def remove(above: int, name: bytes) -> None:
    """Remove an entry of a folder with everything below it; it may be missing."""
    try:
        os.unlink(name, dir_fd=above)
    except IsADirectoryError:
        remove_tree(name, above)
    except FileNotFoundError:
        pass


def replace_odd(top: int, path: bytes, inside_dir: bytes, removed: dict[bytes, str]) -> None:
    """Replace a link by another name of its target file, or remove it; remove other entries.

    Only called for links and for entries that are neither file nor folder.
    """
    with parent_of(top, path) as (above, name):
        try:
            target, _ = find_target(top, path, inside_dir)
            with parent_of(top, target) as (from_fd, from_name):
                remove(above, TEMPORARY)
                os.link(from_name, TEMPORARY, src_dir_fd=from_fd, dst_dir_fd=above, follow_symlinks=False)
                _put_in_place(above, name)
        except OSError as error:
            removed[path] = error.strerror or str(error)
            os.unlink(name, dir_fd=above)


MAX_FILES = 20_000  # files that are compared before and after a cell; bounds its time
MAX_DEPTH = 64  # deeper folders are left out; bounds open file descriptors and recursion
_CACHES = b"__pycache__"

Snapshot = Mapping[str, tuple[int, int, int]]
# Free space of a folder that is already more than half full: bytes and files
_SLACK_BYTES, _SLACK_FILES = 16 * 2**20, 1000
_MAX_HOST_FILES = 500_000  # bounds the time to measure a folder of the user
_SHARE_OF_MEMORY = 0.25  # a folder in memory may not displace the programs of this machine
_BLOCK_BYTES = 512  # unit of st_blocks on every file system
_NUM_SHOWN = 3  # left-out files that a note names
_MAX_LINKS = 1000  # maximum number checked after a cell
_CARRIED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
Listing = Mapping[bytes, os.stat_result]
"""Status of everything below a folder, by relative path; a folder comes before its contents."""


def take_snapshot(folder: str | int) -> Snapshot:
    """Return modification time, size and inode of each file below a folder, without links, hidden folders and caches.

    At most `MAX_FILES` files, ten times as many other entries, and folders up to `MAX_DEPTH` are included.
    """
    snapshot: dict[str, tuple[int, int, int]] = {}
    for level in Walk(max_entries=10 * MAX_FILES, max_depth=MAX_DEPTH, has_parts=True).below(folder):
        level.skip |= {name for name in level.entries if name == _CACHES or name.startswith(b".")}
        for name, about in level.entries.items():
            if stat.S_ISREG(about.st_mode):
                path = b"/".join((*level.parts, name)).decode("utf-8", "surrogateescape")
                snapshot[path] = (about.st_mtime_ns, about.st_size, about.st_ino)
        if len(snapshot) > MAX_FILES:
            break
    return snapshot


def find_written(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Return the files that are new or differ, sorted."""
    changed = (path for path, about in after.items() if before.get(path) != about)
    return tuple(sorted(path.encode("utf-8", "replace").decode() for path in changed))


class WorkFolder(Protocol):
    """Working folder as the host sees it; both methods read and write files and must be called in a thread."""

    def begin(self) -> tuple[Any, tuple[str, ...]]:
        """Prepare the folder for a cell; return its listing, for `end`, and notes for the model."""
        ...

    def end(self, before: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Synchronize after a cell; return the files that it wrote and notes for the model."""
        ...


class FolderOnDisk:
    """Working folder that is used directly, without an in-memory copy."""

    def __init__(self, folder: str, owner: int | None) -> None:
        self._folder = folder
        self._owner = owner

    def begin(self) -> tuple[tuple[Snapshot, Listing], tuple[str, ...]]:
        """Prepare the folder for a cell; see `WorkFolder.begin`."""
        if self._owner is not None:  # files added since the last cell
            hand_over(self._folder, self._owner)
        with _opened(self._folder) as fd:
            return (take_snapshot(fd), _find_odd(fd)), ()

    def end(self, before: tuple[Snapshot, Listing]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the files that the cell wrote; replace or remove links, pipes and the like. See `WorkFolder.end`."""
        files, odd = before
        removed: dict[bytes, str] = {}
        with _opened(self._folder) as fd:
            for path, about in _find_odd(fd).items():
                if path not in odd or mark(odd[path]) != mark(about):
                    with contextlib.suppress(OSError):  # it was deleted meanwhile
                        replace_odd(fd, path, os.fsencode(self._folder), removed)
            return find_written(files, take_snapshot(fd)), _describe(removed, "kept")


class FolderInMemory:
    """In-memory copy of one working folder, shared by all kernels in it."""

    def __init__(self, folder: Path, fd: int, owner: int | None, inside_dir: str) -> None:
        self._disk = FolderSide(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), None, is_hostile=False)
        self._memory = FolderSide(fd, owner, is_hostile=True, inside_dir=inside_dir.encode())
        self._reported: Mapping[bytes, str] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self) -> tuple[Listing, tuple[str, ...]]:
        """Copy new and changed files of the folder to the code, and remove those deleted there."""
        with self._lock:
            if self._is_closed:
                return {}, ()
            _, left_out = self._carry(self._disk, self._memory)
            return _list_below(self._memory).entries, _describe(left_out, "brought in")

    def end(self, before: Listing) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Copy files that the code created or changed to the folder, and remove those it deleted."""
        with self._lock:
            if self._is_closed:
                return (), ()
            after, left_out = self._carry(self._memory, self._disk)
            news = {path: why for path, why in left_out.items() if self._reported.get(path) != why}
            self._reported = left_out
            notes = (*_describe_fullness(self._memory.fd), *_describe(news, "handed out"))
            return find_handed_out(before, after, left_out), notes

    def _carry(self, source: FolderSide, target: FolderSide) -> tuple[Listing, dict[bytes, str]]:
        contents = _list_below(source)
        listing, left_out = contents.entries, contents.left_out
        self._remove_gone(source, target, listing, is_whole=contents.is_whole)
        leaders: dict[tuple[int, int], bytes] = {}
        for path, about in listing.items():
            mark = source.mark(about)
            identity = (about.st_dev, about.st_ino)
            leader = leaders.setdefault(identity, path) if stat.S_ISREG(about.st_mode) else path
            if source.marks.get(path) == mark and path in target.marks:
                continue
            try:
                status = carry_one(source, target, path, contents.targets.get(path, path), about, leader)
            except OSError as error:
                left_out[path] = error.strerror or str(error)
                continue
            source.marks[path], target.marks[path] = mark, target.mark(status)
        return listing, left_out

    def _remove_gone(self, source: FolderSide, target: FolderSide, listing: Listing, *, is_whole: bool) -> None:
        """Remove files that were on both sides and are missing at the source, unless the listing is incomplete."""
        gone = [path for path in source.marks if path not in listing] if is_whole else []
        for path in reversed(gone):  # contents before their folder
            source.marks.pop(path)
            target.marks.pop(path, None)
            with contextlib.suppress(OSError), parent_of(target.fd, path) as (above, name):
                remove(above, name)

    def close(self) -> None:
        """Copy out what was written since the last cell, and close both folders; may be called twice."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._carry(self._memory, self._disk)
                os.close(self._disk.fd)
                os.close(self._memory.fd)


def _describe(left_out: Mapping[bytes, str], action: str) -> tuple[str, ...]:
    """Describe for the model what could not be copied."""
    shown = [f"{path.decode('utf-8', 'replace')!r} ({why})" for path, why in list(left_out.items())[:_NUM_SHOWN]]
    more = f" and {len(left_out) - _NUM_SHOWN} more" if len(left_out) > _NUM_SHOWN else ""
    return (f"not {action}: {', '.join(shown)}{more}",) if shown else ()


def _describe_fullness(fd: int) -> tuple[str, ...]:
    has = os.fstatvfs(fd)
    if has.f_bfree == 0:
        return (f"the working folder is full: it holds {has.f_blocks * has.f_frsize >> 20} MB, which is its limit",)
    if has.f_ffree == 0:
        return (f"the working folder is full: it holds {has.f_files} files and folders, which is its limit",)
    return ()


def measure_need(folder: Path, limit_bytes: int, limit_files: int) -> tuple[int, int]:
    """Return the size in bytes and number of files of the in-memory copy: the limits, or more if needed."""
    num_bytes = num_files = 0
    walk = Walk(max_entries=_MAX_HOST_FILES, max_depth=MAX_DEPTH)
    for level in walk.below(str(folder)):
        num_files += len(level.entries)
        num_bytes += sum(about.st_blocks * _BLOCK_BYTES for about in level.entries.values())
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit_bytes = min(limit_bytes, int(memory_bytes * _SHARE_OF_MEMORY))
    need_bytes = num_bytes + _SLACK_BYTES if num_bytes > limit_bytes // 2 else 0
    need_files = num_files + _SLACK_FILES if num_files > limit_files // 2 else 0
    return max(limit_bytes, need_bytes), max(limit_files, need_files)


def find_handed_out(before: Listing, after: Listing, left_out: Mapping[bytes, str]) -> tuple[str, ...]:
    """Return the new or changed regular files, sorted, without hidden folders, caches and files not copied out."""
    return tuple(
        sorted(
            path.decode("utf-8", "replace")
            for path, about in after.items()
            if stat.S_ISREG(about.st_mode)
            and path not in left_out
            and not _is_hidden(path)
            and (path not in before or mark(before[path]) != mark(about))
        )
    )


def _is_hidden(path: bytes) -> bool:
    return any(name.startswith(b".") or name == _CACHES for name in path.split(b"/")[:-1])


@dataclass(slots=True)
class _FolderContents:
    """Contents of one of the two folders.

    Attributes:
        entries: Entries that can be copied; a link created by code is represented by its target file.
        targets: Paths of the target files of such links.
        left_out: Entries that cannot be copied, and why.
        is_whole: True if the whole folder was seen.
    """

    entries: dict[bytes, os.stat_result] = field(default_factory=dict)
    targets: dict[bytes, bytes] = field(default_factory=dict)
    left_out: dict[bytes, str] = field(default_factory=dict)
    is_whole: bool = True

    def add(self, side: FolderSide, path: bytes, about: os.stat_result) -> None:
        kind = stat.S_IFMT(about.st_mode)
        if kind not in _CARRIED:
            self.left_out[path] = ODD
        elif kind != stat.S_IFLNK or not side.is_hostile or side.marks.get(path) == side.mark(about):
            self.entries[path] = about
        elif len(self.targets) >= _MAX_LINKS:
            self.left_out[path] = f"one of more than {_MAX_LINKS} links"
        else:
            try:
                self.targets[path], self.entries[path] = find_target(side.fd, path, side.inside_dir)
            except OSError as error:
                self.left_out[path] = error.strerror or str(error)


def _list_below(side: FolderSide) -> _FolderContents:
    contents = _FolderContents()
    walk = Walk(max_entries=_MAX_HOST_FILES, max_depth=MAX_DEPTH, has_parts=True, unlock=True)
    for level in walk.below(side.fd):
        for name, about in level.entries.items():
            if name != TEMPORARY:
                contents.add(side, b"/".join((*level.parts, name)), about)
    contents.is_whole = walk.is_whole
    if not walk.is_whole:
        contents.left_out[b"..."] = f"there are folders deeper than {MAX_DEPTH}, or closed ones"
    return contents


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _find_odd(fd: int) -> Listing:
    walk = Walk(max_entries=_MAX_HOST_FILES, max_depth=MAX_DEPTH, has_parts=True)
    return {
        b"/".join((*level.parts, name)): about
        for level in walk.below(fd)
        for name, about in level.entries.items()
        if stat.S_IFMT(about.st_mode) not in (stat.S_IFREG, stat.S_IFDIR)
    }
