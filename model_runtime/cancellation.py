"""Long work in a thread that stops when nobody waits for it any more.

What runs under `run_in_thread` calls `check_cancelled` between its parts; elsewhere that does nothing.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


class CancelledWork(Exception):
    """Nobody waits for this work; it is given up."""


def check_cancelled() -> None:
    """Give up the work of this thread where nobody waits for it.

    Raises:
        CancelledWork: The task that started it was cancelled.
    """
    event = _CANCELLED.get()
    if event is not None and event.is_set():
        raise CancelledWork


async def run_in_thread(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """As `asyncio.to_thread`; when the task is cancelled, the work is told so."""
    event = threading.Event()
    token = _CANCELLED.set(event)
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except asyncio.CancelledError:
        event.set()
        raise
    finally:
        _CANCELLED.reset(token)
