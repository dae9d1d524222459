"""Main loop of the zygote: takes requests from the host, forks kernels, monitors their resource use, ends them.

Messages are JSON, one per packet. In: `{"make": id, "spec": ...}` with the listening sockets, `{"kill": id}`, `{"busy":
id, "is_busy", "limit_s"}`, `{"mount": id, "size_bytes", "num_files"}` and `{"unmount": id}`, `{"remove": path}` (a
folder to remove when the host has ended), `{"parent": pid}` with a pidfd of the host. Out: `{"ready": ...}`,
`{"failed": id, "error"}`, `{"over": id, "what"}` before a kernel is ended for a limit, `{"left": id, "num_ended"}` for
processes that were ended between cells, `{"ended": id, "code"}`, `{"mount": id}` with a descriptor, or with an `error`.
When the host's end of the socket closes or the host dies for any reason, the zygote ends every kernel, removes the
requested folders, and exits.

The zygote monitors a kernel's processes, its resource use, and what its cells leave running.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from visual_tools.sandbox.contract import KernelLimits
from visual_tools.sandbox.walk import remove_tree
from visual_tools.sandbox.zygote import isolation
from visual_tools.sandbox.zygote.filesystem import Disks, enter_namespaces, keep_files
from visual_tools.sandbox.zygote.plan import HOST_ROOT, NOBODY, KernelSpec, ZygotePlan, plan_from_json, spec_from_json
from visual_tools.sandbox.zygote.process_tree import (
    FolderMeasurement,
    ResourceUsage,
    count_sockets,
    count_wakeups,
    find_own_pid,
    kill_below,
    measure_removed,
    read_memory,
    read_usage,
)
from visual_tools.sandbox.zygote.spawn import fill_in_sizes, spawn_kernel

_LOOK_S = 0.8  # between two counts of thread wakeups
_NUM_WAKEUPS = 4  # maximum between two checks; an idle kernel has none
_NUM_ACTIVE = 2  # consecutive checks
_IDLE_S = 0.8  # between two checks of a kernel that runs no cell
_NUM_SOCKETS = 512  # each holds at most about 200 kB, which no other limit counts
_DISK_SLICE_S = 0.01  # time spent measuring folders per check
_MAX_FIRST_FILES = 500_000  # maximum number that may exist before the first cell
# Free space that a folder has beyond what it holds at the start: bytes and files
_DISK_SLACK_BYTES, _DISK_SLACK_FILES = 16 * 2**20, 1000


class Leftover:
    """Monitor of what a cell leaves running in a kernel between cells."""

    def __init__(self) -> None:
        self.num_ended = 0
        self._own: frozenset[int] = frozenset()
        self._until = float("inf")
        self._limit_s = 0.0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._next_look, self._wakeups, self._num_active = 0.0, -1, 0
        self._ended: set[int] = set()  # they may still exist, because they have not been reaped

    def begin_cell(self, pids: Collection[int], now: float, limit_s: float) -> None:
        """Note that a cell with time limit `limit_s` begins.

        The processes at the first call are the kernel's own and may stay.
        """
        self._own = self._own or frozenset(pids)
        self._until, self._limit_s = now + limit_s, limit_s
        self._begin_anew()

    def look(self, usage: ResourceUsage, now: float) -> str:
        """Kill processes that are past the time limit, between cells.

        Returns the reason why the kernel must be ended, or "".
        """
        if now < self._until or now < self._next_look:
            return ""
        self._next_look = now + _LOOK_S
        for pid in usage.pids:
            if pid not in self._own and pid not in self._ended:
                self._ended.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(find_own_pid(pid), signal.SIGKILL)
                    self.num_ended += 1
        before, self._wakeups = self._wakeups, count_wakeups(self._own)
        is_active = before >= 0 and self._wakeups - before > _NUM_WAKEUPS
        self._num_active = self._num_active + 1 if is_active else 0
        if self._num_active < _NUM_ACTIVE:
            return ""
        return f"threads or tasks of a cell ran on after its time limit of {self._limit_s:g} s"


class KernelMonitor:
    """Monitor of a kernel that is starting or running.

    Args:
        spec: Specification of the kernel.
        child: Process that was forked for it; its parent is the zygote.
        report: Pipe from the kernel's process.
        folders: Folders on this machine's disks that it may write, as the zygote sees them.
        is_outside: True if no PID namespace ends its processes with the first one.

    Attributes:
        report: Pipe from the kernel's process; -1 when closed.
        is_busy: True if a cell runs; set it with `set_busy`.
    """

    def __init__(
        self, spec: KernelSpec, child: int, report: int, folders: Sequence[str], *, is_outside: bool = False
    ) -> None:
        self.report = report
        self.is_busy = False
        self._spec = spec
        self._folders = folders
        self._is_outside = is_outside
        self._pid: int | None = None  # process 1 of the kernel, once it is known
        self._child = child
        self._host_pid: int | None = None
        self._text = b""
        self._base_rss = -1
        self._next_look = 0.0
        self._disk_bytes, self._num_files = spec.limits.disk_bytes, spec.limits.num_files
        self._has_measured = False
        self._measures: list[FolderMeasurement] = []
        self._is_killed = False
        self._leftover = Leftover()

    def read_reports(self) -> list[dict[str, Any]]:
        """Read the new messages of the kernel's process."""
        data = os.read(self.report, 1 << 16)
        if not data:
            self.close()
        *lines, self._text = (self._text + data).split(b"\n")
        messages = [json.loads(line) for line in lines]
        for message in messages:
            self._pid = message.get("pid", self._pid)
            self._host_pid = message.get("host_pid", self._host_pid)
        return messages

    def is_waiting_for(self, pid: int) -> bool:
        """Return True if this ended process may have reported another process that it left behind."""
        return self.report >= 0 and self._pid is None and pid == self._child

    def is_end(self, pid: int) -> bool:
        """Return True if the end of this process is the end of the kernel."""
        return pid == (self._pid or self._child)

    def kill(self) -> None:
        """Kill every process of the kernel."""
        self._is_killed = True
        if self._is_outside:  # its init ends the remaining processes, then itself
            kill_below(self._child)
            return
        for pid in {self._pid or self._child, self._child}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def set_busy(self, is_busy: bool, limit_s: float = 0.0) -> int:
        """Note that a cell begins or has ended.

        Returns how many processes of earlier cells were ended since the last call.
        """
        self.is_busy = is_busy
        if is_busy and self._host_pid is not None:
            usage = read_usage(self._host_pid)
            self._base_rss = usage.rss_bytes if self._base_rss < 0 else self._base_rss
            self._leftover.begin_cell(usage.pids, time.monotonic(), limit_s)
        num_ended, self._leftover.num_ended = self._leftover.num_ended, 0
        return num_ended

    def close(self) -> None:
        """Close the pipe."""
        if self.report >= 0:
            os.close(self.report)
            self.report = -1

    def look(self, now: float) -> str:
        """Return a description of the exceeded limit, or ""."""
        if self._host_pid is None or self._is_killed or (now < self._next_look and not self.is_busy):
            return ""
        self._next_look = now + _IDLE_S
        limits, usage = self._spec.limits, read_usage(self._host_pid)
        if usage.cpu_s > limits.cpu_s:
            return f"it had used {limits.cpu_s:g} s of processor time, which is its limit"
        if usage.num_threads > limits.num_processes + 2:
            return f"it had more than {limits.num_processes} processes and threads"
        if usage.rss_bytes - self._base_rss > limits.memory_bytes and self._uses_more(usage, limits.memory_bytes):
            return f"its processes used more than {limits.memory_bytes >> 20} MB of memory"
        if count_sockets(usage.pids) > _NUM_SOCKETS:
            return f"it had more than {_NUM_SOCKETS} sockets"
        return self._look_at_disk(usage) or ("" if self.is_busy else self._leftover.look(usage, now))

    def _uses_more(self, usage: ResourceUsage, memory_bytes: int) -> bool:
        return read_memory(usage.pids) > memory_bytes

    def _look_at_disk(self, usage: ResourceUsage) -> str:
        """Measure a little more of the kernel's folders; what existed from the beginning does not count."""
        if not self._folders:
            return ""
        if not self._measures:
            most = self._num_files + 1 if self._has_measured else _MAX_FIRST_FILES
            self._measures = [FolderMeasurement(folder, max_entries=most) for folder in self._folders]
        if not all(measure.go_on(_DISK_SLICE_S) for measure in self._measures):
            return ""
        has_bytes = sum(measure.num_bytes for measure in self._measures)
        has_bytes += measure_removed(usage.pids, {os.stat(folder).st_dev for folder in self._folders})  # noqa: PTH116
        has_files = sum(measure.num_entries for measure in self._measures)
        self._measures = []
        if not self._has_measured:
            self._has_measured = True
            self._disk_bytes = max(self._disk_bytes, has_bytes + _DISK_SLACK_BYTES)
            self._num_files = max(self._num_files, has_files + _DISK_SLACK_FILES)
        if has_files > self._num_files:
            return f"its folder held more than {self._num_files} files and folders"
        if has_bytes > self._disk_bytes:
            return f"its folder held more than {self._disk_bytes >> 20} MB"
        return ""


