"""File systems in memory, of fixed size: what kernels write into. The zygote mounts and keeps them for its host."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from visual_tools.sandbox.zygote import system
from visual_tools.sandbox.zygote.confine import map_user
from visual_tools.sandbox.zygote.plan import NOBODY

ROOMS = "/rooms"
FIXED = "/fixed"
_FLAGS = system.MS_NOSUID | system.MS_NODEV


def enter_namespaces() -> None:
    """Take a mount namespace in which an ordinary user may mount; only a process of one thread can.

    Raises:
        OSError: It is refused here.
    """
    uid, gid = os.geteuid(), os.getegid()
    system.unshare(system.CLONE_NEWUSER | system.CLONE_NEWNS)
    map_user(uid, gid, uid, gid)


class Disks:
    """The mounted ones.

    Args:
        is_root: The real root mounts them; kernels run as nobody.
    """

    def __init__(self, *, is_root: bool) -> None:
        self._is_root = is_root

    def mount(self, number: int, size_bytes: int, num_files: int) -> int:
        """Mount one; a descriptor of it.

        Raises:
            OSError: It is refused.
        """
        place = place_of(number)
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
        owner = f",uid={NOBODY},gid={NOBODY}" if self._is_root else ""
        options = f"size={size_bytes},nr_inodes={num_files},mode=700{owner}"
        system.mount("tmpfs", place, "tmpfs", _FLAGS, options)
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY)

    def unmount(self, number: int) -> None:
        """Take one away; it goes when nobody uses it any more."""
        with contextlib.suppress(OSError):
            system.unmount(place_of(number))
            os.rmdir(place_of(number))  # noqa: PTH106


def place_of(number: int) -> str:
    """Where one is, as the zygote sees it."""
    return f"{ROOMS}/{number}"


def keep_files(paths: Sequence[str]) -> None:
    """Keep copies of single files, such as the linker's cache: one that is bound is lost when a new one replaces it."""
    for path in paths:
        if Path(path).is_file():
            copy = Path(FIXED + path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            copy.chmod(0o644)


def kept_copy(path: str) -> str:
    """The copy of a file, if one is kept; else the path itself."""
    return FIXED + path if os.path.isfile(FIXED + path) else path  # noqa: PTH113
