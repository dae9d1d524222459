"""Many clients at once: none lost, none mixed up."""

import asyncio
import json

import pytest

from model_runtime.engine.contract import EngineRequest
from tests.model_runtime.fakes import TOKENIZER, FakeEngine, Script, answer
from tests.model_runtime.server.serving import Serving

NUM_CLIENTS = 500


def say_number(request: EngineRequest) -> Script:
    text = TOKENIZER.decode(request.prompt.token_ids)
    return answer(text.partition("Number ")[2].partition("<")[0], ".", gap_s=0.2)


async def talk(port: int, number: int) -> str:
    message = {"role": "user", "content": f"Number {number}"}
    body = json.dumps({"messages": [message], "stream": number % 2 == 0}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: "
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
    got = (await reader.read()).decode()
    writer.close()
    return got


@pytest.mark.long
async def test_five_hundred_clients_each_get_their_own_answer() -> None:
    engine = FakeEngine(say_number)
    with Serving(engine) as serving:
        async with asyncio.timeout(120):
            texts = await asyncio.gather(*(talk(serving.port, number) for number in range(NUM_CLIENTS)))
    assert len(engine.seen) == NUM_CLIENTS
    assert engine.cancelled == []
    for number, text in enumerate(texts):
        assert text.startswith("HTTP/1.1 200 OK\r\n")
        said = f'"content":"{number}"' if number % 2 == 0 else f'"content":"{number}."'
        assert said in text, (number, text)
