"""Private X server with its own window manager, session bus, cookie and home, and the search for its programs."""

import os
import secrets
import shutil
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from envs.desktop.options import DesktopOptions
from envs.desktop.programs import Program, Programs
from envs.errors import EnvSetupError

INSTALL_LINE = "apt-get install -y --no-install-recommends xvfb openbox dbus"
"""Command that installs everything on a Debian-like system."""

_WINDOW_MANAGERS = ("openbox", "xfwm4", "matchbox-window-manager", "metacity", "icewm", "fluxbox")
_FAMILY_LOCAL = 256  # Source: X11/Xauth.h
_FAMILY_WILD = 65535  # Source: X11/Xauth.h
_OPENBOX_CONFIG = Path("/etc/xdg/openbox/rc.xml")
_OPENBOX_NAMESPACE = "http://openbox.org/3.4/rc"
_KEPT = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL", "XDG_DATA_DIRS")
_POLL_S = 0.003  # a start is noticed this late at most


def find_xvfb() -> str | None:
    """Return the path of the virtual X server: $K25_XVFB, else `Xvfb` on PATH; None if there is none."""
    return shutil.which(os.environ.get("K25_XVFB") or "Xvfb")


def find_window_manager(preferred: str | None = None) -> str | None:
    """Return the path of a window manager: only `preferred` if given, else the first that is installed."""
    names = (preferred,) if preferred else _WINDOW_MANAGERS
    return next((path for path in map(shutil.which, names) if path), None)


def find_dbus_daemon() -> str | None:
    """Return the path of `dbus-daemon` for the session bus of a private display; None if there is none."""
    return shutil.which("dbus-daemon")


