"""Work in threads that nobody waits for any more."""

import asyncio
import threading

import pytest

from model_runtime.cancellation import CancelledWork, check_cancelled, run_in_thread


async def test_work_ends_when_its_task_is_cancelled() -> None:
    has_begun, ends = threading.Event(), threading.Event()

    def work() -> None:
        try:
            while True:
                has_begun.set()
                check_cancelled()
        except CancelledWork:
            ends.set()
            raise

    task = asyncio.create_task(run_in_thread(work))
    assert await asyncio.to_thread(has_begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ends.wait, 20)


async def test_other_work_is_not_told() -> None:
    check_cancelled()
    first = asyncio.create_task(run_in_thread(threading.Event().wait, 0.01))
    first.cancel()
    assert await run_in_thread(lambda number: check_cancelled() or number, 3) == 3
