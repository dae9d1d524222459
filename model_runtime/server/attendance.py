"""Somebody waits for this answer: time limits, and the client that hangs up."""

import asyncio
from types import TracebackType

from starlette.types import Receive

from model_runtime.errors import RequestError
from model_runtime.server.errors import ClientGoneError


class Attendance:
    """An async context: its body is cancelled when a limit passes or the client leaves.

    Args:
        receive: The request's channel; its body has been read.
        timeout_s: For everything; None for no limit.
        queue_timeout_s: Until `started` is called; None for no limit.

    Raises:
        RequestError: A limit passed: 503 before the engine began, 504 after.
        ClientGoneError: The client left.
    """

    def __init__(self, receive: Receive, *, timeout_s: float | None, queue_timeout_s: float | None) -> None:
        self._receive = receive
        self._timeout_s = timeout_s
        self._queue_timeout_s = queue_timeout_s
        self._is_client_gone = False
        self._is_started = False
        self._deadline: float | None = None

    def started(self) -> None:
        """The engine has begun: the queue's limit no longer counts."""
        if not self._is_started:
            self._is_started = True
            if not self._is_client_gone:
                self._limit.reschedule(self._deadline)

    async def __aenter__(self) -> "Attendance":
        now = asyncio.get_running_loop().time()
        self._deadline = None if self._timeout_s is None else now + self._timeout_s
        ends = [self._deadline, None if self._queue_timeout_s is None else now + self._queue_timeout_s]
        self._limit = asyncio.timeout_at(min((end for end in ends if end is not None), default=None))
        await self._limit.__aenter__()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watcher.cancel()
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise self._why() from None

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._limit.expired():
            self._is_client_gone = True
            self._limit.reschedule(0.0)  # a moment that has passed: cancels what runs

    def _why(self) -> Exception:
        if self._is_client_gone:
            return ClientGoneError()
        passed = self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline
        if passed or self._is_started:
            text = f"the answer was not done within {self._timeout_s:g} s; ask for fewer tokens, or try again later"
            return RequestError(text, code="request_timeout", status=504)
        text = f"the request waited {self._queue_timeout_s:g} s without being begun; try again later"
        return RequestError(text, code="queue_timeout", status=503)
