"""OSWorld guest: operations of its server on one X display, programs, windows, screenshots and files.

`guest_server` serves it over HTTP.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from envs.desktop.screenshot import ScreenCamera
from envs.desktop.x11.backend import X11Backend
from envs.desktop.x11.connection import Connection
from envs.errors import require

T = TypeVar("T")

EXECUTE_TIMEOUT_S = 120.0
_PYTHON_TIMEOUT_S = 30.0
_OPEN_TIMEOUT_S = 1800.0
_MAX_BODY_BYTES = 2 * 2**30
_MAX_JSON_BYTES = 2**24
_MAX_OUTPUT_BYTES = 8 * 2**20
"""Maximum output of a program, for each of stdout and stderr; the rest is dropped."""
_MAX_ENTRIES = 20_000
_A11Y_TIMEOUT_S = 60.0
_ATSPI = Path(__file__).with_name("atspi.py")
_SYSTEM_PYTHON = "/usr/bin/python3"
"""System Python, which has the bindings of AT-SPI."""
_WALLPAPER = ("org.gnome.desktop.background", "picture-uri")
_POLL_S = 0.2
_ENDED_POLL_S = 0.005
_RECORDING_START_S = 10.0
_REST_S = 1.0
"""Wait for the last output of a program that has ended."""


class GuestRequestError(Exception):
    """Raised for a request that is answered with an error.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


