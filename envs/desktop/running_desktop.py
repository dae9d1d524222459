"""Running desktop: display, window manager, programs and the backend for its screen and input.

All functions block and are called from one thread, except where noted.
"""

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envs.desktop.backend import Backend, ScreenRegion
from envs.desktop.options import DesktopOptions
from envs.desktop.private_display import PrivateDisplay, last_words, make_home
from envs.desktop.programs import Program, Programs
from envs.desktop.screenshot import Grabber
from envs.errors import EnvSetupError

if TYPE_CHECKING:
    from envs.desktop.x11.user_input import UserInputSensor

MakeBackend = Callable[[str, Path | None, bool], Backend]
"""Factory of a backend from a display's name, its cookie file (None: the environment's), and True if it is private."""

_POLL_S = 0.01  # a window is noticed this late at most
_REAP_S = 0.5  # time between the end of a connection and the report that its server has ended


class RunningDesktop:
    """Running desktop. `start` it once, `close` it once.

    Args:
        options: Settings of the desktop.
        make_backend: Makes the backend.

    Attributes:
        backend: Screen, mouse and keyboard, once started.
        home: HOME of the programs.
        display: Name of the display.
        region: Part of the screen that is shown to the agent.
        environment: Environment variables of the programs.
    """

    backend: Backend
    region: ScreenRegion
    home: Path

    def __init__(self, options: DesktopOptions, make_backend: MakeBackend) -> None:
        self._options = options
        self._make_backend = make_backend
        self._private: PrivateDisplay | None = None
        self._programs: Programs | None = None
        self._watched: list[Program] = []
        self.environment: dict[str, str] = {}
        self._is_connected = False
        self.display = options.display or ""

    @property
    def programs(self) -> Programs:
        """Programs of this desktop; created on first use."""
        if self._programs is None:
            if sys.platform == "win32":
                raise EnvSetupError(
                    "programs cannot be started on Windows: start them yourself, without app and launch"
                )
            self._programs = Programs(Path(tempfile.mkdtemp(prefix="k25-desktop-")))
        return self._programs

    def start(self) -> None:
        """Start the desktop and its program.

        Raises:
            EnvSetupError: If some part did not start; `end_programs` ends the parts that did.
        """
        options = self._options
        if options.display is None and sys.platform == "linux":
            self.home = options.home_dir or self.programs.folder / "home"
            self._private = PrivateDisplay(self.programs, options, self.home)
            self._private.start()
            self.display = self._private.name
            self.environment = self._private.env
        else:
            self.home = options.home_dir or Path.home()
            shown_on = {"DISPLAY": self.display} if self.display else {}
            home = make_home(self.home) if options.home_dir else {}
            self.environment = dict(os.environ) | shown_on | home | dict(options.env)
        cookie = self._private.xauthority if self._private else None
        self.backend = self._make_backend(self.display, cookie, self._private is not None)
        self._is_connected = True
        if self._private:
            self._private.start_window_manager(self.backend.has_window_manager)
        self.region = self._choose_region()
        if options.app is not None:
            self.start_app(options.app)

    def open_grabber(self) -> Grabber:
        """Open a separate connection to the screen, for another thread; the caller closes it."""
        if not self.display:
            return Grabber()
        from envs.desktop.x11.connection import cookie_from

        cookie = self._private.xauthority if self._private else None
        return Grabber(self.display, lambda: cookie_from(cookie))

    def open_input_sensor(self) -> "UserInputSensor | None":
        """Open a sensor of people's input, for another thread; the caller closes it.

        None on a private display, which no person uses, and if the system does not report input.
        """
        make = getattr(self.backend, "make_input_sensor", None)
        if self._private is not None or make is None:
            return None
        sensor: UserInputSensor = make()
        return sensor

    def start_app(self, command: str | Sequence[str]) -> Program:
        """Start a program and wait for its first window.

        A program that exits successfully without one has handed over to a running instance.

        Raises:
            EnvSetupError: If it cannot be started, failed, or showed no window in time.
        """
        num_before = self.backend.num_windows()
        program = self.start_program(command)
        deadline = time.monotonic() + self._options.app_window_timeout_s
        while num_before is not None and (self.backend.num_windows() or 0) <= num_before:
            code = program.ended.result() if program.ended.done() else None
            if code == 0:
                break
            if code is not None:
                raise EnvSetupError(f"{program.argv[0]!r} ended at once with exit code {code}{last_words(program)}")
            if time.monotonic() > deadline:
                limit = self._options.app_window_timeout_s
                raise EnvSetupError(
                    f"{program.argv[0]!r} showed no window within {limit:g} s{last_words(program)}", retryable=True
                )
            time.sleep(_POLL_S)
        return program

    def start_program(
        self, command: str | Sequence[str], stdout: Path | None = None, *, is_watched: bool = True
    ) -> Program:
        """Start a program on the display without waiting.

        Args:
            command: A command line, or a sequence of arguments; a leading `~` is the home here.
            stdout: File for its standard output; None discards it.
            is_watched: True if `take_ends` reports its end.

        Raises:
            EnvSetupError: If the program does not exist.
        """
        argv = self._split(command)
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            program = self.programs.start(argv, self.environment, self.home, stdout)
        except OSError as error:
            raise EnvSetupError(f"cannot start {argv[0]!r}: {error}. Is it installed and on PATH?") from error
        if is_watched:
            self._watched.append(program)
        return program

    def take_ends(self) -> tuple[str, ...]:
        """Return one sentence for each program that has ended since the last call."""
        ended = [program for program in self._watched if program.ended.done()]
        self._watched = [program for program in self._watched if program not in ended]
        return tuple(_end_of(program) for program in ended)

    def why_lost(self) -> str:
        """Return why the display no longer answers, as far as known."""
        server = self._private.server if self._private else None
        if server is None:
            return f"the display {self.display!r} is gone: its X server has ended or has cut us off"
        try:
            code = server.ended.result(_REAP_S)
        except TimeoutError:
            return f"the X server of display {self.display!r} does not answer any more"
        return f"the X server of display {self.display!r} ended with code {code}{last_words(server)}"

    @property
    def lost(self) -> tuple[type[Exception], ...]:
        """Exceptions that mean that the display is gone."""
        return self.backend.lost if self._is_connected else ()

    def end_programs(self) -> None:
        """End everything that was started, the private display included; may be called from any thread."""
        if self._programs is not None:
            self._programs.close()

    def disconnect(self) -> None:
        """Disconnect from the display, even if it is gone."""
        if self._is_connected:
            self._is_connected = False
            self.backend.close()

    def _choose_region(self) -> ScreenRegion:
        if self._options.monitor is None:
            return self.backend.screen()
        monitors = self.backend.monitors()
        if self._options.monitor >= len(monitors):
            raise EnvSetupError(
                f"there is no monitor {self._options.monitor}: display {self.display!r} has {len(monitors)}, "
                f"counted from 0 to {len(monitors) - 1}"
            )
        return monitors[self._options.monitor]

    def _split(self, command: str | Sequence[str]) -> list[str]:
        try:
            argv = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise EnvSetupError(f"cannot read the command line {command!r}: {error}") from error
        if not argv:
            raise EnvSetupError("the command line of the program is empty")
        return [str(self.home) + part[1:] if part == "~" or part.startswith("~/") else part for part in argv]


def _end_of(program: Program) -> str:
    name, code = Path(program.argv[0]).name, program.ended.result()
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the program {name!r} {how}"
