"""A real server on loopback, in a thread of its own."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from model_runtime.server import ServerOptions, make_app
from model_runtime.server.media import MediaProcessor
from model_runtime.server.run import listen, make_server, run_server
from tests.model_runtime.fakes import FakeEngine, FakeProcessor

USER: list[dict[str, Any]] = [{"role": "user", "content": "Say hello."}]
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "click", "parameters": {"type": "object", "properties": {"x": {}}}}},
    {"type": "function", "function": {"name": "wait"}},
]


class Serving:
    """A context manager; leaving it is what SIGTERM does."""

    def __init__(
        self, engine: FakeEngine, options: ServerOptions | None = None, processor: MediaProcessor | None = None
    ) -> None:
        self.engine = engine
        self.app = make_app(engine, processor or FakeProcessor(), options or ServerOptions(drain_s=5.0))
        self._server = make_server(self.app)
        self._listener = listen("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.url}/v1"
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await run_server(self._server, self.app.state.server, self._listener)

    def call(self, function: Callable[[], object]) -> None:
        """Call something in the server's event loop."""
        self._loop.call_soon_threadsafe(function)

    def terminate(self) -> None:
        """What SIGTERM does."""
        self._server.handle_exit(signal.SIGTERM, None)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def __enter__(self) -> "Serving":
        self._thread.start()
        wait_until(lambda: self._server.started)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_over:
            self.terminate()
        self._thread.join(20)
        self._listener.close()
        assert self.is_over


def wait_until(is_so: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    """Wait for something that has to come."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)