_LAST_LINE_CHARS = 300  # of a failed program's last output
_DISK = 10**9  # number of the file system of the trial kernel; those of kernels count from 1
_LOOK = (
    "import sys;sys.path[:0]=sys.argv[1:];from visual_tools.sandbox.zygote.main import find_unreadable;"
    "sys.exit(find_unreadable() or None)"
)


def preflight(plan: ZygotePlan, folder: str) -> str:
    """Return the reason why kernels cannot be created; "" if they can."""
    if plan.mode == "exec":
        return _try_bubblewrap(plan)
    place = Path((HOST_ROOT if plan.mode == "nested" else "") + folder)
    for name in ("work", "tmp"):
        (place / name).mkdir(exist_ok=True)
    spec = KernelSpec(
        folder=f"{folder}/work",
        inside_dir="/mnt/work" if plan.mode == "nested" else f"{folder}/work",
        readable=(),
        private_dir=f"{folder}/tmp",
        owner=NOBODY if plan.is_root else None,
        key="",
        limits=KernelLimits(),
        disk=_DISK if plan.mode == "nested" else 0,
    )
    disks = Disks(is_root=plan.is_root)
    if spec.disk:
        os.close(disks.mount(spec.disk, KernelLimits().disk_bytes, KernelLimits().num_files))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        spawn_kernel(plan, spec, [write_end] * 3, write_end, _look_around)
    os.close(write_end)
    monitor = KernelMonitor(spec, child, read_end, [str(place)])
    errors = []
    while monitor.report >= 0:
        errors += [str(message["error"]) for message in monitor.read_reports() if "error" in message]
    os.waitpid(child, 0)
    if spec.disk:
        disks.unmount(spec.disk)
    return "; ".join(errors)


