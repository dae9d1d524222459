"""The engine in its thread, seen from an event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from model_runtime.engine.contract import EngineOutput, EngineRequest
from model_runtime.engine.thread import EngineThread
from model_runtime.errors import BusyError, EngineDead, InvalidRequestError
from model_runtime.tokenizer import Tokenizer
from tests.model_runtime.engine.counting import CountingExecutor, make_engine, make_request


@pytest.fixture
async def pair(tokenizer: Tokenizer) -> AsyncIterator[tuple[EngineThread, CountingExecutor]]:
    engine, executor = make_engine(tokenizer, max_waiting=3, max_num_seqs=2)
    thread = EngineThread(engine, tokenizer)
    yield thread, executor
    executor.gate.set()
    await thread.close()
    assert executor.is_closed


async def collect(thread: EngineThread, request: EngineRequest) -> list[EngineOutput]:
    return [output async for output in thread.generate(request)]


async def test_many_at_once_each_get_their_own(
    pair: tuple[EngineThread, CountingExecutor], tokenizer: Tokenizer
) -> None:
    engine, _ = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    requests = [make_request([10 * i], name=str(i), max_tokens=3) for i in range(20)]
    results = await asyncio.gather(*(collect(thread, request) for request in requests))
    assert [[t for o in r for t in o.token_ids] for r in results] == [
        [10 * i + k for k in (1, 2, 3)] for i in range(20)
    ]
    assert thread.stats().generated_tokens_total == 60
    await thread.close()


async def test_leaving_early_cancels(pair: tuple[EngineThread, CountingExecutor]) -> None:
    thread, executor = pair
    outputs = thread.generate(make_request([1], max_tokens=200))
    assert (await anext(outputs)).token_ids == (2,)
    await outputs.aclose()  # type: ignore[attr-defined]
    for _ in range(500):
        if thread.stats().num_running == 0:
            break
        await asyncio.sleep(0.01)
    assert thread.stats().num_running == 0
    assert len(executor.steps) < 200


async def test_cancelled_while_it_waits(pair: tuple[EngineThread, CountingExecutor]) -> None:
    thread, executor = pair
    executor.gate.clear()
    tasks = [asyncio.create_task(collect(thread, make_request([i], name=str(i), max_tokens=1))) for i in range(3)]
    await asyncio.sleep(0.05)
    tasks[2].cancel()
    await asyncio.sleep(0.01)
    executor.gate.set()
    assert [len(outputs) for outputs in await asyncio.gather(*tasks[:2])] == [1, 1]
    assert all(2 not in step.token_ids or step.positions[step.token_ids.index(2)] for step in executor.steps)


async def test_a_full_queue_says_when_to_come_back(pair: tuple[EngineThread, CountingExecutor]) -> None:
    thread, executor = pair
    executor.gate.clear()
    tasks = []
    for i in range(6):
        tasks.append(asyncio.create_task(collect(thread, make_request([i], name=str(i), max_tokens=1))))
        await asyncio.sleep(0.02)
    executor.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    busy = [result for result in results if isinstance(result, BusyError)]
    assert busy
    assert all(error.retry_after_s >= 1 and "wait already" in str(error) for error in busy)
    assert len(busy) + sum(isinstance(result, list) for result in results) == 6


async def running(thread: EngineThread, count: int) -> None:
    """Until so many run, and the step that they are in waits for the gate."""
    while thread.stats().num_running != count:
        await asyncio.sleep(0.001)


async def test_the_queue_takes_as_many_as_it_says(pair: tuple[EngineThread, CountingExecutor]) -> None:
    thread, executor = pair
    executor.gate.clear()
    tasks = [asyncio.create_task(collect(thread, make_request([1], name="first", max_tokens=1)))]
    await running(thread, 1)
    tasks += [asyncio.create_task(collect(thread, make_request([i], name=str(i), max_tokens=1))) for i in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="3 requests wait already; this server queues 3") as caught:
        thread.check(make_request([9]))
    assert caught.value.retry_after_s == 1.0
    executor.gate.set()
    assert [len(outputs) for outputs in await asyncio.gather(*tasks)] == [1] * 4


@pytest.mark.parametrize(("max_waiting", "is_busy"), [(2, True), (3, False)])
async def test_those_that_the_engine_has_not_begun_wait_too(
    tokenizer: Tokenizer, max_waiting: int, is_busy: bool
) -> None:
    engine, executor = make_engine(tokenizer, max_waiting=max_waiting, max_num_seqs=2)
    executor.gate.clear()
    for number in range(4):
        engine.add(make_request([number], name=str(number), max_tokens=1))
    thread = EngineThread(engine, tokenizer)
    await running(thread, 2)
    with pytest.raises(BusyError) if is_busy else contextlib.nullcontext():
        thread.check(make_request([9]))
    executor.gate.set()
    await thread.close()


async def test_a_wrong_request_is_refused_at_once(pair: tuple[EngineThread, CountingExecutor]) -> None:
    with pytest.raises(InvalidRequestError, match="prompt is empty"):
        await collect(pair[0], make_request([]))


async def test_an_id_that_is_in_flight_is_refused(pair: tuple[EngineThread, CountingExecutor]) -> None:
    thread, executor = pair
    executor.gate.clear()
    task = asyncio.create_task(collect(thread, make_request([1], max_tokens=2)))
    await asyncio.sleep(0.02)
    with pytest.raises(InvalidRequestError, match="in flight already"):
        await collect(thread, make_request([2]))
    executor.gate.set()
    assert [output.token_ids for output in await task] == [(2,), (3,)]
    assert [output.token_ids for output in await collect(thread, make_request([3], max_tokens=1))] == [(4,)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_defect_ends_every_request_and_is_told(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    executor.broken = ZeroDivisionError("in a kernel")
    for name in ("a", "b"):
        with pytest.raises(EngineDead, match="in a kernel"):
            await collect(thread, make_request([1], name=name))
    await thread.close()
    assert "in a kernel" in (thread.fault or "")
    assert executor.is_closed


async def test_an_engine_that_cannot_go_on_says_why_in_its_own_words(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    executor.broken = EngineDead("rank 3 is gone")
    with pytest.raises(EngineDead, match=r"^rank 3 is gone$"):
        await collect(thread, make_request([1]))
    await thread.close()
    assert thread.fault == "rank 3 is gone"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_closing_after_a_defect_waits_for_nobody(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    outputs = thread.generate(make_request([1], max_tokens=200))
    await anext(outputs)  # and no further: it stays in flight
    executor.broken = ZeroDivisionError("in a kernel")
    async with asyncio.timeout(60):
        while thread.fault is None:
            await asyncio.sleep(0.001)
        await thread.close(drain_s=3600)


def test_an_event_loop_that_is_closed_costs_nobody_else_anything(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    left = asyncio.new_event_loop()
    outputs = thread.generate(make_request([1], name="left", max_tokens=200))
    left.run_until_complete(anext(outputs))
    left.close()

    async def others() -> list[EngineOutput]:
        found = await collect(thread, make_request([5], max_tokens=100))
        await thread.close()
        return found

    assert len(asyncio.run(others())) == 100


async def test_closing_lets_the_ones_in_flight_finish(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    task = asyncio.create_task(collect(thread, make_request([1], max_tokens=100)))
    await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        await thread.close(drain_s=3600)
    assert len(await task) == 100
    with pytest.raises(EngineDead, match="shutting down"):
        await collect(thread, make_request([1]))


async def test_closing_without_time_ends_them(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    executor.gate.clear()
    thread = EngineThread(engine, tokenizer)
    task = asyncio.create_task(collect(thread, make_request([1], max_tokens=100)))
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(thread.close())
    await asyncio.sleep(0.05)
    executor.gate.set()
    await closing
    assert (await task)[-1].finish_reason == "aborted"
