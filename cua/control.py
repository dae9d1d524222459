"""Pause, resume, stop and redirect a running agent from outside; safe to call from any thread."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Somebody asked the run to stop."""


class Control:
    """The switches of one run. A pause takes effect before the next model call, a stop at once."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._go = asyncio.Event()
        self._go.set()
        self.stop_reason = ""
        self._instruction: str | None = None
        self.waited_s = 0.0

    def attach(self) -> None:
        """Bind to the running event loop; called by the agent when a run starts."""
        self._loop = asyncio.get_running_loop()

    def pause(self) -> None:
        """Hold the run before its next model call."""
        self._call(self._go.clear)

    def resume(self) -> None:
        """Let a paused run go on."""
        self._call(self._go.set)

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the run as `stopped`, also while the model is thinking."""
        self.stop_reason = reason
        self._call(self._stop.set)

    def redirect(self, instruction: str) -> None:
        """Give the agent a new instruction from its next step on."""
        self._instruction = instruction

    @property
    def is_paused(self) -> bool:
        """Whether the run is held or will be before its next model call."""
        return not self._go.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    def take_redirect(self) -> str | None:
        """The new instruction, once."""
        instruction, self._instruction = self._instruction, None
        return instruction

    async def checkpoint(self) -> None:
        """Wait out a pause.

        Raises:
            StoppedError: A stop was asked for.
        """
        if self.is_paused and not self.is_stopped:
            await self.away(self._until_go())
        if self.is_stopped:
            raise StoppedError(self.stop_reason)

    async def unless_stopped(self, work: Awaitable[T]) -> T:
        """Await `work`, or cancel it as soon as a stop is asked for.

        Raises:
            StoppedError: A stop was asked for before the work was done.
        """
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            both: list[asyncio.Future[Any]] = [task, stop]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StoppedError(self.stop_reason)
            return task.result()
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def away(self, work: Awaitable[T]) -> T:
        """Await a person; the time does not count against the run's time limit."""
        started = time.monotonic()
        try:
            return await work
        finally:
            self.waited_s += time.monotonic() - started

    async def _until_go(self) -> None:
        stop, go = asyncio.ensure_future(self._stop.wait()), asyncio.ensure_future(self._go.wait())
        try:
            await asyncio.wait({stop, go}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            go.cancel()

    def _call(self, change: Callable[[], object]) -> None:
        """Make a change on the run's own loop: at once from there, by a message from another thread."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if self._loop is None or self._loop is here or not self._loop.is_running():
            change()
        else:
            self._loop.call_soon_threadsafe(change)
