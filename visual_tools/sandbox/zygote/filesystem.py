"""File systems for kernels: a writable tmpfs of fixed size, and a read-only root with system and Python.

The zygote mounts the tmpfs and keeps it for the host; the root is built in the mount namespace of each kernel.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from visual_tools.sandbox.walk import Walk
from visual_tools.sandbox.zygote import isolation
from visual_tools.sandbox.zygote.isolation import map_user
from visual_tools.sandbox.zygote.plan import HOST_ROOT, NOBODY, KernelSpec, ZygotePlan

DISKS = "/disks"
FIXED = "/fixed"
_FLAGS = isolation.MS_NOSUID | isolation.MS_NODEV
NEW_ROOT = "/newroot"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "ptmx": "pts/ptmx"}
_MASKED = "cmdline keys key-users modules timer_list sched_debug latency_stats sys/kernel/random/boot_id".split()
_MODES_OF_TMP = "mode=1777"


def enter_namespaces() -> None:
    """Enter a mount namespace in which an unprivileged user may mount; requires a single-threaded process.

    Raises:
        OSError: If it is refused here.
    """
    uid, gid = os.geteuid(), os.getegid()
    isolation.unshare(isolation.CLONE_NEWUSER | isolation.CLONE_NEWNS)
    map_user(uid, gid, uid, gid)


class Disks:
    """Mounted file systems in memory."""

    def __init__(self, *, is_root: bool) -> None:
        self._is_root = is_root

    def mount(self, number: int, size_bytes: int, num_files: int) -> int:
        """Mount a file system and return a descriptor of it.

        Raises:
            OSError: If it is refused.
        """
        place = place_of(number)
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
        owner = f",uid={NOBODY},gid={NOBODY}" if self._is_root else ""
        options = f"size={size_bytes},nr_inodes={num_files},mode=700{owner}"
        isolation.mount("tmpfs", place, "tmpfs", _FLAGS, options)
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY)

    def unmount(self, number: int) -> None:
        """Unmount a file system; it is freed when it is no longer in use."""
        with contextlib.suppress(OSError):
            isolation.unmount(place_of(number))
            os.rmdir(place_of(number))  # noqa: PTH106


def place_of(number: int) -> str:
    """Return the mount point of a file system, as the zygote sees it."""
    return f"{DISKS}/{number}"


def keep_files(paths: Sequence[str]) -> None:
    """Keep copies of single files, such as the linker's cache: a bind mount is lost when its file is replaced."""
    for path in paths:
        if Path(path).is_file():
            copy = Path(FIXED + path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            copy.chmod(0o644)


def kept_copy(path: str) -> str:
    """Return the kept copy of a file, or the path itself if there is none."""
    return FIXED + path if os.path.isfile(FIXED + path) else path  # noqa: PTH113


def share_of_tmp(memory_bytes: int) -> int:
    """Return the size limit of /tmp in bytes, also used for /dev/shm; both are in memory."""
    return memory_bytes // 4


def mount_root(plan: ZygotePlan, spec: KernelSpec) -> None:
    """Build the kernel's view in this process's own mount namespace and make it the root.

    Raises:
        OSError: If the kernel refuses, or a path does not exist.
    """
    isolation.mount("none", "/", flags=isolation.MS_REC | isolation.MS_PRIVATE)
    isolation.mount("tmpfs", NEW_ROOT, "tmpfs", isolation.MS_NOSUID | isolation.MS_NODEV, "size=4m,mode=755")
    _make_tmpfs("/tmp", share_of_tmp(spec.limits.memory_bytes))  # before mounts that may be below it
    for path in plan.system_paths:
        _show(kept_copy(path), path, is_read_only=True)
    for name, target in plan.links.items():
        Path(NEW_ROOT, name).symlink_to(target)
    _make_dev(spec.limits.memory_bytes)
    _make_folder("/proc")
    isolation.mount("proc", NEW_ROOT + "/proc", "proc", isolation.MS_NOSUID | isolation.MS_NODEV | isolation.MS_NOEXEC)
    _mask_proc()
    _show(place_of(spec.disk) if spec.disk else HOST_ROOT + spec.folder, spec.inside_dir, is_read_only=False)
    for path in spec.readable:
        _show(HOST_ROOT + path, path, is_read_only=True)
    isolation.change_root(NEW_ROOT)
    isolation.protect("/")
    os.chdir(spec.inside_dir)


def _mask_proc() -> None:
    """Hide files in /proc that identify this machine or its current boot."""
    for name in _MASKED:
        place = f"{NEW_ROOT}/proc/{name}"
        if os.path.lexists(place):
            isolation.mount("/dev/null", place, flags=isolation.MS_BIND)


def _show(source: str, target: str, *, is_read_only: bool) -> None:
    place = NEW_ROOT + target
    if Path(source).is_dir():
        _make_folder(target)
    else:
        _make_folder(str(Path(target).parent))
        Path(place).touch()
    isolation.bind(source, place, is_read_only=is_read_only)


def _make_folder(path: str) -> None:
    Path(NEW_ROOT + path).mkdir(mode=0o755, parents=True, exist_ok=True)


def _make_tmpfs(path: str, size_bytes: int) -> None:
    _make_folder(path)
    options = f"size={size_bytes},nr_inodes=16384,{_MODES_OF_TMP}"
    isolation.mount("tmpfs", NEW_ROOT + path, "tmpfs", isolation.MS_NOSUID | isolation.MS_NODEV, options)


def _make_dev(memory_bytes: int) -> None:
    _make_folder("/dev/pts")
    for name in _DEVICES:
        target = f"{NEW_ROOT}/dev/{name}"
        Path(target).touch()
        isolation.mount(f"/dev/{name}", target, flags=isolation.MS_BIND)
    for name, link in _DEVICE_LINKS.items():
        Path(NEW_ROOT, "dev", name).symlink_to(link)
    flags = isolation.MS_NOSUID | isolation.MS_NOEXEC
    isolation.mount("devpts", NEW_ROOT + "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")
    _make_tmpfs("/dev/shm", share_of_tmp(memory_bytes))


def hand_over(folder: str, owner: int) -> None:
    """Change the owner of a working folder and its contents to the user that runs the code; requires root.

    Files with several names are left unchanged: another name may be outside.
    """
    for level in Walk().below(folder):
        if os.fstat(level.fd).st_uid != owner:
            os.fchown(level.fd, owner, owner)
        for name, about in level.entries.items():
            if about.st_nlink == 1 and about.st_uid != owner and not stat.S_ISDIR(about.st_mode):
                with contextlib.suppress(FileNotFoundError):
                    os.chown(name, owner, owner, dir_fd=level.fd, follow_symlinks=False)
