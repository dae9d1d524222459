"""Local guest: a desktop for OSWorld on this machine, without a VM, in its own bubblewrap sandbox.

    async with LocalGuest() as guest:
        options = await guest.fresh(GuestOptions())     # host and ports are those of a clean guest

Programs inside have their own processes, network, home and temporary files, an ordinary user's rights, and resource
limits. The system's programs are mounted read-only. Each `fresh` ends the previous guest and starts a new one, with its
home copied from the template.

Ports inside are reached through loopback ports of this machine: each connection is passed in as one end of a socket
pair. No socket of this machine's network is passed inside, since its holder could connect it to anything.
"""

import asyncio
import contextlib
import json
import os
import select
import shutil
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

from envs.errors import EnvSetupError
from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.local_sandbox import (
    BIN,
    GUEST_PATH,
    TEMPLATE,
    Files,
    FirstProcess,
    bubblewrap_arguments,
    choose_user,
    find_python_packages,
    local_dir,
    package_folders,
    read_first_process,
)
from envs.suites.osworld.local_session import SERVER_PORT, SessionPlan, Streams, join_streams, session_argv

CHROMIUM_PORT, VLC_PORT = 9222, 8080
_PORTS = (SERVER_PORT, CHROMIUM_PORT, VLC_PORT)
_MONITOR_S = 1.0
_NETWORK_TIMEOUT_S = 20.0
_MAX_WORDS_LINES = 20
_MAX_NUM_FILES = 300_000
INSTALL_LINE = "apt-get install -y --no-install-recommends bubblewrap xvfb openbox dbus xterm"
"""Command that installs the packages of a guest with a terminal on a Debian-like system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Screen, home and resource limits of a local guest.

    Attributes:
        screen_px: Width and height of the screen.
        template: Folder that is copied as its home; None for the one of `cua setup osworld-local`, if it exists.
        memory_bytes: Limit for memory and files of all its programs together; exceeding it ends the guest. It also
            limits each single program.
        disk_bytes: Limit for its home, and the same for /tmp; both are in memory.
        file_bytes: Maximum size of a file.
        num_processes: Maximum number of processes and threads.
        allow_net: True to allow the network of this machine, except its loopback; needs slirp4netns.
        start_timeout_s: Maximum wait for it to answer.
    """

    screen_px: tuple[int, int] = (1920, 1080)
    template: Path | None = None
    memory_bytes: int = 6 * 2**30
    disk_bytes: int = 2**30
    file_bytes: int = 2**29
    num_processes: int = 1500
    allow_net: bool = False
    start_timeout_s: float = 90.0


