"""A small site on loopback, and what it was asked for."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    path: str
    headers: Mapping[str, str]
    body: Any = None


@dataclass
class Site:
    port: int
    asked: list[Asked]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Site]:
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            one = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            asked.append(one)
            given = answer(one)
            self.send_response(given.status)
            for name, value in {"Content-Length": str(len(given.body)), **given.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(given.body)
            except ConnectionError:
                pass  # the caller had enough

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Site(server.server_address[1], asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pages(table: Mapping[str, Answer]) -> Callable[[Asked], Answer]:
    return lambda asked: table.get(asked.path, Answer(status=404))
