"""Asking the browser something that may never answer, because a dialog, a crash or death came first."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

Reason = Literal["dialog", "crash", "died"]
T = TypeVar("T")


class Interrupted(Exception):
    """Something came up before the browser answered."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Interrupts:
    """Races work against what may come up.

    Attributes:
        stranded: Work that was overtaken and is still under way (a click whose dialog waits).
    """

    def __init__(self) -> None:
        self.stranded: set[asyncio.Future[Any]] = set()
        self._flags: set[asyncio.Future[Reason]] = set()

    def signal(self, reason: Reason) -> None:
        """Something came up: everybody who waits is told."""
        for flag in self._flags:
            if not flag.done():
                flag.set_result(reason)

    async def race(
        self, work: Coroutine[Any, Any, T], timeout_s: float, is_waiting: Callable[[], bool] | None = None
    ) -> T:
        """The result of `work`.

        Args:
            work: What to do.
            timeout_s: How long it may take.
            is_waiting: Whether the work waits for a person at this moment; then it has that time anew.

        Raises:
            Interrupted: Something came up first; the work goes on in the background.
            TimeoutError: It took too long; the work is cancelled.
        """
        task = asyncio.ensure_future(work)
        flag: asyncio.Future[Reason] = asyncio.get_running_loop().create_future()
        self._flags.add(flag)
        try:
            both: tuple[asyncio.Future[Any], ...] = (task, flag)
            await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            while is_waiting is not None and is_waiting() and not (task.done() or flag.done()):
                await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            self._flags.discard(flag)
        if task.done():
            return task.result()
        if flag.done():
            self._strand(task)
            raise Interrupted(flag.result())
        task.cancel()
        self._strand(task)
        raise TimeoutError

    async def rejoin(self, timeout_s: float) -> None:
        """Wait, but not long, for overtaken work.

        Raises:
            Interrupted: The next thing came up.
        """
        if self.stranded:
            with contextlib.suppress(TimeoutError):
                await self.race(_wait_for(set(self.stranded)), timeout_s)

    def drop(self) -> None:
        """Give up all overtaken work."""
        for task in self.stranded:
            task.cancel()

    def _strand(self, task: asyncio.Future[Any]) -> None:
        self.stranded.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self.stranded.discard(task)
        if not task.cancelled():
            task.exception()  # read, so that asyncio does not complain about it


async def _wait_for(tasks: set[asyncio.Future[Any]]) -> None:
    await asyncio.wait(tasks)
