"""Turn a fork of the zygote into a running kernel: isolate it, then split it into an init and the kernel below it.

The init is process 1 of the kernel's namespaces, or runs outside if there are none; it reaps the processes that the
kernel leaves behind. With one bubblewrap per kernel, bubblewrap is the init.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from visual_tools.sandbox.landlock import abi_version, restrict
from visual_tools.sandbox.zygote import filesystem, isolation
from visual_tools.sandbox.zygote.plan import CHANNELS, HOST_ROOT, NOBODY, SIZE_MARK, KernelSpec, ZygotePlan, to_json
from visual_tools.sandbox.zygote.process_tree import end_below

Serve = Callable[[dict[str, int], KernelSpec, int], None]
_HOSTNAME = "sandbox"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROC_FILES = "cpuinfo meminfo stat version filesystems self/status self/stat self/statm self/maps self/fd".split()
_SCOPED_SIGNALS_ABI = 6  # version of Landlock's ABI with LANDLOCK_SCOPE_SIGNAL
_FIRST_FD = 3  # after stdin, stdout and stderr
_NUM_COMING = 1000  # margin for later threads of the same user, such as other kernels; the zygote counts exactly
_SINGLE_BOOT = (
    "import sys;sys.path[:0]=sys.argv[2:];from visual_tools.sandbox.zygote.kernel_app import run_single;run_single()"
)


def spawn_kernel(plan: ZygotePlan, spec: KernelSpec, sockets: Sequence[int], report: int, serve: Serve) -> NoReturn:
    """Run the kernel in a fork of the zygote, never return.

    `serve` becomes the kernel, `report` gets one JSON object per line.
    """
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        sockets, report = _keep_only(sockets, report)
        os.setsid()
        _tell(report, {"host_pid": _own_host_pid()})
        isolation.offer_to_oom_killer()
        if plan.mode == "exec":
            _become_bubblewrap(plan, spec, sockets, report)
        if plan.mode == "nested":
            _enter_namespaces(plan, spec, report)
        split(None if plan.mode == "nested" else plan, spec, sockets, report, serve)
    except BaseException as error:  # process boundary
        _tell(report, {"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        os._exit(1)


def _tell(report: int, message: dict[str, object]) -> None:
    os.write(report, json.dumps(message).encode() + b"\n")


def _own_host_pid() -> int:
    """Return the pid of this process as seen by the zygote, whose /proc may be the host's."""
    return int(Path("/proc/self").readlink().name)


def _keep_only(sockets: Sequence[int], report: int) -> tuple[list[int], int]:
    """Close every descriptor except these, which are renumbered from 3 on."""
    wanted = [*sockets, report]
    high = max(*wanted, _FIRST_FD + len(wanted)) + 1
    copies = [os.dup2(fd, high + place, inheritable=False) for place, fd in enumerate(wanted)]
    os.closerange(_FIRST_FD, high)
    kept = [os.dup2(fd, _FIRST_FD + place, inheritable=False) for place, fd in enumerate(copies)]
    os.closerange(_FIRST_FD + len(kept), os.sysconf("SC_OPEN_MAX"))
    return kept[:-1], kept[-1]


def _enter_namespaces(plan: ZygotePlan, spec: KernelSpec, report: int) -> None:
    if plan.is_root and not spec.disk:
        filesystem.hand_over(HOST_ROOT + spec.folder, NOBODY)
    isolation.leave_namespaces(is_root=plan.is_root)
    init = os.fork()
    if init:
        _tell(report, {"pid": init})
        os._exit(0)
    _tell(report, {"host_pid": _own_host_pid()})
    filesystem.mount_root(plan, spec)
    isolation.set_hostname(_HOSTNAME)
    isolation.drop_privileges(is_root=plan.is_root)
    isolation.limit(spec.limits, num_others=0)
    isolation.filter_calls()


