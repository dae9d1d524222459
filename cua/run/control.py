"""Pause, resume, stop and redirect a running agent from outside; safe to call from any thread."""

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
_CANCEL_TIMEOUT_S = 5.0
_AWAY_CHECK_S = 0.1


class StoppedError(Exception):
    """Somebody asked the run to stop."""


class Clock:
    """Seconds of work, and the limit on them; the limits of all that it is a part of hold too.

    It stands still while a person is awaited: here, or by each child that is at work.

    Args:
        max_time_s: Seconds of work; None means no limit.
        parent: What this is a part of.
        name: What a message calls it, such as `the whole run`.
    """

    def __init__(self, *, max_time_s: float | None = None, parent: "Clock | None" = None, name: str = "") -> None:
        self._max_time_s = max_time_s
        self._parent = parent
        self._name = name
        self._started = time.monotonic()
        self._earlier_s = self._waited_s = self._waiting_since = 0.0
        self._is_running = False
        self._num_waits = self._num_running = self._num_waiting = 0

    def start(self, *, earlier_s: float = 0.0) -> None:
        """Count from now on."""
        now = time.monotonic()
        self._started, self._earlier_s, self._waited_s, self._waiting_since = now, earlier_s, 0.0, now
        if self._parent is not None and not self._is_running:
            self._parent._change(running=1, waiting=int(self.is_waiting))
        self._is_running = True

    def end(self) -> None:
        """The work is over; a parent does not look here any more. May be called twice."""
        if self._parent is not None and self._is_running:
            self._parent._change(running=-1, waiting=-int(self.is_waiting))
        self._is_running = False

    @property
    def is_waiting(self) -> bool:
        """Whether it stands still."""
        return self._num_waits > 0 or 0 < self._num_running == self._num_waiting

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for a person, up to now."""
        return self._waited_s + (time.monotonic() - self._waiting_since if self.is_waiting else 0.0)

    @property
    def time_s(self) -> float:
        """Seconds of work: earlier parts of a resumed run count, waiting for a person does not."""
        return self._earlier_s + time.monotonic() - self._started - self.waited_s

    @property
    def left_s(self) -> float | None:
        """Seconds until a limit may be reached, here or further up; None without any limit."""
        mine = None if self._max_time_s is None else max(0.0, self._max_time_s - self.time_s)
        if mine is not None and self.is_waiting:
            mine = max(mine, _AWAY_CHECK_S)
        above = self._parent.left_s if self._parent is not None else None
        return min((left for left in (mine, above) if left is not None), default=None)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A person is awaited."""
        self._change(waits=1)
        try:
            yield
        finally:
            self._change(waits=-1)

    def check(self) -> None:
        """Check that there is time left."""
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
    """The switches and the clock of one run. A stop takes effect at once.

    A pause takes effect before the next model call, and in a run on a screen also before the next action. `checkpoint`
    and `unless_stopped` raise `StoppedError`; `check_time` and `unless_stopped` raise `CapReachedError`.

    Args:
        max_time_s: Seconds of work after which the run ends, as by a stop; None means no limit.
        parent: What this is a part of; see `make_child`.

    Attributes:
        clock: Its time; that of the parent runs too.
    """

    def __init__(self, *, max_time_s: float | None = None, parent: "Control | None" = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = parent._loop if parent else None
        self._children: weakref.WeakSet[Control] = weakref.WeakSet()
        self._is_stopped = False
        self._awaiting_stop: set[asyncio.Future[None]] = set()
        self._go = asyncio.Event()
        self._go.set()
        self.stop_reason = ""
        self._said: list[str] = []
        self._by_person: tuple[Action, ...] | None = None
        self.clock: Clock = Clock(max_time_s=max_time_s, parent=parent.clock if parent else None)

    def make_child(self, *, max_time_s: float | None = None, is_same_agent: bool = False) -> "Control":
        """Control of a part of this run: pause, stop and the time limit of the parent hold for it too.

        Args:
            max_time_s: Its own time limit.
            is_same_agent: Whether a redirect of the parent is for it.
        """
        child = Control(max_time_s=max_time_s, parent=self)
        if is_same_agent:
            child._said = self._said
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
        """Seconds spent waiting for a person, up to now."""
        return self.clock.waited_s

    @property
    def time_s(self) -> float:
        """Seconds of work: earlier parts of a resumed run count, waiting for a person does not."""
        return self.clock.time_s

    def pause(self) -> None:
        """Hold the run before its next model call."""
        self._change_on_loop(self._go.clear)
        for child in tuple(self._children):
            child.pause()

    def resume(self) -> None:
        """Let a paused run go on."""
        self._change_on_loop(self._go.set)
        for child in tuple(self._children):
            child.resume()

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the run as `stopped`, also while the model is thinking."""
        self.stop_reason = reason
        self._change_on_loop(self._set_stopped)
        for child in tuple(self._children):
            child.stop(reason)

    def redirect(self, instruction: str) -> None:
        """Tell the agent something from its next step on: on a screen a new instruction, else a further word."""
        self._said.append(instruction)

    def hand_back(self, actions: Sequence[Action] = ()) -> None:
        """A person has worked on the screen of a paused run: the agent looks again before it decides anew."""
        self._by_person = (*(self._by_person or ()), *actions)

    @property
    def is_handed_back(self) -> bool:
        """Whether a person worked on the screen and the agent has not looked again yet."""
        return self._by_person is not None

    @property
    def is_redirected(self) -> bool:
        """Whether the agent has not taken yet what it is told."""
        return bool(self._said)

    @property
    def is_paused(self) -> bool:
        """Whether the run is held or will be before its next model call."""
        return not self._go.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether a stop was asked for."""
        return self._is_stopped

    def take_redirects(self) -> tuple[str, ...]:
        """What the agent is told, once, in order."""
        said = tuple(self._said)
        del self._said[: len(said)]
        return said

    def take_hand_back(self) -> tuple[Action, ...] | None:
        """What a person did, once; None when nobody did anything."""
        actions, self._by_person = self._by_person, None
        return actions

    async def checkpoint(self) -> None:
        """Wait out a pause."""
        if self.is_paused and not self.is_stopped:
            await self.away(self._until_go())
        if self.is_stopped:
            raise StoppedError(self.stop_reason)

    async def unless_stopped(self, work: Awaitable[T]) -> T:
        """Await `work`, or cancel it as soon as a stop is asked for or the run's time is used up."""
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
                task.exception()  # an error that it ended with meanwhile is nobody's any more

    async def away(self, work: Awaitable[T]) -> T:
        """Await a person; the time does not count against the run's time limit."""
        with self.clock.waiting():
            return await work

    def check_time(self) -> None:
        """Check that there is time left."""
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
        """Done as soon as a stop is asked for. A future and no task: this is on the way of each call of each agent."""
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaiting_stop.add(stop)
        if self._is_stopped:
            stop.set_result(None)
        try:
            yield stop
        finally:
            self._awaiting_stop.discard(stop)
            stop.cancel()

    def _set_stopped(self) -> None:
        self._is_stopped = True
        for stop in self._awaiting_stop:
            if not stop.done():
                stop.set_result(None)

    def _change_on_loop(self, change: Callable[[], object]) -> None:
        """Make a change on the run's own loop: at once from there, by a message from another thread."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if self._loop is None or self._loop is here or not self._loop.is_running():
            change()
        else:
            self._loop.call_soon_threadsafe(change)
