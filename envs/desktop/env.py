"""Desktop as an `Env`: a private or attached X11 display, or another system's screen."""

import asyncio
import io
import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from envs.actions import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Terminate,
    TypeText,
    Wait,
)
from envs.desktop.backend import Backend, ScreenFrame, ScreenLostError, typing_limit_s
from envs.desktop.options import DesktopOptions
from envs.desktop.programs import Program
from envs.desktop.running_desktop import MakeBackend, RunningDesktop
from envs.desktop.screenshot import Grabber
from envs.desktop.session import DesktopSession, ScreenCapture
from envs.env import Env, InputDevice, Task
from envs.errors import ActionError, EnvDiedError, EnvError
from envs.geometry import ScreenGeometry, parse_size
from envs.observation import LiveFrame, Observation, StepResult
from envs.registry import EnvKind, EnvRequest
from envs.target import UNKNOWN_TARGET, ActionCheck, Target

if TYPE_CHECKING:
    from envs.desktop.x11.user_input import UserInputSensor

_QUALITY = 70  # JPEG for a person who watches: bandwidth against sharpness
_AWAY_S = 0.1
_SLOWER, _IDLE_S = 1.5, 0.5
"""Factor by which the polling interval of an unchanged screen grows, and its maximum."""
T = TypeVar("T")
_START_TIMEOUT_S = 60.0  # of X server, window manager and bus on a busy machine
_COMMAND_KEY = re.compile(r"enter|return|space|del|delete|esc|escape|f\d{1,2}")
_DESCRIPTION = re.compile(r'([^"]+) "(.*)"', re.DOTALL)
_SHOWN = ("screen", "display", "monitor")


async def watch_desktop(find_desktop: Callable[[], RunningDesktop | None], max_fps: float) -> AsyncIterator[LiveFrame]:
    """Yield frames of the region that observations show, whenever it has changed.

    Args:
        find_desktop: Returns the desktop of the current episode, None between two.
        max_fps: Maximum number of frames per second.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "desktop-screencast") as thread:
        reader: _FrameReader | None = None
        wait_s = 1.0 / max_fps
        try:
            while True:
                desktop = find_desktop()
                if desktop is None or not hasattr(desktop, "region"):  # not started yet
                    await asyncio.sleep(_AWAY_S)
                    continue
                if reader is None or reader.desktop is not desktop:
                    reader = _FrameReader(desktop)
                began_s = time.monotonic()
                image = await loop.run_in_executor(thread, reader.read)
                wait_s = 1.0 / max_fps if image else min(wait_s * _SLOWER, max(_IDLE_S, 1.0 / max_fps))
                if image:
                    yield LiveFrame(image=image)
                await asyncio.sleep(max(0.0, began_s + wait_s - time.monotonic()))
        finally:
            if reader is not None:
                thread.submit(reader.close)


async def watch_user_input(find_desktop: Callable[[], RunningDesktop | None]) -> AsyncIterator[InputDevice]:
    """Yield input of other people on the display as it happens.

    Args:
        find_desktop: Returns the desktop of the current episode, None between two.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "desktop-user-input") as thread:
        reader: _UserInputReader | None = None
        try:
            while True:
                desktop = find_desktop()
                if desktop is not None and hasattr(desktop, "region"):
                    if reader is None or reader.desktop is not desktop:
                        if reader is not None:
                            thread.submit(reader.close)
                        reader = _UserInputReader(desktop)
                    touch = await loop.run_in_executor(thread, reader.read)
                    if touch is not None:
                        yield touch
                await asyncio.sleep(_AWAY_S)
        finally:
            if reader is not None:
                thread.submit(reader.close)


class _UserInputReader:
    """Reader of people's input on one desktop; used from one thread."""

    def __init__(self, desktop: RunningDesktop) -> None:
        self.desktop = desktop
        self._sensor: UserInputSensor | None = None
        self._is_open = False

    def read(self) -> InputDevice | None:
        """Return the input since the last call; None also if it cannot be detected (any more)."""
        try:
            if not self._is_open:
                self._is_open = True
                self._sensor = self.desktop.open_input_sensor()
            return self._sensor.poll() if self._sensor is not None else None
        except Exception as error:
            if not isinstance(error, (EnvError, OSError, *self.desktop.lost)):
                raise
            self.close()
            return None

    def close(self) -> None:
        """Disconnect."""
        sensor, self._sensor = self._sensor, None
        if sensor is not None:
            sensor.close()