class Guest:
    """Operations of the routes, on one display.

    Args:
        display: Name of the X display, `":1"`.
        root: Folder that limits reading, writing and listing of files; None for no limit. Programs are not restricted
            by it.
        environment: Environment variables of started programs; None uses this process's.

    Raises:
        EnvSetupError: If the display does not exist.
    """

    def __init__(self, display: str, *, root: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.display = display
        self.environment = {**(os.environ if environment is None else environment), "DISPLAY": display}
        self._root = root.resolve() if root is not None else None
        self._home = self.environment.get("HOME", str(Path.home()))
        self._cwd = self._home if Path(self._home).is_dir() else None
        xauthority = self.environment.get("XAUTHORITY")
        self._backend = X11Backend(display, Path(xauthority) if xauthority else None)
        self._windows = _WindowList(Connection(display, Path(xauthority) if xauthority else None))
        self._thread = ThreadPoolExecutor(1, "guest-display")
        self._launched: list[asyncio.subprocess.Process] = []
        self._recording: asyncio.subprocess.Process | None = None
        self._recorded = Path(tempfile.mkdtemp(prefix="k25-guest-")) / "recording.mp4"

    async def close(self) -> None:
        """Kill launched programs, and disconnect."""
        for process in (*self._launched, *([self._recording] if self._recording else [])):
            await _end(process)
        self._thread.shutdown(wait=True)
        self._backend.close()
        self._windows.connection.close()
        shutil.rmtree(self._recorded.parent, ignore_errors=True)

    def has_window_manager(self) -> bool:
        """Return True if a window manager is running; used during startup."""
        return self._backend.has_window_manager()

    async def screenshot(self) -> bytes:
        """Take a screenshot as PNG, with the pointer."""
        return await self._on_display(self._take)

    async def screen_size_px(self) -> tuple[int, int]:
        """Return width and height of the screen."""
        region = await self._on_display(self._backend.screen)
        return region.width_px, region.height_px

    async def pointer_px(self) -> tuple[int, int]:
        """Return the position of the pointer."""
        return await self._on_display(self._backend.pointer_px)

    async def run(self, command: object, *, shell: bool, timeout_s: float = EXECUTE_TIMEOUT_S) -> dict[str, Any]:
        """Run a program and wait for its end.

        Raises:
            RequestError: If the program cannot be started, or timed out; it is then killed with its children.
        """
        process = await self._start(command, shell=shell, is_read=True)
        outputs = bytearray(), bytearray()
        reading = [
            asyncio.ensure_future(_read(stream, kept))
            for stream, kept in zip((process.stdout, process.stderr), outputs, strict=True)
        ]
        try:
            await asyncio.wait_for(_ended(process), timeout_s)
            await asyncio.wait(reading, timeout=_REST_S)  # child processes may keep the pipes open forever
        except TimeoutError:
            raise GuestRequestError(f"Command timed out after {timeout_s:g} seconds") from None
        finally:
            for task in reading:
                task.cancel()
            await _end(process)
        stdout, stderr = (kept.decode("utf-8", "replace") for kept in outputs)
        return {"status": "success", "output": stdout, "error": stderr, "returncode": process.returncode}

    async def launch(self, command: object, *, shell: bool) -> str:
        """Start a program without waiting for it.

        Raises:
            RequestError: If the program cannot be started.
        """
        self._launched = [process for process in self._launched if process.returncode is None]
        self._launched.append(await self._start(command, shell=shell, is_read=False))
        shown = (
            command if isinstance(command, str) else " ".join(map(str, command if isinstance(command, list) else ()))
        )
        return f"{shown} launched successfully"

    async def open_file(self, path: str) -> str:
        """Open a file with its program, or start a program; wait for its window and activate it.

        Raises:
            RequestError: If the file does not exist, or no window appeared.
        """
        file = self.path(path)
        if not file.exists():
            raise GuestRequestError(f"File not found: {file}", 404)
        is_program = file.is_file() and os.access(file, os.X_OK) and not file.suffix
        await self.launch([str(file)] if is_program else ["xdg-open", str(file)], shell=False)
        until_s = time.monotonic() + _OPEN_TIMEOUT_S
        while not await self.activate(file.name) and not await self.activate(file.stem):
            if time.monotonic() > until_s:
                raise GuestRequestError(f"No window for {file.name} appeared within {_OPEN_TIMEOUT_S:g} seconds")
            await asyncio.sleep(_POLL_S)
        return "File opened successfully"

    async def activate(self, name: str, *, strict: bool = False, by_class: bool = False) -> bool:
        """Bring a window to the front; return True if it exists."""
        return await self._on_display(partial(self._windows.ask, "_NET_ACTIVE_WINDOW", name, strict, by_class))

    async def close_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> bool:
        """Close a window; return True if it exists."""
        return await self._on_display(partial(self._windows.ask, "_NET_CLOSE_WINDOW", name, strict, by_class))

    async def window_size_px(self, class_name: str) -> tuple[int, int] | None:
        """Return width and height of a program's window; None if it does not exist."""
        return await self._on_display(partial(self._windows.size_px, class_name))

    async def wallpaper(self) -> Path:
        """Return the path of the wallpaper in GNOME's settings.

        Raises:
            RequestError: If no image is set, or GNOME's settings are not available.
        """
        result = await self.run(["gsettings", "get", *_WALLPAPER], shell=False)
        path = Path(unquote(str(result["output"]).strip().strip("'").removeprefix("file://")))
        if result["returncode"] != 0 or not path.is_absolute() or not self.path(str(path)).is_file():
            raise GuestRequestError("there is no wallpaper", 404)
        return path

    async def change_wallpaper(self, path: Path) -> None:
        """Set the wallpaper in GNOME's settings; other desktops may ignore it.

        Raises:
            RequestError: If the file does not exist, or GNOME's settings are not available.
        """
        if not await asyncio.to_thread(path.is_file):
            raise GuestRequestError(f"File not found: {path}", 404)
        done = await self.run(["gsettings", "set", *_WALLPAPER, path.as_uri()], shell=False)
        if done["returncode"] != 0:
            raise GuestRequestError(f"the wallpaper cannot be set: {str(done['error']).strip()[-300:]}")

    async def start_recording(self) -> None:
        """Record the screen with ffmpeg.

        Raises:
            RequestError: If a recording is already running, or ffmpeg is missing or cannot record.
        """
        if self._recording is not None and self._recording.returncode is None:
            raise GuestRequestError("Recording is already in progress.", 400)
        width, height = await self.screen_size_px()
        grab = ["-f", "x11grab", "-draw_mouse", "1", "-video_size", f"{width}x{height}", "-framerate", "30"]
        coded = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", str(self._recorded)]
        command = ["ffmpeg", "-y", *grab, "-i", self.display, *coded]
        self._recorded.unlink(missing_ok=True)
        self._recording = recording = await self._start(command, shell=False, is_read=False)
        until_s = time.monotonic() + _RECORDING_START_S
        while not await asyncio.to_thread(self._recorded.is_file) and time.monotonic() < until_s:
            if recording.returncode is not None:
                raise GuestRequestError(f"ffmpeg ended at once with status {recording.returncode}")
            await asyncio.sleep(_ENDED_POLL_S)

    async def end_recording(self) -> Path:
        """End the recording; return its file.

        Raises:
            RequestError: If no recording is running.
        """
        recording, self._recording = self._recording, None
        if recording is None:
            raise GuestRequestError("No recording in progress to stop.", 400)
        with contextlib.suppress(ProcessLookupError):
            recording.send_signal(signal.SIGINT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_ended(recording), 20.0)
        await _end(recording)
        if not self._recorded.is_file():
            raise GuestRequestError("The recording has no file.")
        return self._recorded

    async def terminal_output(self) -> str | None:
        """Return the text of the terminal in the active window; None if no terminal is active.

        Raises:
            RequestError: If the accessibility bus is not available.
        """
        return await self._read_a11y("terminal") or None

    async def accessibility_tree(self) -> str:
        """Return the accessibility tree as XML.

        Raises:
            RequestError: If the accessibility bus is not available.
        """
        return await self._read_a11y("tree")

    async def _read_a11y(self, query: str) -> str:
        ended = await self.run([_SYSTEM_PYTHON, str(_ATSPI), query], shell=False, timeout_s=_A11Y_TIMEOUT_S)
        if ended["returncode"] != 0:
            lines = str(ended["error"]).strip().splitlines()[-1:] or ["no error output"]
            raise GuestRequestError(
                f"the accessibility bus cannot be read: {lines[0]}; Debian has gir1.2-atspi-2.0 for it"
            )
        return str(ended["output"])

    def path(self, given: object) -> Path:
        """Parse a path of a request; variables and `~` are expanded.

        Raises:
            RequestError: If it is not a path, or not below the root.
        """
        if not isinstance(given, str) or not given or "\0" in given:
            raise GuestRequestError("file_path is required", 400)
        home = self._home
        expanded = home + given[1:] if given == "~" or given.startswith("~/") else given
        for name, value in self.environment.items():
            expanded = expanded.replace(f"${{{name}}}", value).replace(f"${name}/", f"{value}/")
        path = Path(expanded) if expanded.startswith("/") else Path(home) / expanded
        if self._root is not None and not path.resolve().is_relative_to(self._root):
            raise GuestRequestError(f"{path} is not below {self._root}", 403)
        return path

    def _take(self) -> bytes:
        region = self._backend.screen()
        camera = ScreenCamera(self._backend, region, draw_cursor=True)
        return camera.encode(camera.grab())

    async def _on_display(self, function: Callable[[], T]) -> T:
        """Run a function on the thread that owns the display connection.

        Raises:
            RequestError: If the display is gone.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except self._backend.lost as error:
            raise GuestRequestError(f"the display {self.display} is gone: {error}") from error

    async def _start(self, command: object, *, shell: bool, is_read: bool) -> asyncio.subprocess.Process:
        argv = _argv(command, shell=shell, home=self._home)
        pipe = asyncio.subprocess.PIPE if is_read else asyncio.subprocess.DEVNULL
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                env=self.environment,
                cwd=self._cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise GuestRequestError(str(error)) from error


class _WindowList:
    """List of managed windows, searched by title or class."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def ask(self, message: str, name: str, strict: bool, by_class: bool) -> bool:
        """Send the window manager a message about the first window of that name."""
        window = self._find(name, strict, by_class)
        if window is None:
            return False
        event = require("Xlib.protocol.event", "desktop")
        x = require("Xlib.X", "desktop")
        client_message = event.ClientMessage(
            window=window, client_type=self.connection.atom(message), data=(32, [2, x.CurrentTime, 0, 0, 0])
        )
        mask = x.SubstructureRedirectMask | x.SubstructureNotifyMask
        self.connection.root.send_event(client_message, event_mask=mask)
        self.connection.display.sync()
        return True

    def size_px(self, class_name: str) -> tuple[int, int] | None:
        """Return width and height of the first window of a class."""
        window = self._find(class_name, False, True)
        if window is None:
            return None
        size = window.get_geometry()
        return size.width, size.height

    def _find(self, name: str, strict: bool, by_class: bool) -> Any | None:
        for number in reversed(self.connection.read_numbers(self.connection.root, "_NET_CLIENT_LIST")):
            window = self.connection.display.create_resource_object("window", number)
            read = partial(self.connection.read_text, window)
            text = read("WM_CLASS") if by_class else read("_NET_WM_NAME") or read("WM_NAME")
            if text is None:
                continue
            parts = text.rstrip("\0").split("\0") if by_class else [text]
            if any(part == name if strict else name.lower() in part.lower() for part in parts):
                return window
        return None


def _argv(command: object, *, shell: bool, home: str) -> Sequence[str]:
    """Make arguments like upstream: a text is split like in a shell, a leading `~/` is the home folder.

    Raises:
        RequestError: If the command is empty.
    """
    if isinstance(command, list) and command and all(isinstance(part, str) for part in command):
        parts = [home + part[1:] if part.startswith("~/") else part for part in command]
        return ["/bin/sh", "-c", *parts] if shell else parts
    if not isinstance(command, str) or not command.strip():
        raise GuestRequestError(f"command is {command!r:.100}, expected a text or a list of texts", 400)
    if shell:
        return ["/bin/sh", "-c", command]
    try:
        return [home + part[1:] if part.startswith("~/") else part for part in shlex.split(command)]
    except ValueError as error:
        raise GuestRequestError(f"command cannot be split: {error}", 400) from error


async def _read(stream: asyncio.StreamReader | None, kept: bytearray) -> None:
    """Read a stream to its end, so that the program is not blocked; the kept data is bounded."""
    while stream is not None and (chunk := await stream.read(65_536)):
        kept += chunk[: max(0, _MAX_OUTPUT_BYTES - len(kept))]


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the program only; asyncio's own wait continues until all holders of its pipes are closed."""
    while process.returncode is None:
        await asyncio.sleep(_ENDED_POLL_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a program's process group. Background processes of a program that ended normally are kept."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await _ended(process)
