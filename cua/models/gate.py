"""Rate limiting of a model endpoint, shared by all agents of this process, and the retries of calls.

The capacity of an endpoint is unknown. The gate adapts as TCP does: each successful call raises the limit on concurrent
calls a little, each refusal (429, 503) halves it, and a server's `Retry-After` delays all callers.

Source: AIMD, additive increase and multiplicative decrease; RFC 5681, section 3.1.
"""

import asyncio
import random
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from cua.errors import ModelError, UnusableReplyError

T = TypeVar("T")


class OverloadedError(ModelError):
    """Error of a server that is overloaded and asks to retry later.

    Attributes:
        retry_after_s: Seconds to wait, as the server requests; None if it does not say.
    """

    def __init__(self, message: str, *, retry_after_s: float | None) -> None:
        super().__init__(message, retryable=True)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of retries.

    Attributes:
        max_retries: Calls after the first one; 0 disables retries.
        base_wait_s: Upper bound of the first wait in seconds; it doubles with every retry.
        max_wait_s: Upper bound of the waits that the backoff chooses, in seconds.
        max_retry_after_s: Longest wait in seconds that a server may request; a longer one ends the call.
        max_elapsed_s: Seconds after the first call after which no new call starts.
    """

    max_retries: int = 5
    base_wait_s: float = 1.0
    max_wait_s: float = 30.0
    max_retry_after_s: float = 120.0
    max_elapsed_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry that is about to happen, for display.

    Attributes:
        error: Error of the last call.
        number: 1 for the first retry.
        max_retries: Maximum number of retries.
        wait_s: Seconds until the retry.
    """

    error: ModelError
    number: int
    max_retries: int
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryClock:
    """Time and random numbers, replaceable in tests.

    Attributes:
        now: Returns monotonic seconds.
        sleep: Waits for a number of seconds.
        uniform: Returns a random number between two bounds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform


MAX_SAME_REQUESTS = 1
"""Identical requests after an unusable reply: many servers give the same reply to the same request."""

OnWait = Callable[[bool], Awaitable[None]]
ON_WAIT: ContextVar[OnWait | None] = ContextVar("ON_WAIT", default=None)
"""Called with True when the agent of this context waits for the endpoint, and with False when the wait is over."""

REPORT_AFTER_S = 0.2
"""Longest wait in seconds that is not reported: at a busy gate every call waits briefly."""


@asynccontextmanager
async def reported_wait() -> AsyncIterator[None]:
    """Report waits inside this context to `ON_WAIT` if they take longer than `REPORT_AFTER_S`."""
    on_wait = ON_WAIT.get()
    if on_wait is None:
        yield
        return
    is_told = False

    async def tell() -> None:
        nonlocal is_told
        await asyncio.sleep(REPORT_AFTER_S)
        is_told = True
        await on_wait(True)

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        if not is_told:
            telling.cancel()
        await asyncio.wait({telling})
        if is_told and telling.exception() is None:
            await on_wait(False)


async def retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on_retry: Callable[[Retry], None] | None = None,
    clock: RetryClock = RetryClock(),
) -> T:
    """Call until it succeeds or the policy stops it.

    Raises:
        ModelError: If the call fails: unchanged if it is not retryable or retries are disabled; else the last error
            with the number of tries added, still marked retryable.
        UnusableReplyError: If a second reply is unusable, unchanged: the request must change.
    """
    started, num_unusable = clock.now(), 0
    for number in range(1, policy.max_retries + 2):
        try:
            return await call()
        except ModelError as error:
            num_unusable += isinstance(error, UnusableReplyError)
            if num_unusable > MAX_SAME_REQUESTS:
                error.retryable = False  # an identical request gets the same reply
            if not error.retryable or policy.max_retries == 0:
                raise
            wait_s = wait_before(number, error, policy, clock)
            refusal = _why_not_again(number, error, wait_s, clock.now() - started, policy)
            if refusal and isinstance(error, UnusableReplyError):
                raise
            if refusal:
                raise ModelError(f"{error} ({refusal})", retryable=True) from error
            if on_retry is not None:
                on_retry(Retry(error=error, number=number, max_retries=policy.max_retries, wait_s=wait_s))
        async with reported_wait():
            await clock.sleep(wait_s)
    raise AssertionError("the last round returns or raises")


def wait_before(number: int, error: ModelError, policy: RetryPolicy, clock: RetryClock) -> float:
    """Return the seconds to wait before retry `number` (1-based).

    A server's Retry-After is a lower bound. Jitter is added, so that many clients with the same Retry-After do not
    return at the same time. A Retry-After of 0 seconds is ignored.
    """
    longest = min(policy.max_wait_s, policy.base_wait_s * 2.0 ** min(number - 1, 30))
    asked = error.retry_after_s if isinstance(error, OverloadedError) else None
    if not asked:
        return clock.uniform(0.0, longest)
    return asked + clock.uniform(0.0, min(longest, 0.1 * asked))


def _why_not_again(number: int, error: ModelError, wait_s: float, elapsed_s: float, policy: RetryPolicy) -> str:
    asked = error.retry_after_s if isinstance(error, OverloadedError) else None
    if asked is not None and asked > policy.max_retry_after_s:
        return f"the server asks to wait {asked:.0f} s, more than the {policy.max_retry_after_s:.0f} s that we wait"
    if number > policy.max_retries:
        return f"gave up after {number} tries in {elapsed_s:.0f} s"
    if elapsed_s + wait_s > policy.max_elapsed_s:
        return f"gave up after {number} tries in {elapsed_s:.0f} s, the limit is {policy.max_elapsed_s:.0f} s"
    return ""


_DECREASE = 0.5
_JITTER = 0.1
MAX_OPEN = 256
"""Maximum number of concurrent calls. A self-hosted server queues excess calls; hosted ones refuse them."""


class EndpointGate:
    """Rate limiter of the calls to one endpoint, in the order of arrival. Must be used on one event loop.

    Args:
        max_open: Maximum number of concurrent calls.
        max_hold_s: Longest time in seconds that a server's `Retry-After` delays other callers; the refused caller
            itself may wait longer.
        clock: Time and random numbers.

    Attributes:
        limit: Current limit on concurrent calls.
        num_open: Number of running calls.
    """

    def __init__(self, max_open: int = MAX_OPEN, *, max_hold_s: float = 120.0, clock: RetryClock | None = None) -> None:
        self.limit = float(max_open)
        self.num_open = 0
        self._max_open = max_open
        self._max_hold_s = max_hold_s
        self._clock = clock or RetryClock()
        self._held_until = 0.0
        self._decreased_at = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Admit one try of a call. An `OverloadedError` inside lowers the limit and is raised again."""
        async with AsyncExitStack() as stack:
            async with reported_wait() if self._must_wait() else nullcontext():
                await stack.enter_async_context(self._placed())
                await self._wait_while_held()
            started = self._clock.now()
            try:
                yield
            except OverloadedError as error:
                self._refused(started, error.retry_after_s)
                raise
            self.limit = min(self._max_open, self.limit + 1 / self.limit)

    @asynccontextmanager
    async def _placed(self) -> AsyncIterator[None]:
        await self._take_place()
        try:
            yield
        finally:
            self.num_open -= 1
            self._hand_out_places()

    def _must_wait(self) -> bool:
        is_full = self.num_open >= max(1, int(self.limit)) or bool(self._waiting)
        return is_full or self._held_until > self._clock.now()

    async def _take_place(self) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._hand_out_places()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # a slot was already assigned
                self.num_open -= 1
                self._hand_out_places()
            raise

    def _hand_out_places(self) -> None:
        while self._waiting and self.num_open < max(1, int(self.limit)):
            place = self._waiting.popleft()
            if not place.done():
                self.num_open += 1
                place.set_result(None)

    async def _wait_while_held(self) -> None:
        while (held_s := self._held_until - self._clock.now()) > 0:
            await self._clock.sleep(held_s + self._clock.uniform(0.0, _JITTER * held_s))

    def _refused(self, started: float, retry_after_s: float | None) -> None:
        now = self._clock.now()
        if started > self._decreased_at:  # one decrease for all calls that were running at the same time
            self.limit = max(1.0, min(self.limit, self.num_open) * _DECREASE)
            self._decreased_at = now
        if retry_after_s:
            self._held_until = max(self._held_until, now + min(retry_after_s, self._max_hold_s))


_gates: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EndpointGate]]" = weakref.WeakKeyDictionary()


def gate_of(base_url: str) -> EndpointGate:
    """Return the gate of an endpoint on the running event loop; it is created at the first call."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    return gates.setdefault(base_url, EndpointGate())