def save_xauthority(path: Path) -> None:
    """Write a new random cookie that is valid for any display number.

    Two entries carry the same cookie: one for the name of this host (the only one that python-xlib looks up) and one
    for any host (so that a changed host name does not lock programs out).
    """
    cookie = secrets.token_bytes(16)
    entries = ((_FAMILY_LOCAL, socket.gethostname().encode()), (_FAMILY_WILD, b""))
    data = b"".join(
        struct.pack(">H", family) + b"".join(map(_counted, (address, b"", b"MIT-MAGIC-COOKIE-1", cookie)))
        for family, address in entries
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _counted(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def save_quiet_config(config_home: Path) -> None:
    """Write openbox's default configuration without the keys that run programs; keep an existing one.

    By default the Print key runs `scrot`, and with Alt a mode of it that waits for a selection by the user.
    """
    path = config_home / "openbox" / "rc.xml"
    if path.exists() or not _OPENBOX_CONFIG.exists():
        return
    ElementTree.register_namespace("", _OPENBOX_NAMESPACE)
    try:
        tree = ElementTree.parse(_OPENBOX_CONFIG)
    except ElementTree.ParseError:
        return
    tag = f"{{{_OPENBOX_NAMESPACE}}}"
    for keyboard in tree.iter(f"{tag}keyboard"):
        for binding in list(keyboard.findall(f"{tag}keybind")):
            if any(action.get("name") == "Execute" for action in binding.iter(f"{tag}action")):
                keyboard.remove(binding)
    path.parent.mkdir(parents=True, exist_ok=True)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def make_home(home: Path) -> dict[str, str]:
    """Create the folders and return the environment variables that keep a program's files below `home`."""
    folders = {
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_DATA_HOME": home / ".local/share",
        "XDG_STATE_HOME": home / ".local/state",
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home)} | {name: str(folder) for name, folder in folders.items()}


class PrivateDisplay:
    """Xvfb on a free display, accessible only with a cookie.

    Args:
        programs: Starts and ends the server and all programs on it.
        options: Screen size, limits, window manager.
        home: HOME of everything on this display.

    Attributes:
        name: Name of the display (`":7"`), once started.
        env: Complete environment of programs on this display.
    """

    def __init__(self, programs: Programs, options: DesktopOptions, home: Path) -> None:
        self._programs = programs
        self._options = options
        self._folder = programs.folder
        self._home = home
        self.xauthority = self._folder / "Xauthority"
        self.name = ""
        self.env: dict[str, str] = {}
        self.server: Program | None = None

    def start(self) -> None:
        """Start the server and the session bus; return when the server accepts connections.

        Raises:
            EnvSetupError: If Xvfb is missing, or it did not start in time; the text has its last output.
        """
        xvfb = find_xvfb()
        if xvfb is None:
            raise EnvSetupError(
                "found no virtual X server: a private desktop needs Xvfb. Run `cua setup`, or install it with "
                f"`{INSTALL_LINE}`, or attach to a running display with display=':0'"
            )
        save_xauthority(self.xauthority)
        self.env = self._make_env()
        number_file = self._folder / "display"
        self.server = self._programs.start(self._server_argv(xvfb), self.env, self._folder, stdout=number_file)
        self._wait(lambda: number_file.read_text().endswith("\n"), self.server, "the X server")
        number = int(number_file.read_text())
        self._programs.own_x_socket(Path(f"/tmp/.X11-unix/X{number}"))
        self.name = self.env["DISPLAY"] = f":{number}"
        self._start_bus()

    def start_window_manager(self, is_ready: Callable[[], bool]) -> None:
        """Start the window manager and wait until it has announced itself.

        Args:
            is_ready: Returns True if the root window has the mark of a running window manager.

        Raises:
            EnvSetupError: If the program does not exist, or it did not start in time.
        """
        wanted = self._options.window_manager
        if wanted is None:
            return
        path = find_window_manager(wanted)
        if path is None:
            other = find_window_manager()
            hint = f"; installed is {Path(other).name!r}" if other else ""
            raise EnvSetupError(
                f"found no window manager {wanted!r}{hint}. Run `cua setup`, or install it with `{INSTALL_LINE}`, "
                "or set window_manager=None to go without"
            )
        if Path(path).name == "openbox":
            save_quiet_config(Path(self.env["XDG_CONFIG_HOME"]))
        program = self._programs.start([path], self.env, self._home)
        self._wait(is_ready, program, f"the window manager {wanted!r}")

    def _make_env(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        runtime = self._folder / "runtime"
        runtime.mkdir(mode=0o700)
        temporary = self._folder / "tmp"
        temporary.mkdir()
        return (
            {"LANG": "C.UTF-8"}
            | env
            | make_home(self._home)
            | {
                "XAUTHORITY": str(self.xauthority),
                "XDG_RUNTIME_DIR": str(runtime),
                "TMPDIR": str(temporary),
                "XDG_SESSION_TYPE": "x11",
                "NO_AT_BRIDGE": "1",
                "GSETTINGS_BACKEND": "memory",
                "GTK_USE_PORTAL": "0",
                "GDK_BACKEND": "x11",
                "QT_QPA_PLATFORM": "xcb",
            }
            | dict(self._options.env)
        )

    def _server_argv(self, xvfb: str) -> list[str]:
        width, height = self._options.screen_px
        arguments = f"-displayfd 1 -screen 0 {width}x{height}x24 -dpi 96 -nolisten tcp -noreset -s 0"
        return [
            xvfb,
            *arguments.split(),
            "-maxclients",
            str(self._options.max_clients),
            "-auth",
            str(self.xauthority),
        ]

    def _start_bus(self) -> None:
        daemon = find_dbus_daemon()
        if daemon is None:
            return
        socket = self._folder / "runtime" / "bus"
        argv = [daemon, "--session", "--nofork", "--nopidfile", f"--address=unix:path={socket}"]
        program = self._programs.start(argv, self.env, self._home)
        self._wait(socket.exists, program, "the session bus")
        self.env["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={socket}"

    def _wait(self, is_ready: Callable[[], bool], program: Program, name: str) -> None:
        deadline = time.monotonic() + self._options.start_timeout_s
        while not is_ready():
            if program.ended.done():
                raise EnvSetupError(
                    f"{name} ended at once with exit code {program.ended.result()}{last_words(program)}"
                )
            if time.monotonic() > deadline:
                limit = self._options.start_timeout_s
                raise EnvSetupError(f"{name} did not start within {limit:g} s{last_words(program)}", retryable=True)
            time.sleep(_POLL_S)


def last_words(program: Program, max_lines: int = 5) -> str:
    """Return the last lines of a program's standard error, as the end of a message."""
    try:
        lines = program.stderr.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    words = "\n".join(lines[-max_lines:])
    return f"; its last output:\n{words}" if words else "; it said nothing"
