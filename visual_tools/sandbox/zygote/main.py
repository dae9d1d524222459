"""The zygote's loop: takes requests from the host, forks kernels, watches what they use, ends them.

Messages are JSON, one a packet. In: `{"make": id, "spec": ...}` with the listening sockets, `{"kill": id}`,
`{"busy": id, "is_busy", "limit_s"}`, `{"mount": id, "size_bytes", "num_files"}` and `{"unmount": id}`,
`{"remove": path}` (a folder to remove when the host is gone), `{"parent": pid}` with a pidfd of the host.
Out: `{"ready": ...}`, `{"failed": id, "error"}`, `{"over": id, "what"}` before a kernel is ended for
a limit, `{"left": id, "num_ended"}` for processes that were ended between cells, `{"ended": id, "code"}`,
`{"mount": id}` with a descriptor, or with an `error`.
When the host's end of the socket closes or the host dies, however that came about, the zygote ends every kernel,
removes the folders it was told to, and goes.
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
from pathlib import Path
from typing import Any

from visual_tools.sandbox.contract import Limits
from visual_tools.sandbox.walk import remove_tree
from visual_tools.sandbox.zygote import isolation
from visual_tools.sandbox.zygote.filesystem import Disks, enter_namespaces, keep_files
from visual_tools.sandbox.zygote.kernel_monitor import KernelMonitor
from visual_tools.sandbox.zygote.plan import HOST_ROOT, NOBODY, KernelSpec, Plan, plan_from_json, spec_from_json
from visual_tools.sandbox.zygote.spawn import fill_in_sizes, spawn_kernel

_LAST_LINE_CHARS = 300
_DISK = 10**9
_LOOK = (
    "import sys;sys.path[:0]=sys.argv[1:];from visual_tools.sandbox.zygote.main import find_unreadable;"
    "sys.exit(find_unreadable() or None)"
)


def preflight(plan: Plan, folder: str) -> str:
    """Why kernels cannot be made; "" when they can.

    Args:
        plan: How they would be.
        folder: An empty folder on the host to use as the working folder.
    """
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
        limits=Limits(),
        disk=_DISK if plan.mode == "nested" else 0,
    )
    disks = Disks(is_root=plan.is_root)
    if spec.disk:
        os.close(disks.mount(spec.disk, Limits().disk_bytes, Limits().num_files))
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
    """In place of a kernel: can it read what it will import?"""
    if why := find_unreadable():
        os.write(report, json.dumps({"error": why}).encode() + b"\n")
    os._exit(0)


def find_unreadable() -> str:
    """What of Python, its packages or this one is closed to this process, and what to do; "" when nothing is."""
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


def _try_bubblewrap(plan: Plan) -> str:
    argv = [*fill_in_sizes(plan.wrapper, Limits().memory_bytes), sys.executable, "-I", "-c", _LOOK, *plan.import_paths]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    words = done.stderr.strip().splitlines()
    return (words[-1][:_LAST_LINE_CHARS] if words else f"exit code {done.returncode}") if done.returncode else ""


_PACKET_BYTES = 1 << 18
_TICK_S = 0.2
_LEAVE_S, _LEAVE_PAUSE_S = 5.0, 0.005


def main() -> None:
    """Serve until the host goes."""
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


def prepare_places(plan: Plan) -> None:
    """Before anything is started: be where mounting is allowed, and keep what must not change below the kernels."""
    if not plan.is_root:
        enter_namespaces()
    keep_files(plan.system_paths)


class Zygote:
    """Forks kernels.

    Args:
        plan: How.
    """

    def __init__(self, plan: Plan) -> None:
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
        """Import and build what every kernel needs.

        Raises:
            SystemExit: Kernels cannot be made; it is printed why.
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

        import_all()
        self._app = prepare_app()
        warm_up()
        cache_dir = self._plan.cache_dir
        compile_loops(f"{HOST_ROOT}{cache_dir}" if cache_dir and self._plan.mode == "nested" else cache_dir)
        freeze()

    def serve(self) -> None:
        """Obey until the host is gone."""
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
        with contextlib.suppress(OSError):  # nobody listens any more
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
                what = monitor.look(now)
            except (OSError, ValueError) as error:  # of this kernel's making: it may not cost the others theirs
                what = f"what it uses could not be found out ({error})"
            if what:
                self._tell({"over": number, "what": what})
                monitor.kill()

    def leave(self) -> None:
        """End everything and remove what is left."""
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