class _FrameReader:
    """Reader of the screen of one desktop; used from one thread."""

    def __init__(self, desktop: RunningDesktop) -> None:
        self.desktop = desktop
        self._grabber: Grabber | None = None
        self._last: ScreenFrame | None = None

    def read(self) -> bytes | None:
        """Return the screen as JPEG; None if it is unchanged or gone."""
        try:
            if self._grabber is None:
                self._grabber = self.desktop.open_grabber()
            frame = self._grabber.grab(self.desktop.region)
        except (ScreenLostError, OSError):
            self.close()
            return None
        last, self._last = self._last, frame
        if last is not None and last.size_px == frame.size_px and last.bgrx == frame.bgrx:
            return None
        return _to_jpeg(frame)

    def close(self) -> None:
        """Disconnect."""
        grabber, self._grabber = self._grabber, None
        if grabber is not None:
            grabber.close()


def _to_jpeg(frame: ScreenFrame) -> bytes:
    import numpy as np
    from PIL import Image

    buffer = io.BytesIO()
    image = Image.frombuffer("RGB", frame.size_px, np.frombuffer(frame.bgrx, np.uint8), "raw", "BGRX", 0, 1)
    image.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()


def make_system_backend(display: str, xauthority: Path | None, is_private: bool) -> Backend:
    """Make the backend of this system: X11 if there is a display, else pyautogui."""
    if display:
        from envs.desktop.x11.backend import X11Backend

        return X11Backend(display, xauthority, is_private=is_private)
    from envs.desktop.pyautogui_backend import PyAutoGuiBackend

    return PyAutoGuiBackend()


