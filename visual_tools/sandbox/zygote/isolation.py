"""Turn a fork into an isolated process: namespaces, another user, limits, no capabilities, a system call filter.

The first part wraps system calls that Python does not provide; errors are raised as OSError.
"""

import contextlib
import ctypes
import os
import platform
import resource
import struct
from pathlib import Path

from visual_tools.sandbox.contract import KernelLimits
from visual_tools.sandbox.seccomp import install_filter
from visual_tools.sandbox.syscall_numbers import number_of
from visual_tools.sandbox.zygote.plan import NOBODY

# Source: linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 36, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)
_EVERYTHING = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
_SLACK_BYTES = 512 * 2**20  # address space for stacks and heaps of threads, which does not count as memory
_NUM_FILES = 1024  # the usual soft limit of Linux
_OOM_SCORE = 800  # of 1000: the OOM killer selects a kernel before anything else


def _check(status: int, name: str) -> None:
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _syscall(name: str, *arguments: object) -> None:
    number = number_of(name, platform.machine())
    if number is None:
        raise OSError(f"{name}: unknown on {platform.machine()}")
    _check(_libc.syscall(ctypes.c_long(number), *arguments), name)


def unshare(flags: int) -> None:
    """Create new namespaces for this process."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system, or bind a path; an empty string means no value."""
    texts = [text.encode() if text else None for text in (source, target, kind, options)]
    _check(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount {target}")


def bind(source: str, target: str, *, is_read_only: bool, is_recursive: bool = True) -> None:
    """Bind-mount a file or folder, with nosuid and nodev."""
    mount(source, target, flags=MS_BIND | (MS_REC if is_recursive else 0))
    attributes = _ATTR_NOSUID | _ATTR_NODEV | (_ATTR_RDONLY if is_read_only else 0)
    _set_mount(target, attributes, is_recursive=is_recursive)


def protect(target: str) -> None:
    """Make the mount at `target` read-only, without the mounts below it."""
    _set_mount(target, _ATTR_RDONLY, is_recursive=False)


def _set_mount(target: str, attributes: int, *, is_recursive: bool) -> None:
    request = struct.pack("=QQQQ", attributes, 0, 0, 0)
    flags = _AT_RECURSIVE if is_recursive else 0
    size = ctypes.c_size_t(len(request))
    _syscall("mount_setattr", ctypes.c_int(_AT_FDCWD), target.encode(), ctypes.c_uint(flags), request, size)


def unmount(place: str) -> None:
    """Unmount lazily; the file system is freed when it is no longer in use."""
    _check(_libc.umount2(place.encode(), _MNT_DETACH), f"umount {place}")


def change_root(folder: str) -> None:
    """Make `folder`, which must be a mount, the root; the previous root becomes unreachable."""
    os.chdir(folder)
    _syscall("pivot_root", b".", b".")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")


def die_with_parent(signal_number: int) -> None:
    """Receive a signal when the thread that forked this process ends. A change of user resets this."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of every descendant process that is orphaned."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def own_proc_files(is_own: bool) -> None:
    """Allow or forbid the user of this process to inspect it through /proc."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(is_own), 0, 0, 0), "PR_SET_DUMPABLE")


def drop_capabilities() -> None:
    """Drop every capability and the means to regain one."""
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # numbers above the last one are refused
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, struct.pack("=6I", 0, 0, 0, 0, 0, 0)), "capset")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")


def set_hostname(name: str) -> None:
    """Set the hostname in this UTS namespace."""
    with contextlib.suppress(OSError):
        _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def leave_namespaces(*, is_root: bool) -> None:
    """Create namespaces of all kinds; the next fork is process 1 of the new PID namespace.

    Raises:
        OSError: If they are refused here.
    """
    if is_root:
        unshare(_EVERYTHING)
        return
    uid, gid = os.geteuid(), os.getegid()
    unshare(_EVERYTHING | CLONE_NEWUSER)
    map_user(NOBODY, NOBODY, uid, gid)


def drop_privileges(*, is_root: bool) -> None:
    """Become `nobody` in a new user namespace with its own process count, and drop all capabilities."""
    if is_root:
        become(NOBODY)
        unshare(CLONE_NEWUSER)
        map_user(NOBODY, NOBODY, NOBODY, NOBODY)
    drop_capabilities()


def become(user: int) -> None:
    """Change from the real root to another user, irrevocably."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    own_proc_files(True)


def map_user(uid: int, gid: int, outer_uid: int, outer_gid: int) -> None:
    """Map the single user of a new user namespace to an outside user."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


def offer_to_oom_killer() -> None:
    """Make this process the first choice of the OOM killer."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))


def count_threads_of_user() -> int:
    """Count the threads of this process's user, for systems where they cannot be counted per namespace."""
    count = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if folder.name.isdigit() and folder.stat().st_uid == os.geteuid():
                count += len(list((folder / "task").iterdir()))
    return count


def limit(limits: KernelLimits, *, num_others: int) -> None:
    """Set the resource limits that the operating system enforces for a process and its children."""
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
    """Refuse the system calls that lead out of the sandbox, irrevocably.

    Args:
        is_outside: True if no namespaces hide the machine's other sockets and files.
        kill_only_self: True if no namespace hides other processes.
    """
    install_filter(
        allow_inet=False,
        kill_only_self=kill_only_self,
        allow_unix_connect=not is_outside,
        allow_metadata=not is_outside,
    )
