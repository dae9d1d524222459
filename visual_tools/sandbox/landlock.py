"""Confine a process to some folders with Landlock, irrevocably and without privileges.

    restrict(read_write=["/work/run"], read_only=["/usr", "/etc"])

The coverage of Landlock depends on its ABI version, which `abi_version` returns. What it does not cover must be refused
by other means (`visual_tools.sandbox.seccomp`):

| ABI | Linux | adds |
|---|---|---|
| 1 | 5.13 | reading, writing, making, removing files and folders |
| 2 | 5.19 | linking and moving between folders (before: always refused) |
| 3 | 6.2 | truncating files (before: `truncate` of a file outside works where the file's owner matches) |
| 4 | 6.7 | TCP bind and connect (before: the network is open) |
| 5 | 6.10 | ioctl of devices (before: of every device whose file can be opened) |
| 6 | 6.12 | signals and abstract Unix sockets (before: to every process of the same user) |
| 8 | 7.0 | restricting every thread at once (before: the calling one and what it starts) |
| 9 | 7.1 | connecting to Unix sockets by path (before: to each that the user may write) |

Not covered by any ABI up to 9: UDP and raw sockets; `stat` of files outside and the listing of other processes in
/proc; chmod, chown, times and extended attributes of files outside; SysV IPC; descriptors that are already open.
Tracing other processes and reading their memory and environment is refused from ABI 1 on.
"""

import ctypes
import os
import platform
import stat
import struct
from collections.abc import Sequence

from visual_tools.errors import SandboxError
from visual_tools.sandbox.syscall_numbers import number_of

# Source: linux/landlock.h; the last constant: linux/prctl.h.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV, _RESOLVE_UNIX = 1 << 14, 1 << 15, 1 << 16
_NUM_FS_RIGHTS_FROM = {1: 13, 2: 14, 3: 15, 5: 16, 9: 17}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV | _RESOLVE_UNIX
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_TCP = 0b11
_SIGNALS_AND_ABSTRACT_SOCKETS = 0b11
_EVERY_THREAD = 1 << 3
_NO_NEW_PRIVS = 38


def abi_version() -> int:
    """Return the Landlock ABI version; 0 if Landlock is missing: old kernel, disabled, or not Linux."""
    try:
        return max(0, _call("landlock_create_ruleset", None, ctypes.c_size_t(0), 1))
    except SandboxError:
        return 0


def restrict(*, read_write: Sequence[str], read_only: Sequence[str]) -> None:
    """Restrict the calling thread and everything it starts to these paths, for all access rights that this ABI knows.

    Below ABI 8 other running threads are not restricted: call it before any is started. Device files cannot be created
    anywhere. TCP is refused from ABI 4 on, signals and abstract Unix sockets to the outside from ABI 6 on, Unix sockets
    by path from ABI 9 on.

    Args:
        read_write: Files and folders with read, write, create, remove and execute access.
        read_only: Files and folders with read and execute access.

    Raises:
        SandboxError: If Landlock is not available, or a path cannot be opened.
    """
    abi = abi_version()
    if abi == 0:
        raise SandboxError("Landlock is not available here; it needs Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK")
    handled = (1 << max(rights for since, rights in _NUM_FS_RIGHTS_FROM.items() if since <= abi)) - 1
    ruleset = _make_ruleset(abi, handled)
    try:
        for path in read_only:
            _allow(ruleset, path, _READING & handled)
        for path in read_write:
            _allow(ruleset, path, handled & ~(_MAKE_CHAR | _MAKE_BLOCK))
        if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise SandboxError(f"no_new_privs cannot be set: {os.strerror(ctypes.get_errno())}")
        _call("landlock_restrict_self", ruleset, _EVERY_THREAD if abi >= 8 else 0)
    finally:
        os.close(ruleset)


def _make_ruleset(abi: int, handled: int) -> int:
    words = [handled]
    if abi >= 4:
        words.append(_TCP)
    if abi >= 6:
        words.append(_SIGNALS_AND_ABSTRACT_SOCKETS)
    attributes = struct.pack(f"={len(words)}Q", *words)
    return _call("landlock_create_ruleset", attributes, ctypes.c_size_t(len(attributes)), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(f"{path!r} cannot be allowed: {error.strerror}") from error
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        rule_path_beneath = 1
        _call("landlock_add_rule", ruleset, rule_path_beneath, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def _call(name: str, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    status: int = libc.syscall(ctypes.c_long(number_of(name, platform.machine()) or 0), *arguments)
    if status < 0:
        raise SandboxError(f"{name} failed: {os.strerror(ctypes.get_errno())}")
    return status
