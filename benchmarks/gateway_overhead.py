"""Time that the gateway adds to a call: many sessions over HTTP, in front of an engine that only waits.

    python -m benchmarks.gateway_overhead [--sessions 100] [--turns 5] [--seconds 2] [--json]

Engine, gateway and agents are processes of their own, on loopback. Each session is a conversation whose messages and
ids grow; the engine waits for a time that depends on session and turn alone, so that each call through the gateway has
a direct one to compare with, in the same run. Through the gateway and directly take turns. Goal: a median of 3 ms.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import uvicorn

from cua.models.endpoint import Endpoint
from cua.rollouts.gateway import Gateway
from cua.rollouts.gateway_app import HttpEngine, make_gateway_app
from model_runtime.server.run import listen

IDS_A_MESSAGE = 300
IDS_A_REPLY = 200
ROUNDS = 3
TEXT = "The page shows a list of twelve orders; the third is late. " * 20

Event = dict[str, Any]


def find_wait_s(session: int, turn: int, mean_s: float) -> float:
    """Return the time that the engine takes for a turn: 0.5 to 1.5 of the mean."""
    return mean_s * random.Random(session * 1000 + turn).uniform(0.5, 1.5)


class StubEngine:
    """ASGI application that answers like an engine, with ids if these are requested; `seed` is the time in ms."""

    async def __call__(self, scope: Event, receive: Callable[[], Any], send: Callable[[Event], Any]) -> None:
        data, has_more = b"", True
        while has_more:
            event = await receive()
            data, has_more = data + event.get("body", b""), event.get("more_body", False)
        body = json.loads(data)
        await asyncio.sleep(body["seed"] / 1000)
        choice: Event = {"index": 0, "message": {"role": "assistant", "content": "I click it."}}
        answer: Event = {"id": "a", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
        choice["finish_reason"] = "stop"
        if body.get("return_token_ids"):
            known = body.get("prompt_token_ids") or []
            new = len(body["messages"]) * IDS_A_MESSAGE
            answer |= {"prompt_token_ids": known + [7] * new, "media": [], "processor": "stub", "weight_version": "0"}
            entry = {"token": "ab", "logprob": -0.5, "bytes": [97, 98], "top_logprobs": [], "sampled": True}
            choice |= {"token_ids": [9] * IDS_A_REPLY, "logprobs": {"content": [entry] * IDS_A_REPLY}}
            choice |= {"kept_token_ids": [], "num_kept": [0] * IDS_A_REPLY}
            choice["weight_versions"] = [{"version": "0", "num_tokens": IDS_A_REPLY}]
        content = json.dumps(answer, separators=(",", ":")).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def serve(pipe: Connection, engine_port: int) -> None:
    """Serve the engine, or a gateway in front of the one at `engine_port`; send the port and, when asked, CPU time."""
    app: Any = StubEngine()
    if engine_port:
        url = f"http://127.0.0.1:{engine_port}/v1"
        app = make_gateway_app(Gateway(HttpEngine(Endpoint(base_url=url, api_key="none"))))
    listener = listen("127.0.0.1", 0)
    pipe.send(listener.getsockname()[1])
    started_s = time.process_time()
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=75)
    )

    async def run() -> None:
        task = asyncio.create_task(server.serve([listener]))
        while not await asyncio.to_thread(pipe.poll, 0.1) or pipe.recv() != "stop":
            pass
        pipe.send(time.process_time() - started_s)
        server.should_exit = True
        await task

    asyncio.run(run())


class Agent:
    """One keep-alive connection that posts JSON, with little work of its own."""

    def __init__(self, port: int, path: str) -> None:
        self._port, self._path = port, path

    async def hold(self, session: int, num_turns: int, mean_s: float) -> list[float]:
        """Hold a conversation and return the seconds of each call."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        messages: list[Event] = [{"role": "system", "content": TEXT}]
        took = []
        await asyncio.sleep(mean_s * session / 100)  # not all at once
        for turn in range(num_turns):
            messages.append({"role": "user", "content": f"{turn} {TEXT}"})
            wait_ms = round(1000 * find_wait_s(session, turn, mean_s))
            data = json.dumps({"model": "stub", "messages": messages, "temperature": 1.0, "seed": wait_ms}).encode()
            head = f"POST {self._path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            started = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
            answer = json.loads(await reader.readexactly(length))
            took.append(time.perf_counter() - started)
            assert lines[0].startswith("http/1.1 200"), answer
            messages.append(answer["choices"][0]["message"])
        writer.close()
        return took


async def post(port: int, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 201")
    writer.close()


async def measure(ports: tuple[int, int], args: argparse.Namespace) -> tuple[list[float], list[float]]:
    """Return the seconds of each call through the gateway and directly, in the same order."""
    engine_port, gateway_port = ports
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        names = [f"{number}-{session}" for session in range(args.sessions)]
        for name in names:
            await post(gateway_port, f"/sessions/{name}")
        through = [Agent(gateway_port, f"/sessions/{name}/v1/chat/completions") for name in names]
        direct = [Agent(engine_port, "/v1/chat/completions") for _ in names]
        for agents, found in ((through, took[0]), (direct, took[1])):
            held = (agent.hold(session, args.turns, args.seconds) for session, agent in enumerate(agents))
            for seconds in await asyncio.gather(*held):
                found += seconds
    return took


def start(engine_port: int = 0) -> tuple[Connection, int]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs, engine_port), daemon=True).start()
    return ours, ours.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="Mean time of the engine.")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    engine, engine_port = start()
    gateway, gateway_port = start(engine_port)
    load = os.getloadavg()[0]
    through, direct = asyncio.run(measure((engine_port, gateway_port), args))
    gateway.send("stop")
    cpu_s = gateway.recv()
    engine.send("stop")
    added = sorted(1000 * (a - b) for a, b in zip(through, direct, strict=True))
    found = {
        "calls": len(through),
        "direct, median ms": round(1000 * statistics.median(direct), 2),
        "through the gateway, median ms": round(1000 * statistics.median(through), 2),
        "added, median ms": round(statistics.median(added), 2),
        "added, p90 ms": round(added[int(0.9 * (len(added) - 1))], 2),
        "gateway's CPU ms a call": round(1000 * cpu_s / len(through), 2),
        "load at the start": round(load, 1),
        "load at the end": round(os.getloadavg()[0], 1),
        "cores": len(os.sched_getaffinity(0)),
    }
    print(json.dumps(found) if args.json else "\n".join(f"{name:32} {value:>10,}" for name, value in found.items()))


if __name__ == "__main__":
    main()