def _look_around(_: dict[str, int], __: KernelSpec, report: int) -> None:
    """Check, in place of a kernel, that everything it will import is readable."""
    if why := find_unreadable():
        os.write(report, json.dumps({"error": why}).encode() + b"\n")
    os._exit(0)


def find_unreadable() -> str:
    """Return which part of Python or its packages this process cannot read, and how to fix it; "" if none."""
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    for path in (sys.executable, os.__file__, __file__, *packages):
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError as error:
            return (
                f"kernels cannot read {path} ({error.strerror}): Python and its packages must be readable without the "
                "rights that kernels give up. Use a Python in a folder that is open to this user (such as /usr or "
                "/opt), or open this one and the folders above it: chmod o+rx"
            )
    return ""


def _try_bubblewrap(plan: ZygotePlan) -> str:
    argv = [
        *fill_in_sizes(plan.wrapper, KernelLimits().memory_bytes),
        sys.executable,
        "-I",
        "-c",
        _LOOK,
        *plan.import_paths,
    ]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    words = done.stderr.strip().splitlines()
    return (words[-1][:_LAST_LINE_CHARS] if words else f"exit code {done.returncode}") if done.returncode else ""


_PACKET_BYTES = 1 << 18
_TICK_S = 0.2  # interval at which limits of kernels are checked: overshoot against processor time
_LEAVE_S, _LEAVE_PAUSE_S = 5.0, 0.005  # time for killed processes to leave before their folder is unmounted


