"""Back-pressure: fewer rollouts while requests wait in the engine."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from cua.models.endpoint import Endpoint
from cua.rollouts import pressure
from cua.rollouts.gateway_app import HttpEngine
from cua.rollouts.pressure import EngineSlots, follow_queue


def test_slots_fall_by_a_quarter_while_requests_wait_and_rise_by_one_while_none_waits() -> None:
    slots = EngineSlots(least=4, most=100)
    slots.update(num_waiting=3, num_running=100)
    assert slots.num_slots == 75
    slots.update(num_waiting=3, num_running=90)  # the decrease has not taken effect yet
    assert slots.num_slots == 75
    slots.update(num_waiting=3, num_running=75)
    assert slots.num_slots == 56
    slots.update(num_waiting=0, num_running=56)
    assert slots.num_slots == 57
    for _ in range(100):
        slots.update(num_waiting=0, num_running=57)
    assert slots.num_slots == 100
    for _ in range(100):
        slots.update(num_waiting=9, num_running=0)
    assert slots.num_slots == 4


def test_a_queue_up_to_the_limit_changes_nothing() -> None:
    slots = EngineSlots(least=1, most=8, max_waiting=5)
    slots.update(num_waiting=6, num_running=8)
    slots.update(num_waiting=5, num_running=6)
    assert slots.num_slots == 6


async def test_the_queue_is_followed_and_an_unknown_one_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "POLL_S", 0.0)
    slots, queues, is_read = EngineSlots(1, 8), [None, 2, None], asyncio.Event()

    async def get_num_waiting() -> int | None:
        if not queues:
            is_read.set()
            await asyncio.sleep(60)
        return queues.pop(0)

    following = asyncio.create_task(follow_queue(slots, get_num_waiting, lambda: 8))
    await asyncio.wait_for(is_read.wait(), 10)
    following.cancel()
    assert slots.num_slots == 6


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (200, "# HELP k25_requests_waiting Requests in the queue\nk25_requests_waiting 3.0\n", 3),
        (200, 'vllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting{engine="1"} 5.0\n', 7),
        (200, "vllm:num_requests_waiting NaN\n", None),
        (200, "<html>", None),
        (404, "k25_requests_waiting 3.0\n", None),
    ],
)
async def test_the_length_of_the_queue_is_read_from_the_metrics(status: int, text: str, expected: int | None) -> None:
    async def metrics(request: Request) -> PlainTextResponse:
        return PlainTextResponse(text, status)

    app = Starlette(routes=[Route("/metrics", metrics)])
    engine = HttpEngine(Endpoint(base_url="http://engine.localhost/v1", api_key="none"), app=app)
    try:
        assert await engine.find_num_waiting() == expected
    finally:
        await engine.close()


async def test_the_queue_of_an_engine_that_is_away_is_unknown() -> None:
    engine = HttpEngine(Endpoint(base_url="http://127.0.0.1:9/v1", api_key="none"))
    try:
        assert await engine.find_num_waiting() is None
    finally:
        await engine.close()
