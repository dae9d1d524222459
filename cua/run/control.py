"""Pause, resume, stop and redirect a running agent from outside; can be called from any thread."""

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from cua.run.budget import CapReachedError, describe_time
from envs import Action
from envs.foreign import abandon, contained_result

T = TypeVar("T")
_CANCEL_TIMEOUT_S = 5.0  # a step that ignores its cancellation must not hold up the end of the run
_AWAY_CHECK_S = 0.1  # shortest wait for the limit of a stopped clock; it is checked again afterwards


class StoppedError(Exception):
    """Raised when a stop of the run was requested."""


class WorkClock:
    """Clock of working time with a limit; the limits of all parents apply too.

    It is stopped while a person is awaited, either here or by every running child.

    Args:
        max_time_s: Limit on working time in seconds; None means no limit.
        parent: Clock of the parent run.
        name: Name in messages, such as `the whole run`.
    """

    def __init__(self, *, max_time_s: float | None = None, parent: "WorkClock | None" = None, name: str = "") -> None:
        self._max_time_s = max_time_s
        self._parent = parent
        self._name = name
        self._started = time.monotonic()
        self._earlier_s = self._waited_s = self._waiting_since = 0.0
        self._is_running = False
        self._num_waits = self._num_running = self._num_waiting = 0

    def start(self, *, earlier_s: float = 0.0) -> None:
        """Start the clock; `earlier_s` is the working time of earlier parts of the run."""
        now = time.monotonic()
        self._started, self._earlier_s, self._waited_s, self._waiting_since = now, earlier_s, 0.0, now
        if self._parent is not None and not self._is_running:
            self._parent._change(running=1, waiting=int(self.is_waiting))
        self._is_running = True

    def end(self) -> None:
        """End the work of this clock for the parent. Can be called twice."""
        if self._parent is not None and self._is_running:
            self._parent._change(running=-1, waiting=-int(self.is_waiting))
        self._is_running = False

    @property
    def is_waiting(self) -> bool:
        """True if the clock is stopped."""
        return self._num_waits > 0 or 0 < self._num_running == self._num_waiting

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for a person so far."""
        return self._waited_s + (time.monotonic() - self._waiting_since if self.is_waiting else 0.0)

    @property
    def time_s(self) -> float:
        """Seconds of work, including earlier parts of a resumed run, without waiting for a person."""
        return self._earlier_s + time.monotonic() - self._started - self.waited_s

    @property
    def left_s(self) -> float | None:
        """Seconds until a limit of this clock or of a parent may be reached; None without a limit."""
        mine = None if self._max_time_s is None else max(0.0, self._max_time_s - self.time_s)
        if mine is not None and self.is_waiting:
            mine = max(mine, _AWAY_CHECK_S)
        above = self._parent.left_s if self._parent is not None else None
        return min((left for left in (mine, above) if left is not None), default=None)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock inside this context, while a person is awaited."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Stop the clock until `resume` was called as often as this."""
        self._change(waits=1)

    def resume(self) -> None:
        """Undo one `pause`."""
        self._change(waits=-1)

    def check(self) -> None:
        """Raise `CapReachedError` if the time limit is reached."""
        if self._max_time_s is not None and self.time_s >= self._max_time_s and not self.is_waiting:
            reason = describe_time(self.time_s, self._max_time_s)
            raise CapReachedError("time", f"{self._name}: {reason}" if self._name else reason)
        if self._parent is not None:
            self._parent.check()

    def _change(self, *, waits: int = 0, running: int = 0, waiting: int = 0) -> None:
        before, now = self.is_waiting, time.monotonic()
        self._num_waits += waits
        self._num_running += running
        self._num_waiting += waiting
        if before == self.is_waiting:
            return
        if before:
            self._waited_s += now - self._waiting_since
        else:
            self._waiting_since = now
        if self._parent is not None and self._is_running:
            self._parent._change(waiting=-1 if before else 1)


