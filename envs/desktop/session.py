"""Desktop session of one episode, with its worker thread and the execution of actions.

Screen connections belong to their thread.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envs.actions import (
    RECIPIENT_UNKNOWN,
    Action,
    Button,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    Terminate,
    TypeSecret,
    TypeText,
    Wait,
    normalize_key,
)
from envs.desktop.backend import Backend, InterruptibleClock, ScreenFrame, ScreenRegion
from envs.desktop.options import DesktopOptions
from envs.desktop.running_desktop import RunningDesktop
from envs.desktop.screenshot import ScreenCamera, ScreenSettler
from envs.errors import ActionError, EnvError, describe_late

_MOTION_S = 0.01  # between two points of a moving pointer
_DRAG_POINTS = 12  # minimum: programs need to see motion to recognize a drag
_DRAG_MOTION_S = 0.004  # between two moves of a drag: toolkits drop moves that come faster than they draw
_MAX_NOTCHES = 200  # with the limits below: bounds the time of one action
_MAX_TIMES = 200
_MAX_TEXT = 200_000
T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]
_CLOSE_TIMEOUT_S = 5.0


class DesktopActionExecutor:
    """Executor of actions on one screen that tracks held keys and buttons.

    Args:
        backend: The screen, mouse and keyboard.
        region: Part of the screen that the agent sees; points outside of it are refused.
        clock: Provides pauses.
    """

    def __init__(self, backend: Backend, region: ScreenRegion, clock: InterruptibleClock) -> None:
        self._backend = backend
        self._region = region
        self._clock = clock
        self._keys: dict[str, None] = {}
        self._buttons: dict[Button, None] = {}

    @property
    def held(self) -> frozenset[str]:
        """Names of the keys and mouse buttons that are down (`"shift"`, `"left button"`)."""
        return frozenset(self._keys) | {f"{button} button" for button in self._buttons}

    def execute(self, action: Action) -> None:
        """Execute one action.

        Raises:
            ActionError: If it fails; the text is for the agent.
        """
        match action:
            case Click():
                self._click(action)
            case Move(x_px=x_px, y_px=y_px, duration_s=duration_s):
                self._glide(x_px, y_px, duration_s)
            case Drag():
                self._drag(action)
            case Scroll():
                self._scroll(action)
            case TypeSecret():
                raise ActionError(RECIPIENT_UNKNOWN)
            case TypeText(text=text, interval_s=interval_s):
                _check_count("characters", len(text), _MAX_TEXT)
                self._backend.type_text(text, interval_s, self._clock)
            case PressKey():
                self._press(action)
            case Hotkey(keys=keys):
                self._hotkey(keys)
            case KeyDown(key=key):
                self._key(key, down=True)
            case KeyUp(key=key):
                self._key(key, down=False)
            case MouseDown(x_px=x_px, y_px=y_px, button=button):
                self._go(x_px, y_px)
                self._button(button, down=True)
            case MouseUp(x_px=x_px, y_px=y_px, button=button):
                self._go(x_px, y_px)
                self._button(button, down=False)
            case Wait(duration_s=duration_s):
                self._clock.pause(duration_s)
            case Terminate():
                pass

    def release(self) -> None:
        """Release all held keys and buttons."""
        for button in list(self._buttons):
            self._button(button, down=False)
        for key in reversed(list(self._keys)):
            self._key(key, down=False)

    def _click(self, action: Click) -> None:
        _check_count("clicks", action.clicks, _MAX_TIMES)
        self._go(action.x_px, action.y_px)
        for number in range(action.clicks):
            if number:
                self._clock.pause(action.interval_s)
            self._button(action.button, down=True)
            self._button(action.button, down=False)

    def _drag(self, action: Drag) -> None:
        self._check_point(action.x_px, action.y_px)
        self._button(action.button, down=True)
        try:
            self._glide(action.x_px, action.y_px, action.duration_s, _DRAG_POINTS, _DRAG_MOTION_S)
        finally:
            self._button(action.button, down=False)

    def _glide(self, x_px: int, y_px: int, duration_s: float, min_points: int = 1, min_pause_s: float = 0.0) -> None:
        """Move the pointer on a straight line."""
        self._check_point(x_px, y_px)
        from_x, from_y = self._backend.pointer_px()
        num_points = max(min_points, int(duration_s / _MOTION_S), 1)
        pause_s = max(min_pause_s, duration_s / num_points)
        for number in range(1, num_points + 1):
            share = number / num_points
            self._backend.move(round(from_x + share * (x_px - from_x)), round(from_y + share * (y_px - from_y)))
            if pause_s > 0:
                self._clock.pause(pause_s)

    def _scroll(self, action: Scroll) -> None:
        _check_count("notches", max(abs(action.dx), abs(action.dy)), _MAX_NOTCHES)
        self._go(action.x_px, action.y_px)
        self._backend.scroll(action.dx, action.dy)

    def _press(self, action: PressKey) -> None:
        _check_count("presses", action.presses, _MAX_TIMES)
        for number in range(action.presses):
            if number:
                self._clock.pause(action.interval_s)
            self._key(action.key, down=True)
            self._key(action.key, down=False)

    def _hotkey(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            _known(key)
        pressed = []
        try:
            for key in keys:
                self._key(key, down=True)
                pressed.append(key)
        finally:
            for key in reversed(pressed):
                self._key(key, down=False)

    def _key(self, name: str, *, down: bool) -> None:
        key = _known(name)
        self._backend.press_key(key, down=down)
        if down:
            self._keys[key] = None
        else:
            self._keys.pop(key, None)

    def _button(self, button: Button, *, down: bool) -> None:
        if button not in ("left", "middle", "right"):
            raise ActionError(f"unknown mouse button {button!r}; there are left, middle and right")
        self._backend.press_button(button, down=down)
        if down:
            self._buttons[button] = None
        else:
            self._buttons.pop(button, None)

    def _go(self, x_px: int | None, y_px: int | None) -> None:
        if x_px is None and y_px is None:
            return
        here_x, here_y = self._backend.pointer_px()
        x_px, y_px = here_x if x_px is None else x_px, here_y if y_px is None else y_px
        self._check_point(x_px, y_px)
        self._backend.move(x_px, y_px)

    def _check_point(self, x_px: int, y_px: int) -> None:
        region = self._region
        if not region.contains(x_px, y_px):
            last_x, last_y = region.left_px + region.width_px - 1, region.top_px + region.height_px - 1
            raise ActionError(
                f"the point ({x_px}, {y_px}) is outside of the screen, which spans "
                f"({region.left_px}, {region.top_px}) to ({last_x}, {last_y})"
            )


def _known(key: str) -> str:
    try:
        return normalize_key(key)
    except ValueError as error:
        raise ActionError(str(error)) from None


def _check_count(name: str, count: int, limit: int) -> None:
    if count > limit:
        raise ActionError(f"{count} {name} in one action are too many: at most {limit}. Split it up")


class Worker:
    """Thread that runs calls one after another; a daemon, so a call that never returns does not keep the process alive.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], T], timeout_s: float) -> T:
        """Run a function on the thread and wait for its result.

        Raises:
            TimeoutError: If it took longer than `timeout_s`; the thread is still busy with it.
        """
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)

    def stop(self) -> None:
        """End the thread after its current calls."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            if future.set_running_or_notify_cancel():
                _run(future, function)


def _run(future: "Future[Any]", function: Callable[[], Any]) -> None:
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenCapture:
    """Observation of the screen, and the duration of its stages."""

    png: bytes = field(repr=False)
    size_px: tuple[int, int]
    region: ScreenRegion
    pointer_px: tuple[int, int]
    title: str | None
    notes: tuple[str, ...]
    is_quiet: bool
    settle_s: float
    observe_s: float


class DesktopSession:
    """Session that executes actions and observes the screen; `start`, `act` and `look` block and run on `worker`.

    Args:
        desktop: The desktop, not started yet.
        options: Options of the env.

    Attributes:
        desktop: The desktop.
        worker: Thread of everything except `close`.
        clock: Pauses of `act` and `look`; interrupt it to end them early.
        executor: Executes actions; None before the start.
        is_lost: True if the display is known to be gone.
    """

    def __init__(self, desktop: RunningDesktop, options: DesktopOptions) -> None:
        self.desktop = desktop
        self.worker = Worker("desktop-env")
        self.clock = InterruptibleClock()
        self.executor: DesktopActionExecutor | None = None
        self.is_lost = False
        self._options = options
        self._before: ScreenFrame | None = None
        self._typed_only = False

    def start(self) -> None:
        """Start the desktop.

        Raises:
            EnvSetupError: If some part did not start.
        """
        self.desktop.start()
        backend, region, options = self.desktop.backend, self.desktop.region, self._options
        self.executor = DesktopActionExecutor(backend, region, self.clock)
        self._camera = camera = ScreenCamera(backend, region, draw_cursor=options.draw_cursor)
        self._settler = ScreenSettler(
            camera.grab, self.clock, options.settle_quiet_s, options.settle_timeout_s, camera.prepare
        )

    def act(self, actions: Sequence[Action], *, is_first: bool = True) -> tuple[str | None, Terminate | None]:
        """Execute actions up to the first that fails or terminates.

        Args:
            actions: Actions to execute.
            is_first: True if they begin a step; False if they continue one.

        Returns:
            The error of a failed action, and the `Terminate` that was reached.
        """
        assert self.executor is not None
        self.clock.resume()
        only_types = all(isinstance(action, TypeText) for action in actions)
        self._typed_only = only_types and (is_first or self._typed_only)
        has_effect = not all(isinstance(action, Move | Wait | Terminate) for action in actions)
        if is_first or self._before is None:
            self._before = self._camera.grab() if has_effect else None
        until_s = self.clock.now_s() + self._options.step_timeout_s
        for number, action in enumerate(actions):
            self.clock.pause(0)  # a cancelled step ends here
            if number and self.clock.now_s() > until_s:
                return describe_late(number, len(actions), self._options.step_timeout_s), None
            if isinstance(action, Terminate):
                return None, action
            try:
                self.executor.execute(action)
            except ActionError as error:
                return str(error), None
        return None, None

    def flush_input(self) -> None:
        """Wait until the active window has processed its input."""
        self.desktop.backend.wait_processed(self._options.settle_timeout_s, typed_only=False)

    def look(self, *, after_input: bool) -> ScreenCapture:
        """Wait until the screen has settled, and observe it.

        Args:
            after_input: True if the active window may still have input to process.
        """
        self.clock.resume()
        backend = self.desktop.backend
        begin = time.perf_counter()
        if after_input:
            backend.wait_processed(self._options.settle_timeout_s, typed_only=self._typed_only)
        settled = self._settler.wait(self._before)
        settled_at = time.perf_counter()
        pointer_px = backend.pointer_px()
        png = self._camera.encode(settled.frame)
        title = backend.active_title()
        return ScreenCapture(
            png=png,
            size_px=settled.frame.size_px,
            region=self.desktop.region,
            pointer_px=pointer_px,
            title=title,
            notes=self.desktop.take_ends(),
            is_quiet=settled.is_quiet,
            settle_s=settled_at - begin,
            observe_s=time.perf_counter() - settled_at,
        )

    async def close(self) -> None:
        """Release held keys, end all programs, disconnect. Does not raise if something is gone."""
        self.clock.interrupt()
        gone = (*self.desktop.lost, ActionError, EnvError, TimeoutError)
        if self.executor is not None and not self.is_lost:
            with contextlib.suppress(*gone):
                await self.worker.call(self._release, _CLOSE_TIMEOUT_S)
        await asyncio.to_thread(self.desktop.end_programs)
        with contextlib.suppress(*gone):
            await self.worker.call(self.desktop.disconnect, _CLOSE_TIMEOUT_S)
        self.worker.stop()

    def _release(self) -> None:
        if self.executor is not None:
            self.executor.release()
            self.desktop.backend.release()
