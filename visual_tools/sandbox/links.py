"""Symbolic links that code has made in its working folder: which file of that folder each leads to."""

import os
import stat

ODD = "a pipe, a socket or a device"
_MAX_STEPS = 256  # names and links on the way to one target
_PIECES = (b"", b".")


def find_target(top: int, path: bytes, inside_dir: bytes) -> tuple[bytes, os.stat_result]:
    """The regular file that a link leads to: its path from the top without any link, and what it is.

    The folder may be changing: whoever opens the path does so name by name, without following a link.

    Args:
        top: Descriptor of the working folder.
        path: Of the link, from the top.
        inside_dir: Where the code sees the top, for links with absolute targets.

    Raises:
        OSError: It leads to something else, or out of the folder; `strerror` says so.
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
