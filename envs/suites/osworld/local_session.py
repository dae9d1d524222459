"""Session inside a local guest: the screen, its programs' bus, the guest server, and a home copied from a template.

    python -c "from envs.suites.osworld.local_session import main; main()" '{...}'

`local` starts it within bubblewrap. It becomes an ordinary user, sets its limits, starts Xvfb, a session bus, the
accessibility bus and openbox, prints `{"ready": true}` in one line, and serves. It ends when the screen ends.
"""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.desktop.options import DesktopOptions
from envs.desktop.private_display import PrivateDisplay, save_quiet_config
from envs.desktop.programs import Programs
from envs.errors import EnvError, require
from envs.suites.osworld.guest import Guest
from envs.suites.osworld.guest_server import make_app

SERVER_PORT = 5000
HOME = Path("/home/user")
RUN = Path("/run/user")
_USUAL_BUS = RUN / "1000" / "bus"
_TERMINALS = ("gnome-terminal", "xterm -title Terminal")
_BUS_LAUNCHERS = ("/usr/libexec/at-spi-bus-launcher", "/usr/lib/at-spi2-core/at-spi-bus-launcher")
_FOLDERS = ("Desktop", "Documents", "Downloads", "Music", "Pictures", "Public", "Templates", "Videos")
_NUM_FILES = 8192
_OOM_SCORE = 800
"""OOM score, of 1000: the kernel kills these programs before all others."""
_CHUNK_BYTES = 65_536
_MAX_NAME_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """Parameters of the session.

    Attributes:
        control_fd: Socket that receives connections to the guest's ports: a port number with a descriptor.
        screen_px: Width and height of the screen.
        user: Id of the user to become; None if the process already runs as that user.
        template: Folder that is copied as the home; "" for an empty one with the usual folders.
        num_processes: Maximum number of processes and threads of the user.
        memory_bytes: Maximum private memory of each process.
        file_bytes: Maximum size of a file.
        path: PATH of the programs.
    """

    control_fd: int
    screen_px: tuple[int, int]
    user: int | None
    template: str
    num_processes: int
    memory_bytes: int
    file_bytes: int
    path: str


def main() -> None:
    """Run the session until the screen or the parent process ends."""
    given = json.loads(sys.argv[1])
    plan = SessionPlan(**{**given, "screen_px": tuple(given["screen_px"])})
    try:
        _become(plan)
        _restore_home(plan.template)
        asyncio.run(_Session(plan).serve())
    except (EnvError, OSError, ValueError) as error:
        _say({"error": str(error)})
        sys.exit(1)


