"""When and how often a call is made again: exponential backoff with full jitter, and the server's own wish."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from cua.errors import ModelError

T = TypeVar("T")


class OverloadedError(ModelError):
    """The server is there and asks for patience.

    Attributes:
        retry_after_s: Seconds that it asks for; None when it does not say.
    """

    def __init__(self, message: str, *, retry_after_s: float | None) -> None:
        super().__init__(message, retryable=True)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of retrying.

    Attributes:
        max_retries: Calls after the first one; 0 turns retrying off.
        base_wait_s: Upper bound of the first wait; it doubles with every retry.
        max_wait_s: Upper bound of any wait that we choose.
        max_retry_after_s: Longest wait that a server may ask for; more than that ends the call.
        max_elapsed_s: No new call begins later than this after the first one.
    """

    max_retries: int = 5
    base_wait_s: float = 1.0
    max_wait_s: float = 30.0
    max_retry_after_s: float = 120.0
    max_elapsed_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """One coming retry, for the display.

    Attributes:
        error: What went wrong.
        number: 1 for the first retry.
        max_retries: How many there can be.
        wait_s: Seconds until it.
    """

    error: ModelError
    number: int
    max_retries: int
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time and chance, so that tests can have their own.

    Attributes:
        now: Monotonic seconds.
        sleep: Waits some seconds.
        uniform: A random number between two bounds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform


async def retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on_retry: Callable[[Retry], None] | None = None,
    clock: Clock = Clock(),
) -> T:
    """Call until it works or the policy ends it.

    Not tenacity: its loop is these twenty lines, while the wait (a server's wish with jitter on top), the three ends
    with their texts and the word to the display before each wait would be callbacks of ours there as they are here.

    Args:
        call: The attempt; makes a fresh awaitable each time.
        policy: The limits.
        on_retry: Told before each wait.
        clock: Time and chance.

    Returns:
        What the call returned.

    Raises:
        ModelError: As it came, when it is not retryable or retrying is off; else the last one with the
            number of tries added, still marked retryable.
    """
    started = clock.now()
    for number in range(1, policy.max_retries + 2):
        try:
            return await call()
        except ModelError as error:
            if not error.retryable or policy.max_retries == 0:
                raise
            wait_s = wait_before(number, error, policy, clock)
            refusal = _why_not_again(number, error, wait_s, clock.now() - started, policy)
            if refusal:
                raise ModelError(f"{error} ({refusal})", retryable=True) from error
            if on_retry is not None:
                on_retry(Retry(error=error, number=number, max_retries=policy.max_retries, wait_s=wait_s))
        await clock.sleep(wait_s)
    raise AssertionError("the last round returns or raises")


def wait_before(number: int, error: ModelError, policy: RetryPolicy, clock: Clock) -> float:
    """Seconds to wait before retry `number` (1-based).

    A server's Retry-After is a lower bound and gets jitter on top, so that many clients told the same
    moment do not come back together. "After 0 seconds" counts as no wish.
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