class DesktopEnv:
    """Screen with mouse and keyboard on which programs run.

    On Linux a private display is started unless one is given; each `reset` restarts it, with an empty temporary home.
    On an attached display, `reset` and `close` end only the programs that the env has started. On other systems the env
    uses their own screen.

    Args:
        options: Settings of the desktop.
        make_backend: Makes the screen's backend; the default depends on the system.

    Attributes:
        terminate: `Terminate` action that ended the current episode, or None.
        options: Settings of the desktop.
    """

    def __init__(
        self, options: DesktopOptions | None = None, *, make_backend: MakeBackend = make_system_backend
    ) -> None:
        self.options = options or DesktopOptions()
        self.terminate: Terminate | None = None
        self._make_backend = make_backend
        self._session: DesktopSession | None = None

    @property
    def display(self) -> str:
        """Name of the X display (`":7"`)."""
        return self._open_session().desktop.display

    @property
    def home(self) -> Path:
        """HOME of the programs on this desktop."""
        return self._open_session().desktop.home

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of programs on this desktop, including DISPLAY and its cookie."""
        return self._open_session().desktop.environment

    @property
    def held(self) -> frozenset[str]:
        """Names of the keys and mouse buttons that are held down (`"shift"`, `"left button"`)."""
        executor = self._session.executor if self._session else None
        return executor.held if executor else frozenset()

    async def reset(self, task: Task) -> Observation:
        """Restart the desktop with its program, run `task.setup(self)`, and return an observation.

        Raises:
            EnvSetupError: If some part did not start.
        """
        await self.close()
        self.terminate = None
        self._session = session = DesktopSession(RunningDesktop(self.options, self._make_backend), self.options)
        try:
            await self._call(session.start, _START_TIMEOUT_S + self.options.app_window_timeout_s)
            await task.setup(self)
            look = await self._call(lambda: session.look(after_input=True), 2 * self.options.settle_timeout_s)
        except BaseException:
            await self.close()
            raise
        return self._observation(look, None)

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions in order and return an observation once the screen has settled.

        Args:
            actions: Actions to execute.
            check: Called before each click, and before each key or text that may press a button.

        Returns:
            `info["timings"]` holds seconds by stage (`act`, `settle`, `observe`); `info["settled"]` is True if the
            screen had settled.

        Raises:
            EnvDiedError: If the display is gone.
            EnvError: If the env was not reset, or is closed.
        """
        session = self._open_session()
        begin = time.perf_counter()
        error, terminate = await self._act(session, actions, check)
        if terminate is not None:
            self.terminate = terminate
        act_s = time.perf_counter() - begin
        look = await self._call(lambda: session.look(after_input=bool(actions)), 2 * self.options.settle_timeout_s)
        timings = {"act": act_s, "settle": look.settle_s, "observe": look.observe_s}
        return StepResult(
            observation=self._observation(look, error),
            terminated=terminate is not None,
            info={"timings": timings, "settled": look.is_quiet},
        )

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Return the window that would receive a click, a key or a text; its content is unknown."""
        backend = self._open_session().desktop.backend
        if isinstance(action, Click | Drag | MouseDown | MouseUp):
            here = await self._call(backend.pointer_px) if action.x_px is None or action.y_px is None else (0, 0)
            x_px = here[0] if action.x_px is None else action.x_px
            y_px = here[1] if action.y_px is None else action.y_px
            return (_window(await self.describe_point(x_px, y_px)),)
        if not _may_press(action):
            return ()
        title = await self._call(backend.active_title)
        return (Target(role="window", names=(title,), is_element=False) if title else UNKNOWN_TARGET,)

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Describe what is at a point: `window "Untitled 1 - Mousepad"`, `popup of "Mousepad"`, `the desktop`."""
        backend = self._open_session().desktop.backend
        return await self._call(lambda: backend.describe_point(x_px, y_px))

    async def close(self) -> None:
        """Release held keys, end everything that was started, and disconnect. May be called twice."""
        session, self._session = self._session, None
        if session is not None:
            await asyncio.shield(asyncio.ensure_future(session.close()))

    async def live_frames(self, max_fps: float) -> AsyncIterator[LiveFrame]:
        """Yield frames of the screen as it changes, without the pointer."""
        async for frame in watch_desktop(lambda: self._session.desktop if self._session else None, max_fps):
            yield frame

    async def user_inputs(self) -> AsyncIterator[InputDevice]:
        """Yield input of people at the mouse or the keyboard of an attached X11 display; nothing on other displays."""
        async for touch in watch_user_input(lambda: self._session.desktop if self._session else None):
            yield touch

    async def get_clipboard(self) -> str:
        """Return the text of the clipboard, `""` if there is none."""
        return await self._call(self._open_session().desktop.backend.get_clipboard)

    async def set_clipboard(self, text: str) -> None:
        """Put text on the clipboard."""
        backend = self._open_session().desktop.backend
        await self._call(lambda: backend.set_clipboard(text))

    async def launch(self, command: str | Sequence[str], *, wait_for_window: bool = True) -> Program:
        """Start a program on the desktop, for a task's setup; it ends with the env.

        Args:
            command: A command line, or a sequence of arguments; a leading `~` is the env's home.
            wait_for_window: True to wait for its first window.

        Raises:
            EnvSetupError: If it cannot be started, failed, or showed no window in time.
        """
        desktop = self._open_session().desktop
        start = desktop.start_app if wait_for_window else desktop.start_program
        return await self._call(lambda: start(command), self.options.app_window_timeout_s)

    async def run(self, command: str | Sequence[str], *, timeout_s: float = 30.0) -> "subprocess.CompletedProcess[str]":
        """Run a program on the desktop to its end, for a task's setup and evaluation.

        Raises:
            EnvSetupError: If the program does not exist.
            EnvError: If it took longer than `timeout_s` and was ended.
        """
        desktop = self._open_session().desktop
        output = desktop.programs.folder / f"run-{time.monotonic_ns()}.stdout"
        program = await self._call(lambda: desktop.start_program(command, output, is_watched=False))
        try:
            code = await asyncio.wait_for(asyncio.wrap_future(program.ended), timeout_s)
        except TimeoutError:
            await asyncio.to_thread(desktop.programs.kill, program.pid)
            raise EnvError(f"{program.argv[0]!r} took longer than {timeout_s:g} s and was ended") from None
        texts = [await asyncio.to_thread(path.read_text, errors="replace") for path in (output, program.stderr)]
        return subprocess.CompletedProcess(program.argv, code, *texts)

    async def _act(
        self, session: DesktopSession, actions: Sequence[Action], check: ActionCheck | None
    ) -> tuple[str | None, Terminate | None]:
        """Execute actions, in batches between the actions that need a check."""
        begin = 0
        for number, action in enumerate(actions) if check is not None else ():
            if not (isinstance(action, Click | Drag | MouseDown | MouseUp) or _may_press(action)):
                continue
            before = actions[begin:number]
            if before:
                done = await self._call(partial(session.act, before, is_first=begin == 0), _duration_s(before))
                if done != (None, None):
                    return done
            begin = number
            if number:  # earlier input may have opened the window that is the target now
                await self._call(session.flush_input, self.options.settle_timeout_s)
            try:
                assert check is not None
                await check(number, action, await self.find_targets(action))
            except ActionError as objection:
                return str(objection), None
        rest = actions[begin:]
        return await self._call(partial(session.act, rest, is_first=begin == 0), _duration_s(rest))

    def _open_session(self) -> DesktopSession:
        if self._session is None:
            raise EnvError("this desktop is not running: call reset first (and not after close)")
        return self._session

    async def _call(self, function: Callable[[], T], allowance_s: float = 0.0) -> T:
        """Run a blocking call on the session's thread; a lost screen becomes `EnvDiedError`.

        Args:
            function: The call.
            allowance_s: Additional time on top of the answer timeout.
        """
        session = self._open_session()
        try:
            return await session.worker.call(function, self.options.answer_timeout_s + allowance_s)
        except asyncio.CancelledError:
            session.clock.interrupt()
            raise
        except Exception as error:
            if not isinstance(error, (TimeoutError, *session.desktop.lost)):
                raise
            session.is_lost = True
            raise EnvDiedError(await asyncio.to_thread(session.desktop.why_lost)) from error

    def _observation(self, look: ScreenCapture, error: str | None) -> Observation:
        region = look.region
        geometry = ScreenGeometry(
            native_px=(region.width_px, region.height_px),
            sent_px=look.size_px,
            offset_px=(region.left_px, region.top_px),
        )
        return Observation(
            screenshot=look.png,
            geometry=geometry,
            pointer_px=look.pointer_px,
            title=look.title,
            last_action_error=error,
            notes=look.notes,
        )