def why_impossible() -> str | None:
    """Return what prevents local guests on this machine, with a fix; None if no problem is found in advance."""
    if sys.platform != "linux":
        return f"local guests need Linux, this is {sys.platform}"
    missing = [name for name in ("bwrap", "Xvfb", "openbox", "dbus-daemon") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found. Run `cua setup osworld-local`, or install by hand: {INSTALL_LINE}"
    if find_python_packages() is None:
        return "pyautogui for the guest's programs was not found. Run `cua setup osworld-local`"
    return None


class LocalGuest:
    """Provider of local guests, one at a time, each from the same clean state. For one event loop.

    Args:
        options: Screen, home and resource limits.
    """

    def __init__(self, options: LocalOptions | None = None) -> None:
        self.options = options or LocalOptions()
        self._sandbox: _Sandbox | None = None

    async def __aenter__(self) -> "LocalGuest":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def fresh(self, given: GuestOptions) -> GuestOptions:
        """Start a new guest; return `given` with its address.

        Raises:
            EnvSetupError: If the guest cannot be started; the message says why.
        """
        await self.close()
        why = why_impossible()
        if why is not None:
            raise EnvSetupError(why)
        sandbox = self._sandbox = _Sandbox(self.options)
        try:
            await sandbox.start()
        except BaseException:
            await self.close()
            raise
        server, chromium, vlc = sandbox.ports
        return replace(given, host="127.0.0.1", server_port=server, chromium_port=chromium, vlc_port=vlc)

    async def why_gone(self) -> str | None:
        """Return why the guest ended by itself; None if it is running, or was not started."""
        return await self._sandbox.why_gone() if self._sandbox is not None else None

    async def close(self) -> None:
        """End the guest and all processes in it. May be called twice."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.end()


class _Sandbox:
    """Bubblewrap sandbox with one session, its port forwarding, and a monitor of its resource usage."""

    def __init__(self, options: LocalOptions) -> None:
        self.options = options
        self._template = options.template or local_dir() / "home"
        self._servers: list[asyncio.Server] = []
        self._process: asyncio.subprocess.Process | None = None
        self._init: FirstProcess | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._words: deque[str] = deque(maxlen=_MAX_WORDS_LINES)
        self._is_ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._why_gone: str | None = None
        self._network: asyncio.subprocess.Process | None = None
        self._ending: int | None = None
        self._control, self._control_inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    @property
    def ports(self) -> tuple[int, ...]:
        """Loopback ports of this machine that lead to `_PORTS` inside."""
        return tuple(server.sockets[0].getsockname()[1] for server in self._servers)

    async def start(self) -> None:
        """Start the sandbox and wait until it serves.

        Raises:
            EnvSetupError: If the process exited, or takes too long.
        """
        for port in _PORTS:
            self._servers.append(await asyncio.start_server(self._make_join(port), "127.0.0.1", 0))
        with ExitStack() as opened:
            await self._spawn(opened)
        self._control_inside.close()
        try:
            is_ready = await asyncio.wait_for(asyncio.shield(self._is_ready), self.options.start_timeout_s)
        except TimeoutError:
            is_ready, limit_s = False, self.options.start_timeout_s
            self._why_gone = f"it did not serve within {limit_s:g} s"
        if not is_ready:
            raise EnvSetupError(f"the local guest did not start: {await self.why_gone()}", retryable=True)
        self._keep(self._monitor())

    async def why_gone(self) -> str | None:
        """Return why it ended; None while it is running."""
        if self._why_gone is None and (self._process is None or self._process.returncode is None):
            return None
        words = "\n".join(self._words)
        return self._why_gone or (f"it ended; its last output:\n{words}" if words else "it ended and said nothing")

    async def end(self) -> None:
        """End the sandbox; all its processes are gone when this returns."""
        for server in self._servers:
            server.close()
        self._control.close()
        self._control_inside.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.shield(asyncio.ensure_future(self._kill()))
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _spawn(self, opened: ExitStack) -> None:
        info_fd, info_fd_inside = os.pipe()
        opened.callback(os.close, info_fd)
        files = Files(opened)
        port = self.ports[0]
        user = choose_user(port)
        if user is not None and self._template.is_dir() and self._template.stat().st_mode & 0o005 != 0o005:
            why = f"the guest's user cannot read {self._template}; make it readable for all users: chmod -R a+rX"
            raise EnvSetupError(f"{why} {self._template}")
        size = self.options.disk_bytes
        arguments = bubblewrap_arguments(files, template=self._template, disk_bytes=size, user=user)
        arguments += ["--info-fd", str(info_fd_inside)]
        argument_fd = files.descriptor("\0".join(arguments) + "\0")
        try:
            self._process = await asyncio.create_subprocess_exec(
                shutil.which("bwrap") or "bwrap",
                *("--args", str(argument_fd), "--"),
                *self._session_argv(user),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={"PATH": "/usr/bin:/bin"},
                pass_fds=(*files.fds, info_fd_inside, self._control_inside.fileno()),
                start_new_session=True,
                limit=2**20,
            )
        finally:
            os.close(info_fd_inside)
        self._keep(self._listen(self._process))
        self._init = await asyncio.to_thread(read_first_process, info_fd)
        if self.options.allow_net and self._init is not None:
            await self._connect(self._init.pid, user)

    async def _connect(self, pid: int, user: int | None) -> None:
        """Connect the guest's network to the outside.

        Raises:
            EnvSetupError: If slirp4netns is missing, or does not work on this machine.
        """
        program = shutil.which("slirp4netns")
        if program is None:
            raise EnvSetupError("a guest with a network needs slirp4netns: apt-get install slirp4netns")
        ready, ready_inside = os.pipe()
        ending_inside, self._ending = os.pipe()  # it ends with this process, which holds the other end
        argv = [program, "--configure", "--mtu=65520", "--disable-host-loopback", "--enable-sandbox"]
        argv += ["--ready-fd", str(ready_inside), "--exit-fd", str(ending_inside)]
        argv += [] if user is not None else [f"--userns-path=/proc/{pid}/ns/user"]
        try:
            self._network = await asyncio.create_subprocess_exec(
                *(*argv, str(pid), "tap0"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(ready_inside, ending_inside),
            )
            os.close(ready_inside)
            readable, _, _ = await asyncio.to_thread(select.select, [ready], [], [], _NETWORK_TIMEOUT_S)
            if not readable or os.read(ready, 1) != b"1":
                raise EnvSetupError("slirp4netns cannot give the guest a network on this machine")
        finally:
            os.close(ending_inside)
            os.close(ready)

    def _session_argv(self, user: int | None) -> list[str]:
        options = self.options
        plan = SessionPlan(
            control_fd=self._control_inside.fileno(),
            screen_px=options.screen_px,
            user=user,
            template=TEMPLATE if self._template.is_dir() else "",
            num_processes=options.num_processes + (0 if user is not None else _count_threads()),
            memory_bytes=options.memory_bytes,
            file_bytes=options.file_bytes,
            path=f"{BIN}:{GUEST_PATH}",
        )
        return session_argv([sys.executable, *package_folders()], json.dumps(asdict(plan)))

    def _make_join(self, port: int) -> "Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]":
        def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(self._join(port, (reader, writer)))

        return join

    async def _join(self, port: int, outer: Streams) -> None:
        """Pass one end of a socket pair in, and forward the data."""
        here, there = socket.socketpair()
        try:
            socket.send_fds(self._control, [str(port).encode()], [there.fileno()])
        except OSError:  # the guest is gone
            here.close()
            outer[1].close()
            return
        finally:
            there.close()
        await join_streams(outer, await asyncio.open_connection(sock=here))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Read the session's output: one line when it is ready; other lines are kept for the error message."""
        assert process.stdout is not None
        with contextlib.suppress(ValueError):  # overlong line
            async for line in process.stdout:
                text = line.decode("utf-8", "replace").rstrip()
                if text == '{"ready": true}' and not self._is_ready.done():
                    self._is_ready.set_result(True)
                elif text:
                    self._words.append(text[:500])
        await process.wait()
        if not self._is_ready.done():
            self._is_ready.set_result(False)

    async def _monitor(self) -> None:
        """End the sandbox when its programs exceed their limits."""
        init, options = self._init, self.options
        while init is not None:
            await asyncio.sleep(_MONITOR_S)
            num_bytes, num_files = await asyncio.to_thread(init.usage)
            if num_bytes > options.memory_bytes or num_files > _MAX_NUM_FILES:
                self._why_gone = (
                    f"its programs and files took {num_bytes >> 20} MB of memory and {num_files} files; at most "
                    f"{options.memory_bytes >> 20} MB and {_MAX_NUM_FILES} files are possible, so it was ended"
                )
                await self._kill()
                return

    async def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        init, self._init = self._init, None
        if init is not None:
            await asyncio.to_thread(init.end)
        ending, self._ending = self._ending, None
        if ending is not None:
            os.close(ending)
        if self._network is not None:
            with contextlib.suppress(ProcessLookupError):
                self._network.kill()
            await self._network.wait()

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _count_threads() -> int:
    """Count the threads of this user on the machine; older kernels count them toward the guest's limit."""
    count = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if folder.name.isdigit() and folder.stat().st_uid == os.geteuid():
                count += len(list((folder / "task").iterdir()))
    return count
