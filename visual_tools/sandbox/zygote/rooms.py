"""A view of the file system for one kernel: system and Python to read, one folder to write, nothing else."""

import contextlib
import os
import stat
from pathlib import Path

from visual_tools.sandbox.walk import Walk
from visual_tools.sandbox.zygote import system
from visual_tools.sandbox.zygote.disks import kept_copy, place_of
from visual_tools.sandbox.zygote.plan import HOST_ROOT, KernelSpec, Plan

NEW_ROOT = "/newroot"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "ptmx": "pts/ptmx"}
_MASKED = "cmdline keys key-users modules timer_list sched_debug latency_stats sys/kernel/random/boot_id".split()
_MODES_OF_TMP = "mode=1777"


def share_of_tmp(memory_bytes: int) -> int:
    """Bytes that /tmp may hold, and /dev/shm as much again; they lie in memory."""
    return memory_bytes // 4


def move_in(plan: Plan, spec: KernelSpec) -> None:
    """Build the view in this process's own mount namespace and make it the root.

    Raises:
        OSError: The kernel refuses, or a path is not there.
    """
    system.mount("none", "/", flags=system.MS_REC | system.MS_PRIVATE)
    system.mount("tmpfs", NEW_ROOT, "tmpfs", system.MS_NOSUID | system.MS_NODEV, "size=4m,mode=755")
    _make_tmpfs("/tmp", share_of_tmp(spec.limits.memory_bytes))  # before what may lie below it
    for path in plan.system_paths:
        _show(kept_copy(path), path, is_read_only=True)
    for name, target in plan.links.items():
        Path(NEW_ROOT, name).symlink_to(target)
    _make_dev(spec.limits.memory_bytes)
    _make_folder("/proc")
    system.mount("proc", NEW_ROOT + "/proc", "proc", system.MS_NOSUID | system.MS_NODEV | system.MS_NOEXEC)
    _mask_proc()
    _show(place_of(spec.room) if spec.room else HOST_ROOT + spec.folder, spec.inside_dir, is_read_only=False)
    for path in spec.readable:
        _show(HOST_ROOT + path, path, is_read_only=True)
    system.change_root(NEW_ROOT)
    system.protect("/")
    os.chdir(spec.inside_dir)


def _mask_proc() -> None:
    """Hide what tells this machine, or this start of it, from others."""
    for name in _MASKED:
        place = f"{NEW_ROOT}/proc/{name}"
        if os.path.lexists(place):
            system.mount("/dev/null", place, flags=system.MS_BIND)


def _show(source: str, target: str, *, is_read_only: bool) -> None:
    place = NEW_ROOT + target
    if Path(source).is_dir():
        _make_folder(target)
    else:
        _make_folder(str(Path(target).parent))
        Path(place).touch()
    system.bind(source, place, is_read_only=is_read_only)


def _make_folder(path: str) -> None:
    Path(NEW_ROOT + path).mkdir(mode=0o755, parents=True, exist_ok=True)


def _make_tmpfs(path: str, size_bytes: int) -> None:
    _make_folder(path)
    options = f"size={size_bytes},nr_inodes=16384,{_MODES_OF_TMP}"
    system.mount("tmpfs", NEW_ROOT + path, "tmpfs", system.MS_NOSUID | system.MS_NODEV, options)


def _make_dev(memory_bytes: int) -> None:
    _make_folder("/dev/pts")
    for name in _DEVICES:
        target = f"{NEW_ROOT}/dev/{name}"
        Path(target).touch()
        system.mount(f"/dev/{name}", target, flags=system.MS_BIND)
    for name, link in _DEVICE_LINKS.items():
        Path(NEW_ROOT, "dev", name).symlink_to(link)
    flags = system.MS_NOSUID | system.MS_NOEXEC
    system.mount("devpts", NEW_ROOT + "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")
    _make_tmpfs("/dev/shm", share_of_tmp(memory_bytes))


def hand_over(folder: str, owner: int) -> None:
    """Give a working folder and what lies in it to the user that runs the code; only root can, and must.

    Files with several names stay as they are: another name may lie outside.

    Args:
        folder: Its path.
        owner: Number of the user and of the group.
    """
    for level in Walk().below(folder):
        if os.fstat(level.fd).st_uid != owner:
            os.fchown(level.fd, owner, owner)
        for name, about in level.entries.items():
            if about.st_nlink == 1 and about.st_uid != owner and not stat.S_ISDIR(about.st_mode):
                with contextlib.suppress(FileNotFoundError):
                    os.chown(name, owner, owner, dir_fd=level.fd, follow_symlinks=False)
