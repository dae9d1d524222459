import pytest

from cua.errors import ModelError, UnavailableError
from cua.models.gate import OverloadedError, Retry, RetryClock, RetryPolicy, retry, wait_before
from tests.cua.models.clients import FakeTime


class Flaky:
    """Raises the errors in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "ok"


DOWN = ModelError("down", retryable=True)


async def test_works_at_once() -> None:
    time, call = FakeTime(), Flaky()
    assert await retry(call, RetryPolicy(), clock=time.clock) == "ok"
    assert (call.calls, time.slept) == (1, [])


async def test_waits_double_up_to_the_limit() -> None:
    time = FakeTime()
    policy = RetryPolicy(max_retries=7, base_wait_s=0.5, max_wait_s=10)
    told: list[Retry] = []
    assert await retry(Flaky(*[DOWN] * 7), policy, on_retry=told.append, clock=time.clock) == "ok"
    assert time.slept == [0.5, 1, 2, 4, 8, 10, 10]
    assert told[1] == Retry(error=DOWN, number=2, wait_s=1.0)


def test_full_jitter_spans_zero_to_the_bound() -> None:
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    clock = RetryClock(uniform=uniform)
    assert [wait_before(n, DOWN, RetryPolicy(), clock) for n in (1, 4, 5000)] == [0.0, 0.0, 0.0]
    assert bounds == [(0.0, 1.0), (0.0, 8.0), (0.0, 30.0)]


def test_real_jitter_differs() -> None:
    waits = {wait_before(5, DOWN, RetryPolicy(), RetryClock()) for _ in range(20)}
    assert len(waits) == 20
    assert all(0 <= wait <= 16 for wait in waits)


@pytest.mark.parametrize(("asked", "low", "high"), [(0.0, 0.0, 1.0), (5.0, 5.0, 5.5), (60.0, 60.0, 61.0)])
def test_retry_after_is_a_lower_bound(asked: float, low: float, high: float) -> None:
    error = OverloadedError("busy", retry_after_s=asked)
    for _ in range(50):
        assert low <= wait_before(1, error, RetryPolicy(), RetryClock()) <= high


async def test_permanent_error_comes_through_untouched() -> None:
    wrong = ModelError("wrong key", retryable=False)
    call = Flaky(wrong)
    with pytest.raises(ModelError) as caught:
        await retry(call, RetryPolicy(), clock=FakeTime().clock)
    assert caught.value is wrong
    assert call.calls == 1


async def test_no_retries() -> None:
    call = Flaky(DOWN)
    with pytest.raises(ModelError) as caught:
        await retry(call, RetryPolicy(max_retries=0), clock=FakeTime().clock)
    assert caught.value is DOWN


async def test_elapsed_time_is_bounded() -> None:
    time, call = FakeTime(), Flaky(*[DOWN] * 99)
    policy = RetryPolicy(max_retries=99, base_wait_s=10, max_wait_s=10, max_elapsed_s=35)
    with pytest.raises(ModelError) as caught:
        await retry(call, policy, clock=time.clock)
    assert str(caught.value) == "down (gave up after 4 tries in 30 s; the limit is 35 s, --set retry_time=SECONDS)"
    assert caught.value.retryable


async def test_a_wish_of_the_server_is_limited_by_the_retry_time_alone() -> None:
    busy = OverloadedError("busy", retry_after_s=250)
    time = FakeTime()
    assert await retry(Flaky(busy, busy), RetryPolicy(), clock=time.clock) == "ok"
    assert 500 <= sum(time.slept) <= 600
    error = r"gave up after 3 tries in 5\d\d s, the server asks to wait 250 s; the limit is 600 s, --set retry_time="
    with pytest.raises(UnavailableError, match=error):
        await retry(Flaky(busy, busy, busy), RetryPolicy(), clock=FakeTime().clock)
    assert await retry(Flaky(busy, busy, busy), RetryPolicy(max_elapsed_s=900), clock=FakeTime().clock) == "ok"


AWAY = UnavailableError("no connection")


@pytest.mark.parametrize("error", [AWAY, OverloadedError("busy", retry_after_s=None)])
async def test_an_outage_of_an_endpoint_that_has_answered_is_limited_by_time_alone(error: ModelError) -> None:
    time, call = FakeTime(), Flaky(*[error] * 12)
    assert await retry(call, RetryPolicy(), has_answered=lambda: True, clock=time.clock) == "ok"
    assert sum(time.slept) > 180
    call = Flaky(*[error] * 99)
    with pytest.raises(UnavailableError, match=r"the limit is 600 s, --set retry_time=SECONDS") as caught:
        await retry(call, RetryPolicy(), has_answered=lambda: True, clock=FakeTime().clock)
    assert caught.value.retryable


async def test_an_endpoint_that_never_answered_is_given_up_soon() -> None:
    call = Flaky(*[AWAY] * 99)
    with pytest.raises(UnavailableError, match="gave up after 6 tries"):
        await retry(call, RetryPolicy(), clock=FakeTime().clock)


async def test_a_call_that_fails_for_a_reason_of_its_own_is_limited_by_number_also_after_an_outage() -> None:
    call = Flaky(*[AWAY] * 9, *[DOWN] * 99)
    with pytest.raises(ModelError, match=r"down \(gave up after 15 tries"):
        await retry(call, RetryPolicy(), has_answered=lambda: True, clock=FakeTime().clock)


async def test_a_given_number_of_retries_holds_for_outages_too() -> None:
    call = Flaky(*[AWAY] * 99)
    with pytest.raises(UnavailableError, match="gave up after 3 tries"):
        await retry(call, RetryPolicy(max_retries=2), has_answered=lambda: True, clock=FakeTime().clock)


async def test_other_errors_are_not_caught() -> None:
    call = Flaky(ValueError("bug"))
    with pytest.raises(ValueError, match="bug"):
        await retry(call, RetryPolicy(), clock=FakeTime().clock)
    assert call.calls == 1
