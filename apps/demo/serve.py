"""A web app on a free loopback port, in a thread of this process."""

import socket
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from envs.errors import EnvSetupError
from envs.require import require

if TYPE_CHECKING:
    from starlette.applications import Starlette


class LoopbackServer:
    """Serves `app` on 127.0.0.1 until `stop`; a context manager. The port is the system's choice."""

    def __init__(self, app: "Starlette") -> None:
        self._app = app
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self, timeout_s: float = 10.0) -> str:
        """Start serving and return the address, for example `http://127.0.0.1:40001`.

        Raises:
            EnvSetupError: The server was not up in time.
        """
        uvicorn = require("uvicorn", "demo")
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else small answers wait 40 ms
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self._app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none", loop="asyncio"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="loopback-server", daemon=True
        )
        self._thread.start()
        if not _is_answering(self.url, timeout_s):
            raise EnvSetupError(f"the local web app at {self.url} did not answer within {timeout_s:g} s")
        return self.url

    def stop(self) -> None:
        """Stop serving and wait for the thread. May be called twice."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(timeout=5.0)
        self._server = self._thread = None

    def __enter__(self) -> "LoopbackServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _is_answering(url: str, timeout_s: float) -> bool:
    """Whether a request got any answer within the time; the listening socket queues it until the server is up."""
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(4) == b"HTTP"
    except OSError:
        return False
