"""Rate limiting of a model endpoint, shared by all agents of this process, and the retries of calls.

The capacity of an endpoint is unknown. The gate adapts as TCP does: each successful call raises the limit on concurrent
calls a little, each refusal (429, 503) halves it, and a server's `Retry-After` delays all callers. While an endpoint
cannot be reached, one call at a time tries it and all others wait.

Source: AIMD, additive increase and multiplicative decrease; RFC 5681, section 3.1.
"""

import asyncio
import itertools
import random
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from cua.errors import ModelError, UnavailableError, UnusableReplyError

T = TypeVar("T")


class OverloadedError(UnavailableError):
    """Error of a server that is overloaded and asks to retry later."""


class GivenUpError(UnavailableError):
    """Error of an endpoint that has been away for longer than a call waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of retries.

    Attributes:
        max_retries: Calls after the first one; 0 disables retries. None: `USUAL_RETRIES` for a call that fails for a
            reason of its own or at an endpoint that has never answered, and no limit on the number while an endpoint
            that has answered before is away or overloaded.
        base_wait_s: Upper bound of the first wait in seconds; it doubles with every retry.
        max_wait_s: Upper bound of the waits that the backoff chooses, in seconds.
        max_elapsed_s: Seconds after the first call after which no new call starts, whether the backoff or the server
            chooses the wait; the setting `retry_time`.
    """

    max_retries: int | None = None
    base_wait_s: float = 1.0
    max_wait_s: float = 30.0
    max_elapsed_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry that is about to happen, for display.

    Attributes:
        error: Error of the last call.
        number: 1 for the first retry.
        wait_s: Seconds until the retry.
    """

    error: ModelError
    number: int
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


USUAL_RETRIES = 5
"""Default number of retries of a call whose failure is not known to be an outage."""
MAX_SAME_REQUESTS = 1
"""Identical requests after an unusable reply: many servers give the same reply to the same request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWait:
    """Wait of an agent.

    Attributes:
        reason: What it waits for, or the error of an endpoint that is away.
        is_outage: True if it waits for an endpoint that is away or overloaded.
    """

    reason: str
    is_outage: bool = False


OnWait = Callable[[AgentWait | None], Awaitable[None]]
ON_WAIT: ContextVar[OnWait | None] = ContextVar("ON_WAIT", default=None)
"""Called when the agent of this context waits, and with None when the wait is over."""

REPORT_AFTER_S = 0.2
"""Longest wait in seconds that is not reported: at a busy gate every call waits briefly."""


@asynccontextmanager
async def reported_wait(reason: str, *, is_outage: bool = False) -> AsyncIterator[Callable[[AgentWait], None]]:
    """Report waits inside this context to `ON_WAIT` if they take longer than `REPORT_AFTER_S`.

    Yields:
        Function to call when the agent waits for something else from now on.
    """
    on_wait = ON_WAIT.get()
    if on_wait is None:
        yield lambda wait: None
        return
    current, changed = AgentWait(reason=reason, is_outage=is_outage), asyncio.Event()
    is_reported = is_over = False

    def update(wait: AgentWait) -> None:
        nonlocal current
        current = wait
        changed.set()

    async def report() -> None:
        nonlocal is_reported
        await asyncio.sleep(REPORT_AFTER_S)
        while not is_over:
            is_reported = True
            changed.clear()
            await on_wait(current)
            await changed.wait()

    reporting = asyncio.create_task(report())
    try:
        yield update
    finally:
        is_over = True
        if not is_reported:
            reporting.cancel()
        changed.set()
        await asyncio.wait({reporting})
        if is_reported and reporting.exception() is None:
            await on_wait(None)


