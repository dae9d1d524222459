"""One thread for one env's blocking calls: connections to a screen belong to the thread that made them."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]


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
