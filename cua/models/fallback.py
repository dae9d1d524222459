"""Two models as one: the second steps in when the first is out of reach."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cua.errors import ModelError
from cua.messages import Message, Reply, Sampling
from cua.model import Model, Tool


class FallbackModel:
    """Asks `primary`; when that fails although waiting could help, asks `fallback`; implements `Model`.

    Errors that waiting cannot mend (a wrong key, a refused request, a cut reply) are reported at once: another
    model would hide a mistake of the settings. After a failure the primary is left alone for a while, so that
    not every step waits for its retries.

    Args:
        primary: Asked first.
        fallback: Asked once the primary has given up. It gets no `sampling` of the call, which was meant for
            the primary, but uses its own.
        pause_s: Seconds for which the primary is left alone after it has failed.
        clock: Monotonic seconds.
    """

    def __init__(
        self, primary: Model, fallback: Model, *, pause_s: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = f"{primary.name} (fallback: {fallback.name})"
        self.primary = primary
        self.fallback = fallback
        self._pause_s = pause_s
        self._clock = clock
        self._paused_until = float("-inf")
        self._last_error = ""

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Answer a conversation; `Reply.model` says when the fallback did.

        Raises:
            ModelError: The primary failed for good, or both failed.
        """
        if self._clock() >= self._paused_until:
            try:
                return await self.primary.generate(messages, tools, sampling)
            except ModelError as error:
                if not error.retryable:
                    raise
                self._last_error = str(error)
                self._paused_until = self._clock() + self._pause_s
        return await self._ask_fallback(messages, tools)

    async def close(self) -> None:
        """Let the connections of both go."""
        try:
            await self.primary.close()
        finally:
            await self.fallback.close()

    async def _ask_fallback(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        try:
            reply = await self.fallback.generate(messages, tools)
        except ModelError as error:
            if not error.retryable:
                raise
            raise ModelError(f"{self._last_error}; and the fallback: {error}", retryable=True) from error
        return replace(reply, model=f"{reply.model or self.fallback.name} (fallback for {self.primary.name})")