async def retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on_retry: Callable[[Retry], None] | None = None,
    has_answered: Callable[[], bool] = lambda: False,
    clock: RetryClock = RetryClock(),
) -> T:
    """Call until it succeeds or the policy stops it.

    Args:
        call: Makes the call once.
        policy: Limits of the retries.
        on_retry: Called before each retry.
        has_answered: Returns True if the endpoint has answered any request before.
        clock: Time and random numbers.

    Raises:
        ModelError: If the call fails: unchanged if it is not retryable or retries are disabled; else the last error
            with the number of tries added, still marked retryable.
        UnusableReplyError: If a second reply is unusable, unchanged: the request must change.
    """
    started, num_unusable, num_own = clock.now(), 0, 0
    for number in itertools.count(1):
        try:
            return await call()
        except GivenUpError:
            raise
        except ModelError as error:
            num_unusable += isinstance(error, UnusableReplyError)
            if num_unusable > MAX_SAME_REQUESTS:
                error.retryable = False  # an identical request gets the same reply
            if not error.retryable or policy.max_retries == 0:
                raise
            wait_s = wait_before(number, error, policy, clock)
            is_away = isinstance(error, UnavailableError)
            num_own += not (is_away and has_answered())
            is_last = num_own > USUAL_RETRIES if policy.max_retries is None else number > policy.max_retries
            refusal = _why_not_again(number, error, wait_s, clock.now() - started, policy, is_last=is_last)
            if refusal and isinstance(error, UnusableReplyError):
                raise
            if refusal:
                text = f"{error} ({refusal})"
                raise (UnavailableError(text) if is_away else ModelError(text, retryable=True)) from error
            if on_retry is not None:
                on_retry(Retry(error=error, number=number, wait_s=wait_s))
            reason = str(error)
        async with reported_wait(reason, is_outage=is_away):
            await clock.sleep(wait_s)
    raise AssertionError("the last round returns or raises")


def wait_before(number: int, error: ModelError, policy: RetryPolicy, clock: RetryClock) -> float:
    """Return the seconds to wait before retry `number` (1-based).

    A server's Retry-After is a lower bound. Jitter is added, so that many clients with the same Retry-After do not
    return at the same time. A Retry-After of 0 seconds is ignored.
    """
    longest = min(policy.max_wait_s, policy.base_wait_s * 2.0 ** min(number - 1, 30))
    asked = error.retry_after_s if isinstance(error, UnavailableError) else None
    if not asked:
        return clock.uniform(0.0, longest)
    return asked + clock.uniform(0.0, min(longest, 0.1 * asked))


def _why_not_again(
    number: int, error: ModelError, wait_s: float, elapsed_s: float, policy: RetryPolicy, *, is_last: bool
) -> str:
    given_up = f"gave up after {_tries(number)} in {elapsed_s:.0f} s"
    if elapsed_s + wait_s > policy.max_elapsed_s:
        asked = error.retry_after_s if isinstance(error, UnavailableError) else None
        asks = f", the server asks to wait {asked:.0f} s" if asked else ""
        return f"{given_up}{asks}; {_limit(policy.max_elapsed_s)}"
    return given_up if is_last else ""


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def _limit(max_elapsed_s: float) -> str:
    return f"the limit is {max_elapsed_s:.0f} s, --set retry_time=SECONDS"


_DECREASE = 0.5  # multiplicative decrease as in TCP's congestion control (AIMD)
_JITTER = 0.1  # spreads the retries of waiting calls, so that they do not arrive at once
MAX_PROBE_WAIT_S = 15.0
"""Longest wait in seconds between two calls to an endpoint that is away; agents go on this soon after its return."""
MAX_OPEN = 256
"""Maximum number of concurrent calls. A self-hosted server queues excess calls; hosted ones refuse them."""


