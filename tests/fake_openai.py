"""A real loopback HTTP server that speaks OpenAI's protocol, with faults on demand.

In a test:

    with FakeOpenAI(ScriptedModel(["hello"]), model_id="fake") as server:
        server.next(status(500), half_stream())       # the first two requests fail, the third is answered
        ... base_url=server.base_url ...
        server.requests[0].body["temperature"]

By hand: `python -m tests.fake_openai --model literal --port 8000`.
"""

import argparse
import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import uvicorn

from cua.messages import Message, Reply, Sampling
from cua.model import Model, Tool
from cua.models.make import make_model
from tests.free_port import find_free_port
from tests.serve_openai import error_json, event_bytes, make_app

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Answer = Callable[[Sequence[Message]], Reply]


@dataclass
class Exchange:
    """One request, and what a fault may do with it."""

    body: bytes
    receive: Receive
    send: Send
    forward: Callable[[], Awaitable[None]]
    """Let the real application answer."""
    client_left: threading.Event = field(default_factory=threading.Event)

    async def start(
        self,
        code: int = 200,
        content_type: str = "text/event-stream",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        pairs = {"content-type": content_type, **(headers or {})}
        encoded = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await self.send({"type": "http.response.start", "status": code, "headers": encoded})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self.send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def wait(self, seconds: float) -> None:
        """Wait, but no longer than the client does; note when it leaves."""
        try:
            async with asyncio.timeout(seconds):
                while (await self.receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return
        self.client_left.set()
        raise ConnectionAbortedError


Fault = Callable[[Exchange], Awaitable[None]]


async def ok(exchange: Exchange) -> None:
    """No fault: the model answers."""
    await exchange.forward()


def raw(body: bytes, content_type: str = "application/json", code: int = 200, **headers: str) -> Fault:
    """A fixed answer; header names with `_` for `-`."""

    async def fault(exchange: Exchange) -> None:
        await exchange.start(code, content_type, {name.replace("_", "-"): value for name, value in headers.items()})
        await exchange.write(body, last=True)

    return fault


def status(code: int, message: str = "broken", error_code: str = "error", **headers: str) -> Fault:
    """An error status with a body in OpenAI's form."""
    return raw(json.dumps(error_json(message, error_code)).encode(), code=code, **headers)


def temperature_400() -> Fault:
    """The hosted K2.5's answer to temperatures that it does not like."""
    return status(400, "invalid temperature: only 1 is allowed for this model", "invalid_request_error")


def events(*data: Mapping[str, Any] | str, done: bool = True, gap_s: float = 0.0) -> Fault:
    """A stream of given events."""

    async def fault(exchange: Exchange) -> None:
        await exchange.start()
        for item in data:
            await exchange.write(event_bytes(dict(item) if isinstance(item, Mapping) else item))
            if gap_s:
                await exchange.wait(gap_s)
        await exchange.write(event_bytes("[DONE]") if done else b"", last=True)

    return fault


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """One event of a stream."""
    return {"model": "fake", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def half_stream(text: str = "half of", *, abrupt: bool = False) -> Fault:
    """A stream that ends in the middle: cleanly, as a proxy does it, or with a broken connection."""

    async def fault(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(event_bytes(delta(content=text)))
        if abrupt:
            raise ConnectionAbortedError
        await exchange.write(b"", last=True)

    return fault


def slow_first_byte(seconds: float) -> Fault:
    """Silence first, then the real answer."""

    async def fault(exchange: Exchange) -> None:
        await exchange.wait(seconds)
        await exchange.forward()

    return fault


def refused_url() -> str:
    """A base URL at which nobody listens."""
    return f"http://127.0.0.1:{find_free_port()}/v1"


@dataclass(frozen=True)
class SeenRequest:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any
    client_port: int


class FunctionModel:
    """A function from messages to a reply, as a `Model`."""

    def __init__(self, answer: Answer) -> None:
        self.name = "function"
        self._answer = answer

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        return self._answer(messages)

    async def close(self) -> None:
        pass


class _QuickServer(uvicorn.Server):
    """Ends at once; uvicorn's own notices that it shall end and lets go of idle connections in 0.2 s."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.005)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            _, late = await asyncio.wait(self.server_state.tasks, timeout=self.config.timeout_graceful_shutdown)
            for task in late:
                task.cancel()


class FakeOpenAI:
    """The server, in a thread of its own; a context manager."""

    def __init__(
        self,
        model: Model | Answer,
        *,
        model_id: str = "fake",
        reasoning_field: str = "reasoning_content",
        port: int = 0,
    ) -> None:
        answering = model if hasattr(model, "generate") else FunctionModel(model)
        self._app = make_app(answering, model_id=model_id, reasoning_field=reasoning_field)
        self._faults: deque[Fault] = deque()
        self._always: Fault = ok
        self.on_models: Fault = ok
        """The fault for requests for the list of models."""
        self.requests: list[SeenRequest] = []
        self.exchanges: list[Exchange] = []
        self._socket = socket.create_server(("127.0.0.1", port))
        # asyncio does this only for sockets made with the protocol named; without it every answer waits 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        config = uvicorn.Config(self, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        self._server = _QuickServer(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="fake-openai", daemon=True
        )

    def next(self, *faults: Fault) -> None:
        """Faults for the coming chat requests, one each; after them the model answers."""
        self._faults.extend(faults)

    def always(self, fault: Fault) -> None:
        """The fault for every request that has none of its own."""
        self._always = fault

    @property
    def chats(self) -> list[SeenRequest]:
        """The chat requests, without those for the list of models."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    def __enter__(self) -> "FakeOpenAI":
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError("the fake server did not start")
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = await _read_body(receive)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append(
            SeenRequest(scope["path"], headers, json.loads(body) if body else None, scope["client"][1])
        )
        exchange = Exchange(body, receive, send, lambda: self._app(scope, _replay(body, receive), send))
        if scope["path"].endswith("/chat/completions"):
            self.exchanges.append(exchange)
            fault = self._faults.popleft() if self._faults else self._always
        else:
            fault = self.on_models
        try:
            await fault(exchange)
        except ConnectionAbortedError:
            return  # uvicorn breaks a connection whose answer was not finished


async def _read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: deque[Event] = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Event:
        return waiting.popleft() if waiting else await receive()

    return replay


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_openai")
    parser.add_argument("--model", default="literal", help="literal, or scripted:FILE")
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    with FakeOpenAI(make_model(chosen.model), model_id=chosen.model, port=chosen.port) as server:
        print(f"OPENAI_BASE_URL={server.base_url}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
