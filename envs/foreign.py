"""Boundary around third-party code: tasks, environments, suites, tools.

    with contained():
        score = await task.evaluate(env)

Every exception of such code leaves the block as an `Exception`, so that it can be recorded: `SystemExit`, a
`CancelledError` without a cancellation, or a `KeyboardInterrupt` without Ctrl-C. A real cancellation and a real Ctrl-C
pass unchanged.
"""

import asyncio
import os
import signal
import traceback
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_MAX_TEXT_CHARS = 500  # of an exception's text in a result


class ForeignCodeError(Exception):
    """`BaseException` of third-party code that is not an `Exception`; the text names it and its location."""


@contextmanager
def contained() -> Iterator[None]:
    """Run third-party code, with or without `await` in the block.

    Raises:
        ForeignCodeError: If the code tried to end the process, or cancelled itself.
    """
    here = _current_task()
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if is_from_outside(error, here):
            raise
        raise ForeignCodeError(describe_defect(error)) from error


@contextmanager
def kept_directory(folder: str | None) -> Iterator[None]:
    """Run code that may change the working directory, and change back to `folder`; None: do not change back."""
    try:
        yield
    finally:
        if folder is not None:
            with suppress(OSError):  # it was deleted
                os.chdir(folder)


def working_directory() -> str | None:
    """Return the working directory; None if it was deleted."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return None


async def contained_result(work: Awaitable[T]) -> T:
    """Await third-party code in a separate coroutine, for example as the body of an asyncio task."""
    with contained():
        return await work


def contained_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
    """Create an asyncio task that cannot end the loop by `SystemExit`; for use as task factory."""
    return asyncio.Task(contained_result(work), loop=loop, **options)


def abandon(task: "asyncio.Future[Any]") -> None:
    """Abandon an asyncio task that ignores its cancellation; closing the loop does not wait for it."""
    if not task.done():
        asyncio.tasks._unregister_task(task)  # type: ignore[arg-type]  # as documented for extensions of asyncio
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as `asyncio.gather` does


def _current_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop is running
        return None


def is_from_outside(error: BaseException, task: "asyncio.Task[object] | None") -> bool:
    """Return True if `task`, in which the code ran, was cancelled or destroyed, or the user pressed Ctrl-C."""
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return _current_task() is not task
    if isinstance(error, KeyboardInterrupt):
        frames = traceback.extract_tb(error.__traceback__)
        is_by_loop = bool(frames) and frames[-1].name == "_on_sigint"  # of asyncio.Runner
        return is_by_loop or signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return False


def describe_error(error: BaseException) -> str:
    """Return the class and the first line of the text of an exception, whose own `__str__` may raise."""
    try:
        text = str(error).strip()
    except BaseException:  # third-party code as well
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text.splitlines()[0][:_MAX_TEXT_CHARS]}" if text else type(error).__name__


def describe_defect(error: BaseException) -> str:
    """Return an exception and its location in one line: `ZeroDivisionError: division by zero (chores.py, line 12)`."""
    if isinstance(error, ForeignCodeError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    description = describe_error(error)
    return f"{description} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else description
