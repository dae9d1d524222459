"""Make a file, folder or link of one folder in another one, by descriptors: no link is followed on either side."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from visual_tools.sandbox.links import find_target
from visual_tools.sandbox.walk import open_folder, remove_tree

Mark = tuple[int, ...]
TEMPORARY = b".k25-carried"
_SEND_BYTES = 1 << 24


@dataclass(slots=True)
class Side:
    """One of the two folders: the one on disk, or the one in memory.

    Attributes:
        fd: Of the folder.
        owner: User that what is carried here belongs to; None for whoever carries it.
        is_hostile: Whether code can change files here and set their times back.
        inside_dir: Where code sees this folder.
        marks: What was there when both were last the same, by path.
    """

    fd: int
    owner: int | None
    is_hostile: bool
    inside_dir: bytes = b""
    marks: dict[bytes, Mark] = field(default_factory=dict)

    def mark(self, about: os.stat_result) -> Mark:
        """What differs when something was changed."""
        found = mark(about)
        return (*found, about.st_ctime_ns) if self.is_hostile and len(found) > 1 else found


def mark(about: os.stat_result) -> Mark:
    """What differs when something was changed; a folder by itself never does."""
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFDIR:
        return (kind,)
    return (kind, about.st_ino, about.st_size, about.st_mtime_ns)


@contextlib.contextmanager
def parent_of(top: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """The folder that holds a path, opened name by name so that no link is followed, and the last name."""
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
    source: Side, target: Side, path: bytes, from_path: bytes, about: os.stat_result, leader: bytes
) -> os.stat_result:
    """Make one file, folder or link on the other side; what it is there."""
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
    """Copy what a file holds, its holes as holes, its mode without special bits, its time."""
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
    place = 0
    while place < size:
        try:
            place = os.lseek(reading, place, os.SEEK_DATA)
        except OSError:  # only a hole is left
            return
        end = min(size, os.lseek(reading, place, os.SEEK_HOLE))
        os.lseek(writing, place, os.SEEK_SET)
        while place < end:
            sent = os.sendfile(writing, reading, place, min(end - place, _SEND_BYTES))
            if sent == 0:
                return
            place += sent


def remove(above: int, name: bytes) -> None:
    """Remove what has a name in a folder, with everything below it; nothing may be there."""
    try:
        os.unlink(name, dir_fd=above)
    except IsADirectoryError:
        remove_tree(name, above)
    except FileNotFoundError:
        pass


def replace_odd(top: int, path: bytes, inside_dir: bytes, removed: dict[bytes, str]) -> None:
    """Put another name of the file in the place of a link, or nothing; remove what is neither file, folder nor link."""
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