def split(plan: ZygotePlan | None, spec: KernelSpec, sockets: Sequence[int], report: int, serve: Serve) -> NoReturn:
    """Fork the kernel, which closes `report` before any code runs; this process becomes its init."""
    isolation.adopt_orphans()
    kernel = os.fork()
    if kernel:
        for fd in (*sockets, report):
            os.close(fd)
        _keep(kernel, is_outside=plan is not None)
    os.setsid()
    if plan is not None:
        _stay_outside(plan, spec)
    _detach_streams()
    serve(dict(zip(CHANNELS, sockets, strict=True)), spec, report)
    os._exit(0)


def _detach_streams() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__"))


def _keep(kernel: int, *, is_outside: bool) -> NoReturn:
    """Reap ended processes until the kernel ends, then exit with its exit code in shell convention."""
    isolation.own_proc_files(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if is_outside:
        signal.signal(signal.SIGTERM, _end_all)
        isolation.die_with_parent(signal.SIGTERM)
    while True:
        pid, status = os.wait()
        if pid == kernel:
            code = os.waitstatus_to_exitcode(status)
            if is_outside:
                end_below(os.getpid())
            os._exit(code if code >= 0 else 128 - code)


def _end_all(*_: object) -> NoReturn:
    end_below(os.getpid())
    os._exit(1)


def _stay_outside(plan: ZygotePlan, spec: KernelSpec) -> None:
    """Isolate without namespaces: Landlock and the filter, or limits only."""
    os.environ["TMPDIR"] = spec.private_dir
    tempfile.tempdir = None
    os.chdir(spec.folder)
    if spec.owner is not None:
        for folder in (spec.folder, spec.private_dir):
            filesystem.hand_over(folder, spec.owner)
        isolation.become(spec.owner)
    isolation.die_with_parent(signal.SIGKILL)
    num_others = isolation.count_threads_of_user() + _NUM_COMING
    if plan.mode == "landlock":
        _restrict_paths(plan, spec)
        isolation.drop_capabilities()
    isolation.limit(spec.limits, num_others=num_others)
    if plan.mode == "landlock":
        isolation.filter_calls(is_outside=True, kill_only_self=abi_version() < _SCOPED_SIGNALS_ABI)


def _restrict_paths(plan: ZygotePlan, spec: KernelSpec) -> None:
    proc = [f"/proc/{name}" for name in _PROC_FILES]
    readable = [path for path in (*plan.system_paths, *proc, *spec.readable) if Path(path).exists()]
    devices = [f"/dev/{name}" for name in _DEVICES]
    restrict(read_write=[spec.folder, spec.private_dir, *devices], read_only=readable)


def fill_in_sizes(argv: Sequence[str], memory_bytes: int) -> list[str]:
    """Replace the placeholders for the size of folders in memory in the arguments."""
    return [argument.replace(SIZE_MARK, str(filesystem.share_of_tmp(memory_bytes))) for argument in argv]


def _become_bubblewrap(plan: ZygotePlan, spec: KernelSpec, sockets: Sequence[int], report: int) -> NoReturn:
    """Run one bubblewrap around one Python process, which imports everything itself."""
    spec_fd = os.memfd_create("spec")
    os.write(spec_fd, to_json(spec).encode())
    os.lseek(spec_fd, 0, os.SEEK_SET)
    for fd in (*sockets, report, spec_fd):
        os.set_inheritable(fd, True)
    argv = fill_in_sizes(plan.wrapper, spec.limits.memory_bytes)
    argv += ["--bind", spec.folder, spec.inside_dir, "--chdir", spec.inside_dir]
    for path in spec.readable:
        argv += ["--ro-bind", path, path]
    argv += ["--remount-ro", "/"]
    fds = ",".join(map(str, (spec_fd, report, *sockets)))
    argv += [sys.executable, "-I", "-c", _SINGLE_BOOT, fds, *plan.import_paths]
    os.execve(argv[0], argv, {**os.environ, "HOME": spec.inside_dir})