class Control:
    """Pause, stop and redirect of one run, and its clock. A stop takes effect immediately.

    A pause takes effect before the next model call, and in a run on a screen also before the next action. `checkpoint`
    and `unless_stopped` raise `StoppedError`; `check_time` and `unless_stopped` raise `CapReachedError`.

    Args:
        max_time_s: Seconds of work after which the run ends immediately; None means no limit.
        parent: Control of the parent run; see `make_child`.

    Attributes:
        clock: Clock of the run; the parent's clock runs too.
        on_redirect: Called after each redirect.
        on_pause: Called when the run is paused.
    """

    def __init__(self, *, max_time_s: float | None = None, parent: "Control | None" = None) -> None:
        self.on_pause: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = parent._loop if parent else None
        self._children: weakref.WeakSet[Control] = weakref.WeakSet()
        self._is_stopped = False
        self._awaiting_stop: set[asyncio.Future[None]] = set()
        self._go = asyncio.Event()
        self._go.set()
        self.stop_reason = ""
        self._redirects: list[str] = []
        self.on_redirect: Callable[[], None] = lambda: None
        self._user_actions: tuple[Action, ...] | None = None
        self.clock: WorkClock = WorkClock(max_time_s=max_time_s, parent=parent.clock if parent else None)

    def make_child(self, *, max_time_s: float | None = None, is_same_agent: bool = False) -> "Control":
        """Return the control of a part of this run: pause, stop and time limit of the parent apply to it too.

        Args:
            max_time_s: Time limit of the child.
            is_same_agent: True if redirects of the parent apply to the child.
        """
        child = Control(max_time_s=max_time_s, parent=self)
        if is_same_agent:
            child._redirects = self._redirects
        self._children.add(child)
        if self.is_paused:
            child.pause()
        if self.is_stopped:
            child.stop(self.stop_reason)
        return child

    def attach(self, *, earlier_s: float = 0.0) -> None:
        """Bind to the running event loop and start the clock; called by the agent when a run starts."""
        self._loop = asyncio.get_running_loop()
        self.clock.start(earlier_s=earlier_s)

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for a person so far."""
        return self.clock.waited_s

    @property
    def time_s(self) -> float:
        """Seconds of work, including earlier parts of a resumed run, without waiting for a person."""
        return self.clock.time_s

    def pause(self) -> None:
        """Pause the run before its next model call."""
        self._change_on_loop(self._set_paused)
        for child in tuple(self._children):
            child.pause()

    def resume(self) -> None:
        """Resume a paused run."""
        self._change_on_loop(self._go.set)
        for child in tuple(self._children):
            child.resume()

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the run as `stopped`, even during a model call."""
        self.stop_reason = reason
        self._change_on_loop(self._set_stopped)
        for child in tuple(self._children):
            child.stop(reason)

    def redirect(self, instruction: str) -> None:
        """Give the agent a text at its next step: a new instruction on a screen, else an additional message."""
        self._redirects.append(instruction)
        self._change_on_loop(self.on_redirect)

    def hand_back(self, actions: Sequence[Action] = ()) -> None:
        """Report that a person has used the screen of a paused run: the agent observes it again before it decides."""
        self._user_actions = (*(self._user_actions or ()), *actions)

    @property
    def is_handed_back(self) -> bool:
        """True if a person used the screen and the agent has not observed it since."""
        return self._user_actions is not None

    @property
    def is_redirected(self) -> bool:
        """True if there are redirects that the agent has not taken."""
        return bool(self._redirects)

    @property
    def is_paused(self) -> bool:
        """True if the run is paused or will be before its next model call."""
        return not self._go.is_set()

    @property
    def is_stopped(self) -> bool:
        """True if a stop was requested."""
        return self._is_stopped

    def take_redirects(self) -> tuple[str, ...]:
        """Return the texts of new redirects in order, and clear them."""
        redirects = tuple(self._redirects)
        del self._redirects[: len(redirects)]
        return redirects

    def take_user_actions(self) -> tuple[Action, ...] | None:
        """Return a person's actions and clear them; None if no person used the screen."""
        actions, self._user_actions = self._user_actions, None
        return actions

    async def checkpoint(self) -> None:
        """Wait while the run is paused.

        Raises:
            StoppedError: If the run was stopped.
        """
        if self.is_paused and not self.is_stopped:
            await self.await_person(self._until_go())
        if self.is_stopped:
            raise StoppedError(self.stop_reason)

    async def unless_stopped(self, work: Awaitable[T]) -> T:
        """Await `work`; cancel it as soon as a stop is requested or the time limit is reached.

        Raises:
            StoppedError: If the run was stopped.
            CapReachedError: If the time limit is reached.
        """
        task: asyncio.Future[T] = asyncio.ensure_future(contained_result(work))
        try:
            with self._stop_awaited() as stop:
                both: list[asyncio.Future[Any]] = [task, stop]
                while not task.done():
                    await asyncio.wait(both, timeout=self.clock.left_s, return_when=asyncio.FIRST_COMPLETED)
                    if not task.done():
                        self._check()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_CANCEL_TIMEOUT_S)
                abandon(task)
            if task.done() and not task.cancelled():
                task.exception()  # retrieve an error that was raised meanwhile, so that asyncio does not report it

    async def await_person(self, work: Awaitable[T]) -> T:
        """Await a person; this time does not count toward the time limit."""
        with self.clock.waiting():
            return await work

    def check_time(self) -> None:
        """Raise `CapReachedError` if the time limit is reached."""
        self.clock.check()

    def _check(self) -> None:
        if self.is_stopped:
            raise StoppedError(self.stop_reason)
        self.check_time()

    async def _until_go(self) -> None:
        go = asyncio.ensure_future(self._go.wait())
        try:
            with self._stop_awaited() as stop:
                either: set[asyncio.Future[Any]] = {stop, go}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            go.cancel()

    @contextmanager
    def _stop_awaited(self) -> Iterator["asyncio.Future[None]"]:
        """Yield a future that is done when a stop is requested; not a task, because every call creates one."""
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaiting_stop.add(stop)
        if self._is_stopped:
            stop.set_result(None)
        try:
            yield stop
        finally:
            self._awaiting_stop.discard(stop)
            stop.cancel()

    def _set_paused(self) -> None:
        self._go.clear()
        self.on_pause()

    def _set_stopped(self) -> None:
        self._is_stopped = True
        for stop in self._awaiting_stop:
            if not stop.done():
                stop.set_result(None)

    def _change_on_loop(self, change: Callable[[], object]) -> None:
        """Apply a change on the run's event loop: directly if called there, else thread-safely."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if self._loop is None or self._loop is here or not self._loop.is_running():
            change()
        else:
            self._loop.call_soon_threadsafe(change)