def _say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def _become(plan: SessionPlan) -> None:
    """Switch permanently to an ordinary user with resource limits."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    if plan.user is not None:
        for folder in (HOME, RUN):
            os.chown(folder, plan.user, plan.user)
        os.setgroups([])
        os.setresgid(plan.user, plan.user, plan.user)
        os.setresuid(plan.user, plan.user, plan.user)
    limits = (
        (resource.RLIMIT_NPROC, plan.num_processes),
        (resource.RLIMIT_DATA, plan.memory_bytes),
        (resource.RLIMIT_FSIZE, plan.file_bytes),
        (resource.RLIMIT_NOFILE, _NUM_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 2**20),
        (resource.RLIMIT_MSGQUEUE, 0),
    )
    for kind, value in limits:
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))
    os.umask(0o022)


def _restore_home(template: str) -> None:
    """Fill the empty home.

    Raises:
        OSError: If the template cannot be read, or is larger than the home's limit.
    """
    if template:
        shutil.copytree(template, HOME, symlinks=True, dirs_exist_ok=True)
    for name in _FOLDERS:
        (HOME / name).mkdir(exist_ok=True)


class _Session:
    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan
        folder = RUN / "session"
        folder.mkdir(mode=0o700)
        self._programs = Programs(folder)
        environment = {
            "PATH": plan.path,
            "HOME": str(HOME),
            "TMPDIR": "/tmp",
            "USER": "user",
            "LOGNAME": "user",
            "SHELL": "/bin/bash",
            "NO_AT_BRIDGE": "0",
            "QT_ACCESSIBILITY": "1",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
            "GSETTINGS_BACKEND": "dconf",
            "XDG_CURRENT_DESKTOP": "GNOME",
            "PULSE_SERVER": "none",
        }
        options = DesktopOptions(screen_px=plan.screen_px, env=environment, start_timeout_s=60.0)
        self._display = PrivateDisplay(self._programs, options, HOME)
        self._ended = asyncio.Event()
        self._joins: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Start everything and serve until the screen ends.

        Raises:
            EnvError: If a component did not start.
        """
        self._display.start()
        server = self._display.server
        assert server is not None
        loop = asyncio.get_running_loop()
        server.ended.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended.set))
        self._link_bus()
        self._start_accessibility()
        _save_keys(HOME / ".config")
        guest = Guest(self._display.name, environment=self._display.env)
        self._display.start_window_manager(guest.has_window_manager)
        serving = asyncio.ensure_future(self._serve_http(guest))
        control = socket.socket(fileno=self._plan.control_fd)
        control.setblocking(False)
        loop.add_reader(control, self._take_connection, control)
        _say({"ready": True})
        ending = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
        _say({"error": "the X server ended" if self._ended.is_set() else "the guest server ended"})
        os._exit(1)  # child processes end with it: it is the first process of its namespace

    def _link_bus(self) -> None:
        """Link the session bus to the path that tasks expect."""
        address = self._display.env.get("DBUS_SESSION_BUS_ADDRESS", "")
        _USUAL_BUS.parent.mkdir(mode=0o700, exist_ok=True)
        _USUAL_BUS.symlink_to(address.removeprefix("unix:path="))

    def _start_accessibility(self) -> None:
        launcher = next((path for path in _BUS_LAUNCHERS if Path(path).exists()), None)
        if launcher is not None:
            self._programs.start([launcher, "--launch-immediately"], self._display.env, HOME)

    async def _serve_http(self, guest: Guest) -> None:
        uvicorn = require("uvicorn", "osworld")
        listening = socket.create_server(("127.0.0.1", SERVER_PORT))
        await uvicorn.Server(uvicorn.Config(make_app(guest), log_level="warning")).serve([listening])

    def _take_connection(self, control: socket.socket) -> None:
        """Accept one connection from outside, and forward it to its port."""
        try:
            name, fds, _, _ = socket.recv_fds(control, _MAX_NAME_BYTES, 1)
        except BlockingIOError:
            return
        if not name:  # the parent process is gone
            os._exit(0)
        for fd in fds:
            task = asyncio.ensure_future(_join(socket.socket(fileno=fd), int(name)))
            self._joins.add(task)
            task.add_done_callback(self._joins.discard)


def _save_keys(config_home: Path) -> None:
    """Configure openbox to open a terminal on Ctrl+Alt+T, like Ubuntu; an existing configuration is kept."""
    path = config_home / "openbox" / "rc.xml"
    if path.exists():
        return
    save_quiet_config(config_home)
    terminal = next((command for command in _TERMINALS if shutil.which(command.partition(" ")[0])), None)
    if path.exists() and terminal is not None:
        key = f'<keybind key="C-A-t"><action name="Execute"><command>{terminal}</command></action></keybind>'
        path.write_text(path.read_text("utf-8").replace("</keyboard>", f"{key}</keyboard>"), "utf-8")


async def _join(outer: socket.socket, port: int) -> None:
    reader, writer = await asyncio.open_connection(sock=outer)
    try:
        inner = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await join_streams((reader, writer), inner)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join_streams(first: Streams, second: Streams) -> None:
    """Forward bytes in both directions until both sides are closed, then close both."""
    try:
        await asyncio.gather(_pump(first[0], second[1]), _pump(second[0], first[1]))
    finally:
        for _, writer in (first, second):
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def session_argv(python: Sequence[str], plan: str) -> list[str]:
    """Return the command that runs the session; `python` is the interpreter and the folders to search for packages."""
    interpreter, *folders = python
    code = f"import sys; sys.path[:0] = {folders!r}; from envs.suites.osworld.local_session import main; main()"
    return [interpreter, "-I", "-c", code, plan]
