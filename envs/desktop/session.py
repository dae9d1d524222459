"""One episode's running desktop, with the one thread that serves it: screen connections belong to their thread."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envs.actions import Action, Move, Terminate, TypeText, Wait
from envs.desktop.action_executor import ActionExecutor
from envs.desktop.backend import Clock, Frame, Region
from envs.desktop.options import DesktopOptions
from envs.desktop.running_desktop import RunningDesktop
from envs.desktop.screenshot import Camera, Settler
from envs.errors import ActionError, EnvError, describe_late

T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]
_CLOSE_TIMEOUT_S = 5.0


class Worker:
    """Runs calls one after another. It is a daemon, so a call that never returns cannot keep the process alive.

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
            TimeoutError: It took longer than `timeout_s`; the thread is still busy with it.
        """
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)

    def stop(self) -> None:
        """Let the thread end once it is through with what it does."""
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
class Look:
    """What a look at the screen gave, and how long its stages took."""

    png: bytes = field(repr=False)
    size_px: tuple[int, int]
    region: Region
    pointer_px: tuple[int, int]
    title: str | None
    notes: tuple[str, ...]
    is_quiet: bool
    settle_s: float
    observe_s: float


class Session:
    """Acts and looks; `start`, `act` and `look` block and belong on `worker`.

    Args:
        desktop: The desktop, not started yet.
        options: The env's options.

    Attributes:
        desktop: The desktop.
        worker: The thread that everything but `close` runs on.
        clock: Pauses of `act` and `look`; interrupt it to cut them short.
        executor: Carries out actions; None before the start.
        is_lost: Whether the display is known to be gone.
    """

    def __init__(self, desktop: RunningDesktop, options: DesktopOptions) -> None:
        self.desktop = desktop
        self.worker = Worker("desktop-env")
        self.clock = Clock()
        self.executor: ActionExecutor | None = None
        self.is_lost = False
        self._options = options
        self._before: Frame | None = None
        self._typed_only = False

    def start(self) -> None:
        """Start the desktop.

        Raises:
            EnvSetupError: Some part did not start.
        """
        self.desktop.start()
        backend, region, options = self.desktop.backend, self.desktop.region, self._options
        self.executor = ActionExecutor(backend, region, self.clock)
        self._camera = Camera(backend, region, draw_cursor=options.draw_cursor)
        self._settler = Settler(self._camera.grab, self.clock, options.settle_quiet_s, options.settle_timeout_s)

    def act(self, actions: Sequence[Action], *, is_first: bool = True) -> tuple[str | None, Terminate | None]:
        """Carry actions out up to the first that fails or terminates.

        Args:
            actions: What to do.
            is_first: Whether they begin a step; else they go on with one.

        Returns:
            Why one failed, and the `Terminate` that was reached.
        """
        assert self.executor is not None
        self.clock.resume()
        only_types = all(isinstance(action, TypeText) for action in actions)
        self._typed_only = only_types and (is_first or self._typed_only)
        has_effect = not all(isinstance(action, Move | Wait | Terminate) for action in actions)
        if is_first or self._before is None:
            # The old grab goes only when there is a new one: where all are gone, the allocator gives their memory back,
            # and 6,000 page faults a step take a third of its processor time.
            self._before = self._camera.grab() if has_effect else None
        until_s = self.clock.now_s() + self._options.step_timeout_s
        for number, action in enumerate(actions):
            self.clock.pause(0)  # a step that was cancelled ends here
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
        """Wait until the active window has worked off its input."""
        self.desktop.backend.wait_processed(self._options.settle_timeout_s, typed_only=False)

    def look(self, *, after_input: bool) -> Look:
        """Wait until the screen has settled, and look.

        Args:
            after_input: Whether the active window may still have input to work off.
        """
        self.clock.resume()
        backend = self.desktop.backend
        begin = time.perf_counter()
        if after_input:
            backend.wait_processed(self._options.settle_timeout_s, typed_only=self._typed_only)
        settled = self._settler.wait(self._before)
        settled_at = time.perf_counter()
        pointer_px = backend.pointer_px()
        png = self._camera.develop(settled.frame, pointer_px)
        title = backend.active_title()
        return Look(
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
        """Let held keys go, end all programs, disconnect. Does not raise because something is gone."""
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
