"""MiniWoB++ pages: their location on disk, and the loopback server that serves them to browsers."""

import contextlib
import importlib.metadata
import importlib.util
import mimetypes
import os
import socket
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from envs.errors import EnvSetupError

VERSION = "1.1.0"
"""Version of `miniwob` on PyPI; pages of another version may render or reward differently."""


def installed_dir() -> Path:
    """Return the folder where `cua setup miniwob` puts the pages; it contains `html/`."""
    import platformdirs

    return platformdirs.user_data_path("k25") / f"miniwob-{VERSION}"


def find_pages() -> Path | None:
    """Return the folder with `miniwob/`, `core/` and `common/`, from `cua setup` or the installed package."""
    for html in (installed_dir() / "html", _package_dir()):
        if html is not None and has_pages(html):
            return html
    return None


def get_pages() -> Path:
    """Return the folder of the pages, see `find_pages`.

    Raises:
        EnvSetupError: If the pages are not installed.
    """
    html = find_pages()
    if html is None:
        raise EnvSetupError(
            f"the pages of MiniWoB++ are not installed: they are not in {installed_dir()}, and there is no package "
            f"miniwob {VERSION}. Get them with: cua setup miniwob"
        )
    return html


def has_pages(html: Path) -> bool:
    """Return True if a folder appears to contain the pages."""
    return all((html / name).is_file() for name in ("core/core.js", "miniwob/click-test.html", "common/ui_utils.js"))


def _package_dir() -> Path | None:
    """Find the pages in the package `miniwob` without importing it, which would load selenium."""
    spec = importlib.util.find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        version = importlib.metadata.version("miniwob")
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(spec.submodule_search_locations[0]) / "html" if version == VERSION else None


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
_IDLE_S = 30.0  # an idle connection is closed


class PageServer:
    """Loopback server of the pages, shared by all environments of a process; it stops when the last of them leaves.

    Attributes:
        port: Port on 127.0.0.1.
    """

    _lock: ClassVar = threading.Lock()
    _running: ClassVar[dict[tuple[int, Path], "PageServer"]] = {}

    def __init__(self, html: Path) -> None:
        self._html = html
        self._num_users = 0
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, html.resolve()))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="miniwob-pages", daemon=True
        )
        self._thread.start()
        self.port: int = self._server.server_port

    @classmethod
    def enter(cls, html: Path) -> "PageServer":
        """Return the server of these pages and add one user."""
        with cls._lock:
            key = (os.getpid(), html)
            server = cls._running.get(key) or cls(html)
            cls._running[key] = server
            server._num_users += 1
            return server

    def leave(self) -> None:
        """Remove one user; the server stops after the last one."""
        with self._lock:
            self._num_users -= 1
            if self._num_users:
                return
            self._running.pop((os.getpid(), self._html), None)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Server whose connection threads end with it: it closes their sockets."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sockets: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._sockets.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for connection in tuple(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that disconnects during a response."""


class _Handler(BaseHTTPRequestHandler):
    """Request handler that serves files below one folder, nothing else."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S

    def __init__(self, html: Path, *arguments: Any) -> None:
        self._html = html
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Respond with a file."""
        path = self._html / unquote(urlsplit(self.path).path).lstrip("/")
        try:
            if not path.resolve().is_relative_to(self._html):
                raise FileNotFoundError
            content = path.read_bytes()
        except (OSError, ValueError):
            self.send_error(404)
            return
        self.send_response(200)
        kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