class EndpointGate:
    """Rate limiter of the calls to one endpoint, in the order of arrival. Must be used on one event loop.

    Args:
        max_open: Maximum number of concurrent calls.
        clock: Time and random numbers.

    Attributes:
        limit: Current limit on concurrent calls.
        num_open: Number of running calls.
        has_answered: True if the endpoint has answered a request, even with an error.
    """

    def __init__(self, max_open: int = MAX_OPEN, *, clock: RetryClock | None = None) -> None:
        self.limit = float(max_open)
        self.num_open = 0
        self.has_answered = False
        self._max_open = max_open
        self._clock = clock or RetryClock()
        self._held_until = 0.0
        self._decreased_at = float("-inf")
        self._answered_at = float("-inf")
        self._away_since: float | None = None
        self._away_reason = ""
        self._num_probes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._updates: list[Callable[[AgentWait], None]] = []

    def resize(self, max_open: int) -> None:
        """Change the maximum number of concurrent calls; one more than before is reached by successful calls."""
        self._max_open, self.limit = max_open, min(self.limit, float(max_open))

    @asynccontextmanager
    async def admit(self, *, max_away_s: float = float("inf")) -> AsyncIterator[None]:
        """Admit one try of a call. An `UnavailableError` inside changes the gate and is raised again.

        Args:
            max_away_s: Longest outage and `Retry-After` in seconds for which a call waits, from its arrival at the
                earliest. A server that asks for a longer wait is called, so that its answer ends the call.

        Raises:
            GivenUpError: If the endpoint has been away for longer than `max_away_s`.
        """
        arrived = self._clock.now()
        async with AsyncExitStack() as stack:
            async with self._reported() if self._must_wait() else nullcontext():
                await stack.enter_async_context(self._placed())
                self._check_away(arrived, max_away_s)
                await self._wait_while_held(max_away_s)
            started = self._clock.now()
            try:
                yield
            except OverloadedError as error:
                self._refused(started, error.retry_after_s)
                self._answered()
                raise
            except UnavailableError as error:
                self._went_away(started, str(error))
                raise
            except ModelError:
                self._answered()
                raise
            self._answered()
            self.limit = min(self._max_open, self.limit + 1 / self.limit)

    @asynccontextmanager
    async def _reported(self) -> AsyncIterator[None]:
        """Report the wait inside this context, and what it is for when an outage begins or ends meanwhile."""
        wait = self._wait
        async with reported_wait(wait.reason, is_outage=wait.is_outage) as update:
            self._updates.append(update)
            try:
                yield
            finally:
                self._updates.remove(update)

    @property
    def _wait(self) -> AgentWait:
        is_away = self._away_since is not None
        return AgentWait(reason=self._away_reason if is_away else "the model's endpoint is busy", is_outage=is_away)

    def _update_waits(self) -> None:
        for update in self._updates:
            update(self._wait)

    def _check_away(self, arrived: float, max_away_s: float) -> None:
        if self._away_since is None:
            return
        now = self._clock.now()
        if max(now, self._held_until) - max(arrived, self._away_since) > max_away_s:
            away_s = now - self._away_since
            raise GivenUpError(f"{self._away_reason} (away for {away_s:.0f} s; {_limit(max_away_s)})")

    def _answered(self) -> None:
        self.has_answered, self._answered_at = True, self._clock.now()
        if self._away_since is not None:
            self._away_since, self._away_reason, self._num_probes = None, "", 0
            self._update_waits()
            self._hand_out_places()

    def _went_away(self, started: float, reason: str) -> None:
        """Start an outage or extend it: until a call succeeds, one at a time is made, after growing waits."""
        now = self._clock.now()
        if started <= self._answered_at or (self._away_since is not None and started < self._away_since):
            return  # the endpoint has answered other calls since, or its outage is known from them
        if self._away_since is None:
            self._away_since, self._away_reason = now, reason
            self._update_waits()
        wait_s = min(MAX_PROBE_WAIT_S, 2.0**self._num_probes)
        self._num_probes += 1
        self._held_until = max(self._held_until, now + wait_s)

    @asynccontextmanager
    async def _placed(self) -> AsyncIterator[None]:
        await self._take_place()
        try:
            yield
        finally:
            self.num_open -= 1
            self._hand_out_places()

    @property
    def _most_open(self) -> int:
        return 1 if self._away_since is not None else max(1, int(self.limit))

    def _must_wait(self) -> bool:
        is_full = self.num_open >= self._most_open or bool(self._waiting)
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
        while self._waiting and self.num_open < self._most_open:
            place = self._waiting.popleft()
            if not place.done():
                self.num_open += 1
                place.set_result(None)

    async def _wait_while_held(self, max_s: float) -> None:
        while 0 < (held_s := self._held_until - self._clock.now()) <= max_s:
            await self._clock.sleep(held_s + self._clock.uniform(0.0, _JITTER * held_s))

    def _refused(self, started: float, retry_after_s: float | None) -> None:
        now = self._clock.now()
        if started > self._decreased_at:  # one decrease for all calls that were running at the same time
            self.limit = max(1.0, min(self.limit, self.num_open) * _DECREASE)
            self._decreased_at = now
        if retry_after_s:
            self._held_until = max(self._held_until, now + retry_after_s)


_gates: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EndpointGate]]" = weakref.WeakKeyDictionary()


def gate_of(base_url: str) -> EndpointGate:
    """Return the gate of an endpoint on the running event loop; it is created at the first call."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    return gates.setdefault(base_url, EndpointGate())
