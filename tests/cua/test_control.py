import asyncio
import threading

import pytest

from cua.control import Control, StoppedError


async def test_a_pause_holds_and_a_resume_lets_go_also_from_another_thread() -> None:
    control = Control()
    control.attach()
    control.pause()
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(control.checkpoint())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    threading.Thread(target=control.resume).start()
    await asyncio.wait_for(waiting, 2)
    assert control.waited_s >= 0.04


async def test_a_stop_ends_a_pause() -> None:
    control = Control()
    control.attach()
    control.pause()
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(control.checkpoint())
    control.stop("enough")
    with pytest.raises(StoppedError, match="enough"):
        await asyncio.wait_for(waiting, 2)


async def test_a_stop_cancels_work_that_is_going_on() -> None:
    control = Control()
    control.attach()
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    waiting = asyncio.ensure_future(control.unless_stopped(work()))
    await asyncio.sleep(0.01)
    control.stop()
    with pytest.raises(StoppedError):
        await asyncio.wait_for(waiting, 2)
    assert cancelled.is_set()


async def test_work_that_finishes_gives_its_value_and_its_errors() -> None:
    control = Control()

    async def value() -> int:
        return 5

    async def error() -> int:
        raise KeyError("x")

    assert await control.unless_stopped(value()) == 5
    with pytest.raises(KeyError):
        await control.unless_stopped(error())


def test_a_redirect_is_taken_once() -> None:
    control = Control()
    control.redirect("new")
    assert (control.take_redirect(), control.take_redirect()) == ("new", None)
