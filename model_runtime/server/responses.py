"""Processing of one response: deadline, engine sequences, and output, whole or as events."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from model_runtime.engine.contract import EngineClient, EngineOutput, EngineRequest
from model_runtime.errors import InvalidRequestError, RuntimeFault
from model_runtime.server.answer_parts import ReplyBuilder, check_output, format_event
from model_runtime.server.body import ClientGoneError, error_body, ignored_fields, status_of
from model_runtime.server.metrics import AccessLogRecord
from model_runtime.server.options import ServerOptions
from model_runtime.server.schemas import SamplingFields
from model_runtime.server.state import ServerState


class RequestDeadline:
    """Async context whose body is cancelled when a timeout expires or the client disconnects.

    Args:
        receive: Channel of the request; its body has been read.
        timeout_s: Timeout of the whole request; None for no limit.
        queue_timeout_s: Timeout until `started` is called; None for no limit.

    Raises:
        RequestError: If a timeout expired: 503 before the engine started, 504 after.
        ClientGoneError: If the client disconnected.
    """

    def __init__(self, receive: Receive, *, timeout_s: float | None, queue_timeout_s: float | None) -> None:
        self._receive = receive
        self._timeout_s = timeout_s
        self._queue_timeout_s = queue_timeout_s
        self._is_client_gone = False
        self._is_started = False
        self._deadline: float | None = None

    def started(self) -> None:
        """Record that the engine has started: the queue timeout no longer applies."""
        if not self._is_started:
            self._is_started = True
            if not self._is_client_gone:
                self._limit.reschedule(self._deadline)

    async def __aenter__(self) -> "RequestDeadline":
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
            self._limit.reschedule(0.0)  # a time in the past: cancels the running body

    def _why(self) -> Exception:
        if self._is_client_gone:
            return ClientGoneError()
        passed = self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline
        if passed or self._is_started:
            text = f"the answer was not done within {self._timeout_s:g} s; ask for fewer tokens, or try again later"
            return InvalidRequestError(text, code="request_timeout", status=504)
        text = f"the request was queued for {self._queue_timeout_s:g} s without being begun; try again later"
        return InvalidRequestError(text, code="queue_timeout", status=503)


Produce = Callable[[RequestDeadline], AsyncGenerator[bytes, None]]

_PING = b": waiting\n\n"


class StreamingAnswer(Response):
    """Response that sends the output of `produce`. The status is set with the first piece, so that early errors have
    their own.

    Args:
        produce: Function that yields the whole body at once, or the events of a stream.
        options: Timeouts.
        is_stream: True for server-sent events; comments keep an idle stream open.
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
            RequestError: If the request failed before anything was sent.
            RuntimeFault: If the server failed before anything was sent.
            ClientGoneError: If the client disconnected.
        """
        limits = self._options
        try:
            async with RequestDeadline(
                receive, timeout_s=limits.request_timeout_s, queue_timeout_s=limits.queue_timeout_s
            ) as deadline:
                await self._send_all(deadline, send)
        except (InvalidRequestError, RuntimeFault) as error:
            if not self._has_begun:
                raise
            if self._is_stream:
                scope["state"]["access_log_record"].late_status = status_of(error)
                await self._write(send, format_event(error_body(error)))  # and no [DONE]: the answer is not complete
        except ClientGoneError:
            if not self._has_begun:
                raise
            if self._is_stream:
                scope["state"]["access_log_record"].late_status = 499
        if self._is_stream:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, deadline: RequestDeadline, send: Send) -> None:
        self._last_sent_s = asyncio.get_running_loop().time()
        pinger = asyncio.create_task(self._ping(send)) if self._is_stream else None
        try:
            async with aclosing(self._produce(deadline)) as pieces:
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


Numbered = tuple[int, EngineOutput]


def make_choices(request: EngineRequest, n: int) -> list[EngineRequest]:
    """Return `n` sequences of one prompt; with a seed, choice i samples with seed + i, so that choices differ."""
    seed = request.params.seed
    seeds = [None if seed is None else (seed + i + 2**63) % 2**64 - 2**63 for i in range(n)]
    return [
        replace(request, request_id=f"{request.request_id}-{i}", params=replace(request.params, seed=seeds[i]))
        for i in range(n)
    ]


async def run_sequences(engine: EngineClient, requests: Sequence[EngineRequest]) -> AsyncGenerator[Numbered, None]:
    """Yield outputs of all sequences with their index. Closing it cancels those that still run.

    Each prompt's first sequence starts alone: after its first output the prompt is in the prefix cache, where the other
    sequences find it.

    Raises:
        RequestError: If the engine rejects one.
        EngineDead: If the engine ended.
    """
    if len(requests) == 1:
        async with aclosing(_outputs(engine, requests[0])) as outputs:
            async for output in outputs:
                yield 0, output
        return
    merged: asyncio.Queue[Numbered | InvalidRequestError | RuntimeFault] = asyncio.Queue()
    begun = {id(request.prompt): asyncio.Event() for request in requests}
    leaders = {id(request.prompt): index for index, request in reversed(list(enumerate(requests)))}

    async def run(index: int) -> None:
        request = requests[index]
        has_begun = begun[id(request.prompt)]
        if leaders[id(request.prompt)] != index:
            await has_begun.wait()
        try:
            async with aclosing(_outputs(engine, request)) as outputs:
                async for output in outputs:
                    has_begun.set()
                    merged.put_nowait((index, output))
        except (InvalidRequestError, RuntimeFault) as error:
            merged.put_nowait(error)

    tasks = [asyncio.create_task(run(index)) for index in range(len(requests))]
    try:
        num_left = len(tasks)
        while num_left:
            item = await merged.get()
            if not isinstance(item, tuple):
                raise item
            num_left -= item[1].finish_reason is not None
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outputs(engine: EngineClient, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
    outputs: AsyncIterator[EngineOutput] = engine.generate(request)
    return cast("AsyncGenerator[EngineOutput, None]", outputs)


Prepared = tuple[Sequence[EngineRequest], ReplyBuilder]
Prepare = Callable[[], Awaitable[Prepared]]


def state_of(request: Request) -> ServerState:
    """Return the server's state."""
    state: ServerState = request.app.state.server
    return state


def record_of(request: Request) -> AccessLogRecord:
    """Return the log record of this request."""
    record: AccessLogRecord = request.state.access_log_record
    return record


def make_reply_id(kind: str) -> str:
    """Return a new id: `kind` and 32 hexadecimal digits."""
    return f"{kind}-{uuid.uuid4().hex}"


def make_answer(state: ServerState, body: SamplingFields, prepare: Prepare) -> StreamingAnswer:
    """Return the answer to a sampling request; `prepare` reads media and text within the request's limits."""

    async def produce(deadline: RequestDeadline) -> AsyncGenerator[bytes, None]:
        requests, reply = await prepare()
        if requests[0].params.grammar is not None:  # compiled and cached here, off the event loop
            await asyncio.to_thread(state.engine.check, requests[0])
        async with aclosing(run_sequences(state.engine, requests)) as outputs:
            async for index, output in outputs:
                deadline.started()
                check_output(output)
                if piece := reply.take(index, output):
                    yield piece
        yield reply.end()

    ignored = ignored_fields(body.unknown_fields)
    headers = {"x-ignored-fields": ignored} if ignored else {}
    return StreamingAnswer(produce, state.options, is_stream=bool(body.stream), headers=headers)