def main() -> None:
    """Serve until the host ends."""
    plan = plan_from_json(sys.argv[1])
    if plan.mode == "nested":
        prepare_places(plan)
    if plan.is_preflight:
        print(preflight(plan, plan.preflight_dir))
        return
    zygote = Zygote(plan)
    try:
        zygote.prepare()
        zygote.serve()
    finally:
        zygote.leave()


def prepare_places(plan: ZygotePlan) -> None:
    """Enter a namespace where mounting is allowed, and keep files that must not change while kernels run."""
    if not plan.is_root:
        enter_namespaces()
    keep_files(plan.system_paths)


class Zygote:
    """Zygote process that forks kernels."""

    def __init__(self, plan: ZygotePlan) -> None:
        self._plan = plan
        self._host = socket.socket(fileno=plan.control_fd)
        self._monitors: dict[int, KernelMonitor] = {}
        self._folders: list[str] = []
        self._disks = Disks(is_root=plan.is_root)
        self._app: Any = None
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wakeup, write_end = os.pipe()
        for fd in (self._wakeup, write_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._host, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)

    def prepare(self) -> None:
        """Import and build everything that kernels need.

        Raises:
            SystemExit: If kernels cannot be created; the reason is printed.
        """
        isolation.adopt_orphans()
        why = preflight(self._plan, self._plan.preflight_dir)
        if why:
            raise SystemExit(why)
        if self._plan.mode != "exec":
            self._import()
        self._tell({"ready": True})

    def _import(self) -> None:
        from visual_tools.sandbox.zygote.kernel_app import compile_loops, freeze, import_all, prepare_app, warm_up

        import_all(self._check_host)
        self._app = prepare_app()
        self._check_host()
        warm_up()
        self._check_host()
        cache_dir = self._plan.cache_dir
        compile_loops(f"{HOST_ROOT}{cache_dir}" if cache_dir and self._plan.mode == "nested" else cache_dir)
        freeze()

    def _check_host(self) -> None:
        """Check, before the first request is processed, that the host still waits.

        Raises:
            SystemExit: If it has closed its end of the socket.
        """
        poll = select.poll()
        poll.register(self._host, 0)  # reports only a closed socket
        if poll.poll(0):
            raise SystemExit("the host is gone")

    def serve(self) -> None:
        """Process requests until the host ends."""
        while True:
            timeout_ms = _TICK_S * 1000 if self._monitors else None
            ready = [fd for fd, _ in self._poll.poll(timeout_ms)]
            for fd in ready:
                if fd == self._host.fileno():
                    if not self._obey():
                        return
                elif fd == self._wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wakeup, 4096)
                else:
                    self._listen(fd)
            self._reap()
            self._watch()

    def _tell(self, message: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # the host has closed its end
            self._host.send(json.dumps(message).encode())

    def _obey(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._host, _PACKET_BYTES, 8)
        except OSError:
            return False
        if not data:
            return False
        request = json.loads(data)
        if "make" in request:
            self._make(request["make"], spec_from_json(json.dumps(request["spec"])), fds)
        elif "kill" in request and request["kill"] in self._monitors:
            self._monitors[request["kill"]].kill()
        elif "busy" in request and request["busy"] in self._monitors:
            num_ended = self._monitors[request["busy"]].set_busy(request["is_busy"], request["limit_s"])
            if num_ended:
                self._tell({"left": request["busy"], "num_ended": num_ended})
        elif "mount" in request:
            self._mount_disk(request["mount"], request["size_bytes"], request["num_files"])
        elif "unmount" in request:
            self._disks.unmount(request["unmount"])
        elif "remove" in request:
            self._folders.append(request["remove"])
        elif "parent" in request:
            self._poll.register(fds[0], select.POLLIN)
            self._parent = fds[0]
        return True

    def _mount_disk(self, number: int, size_bytes: int, num_files: int) -> None:
        try:
            fd = self._disks.mount(number, size_bytes, num_files)
        except OSError as error:
            self._tell({"mount": number, "error": str(error)})
            return
        with contextlib.suppress(OSError):
            socket.send_fds(self._host, [json.dumps({"mount": number}).encode()], [fd])
        os.close(fd)

    def _make(self, number: int, spec: KernelSpec, sockets: list[int]) -> None:
        read_end, write_end = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # the fork must not write to our pipe
        child = os.fork()
        if child == 0:
            spawn_kernel(self._plan, spec, sockets, write_end, self._become)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for fd in (*sockets, write_end):
            os.close(fd)
        is_outside = self._plan.mode in ("landlock", "none")
        on_disk = (*(() if spec.disk else (spec.folder,)), *((spec.private_dir,) if is_outside else ()))
        folders = [self._host_path(folder) for folder in on_disk]
        self._monitors[number] = KernelMonitor(spec, child, read_end, folders, is_outside=is_outside)
        self._poll.register(read_end, select.POLLIN)

    def _become(self, ports: dict[str, int], spec: KernelSpec, report: int) -> None:
        from visual_tools.sandbox.zygote.kernel_app import run_app

        os.environ["HOME"] = spec.inside_dir
        run_app(self._app, ports, spec, report)

    def _host_path(self, path: str) -> str:
        return HOST_ROOT + path if self._plan.mode == "nested" else path

    def _listen(self, fd: int) -> None:
        for number, monitor in self._monitors.items():
            if monitor.report == fd:
                self._read_report(number, monitor)
                return
        raise SystemExit("the host is gone")

    def _read_report(self, number: int, monitor: KernelMonitor) -> None:
        fd = monitor.report
        for message in monitor.read_reports():
            if "error" in message:
                self._tell({"failed": number, "error": message["error"]})
        if monitor.report < 0:
            self._poll.unregister(fd)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._forget(pid, os.waitstatus_to_exitcode(status))

    def _forget(self, pid: int, code: int) -> None:
        for number, monitor in list(self._monitors.items()):
            if monitor.is_waiting_for(pid):
                self._read_report(number, monitor)
            if monitor.is_end(pid):
                while monitor.report >= 0:
                    self._read_report(number, monitor)
                del self._monitors[number]
                self._tell({"ended": number, "code": code})

    def _watch(self) -> None:
        now = time.monotonic()
        for number, monitor in self._monitors.items():
            try:
                exceeded = monitor.look(now)
            except (OSError, ValueError) as error:  # caused by this kernel: it must not affect the others
                exceeded = f"its use of resources could not be measured ({error})"
            if exceeded:
                self._tell({"over": number, "what": exceeded})
                monitor.kill()

    def leave(self) -> None:
        """End all kernels and remove what remains."""
        until = time.monotonic() + _LEAVE_S
        while self._monitors and time.monotonic() < until:
            for monitor in self._monitors.values():
                monitor.kill()
            self._reap()
            time.sleep(_LEAVE_PAUSE_S)
        for folder in self._folders:
            remove_tree(self._host_path(folder))


if __name__ == "__main__":
    main()
