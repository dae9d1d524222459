"""What the HTTP server costs beside the engine, with an engine that answers at once.

    python -m benchmarks.runtime.server [--runs 5]

One client on one kept connection asks for one token; 500 clients stream at once; one client streams long answers.
Beside it in the same run, the floor of the same stack: a bare FastAPI route that answers a fixed text, and the fake
engine called without HTTP. Processor time is the server process's own: other work on the machine does not stretch it.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from model_runtime.engine.contract import EngineRequest, SamplingParams
from model_runtime.media import Prompt
from model_runtime.server import make_app
from model_runtime.server.run import listen, make_server
from tests.model_runtime.fakes import FakeEngine, FakeProcessor, Script, answer

NUM_ASKED = 1000
NUM_CLIENTS = 500
NUM_PIECES = 2000
NUM_STREAMS = 5
MESSAGES = [{"role": "user", "content": "What is on the screen?"}]


def say(request: EngineRequest) -> Script:
    return answer(*(["word "] * (NUM_PIECES if request.params.max_tokens is None else 1)))


class Body(BaseModel):
    messages: list[dict[str, str]]
    stream: bool = False
    max_tokens: int | None = None


def make_bare_app() -> FastAPI:
    """The peer: FastAPI as its tutorial writes it, answering the same bytes every time."""
    app = FastAPI()
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None, "logprobs": None}
    event = b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n"

    @app.post("/v1/chat/completions")
    async def complete(body: Body) -> object:
        if not body.stream:
            return head | {"choices": [{"index": 0, "message": {"role": "assistant", "content": "word "}}]}

        async def events() -> object:
            for _ in range(1 if body.max_tokens else NUM_PIECES):
                yield event

        return StreamingResponse(events(), media_type="text/event-stream")

    return app


def serve(kind: str) -> None:
    app = make_bare_app() if kind == "bare" else make_app(FakeEngine(say), FakeProcessor())
    server, listener = make_server(app), listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    asyncio.run(server.serve(sockets=[listener]))


@dataclass(frozen=True)
class Served:
    """A server in a process of its own."""

    port: int
    process: psutil.Process

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system


@contextmanager
def serving(kind: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "benchmarks.runtime.server", "--serve", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Served(int(process.stdout.readline()), psutil.Process(process.pid))
        finally:
            process.terminate()


async def ask(port: int, times: int, **fields: object) -> list[float]:
    """Seconds of each of several requests on one connection."""
    body = json.dumps({"messages": MESSAGES, **fields}).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    took_s = []
    for _ in range(times):
        started = time.perf_counter()
        writer.write(head % len(body) + body)
        answered = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length: " in answered:
            await reader.readexactly(int(answered.partition(b"content-length: ")[2].partition(b"\r")[0]))
        else:
            await reader.readuntil(b"\r\n0\r\n\r\n")
        took_s.append(time.perf_counter() - started)
    writer.close()
    return took_s


async def measure(served: Served) -> dict[str, float]:
    """Wall and processor milliseconds for one token, for each of 500 clients, for an event of one stream."""
    figures: dict[str, float] = {}
    await ask(served.port, 100, max_tokens=1)
    before_s = served.cpu_s()
    figures["one"] = statistics.median(await ask(served.port, NUM_ASKED, max_tokens=1)) * 1e3
    figures["one_cpu"] = (served.cpu_s() - before_s) / NUM_ASKED * 1e3
    before_s, started = served.cpu_s(), time.perf_counter()
    waits = await asyncio.gather(*(ask(served.port, 1, stream=True, max_tokens=1) for _ in range(NUM_CLIENTS)))
    assert len(waits) == NUM_CLIENTS
    figures["many"] = (time.perf_counter() - started) / NUM_CLIENTS * 1e3
    figures["many_cpu"] = (served.cpu_s() - before_s) / NUM_CLIENTS * 1e3
    before_s = served.cpu_s()
    num_events = NUM_STREAMS * NUM_PIECES
    figures["event"] = sum(await ask(served.port, NUM_STREAMS, stream=True)) / num_events * 1e3
    figures["event_cpu"] = (served.cpu_s() - before_s) / num_events * 1e3
    return figures


async def measure_engine() -> float:
    """Milliseconds of the fake engine's own answer."""
    engine, took_s = FakeEngine(say), []
    prompt = Prompt(token_ids=tuple(range(60)))
    for number in range(NUM_ASKED):
        started = time.perf_counter()
        request = EngineRequest(request_id=str(number), prompt=prompt, params=SamplingParams(max_tokens=1))
        assert [output async for output in engine.generate(request)]
        took_s.append(time.perf_counter() - started)
    return statistics.median(took_s) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve", choices=("ours", "bare"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    rows: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
    with serving("ours") as ours, serving("bare") as bare:
        for _ in range(arguments.runs):
            rows["ours"].append(asyncio.run(measure(ours)))
            rows["bare"].append(asyncio.run(measure(bare)))
    direct_ms = statistics.median(asyncio.run(measure_engine()) for _ in range(arguments.runs))
    mine, theirs = ({key: statistics.median(row[key] for row in rows[kind]) for key in rows[kind][0]} for kind in rows)
    texts = {
        "one": "one token on a kept connection",
        "many": f"each of {NUM_CLIENTS} clients at once, one token streamed",
        "event": "an event of one long stream",
    }
    print(f"milliseconds, median of {arguments.runs} rounds: ours / a bare FastAPI route / ratio")
    for key, text in texts.items():
        for name, unit in ((key, "wall"), (f"{key}_cpu", "processor")):
            print(f"  {text}, {unit}: {mine[name]:.3f} / {theirs[name]:.3f} / {mine[name] / theirs[name]:.2f}x")
    print(f"  the fake engine alone takes {direct_ms:.3f}: the server adds {mine['one'] - direct_ms:.3f} to one token")


if __name__ == "__main__":
    main()
