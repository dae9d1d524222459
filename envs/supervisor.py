"""Small process between this program and the programs it starts, so that none of them outlives it.

`supervisor_command` returns its command line: `envs.desktop.programs` starts it to serve requests, other callers to run
a single program. Run as `python supervisor.py PARENT_PID` it starts programs on request and reports their exit. When
its standard input closes or its parent dies for any reason (`kill -9` included), it ends every process below it,
removes the registered files, and exits. As a child subreaper it also tracks programs that went to the background. It
uses only the standard library.

Wire format, one JSON object per line. In: `{"start": id, "argv", "env", "cwd", "stdout", "stderr"}` starts a program
(paths for its output), `{"kill": pid}` ends a program with all below it and what it left running, `{"kill": null}` all
programs, `{"remove": path}` removes a folder at exit, `{"x_socket": path}` removes the socket of an X server at exit,
in case the server could not. Out: `{"started": id, "pid"}` or `{"started": id, "error"}` for each start, `{"ended":
pid, "code"}` for each exit, `{"killed": pid}` for each kill.

Run as `python supervisor.py PARENT_PID -- COMMAND ...` it starts that one program with its own input and output, and
ends with it and its exit code, when its parent dies, or on SIGTERM; no process remains in any of these cases.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36  # Source: linux/prctl.h
_GRACE_S = 0.5  # between SIGTERM and SIGKILL
_GIVE_UP_S = 5.0  # a process in uninterruptible sleep cannot be killed


def supervisor_command(*program: str) -> list[str]:
    """Return the command line that starts a supervisor below this process.

    Args:
        program: The single program to run, with its arguments; empty to serve requests.
    """
    return [
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).resolve()),
        str(os.getpid()),
        *(("--", *program) if program else ()),
    ]


def main() -> None:
    """Serve requests until the parent ends, then clean up."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    supervisor, code = _Supervisor(int(sys.argv[1])), 0
    try:
        if sys.argv[2:3] == ["--"]:
            code = supervisor.run(sys.argv[3:])
        else:
            supervisor.serve()
    finally:
        supervisor.leave()
    sys.exit(code)


class _Supervisor:
    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._buffer = b""
        self._folders: list[str] = []
        self._sockets: list[str] = []
        self._stopping = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wakeup, write_end = os.pipe()
        for fd in (self._wakeup, write_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def serve(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        with contextlib.suppress(OSError, AttributeError):  # without pidfd, only the closing pipe is noticed
            poll.register(os.pidfd_open(self._parent), select.POLLIN)
        while not self._stopping and os.getppid() == self._parent:
            ready = {fd for fd, _ in poll.poll()}
            if self._wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
                self._reap()
            if 0 in ready and not self._read():
                return

    def run(self, argv: list[str]) -> int:
        """Start one program with the standard streams of this process, and return its exit code as a shell does."""
        try:
            program = subprocess.Popen(argv, start_new_session=True, preexec_fn=die_with_parent)
        except (OSError, ValueError) as error:
            os.write(2, f"cannot start {argv[0]}: {error}\n".encode())
            return 127
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(nothing, fd)  # only the program holds its pipes, so that readers see its end
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        with contextlib.suppress(OSError, AttributeError):
            poll.register(os.pidfd_open(self._parent), select.POLLIN)
        while not self._stopping and os.getppid() == self._parent and program.poll() is None:
            poll.poll(1000)
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)
        code = program.poll()
        return 128 + signal.SIGTERM if code is None else code if code >= 0 else 128 - code

    def _read(self) -> bool:
        data = os.read(0, 1 << 16)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(data)

    def _obey(self, request: dict[str, Any]) -> None:
        if "start" in request:
            self._start(request)
        elif "kill" in request:
            self._kill_below(request["kill"])
            _report({"killed": request["kill"]})
        elif "remove" in request:
            self._folders.append(request["remove"])
        elif "x_socket" in request:
            self._sockets.append(request["x_socket"])

    def _start(self, request: dict[str, Any]) -> None:
        try:
            with open(request["stdout"], "ab") as out, open(request["stderr"], "ab") as err:  # noqa: PTH123
                program = subprocess.Popen(
                    request["argv"],
                    env=request["env"],
                    cwd=request["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # safe: this process has one thread
                )
        except (OSError, ValueError) as error:
            _report({"started": request["start"], "error": str(error)})
            return
        program.returncode = 0  # reaped here, not by subprocess
        _report({"started": request["start"], "pid": program.pid})

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                _report({"ended": pid, "code": os.waitstatus_to_exitcode(status)})

    def _kill_below(self, root: int | None) -> None:
        """End `root`, all below it and its session (None: every process below this one), with SIGTERM first."""
        top = os.getpid() if root is None else root
        begin = time.monotonic()
        asked: set[int] = set()
        while time.monotonic() < begin + _GIVE_UP_S:
            self._reap()
            below = process_tree(os.getpid()) - {os.getpid()}
            # The children of a program that died, and programs that went to the background, are now below this process.
            pids = (process_tree(top) | asked | {pid for pid in below if _session_of(pid) == root}) & below
            if not pids:
                return
            late = time.monotonic() > begin + _GRACE_S
            for pid in pids if late else pids - asked:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
            asked |= pids
            time.sleep(0.005)

    def leave(self) -> None:
        self._kill_below(None)
        for path in self._sockets:
            _remove_dead_socket(path)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent() -> None:
    """Make the kernel kill this process as soon as the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def process_tree(root: int) -> set[int]:
    """Return `root`, if it runs, and every process below it."""
    parents = _parents()
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    tree: set[int] = set()
    queue = [root] if root in parents else []
    while queue:
        pid = queue.pop()
        tree.add(pid)
        queue += children.get(pid, [])
    return tree


def _session_of(pid: int) -> int | None:
    """Return the session of a process, which is the pid of the program that it belongs to; None if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    if not Path("/proc/self/stat").exists():  # not Linux
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
        return {int(line.split()[0]): int(line.split()[1]) for line in listing.splitlines()}
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The command may contain spaces and brackets; state and parent follow the last bracket.
            parents[int(stat.parent.name)] = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
    return parents


def _remove_dead_socket(path: str) -> None:
    """Remove a socket without a listener; the display number may belong to another server by now."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            Path(path).unlink()


def _report(message: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError):  # the reader is gone
        os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