def _window(text: str | None) -> Target:
    match = _DESCRIPTION.fullmatch(text) if text else None
    if not match:
        return Target(role=text or "", is_element=False)
    return Target(role=match[1], names=(match[2],), is_element=False)


def _may_press(action: Action) -> bool:
    """Return True if an action may press a button or be taken as a command by a program."""
    match action:
        case TypeText(text=text):
            return "\n" in text or "\r" in text
        case PressKey(key=key) | KeyDown(key=key):
            return _is_pressing(key)
        case Hotkey():
            return True
    return False


def _is_pressing(key: str) -> bool:
    return len(key) == 1 or _COMMAND_KEY.fullmatch(key) is not None


def _duration_s(actions: Sequence[Action]) -> float:
    """Return the expected duration of actions."""
    total_s = 0.0
    for action in actions:
        if isinstance(action, Wait | Move | Drag):
            total_s += action.duration_s
        elif isinstance(action, TypeText):
            total_s += typing_limit_s(action.text, action.interval_s)
        else:
            times = getattr(action, "clicks", 0) + getattr(action, "presses", 0)
            total_s += times * getattr(action, "interval_s", 0.0)
    return total_s


def _make(request: EnvRequest) -> Env:
    """Make a desktop from options as named in settings and task files.

    Raises:
        ValueError: If a value is invalid.
    """
    options: dict[str, Any] = dict(request.options)
    if "screen" in options:
        options["screen_px"] = parse_size("screen", options.pop("screen"))
    return DesktopEnv(DesktopOptions(**options))


def _no_retry_reason(options: Mapping[str, object]) -> str:
    return f"the display {options['display']} is not put back" if options.get("display") else ""


KIND = EnvKind(make=_make, options=frozenset(_SHOWN) | {"app"}, shown=_SHOWN, no_retry_reason=_no_retry_reason)
"""Kind of the desktop in `envs.registry`."""
