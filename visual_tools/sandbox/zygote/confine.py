"""Make a fork into an isolated process: namespaces, another user, limits, no capabilities, a filter of system calls."""

import contextlib
import os
import resource
from pathlib import Path

from visual_tools.sandbox.contract import Limits
from visual_tools.sandbox.seccomp import install_filter
from visual_tools.sandbox.zygote import system
from visual_tools.sandbox.zygote.plan import NOBODY

_EVERYTHING = (
    system.CLONE_NEWNS
    | system.CLONE_NEWPID
    | system.CLONE_NEWNET
    | system.CLONE_NEWIPC
    | system.CLONE_NEWUTS
    | system.CLONE_NEWCGROUP
)
_SLACK_BYTES = 512 * 2**20  # of address space for stacks and heaps of threads, which is not memory
_NUM_FILES = 1024
_OOM_SCORE = 800  # of 1000: the machine's last resort takes a kernel before anything else


def leave_namespaces(*, is_root: bool) -> None:
    """Take namespaces of all kinds; the next fork is process 1 of the new PID namespace.

    Raises:
        OSError: They are refused here.
    """
    if is_root:
        system.unshare(_EVERYTHING)
        return
    uid, gid = os.geteuid(), os.getegid()
    system.unshare(_EVERYTHING | system.CLONE_NEWUSER)
    map_user(NOBODY, NOBODY, uid, gid)


def drop_privileges(*, is_root: bool) -> None:
    """Become nobody, in a user namespace of its own in which processes are counted apart, without capabilities."""
    if is_root:
        become(NOBODY)
        system.unshare(system.CLONE_NEWUSER)
        map_user(NOBODY, NOBODY, NOBODY, NOBODY)
    system.drop_capabilities()


def become(user: int) -> None:
    """Change the real root into another user, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    system.own_proc_files(True)


def map_user(uid: int, gid: int, outer_uid: int, outer_gid: int) -> None:
    """Say who the one user of a new user namespace is, inside and outside."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


def offer_to_oom_killer() -> None:
    """Be the first that the kernel ends when the machine has no memory left."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))


def count_threads_of_user() -> int:
    """Threads that run as this process's user, where they cannot be counted apart."""
    count = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if folder.name.isdigit() and folder.stat().st_uid == os.geteuid():
                count += len(list((folder / "task").iterdir()))
    return count


def limit(limits: Limits, *, num_others: int) -> None:
    """Set the limits that the operating system itself keeps for a process and its children.

    Args:
        limits: For the kernel.
        num_others: Threads that count for the same user and are none of the kernel's.
    """
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for kind, value in (
        (resource.RLIMIT_AS, has_bytes + limits.memory_bytes + _SLACK_BYTES),
        (resource.RLIMIT_NPROC, limits.num_processes + num_others),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CPU, int(limits.cpu_s) + 5),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _NUM_FILES),
        (resource.RLIMIT_MEMLOCK, 2**20),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


def filter_calls(*, is_outside: bool = False, kill_only_self: bool = False) -> None:
    """Refuse the system calls that lead out; for good.

    Args:
        is_outside: No namespaces hide the machine's other sockets and files.
        kill_only_self: Nor other processes.
    """
    install_filter(
        allow_inet=False,
        kill_only_self=kill_only_self,
        allow_unix_connect=not is_outside,
        allow_metadata=not is_outside,
    )
