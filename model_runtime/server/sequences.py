"""The sequences of one request, their outputs merged as they come."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from model_runtime.engine.contract import EngineClient, EngineOutput, EngineRequest
from model_runtime.errors import RequestError, RuntimeFault

Numbered = tuple[int, EngineOutput]


def make_choices(request: EngineRequest, n: int) -> list[EngineRequest]:
    """`n` sequences of one prompt; a seeded choice i samples with seed + i, so that choices differ."""
    seed = request.params.seed
    seeds = [None if seed is None else (seed + i + 2**63) % 2**64 - 2**63 for i in range(n)]
    return [
        replace(request, request_id=f"{request.request_id}-{i}", params=replace(request.params, seed=seeds[i]))
        for i in range(n)
    ]


async def run_sequences(engine: EngineClient, requests: Sequence[EngineRequest]) -> AsyncGenerator[Numbered, None]:
    """Outputs of all sequences with their index. Closing it cancels those that still run.

    Each prompt's first sequence begins alone: by its first output the prompt is in the prefix cache, where its
    other sequences find it.

    Raises:
        RequestError: The engine refuses one.
        EngineDead: It ended.
    """
    if len(requests) == 1:
        async with aclosing(_outputs(engine, requests[0])) as outputs:
            async for output in outputs:
                yield 0, output
        return
    merged: asyncio.Queue[Numbered | RequestError | RuntimeFault] = asyncio.Queue()
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
        except (RequestError, RuntimeFault) as error:
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
