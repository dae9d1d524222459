"""What chat and plain completions do alike: run sequences, and turn outputs into an answer."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from starlette.requests import Request

from model_runtime.engine.contract import EngineRequest
from model_runtime.server.answer import Answer
from model_runtime.server.attendance import Attendance
from model_runtime.server.body import ignored_fields
from model_runtime.server.exchange import Exchange
from model_runtime.server.replies.reply import Reply, check_output
from model_runtime.server.schemas.common import SamplingFields
from model_runtime.server.sequences import run_sequences
from model_runtime.server.state import ServerState

Prepared = tuple[Sequence[EngineRequest], Reply]
Prepare = Callable[[], Awaitable[Prepared]]


def state_of(request: Request) -> ServerState:
    """The server's parts."""
    state: ServerState = request.app.state.server
    return state


def exchange_of(request: Request) -> Exchange:
    """What is noted of this request."""
    exchange: Exchange = request.state.exchange
    return exchange


def make_reply_id(kind: str) -> str:
    """A new id: `kind` and 32 hexadecimal digits."""
    return f"{kind}-{uuid.uuid4().hex}"


def make_answer(state: ServerState, asked: SamplingFields, prepare: Prepare) -> Answer:
    """The answer to a request that samples.

    Args:
        state: The server's parts.
        asked: The request.
        prepare: Reads media and text; runs within the request's limits.
    """

    async def produce(attendance: Attendance) -> AsyncGenerator[bytes, None]:
        requests, reply = await prepare()
        if requests[0].params.grammar is not None:  # compiled and kept here, off the event loop
            await asyncio.to_thread(state.engine.check, requests[0])
        async with aclosing(run_sequences(state.engine, requests)) as outputs:
            async for index, output in outputs:
                attendance.started()
                check_output(output)
                if piece := reply.take(index, output):
                    yield piece
        yield reply.end()

    ignored = ignored_fields(asked.unknown_fields)
    headers = {"x-ignored-fields": ignored} if ignored else {}
    return Answer(produce, state.options, is_stream=bool(asked.stream), headers=headers)
