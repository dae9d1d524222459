"""Refuse system calls that code about images never needs and that could lead out of a sandbox.

    install_filter(allow_inet=False)

The refused calls are listed in `REFUSALS` as data. `assemble` compiles them to a classic BPF program, `install_filter`
loads it for every thread of the process; children inherit it, and it cannot be removed. It needs no privileges:
`no_new_privs` is set first, which also disables setuid programs.

libseccomp's Python binding is not used: distributions package it for their own Python, and the PyPI package needs the
library on the system. The sandbox works from a plain `pip install`, and a filter as data can be tested without loading
it.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from errno import ENOSYS, ENOTSUP, EPERM
from typing import Literal

from visual_tools.errors import SandboxError
from visual_tools.sandbox.syscall_numbers import number_of

_STREAM_TYPES = tuple(kind | flags for kind in (1, 5) for flags in (0, 0x800, 0x80000, 0x80800))
# Source: linux/sched.h, asm-generic/socket.h, linux/socket.h
_CLONE_NEW_ANYTHING = 0x7E020000
_BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and their FORCE variants
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10  # from Linux' socket.h


@dataclass(frozen=True, slots=True)
class Arg:
    """Condition on one argument of a call; only its lower 32 bits count, as in the kernel for these calls.

    `arg` counts from 0; `has bit` means that the argument has a bit of one of the values.
    """

    arg: int
    is_: Literal["in", "not in", "has bit"]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """System calls that are refused, always or under a condition.

    Attributes:
        why: What the calls could be used for.
        calls: Names of the calls, separated by spaces.
        when: Condition under which they are refused; None for always.
        errno: Error number that the caller gets.
    """

    why: str
    calls: str
    when: Arg | None = None
    errno: int = EPERM


REFUSALS: tuple[Refusal, ...] = (
    Refusal("run calls past this filter", "io_uring_setup io_uring_enter io_uring_register"),
    Refusal("new namespaces, in which a process has every capability", "unshare setns"),
    Refusal("the same through clone", "clone", Arg(0, "has bit", (_CLONE_NEW_ANYTHING,))),
    Refusal("the same through a struct that a filter cannot read; libc falls back to clone", "clone3", errno=ENOSYS),
    Refusal("change what is mounted", "mount umount2 pivot_root chroot move_mount mount_setattr"),
    Refusal("the same, newer interface", "open_tree open_tree_attr fsopen fsconfig fsmount fspick statmount listmount"),
    Refusal("read and write other processes", "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"),
    Refusal("take memory from other processes", "process_madvise process_mrelease migrate_pages move_pages"),
    Refusal("change the limits of other processes, which can kill them", "prlimit64", Arg(0, "not in", (0,))),
    Refusal("slow down other processes", "setpriority", Arg(0, "not in", (0,))),
    Refusal("slow down other processes", "setpriority ioprio_set", Arg(1, "not in", (0,))),
    Refusal("slow down other processes", "ioprio_set", Arg(0, "not in", (1,))),
    Refusal("slow down other processes", "sched_setaffinity sched_setattr", Arg(0, "not in", (0,))),
    Refusal("slow down other processes; libraries set the usual policy", "sched_setscheduler", Arg(1, "not in", (0,))),
    Refusal("load programs into the kernel, watch it", "bpf perf_event_open fanotify_init syslog lookup_dcookie"),
    Refusal("hold the kernel at a page fault", "userfaultfd"),
    Refusal("keyrings, which know no namespaces", "keyctl add_key request_key"),
    Refusal("another kernel, modules", "kexec_load kexec_file_load init_module finit_module delete_module"),
    Refusal("the machine itself", "reboot iopl ioperm acct swapon swapoff vhangup nfsservctl quotactl quotactl_fd"),
    Refusal("open files by number, past every folder", "open_by_handle_at name_to_handle_at"),
    Refusal("clock and name of the machine", "settimeofday clock_settime clock_adjtime adjtimex"),
    Refusal("clock and name of the machine", "sethostname setdomainname"),
    Refusal("memory and queues that outlive the process", "shmget msgget semget mq_open"),
    Refusal("files in memory that no limit counts", "memfd_create memfd_secret"),
    Refusal("type into the terminal: TIOCSTI, TIOCLINUX", "ioctl", Arg(1, "in", (0x5412, 0x541C))),
    Refusal("weaken the layout of memory; asking is allowed", "personality", Arg(0, "not in", (0xFFFFFFFF,))),
    Refusal("larger buffers, seemingly set", "setsockopt", Arg(2, "in", _BUFFER_SIZES), errno=0),
    Refusal("memory that lives on in a pipe", "vmsplice"),
    Refusal("see what others do with files", "inotify_init inotify_init1 inotify_add_watch", errno=ENOSYS),
    Refusal("device files; pipes and plain files are allowed", "mknod", Arg(1, "has bit", (0o020000,))),
    Refusal("device files; pipes and plain files are allowed", "mknodat", Arg(2, "has bit", (0o020000,))),
)

_METADATA = (
    Refusal("modes, seemingly set: copying files goes on", "chmod fchmod fchmodat fchmodat2", errno=0),
    Refusal("times, seemingly set", "utime utimes futimesat utimensat", errno=0),
    Refusal("owners", "chown fchown lchown fchownat file_setattr"),
    Refusal("attributes", "setxattr lsetxattr fsetxattr setxattrat", errno=ENOTSUP),
    Refusal("attributes", "removexattr lremovexattr fremovexattr removexattrat", errno=ENOTSUP),
)


def make_refusals(
    *,
    allow_inet: bool,
    kill_only_self: bool = False,
    allow_unix_connect: bool = True,
    allow_metadata: bool = True,
    pid: int,
    pgid: int,
) -> tuple[Refusal, ...]:
    """Return all refusals for these options; see `install_filter`."""
    families = (_AF_UNIX, _AF_INET, _AF_INET6) if allow_inet else (_AF_UNIX,)
    chosen = [Refusal("networks, and families of sockets full of holes", "socket", Arg(0, "not in", families))]
    chosen.append(Refusal("the same in pairs", "socketpair", Arg(0, "not in", (_AF_UNIX,))))
    if not allow_unix_connect:
        chosen.append(Refusal("sockets that send without connecting", "socket", Arg(1, "not in", _STREAM_TYPES)))
        chosen.append(Refusal("services of the machine that listen on a Unix socket", "connect"))
    if not allow_metadata:
        chosen += _METADATA
    if kill_only_self:
        chosen += [
            Refusal("signals to others", "kill", Arg(0, "not in", (0, pid, -pid & 0xFFFFFFFF, -pgid & 0xFFFFFFFF))),
            Refusal("signals to others", "tgkill rt_sigqueueinfo rt_tgsigqueueinfo", Arg(0, "not in", (pid,))),
            Refusal("signals to whom a filter cannot tell", "tkill pidfd_send_signal"),
            Refusal("signals through a file's owner", "fcntl", Arg(1, "in", (8, 10, 15))),
            Refusal("signals through a socket's owner", "ioctl", Arg(1, "in", (0x8901, 0x8902))),
        ]
    return (*REFUSALS, *chosen)


def install_filter(
    *,
    allow_inet: bool,
    kill_only_self: bool = False,
    allow_unix_connect: bool = True,
    allow_metadata: bool = True,
) -> None:
    """Refuse the calls of `make_refusals` to this process, all its threads and all its children, irrevocably.

    Refused calls give EPERM, `clone3` ENOSYS; calls of another architecture (32 bit, x32) kill the process.

    Args:
        allow_inet: True to allow IPv4 and IPv6 sockets; otherwise only Unix sockets can be created.
        kill_only_self: True to allow signals only to the process that installs the filter and to its process group; for
            use without a PID namespace or Landlock scope. Its children can then be signalled only as a group, so
            `Popen.kill` fails.
        allow_unix_connect: True to allow Unix sockets to connect. Otherwise the process can still listen and use socket
            pairs.
        allow_metadata: True to allow changes of modes, owners, times and attributes of files; otherwise setting modes
            and times appears to succeed without effect. Use False where outside files are only protected against
            writing, as with Landlock.

    Raises:
        SandboxError: If the machine is neither x86_64 nor aarch64, or its kernel refuses the filter.
    """
    machine, pid, pgid = platform.machine(), os.getpid(), os.getpgrp()
    refusals = make_refusals(
        allow_inet=allow_inet,
        kill_only_self=kill_only_self,
        allow_unix_connect=allow_unix_connect,
        allow_metadata=allow_metadata,
        pid=pid,
        pgid=pgid,
    )
    load_program(assemble(refusals, machine), machine)


# Source: linux/bpf_common.h, linux/seccomp.h, linux/audit.h
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR_OFFSET, _ARCH_OFFSET, _ARGS_OFFSET = 0, 4, 16
_X32_BIT = 0x40000000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

Instruction = tuple[int, int, int, int]
"""BPF instruction: code, instructions to skip if true, instructions to skip if false, constant."""


def assemble(refusals: Iterable[Refusal], machine: str) -> list[Instruction]:
    """Assemble the BPF program that refuses these calls and allows all others.

    Source: `struct seccomp_data` and the instruction set in Linux, Documentation/userspace-api/seccomp_filter.rst.

    Raises:
        SandboxError: If the machine is not supported.
    """
    listed = [(number_of(call, machine), refusal) for refusal in refusals for call in refusal.calls.split()]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH_OFFSET),
        (_IF_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR_OFFSET),
        (_IF_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL),
    ]
    for number, refusal in listed:
        if number is not None:
            body = _body_of(refusal)
            program += [(_IF_EQUAL, 0, len(body), number), *body]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _body_of(refusal: Refusal) -> list[Instruction]:
    refuse: Instruction = (_RETURN, 0, 0, _ERRNO | refusal.errno)
    when = refusal.when
    if when is None:
        return [refuse]
    code = _IF_BIT if when.is_ == "has bit" else _IF_EQUAL
    tests = [(code, len(when.values) - index, 0, value) for index, value in enumerate(when.values)]
    skip_one: Instruction = (_IF_AT_LEAST, 1, 1, 0)
    ending = [refuse] if when.is_ == "not in" else [skip_one, refuse]
    reload: Instruction = (_LOAD, 0, 0, _NR_OFFSET)
    return [(_LOAD, 0, 0, _ARGS_OFFSET + 8 * when.arg), *tests, *ending, reload]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def load_program(program: Sequence[Instruction], machine: str) -> None:
    """Load a BPF program as the filter of every thread of this process, after setting `no_new_privs`.

    Raises:
        SandboxError: If the kernel refuses it.
    """
    set_mode_filter, all_threads, set_no_new_privs = 1, 1, 38
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    argument = _Program(len(program), ctypes.addressof(buffer))
    if libc.prctl(set_no_new_privs, 1, 0, 0, 0) != 0:
        raise SandboxError(f"no_new_privs cannot be set: {os.strerror(ctypes.get_errno())}")
    number = number_of("seccomp", machine)
    status = libc.syscall(ctypes.c_long(number or 0), set_mode_filter, all_threads, ctypes.byref(argument))
    if status != 0:
        reason = os.strerror(ctypes.get_errno()) if status < 0 else f"thread {status} has another filter"
        raise SandboxError(
            f"the filter of system calls cannot be loaded: {reason}. The kernel needs CONFIG_SECCOMP_FILTER"
        )
