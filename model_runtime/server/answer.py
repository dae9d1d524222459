"""One exchange from the read request to the last byte: whole answers and event streams alike."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from model_runtime.errors import RequestError, RuntimeFault
from model_runtime.server.attendance import Attendance
from model_runtime.server.errors import ClientGoneError, error_body, status_of
from model_runtime.server.options import ServerOptions
from model_runtime.server.replies.reply import event

Produce = Callable[[Attendance], AsyncGenerator[bytes, None]]

_PING = b": waiting\n\n"


class Answer(Response):
    """Sends what `produce` yields. The status is decided by the first piece, so that early errors get their own.

    Args:
        produce: Yields the whole body at once, or the events of a stream.
        options: Limits.
        is_stream: Server-sent events; comments keep a silent stream open.
        headers: Further headers.
    """

    def __init__(
        self, produce: Produce, options: ServerOptions, *, is_stream: bool, headers: dict[str, str] | None = None
    ) -> None:
        stream = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
        }
        self._sent_headers = (stream if is_stream else {"content-type": "application/json"}) | (headers or {})
        super().__init__()
        self._produce = produce
        self._options = options
        self._is_stream = is_stream
        self._has_begun = False
        self._last_sent_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request.

        Raises:
            RequestError: What went wrong before anything was sent.
            RuntimeFault: The same, where it is ours.
            ClientGoneError: Nobody is there to answer.
        """
        limits = self._options
        try:
            async with Attendance(
                receive, timeout_s=limits.request_timeout_s, queue_timeout_s=limits.queue_timeout_s
            ) as attendance:
                await self._send_all(attendance, send)
        except (RequestError, RuntimeFault) as error:
            if not self._has_begun:
                raise
            if self._is_stream:
                scope["state"]["exchange"].late_status = status_of(error)
                await self._write(send, event(error_body(error)))  # and no [DONE]: the answer is not whole
        except ClientGoneError:
            if not self._has_begun:
                raise
            if self._is_stream:
                scope["state"]["exchange"].late_status = 499
        if self._is_stream:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, attendance: Attendance, send: Send) -> None:
        self._last_sent_s = asyncio.get_running_loop().time()
        pinger = asyncio.create_task(self._ping(send)) if self._is_stream else None
        try:
            async with aclosing(self._produce(attendance)) as pieces:
                async for piece in pieces:
                    await self._write(send, piece)
        finally:
            if pinger is not None:
                pinger.cancel()

    async def _write(self, send: Send, piece: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            length = {} if self._is_stream else {"content-length": str(len(piece))}
            headers = [(name.encode(), value.encode()) for name, value in (self._sent_headers | length).items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._last_sent_s = asyncio.get_running_loop().time()
        await send({"type": "http.response.body", "body": piece, "more_body": self._is_stream})

    async def _ping(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.0, self._last_sent_s + self._options.ping_s - loop.time()))
            if loop.time() - self._last_sent_s >= self._options.ping_s:
                await self._write(send, _PING)
