import asyncio
import contextlib
import gc
import threading

import pytest

from cua.run.budget import CapReachedError
from cua.run.control import Control, StoppedError, WorkClock


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


def test_redirects_are_taken_once_by_the_agent_that_they_are_for() -> None:
    control = Control()
    turn, child = control.make_child(is_same_agent=True), control.make_child()
    control.redirect("new")
    control.redirect("newer")
    assert (control.is_redirected, turn.is_redirected, child.is_redirected) == (True, True, False)
    assert (child.take_redirects(), turn.take_redirects(), control.take_redirects()) == ((), ("new", "newer"), ())


async def hang() -> None:
    await asyncio.sleep(60)


async def test_the_time_limit_ends_work_that_is_going_on() -> None:
    control = Control(max_time_s=0.1)
    control.attach()
    async with asyncio.timeout(5):
        with pytest.raises(CapReachedError, match=r"0 of 0\.1 s used") as caught:
            await control.unless_stopped(hang())
    assert caught.value.cap == "time"


async def test_time_of_an_earlier_part_counts() -> None:
    control = Control(max_time_s=100)
    control.attach(earlier_s=100.0)
    async with asyncio.timeout(5):
        with pytest.raises(CapReachedError, match="100 of 100 s used"):
            await control.unless_stopped(hang())


async def test_the_time_limit_does_not_run_while_a_person_is_waited_for() -> None:
    control = Control(max_time_s=0.2)
    control.attach()

    async def ask() -> str:
        await control.await_person(asyncio.sleep(0.5))
        return "answered"

    assert await control.unless_stopped(ask()) == "answered"
    assert control.time_s < 0.2 and control.waited_s >= 0.5
    async with asyncio.timeout(5):
        with pytest.raises(CapReachedError):
            await control.unless_stopped(hang())


async def test_a_stop_ends_the_wait_for_a_person() -> None:
    control = Control(max_time_s=0.01)
    control.attach()
    waiting = asyncio.ensure_future(control.unless_stopped(control.await_person(hang())))
    await asyncio.sleep(0.05)
    control.stop("enough")
    with pytest.raises(StoppedError, match="enough"):
        await asyncio.wait_for(waiting, 2)


@pytest.mark.slow
async def test_work_that_does_not_let_itself_be_ended_is_left_behind() -> None:
    control = Control(max_time_s=0.05)
    control.attach()
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()

    async with asyncio.timeout(20):
        with pytest.raises(CapReachedError):
            await control.unless_stopped(stubborn())
    go.set()


async def test_an_error_of_work_that_is_ended_from_outside_is_not_told_to_the_loop() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("broke while it was ended")

    waiting = asyncio.ensure_future(Control().unless_stopped(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    del waiting
    gc.collect()
    assert told == []


def clocks(num_children: int) -> tuple[WorkClock, list[WorkClock]]:
    """A clock with a limit that is used up, and children at work."""
    parent = WorkClock(max_time_s=0.0, name="the whole run")
    children = [WorkClock(parent=parent) for _ in range(num_children)]
    for clock in (parent, *children):
        clock.start()
    return parent, children


def test_a_clock_stands_still_while_all_children_at_work_wait_for_a_person() -> None:
    parent, (one, two) = clocks(2)
    with one.waiting():
        one_waits = parent.is_waiting
        with one.waiting(), two.waiting():
            assert parent.is_waiting
            two.check()
        two_again = parent.is_waiting
        two.end()
        assert parent.is_waiting
        two.end()
    assert (one_waits, two_again, parent.is_waiting) == (False, False, False)
    with pytest.raises(CapReachedError, match="the whole run: 0 of 0 s used"):
        one.check()
    waited_s = parent.waited_s
    assert waited_s > 0
    assert parent.waited_s == waited_s


def test_a_clock_counts_the_waiting_of_a_child_that_ends_or_begins_while_it_waits() -> None:
    parent, (one,) = clocks(1)
    with one.waiting():
        one.end()
        assert not parent.is_waiting
        one.start()
        assert parent.is_waiting
        with parent.waiting():
            one.end()
            assert parent.is_waiting
    assert not parent.is_waiting
    assert parent.left_s == one.left_s == 0.0
