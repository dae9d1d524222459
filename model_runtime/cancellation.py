"""Cancellation of long work in a thread when its task is cancelled.

Functions under `run_in_thread` call `check_cancelled` between their parts; elsewhere it does nothing.
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
    """Exception for work whose task was cancelled."""


def check_cancelled() -> None:
    """Raise if the task that started the work of this thread was cancelled.

    Raises:
        CancelledWork: If the task was cancelled.
    """
    event = _CANCELLED.get()
    if event is not None and event.is_set():
        raise CancelledWork


async def run_in_thread(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Run a function like `asyncio.to_thread`; cancellation of the task also cancels the work."""
    event = threading.Event()
    token = _CANCELLED.set(event)
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except asyncio.CancelledError:
        event.set()
        raise
    finally:
        _CANCELLED.reset(token)
