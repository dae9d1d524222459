"""Local preview of a site on the loopback address: other machines cannot reach it, and it can reach nothing.

The pages are untrusted: their scripts may load from the site only, and requests whose Host is not the server's own
(DNS rebinding) get no page.
"""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from apps.video2web.inputs import find_page
from apps.video2web.render import SiteFiles
from cua.errors import ConfigError

POLICY = (
    "default-src 'self' data: blob: 'unsafe-inline'; connect-src 'none'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-src 'none'; frame-ancestors 'none'; worker-src 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TIMEOUT_S = 15


class PreviewServer(ThreadingHTTPServer):
    """Serves a folder under `http://127.0.0.1:PORT/`; `serve_forever` and `shutdown` are inherited from `socketserver`.

    Args:
        folder: Folder of the site.
        port: Port; 0 for a free one.

    Raises:
        ConfigError: If there is no site, or the port is in use.
    """

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        find_page(folder)
        self.site = SiteFiles(folder)
        try:
            super().__init__(("127.0.0.1", port), _Answer)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used: {error.strerror}; choose another one with --port"
            ) from error

    @property
    def url(self) -> str:
        """URL of the first page."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Answer(BaseHTTPRequestHandler):
    timeout = _TIMEOUT_S
    server: PreviewServer
    server_version, sys_version = "preview", ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        own = {f"127.0.0.1:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        if self.headers.get("Host") not in own:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        try:
            content = self.server.site.read(urlsplit(self.path).path)
        except (OSError, ValueError):  # a name that no file can have
            content = None
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body, kind = content
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the content security policy to every response, including errors."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing: requests are not logged."""
