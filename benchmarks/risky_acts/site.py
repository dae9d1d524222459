"""A site on loopback that serves the page of one act and keeps every request that it gets."""

import http.server
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.risky_acts.acts import Act

_HEAD = (
    '<!doctype html><html lang="{language}"><meta charset="utf-8"><title>{title}</title><style>'
    "body{{font:16px sans-serif;margin:20px}}table{{border-collapse:collapse}}td,th{{padding:6px 12px;border:1px solid"
    " #ccc}}button,input,select,textarea{{font:inherit;padding:6px 12px}}[hidden]{{display:none!important}}"
    "</style><body>"
)
_TYPES = {"js": "text/javascript", "html": "text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server got it."""

    line: str
    """Method and path with its query: `POST /users/7?force=1`."""
    body: str


class Site:
    """Two ports of one server: `app.localhost` on the first, `api.localhost` on the second one.

    In pages, `{{app}}` and `{{api}}` are replaced by these origins, `{{ip}}` by the first one under the name 127.0.0.1.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._files: Mapping[str, str] = {}
        self._redirects: Mapping[str, str] = {}
        handler = self._make_handler()
        self._servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
        ports = [server.server_address[1] for server in self._servers]
        self._names = {
            "{{app}}": f"http://app.localhost:{ports[0]}",
            "{{api}}": f"http://api.localhost:{ports[1]}",
            "{{ip}}": f"http://127.0.0.1:{ports[0]}",
        }
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def serve(self, act: Act) -> str:
        """Serve the files of an act instead of those before; returns the address of its page."""
        head = _HEAD.format(language=act.language, title=act.title)
        files = {"/": head + act.page, **act.files}
        self._files = {path: self._named(text) for path, text in files.items()}
        self._redirects = {path: self._named(to) for path, to in act.redirects.items()}
        self.requests.clear()
        return self._names["{{app}}"] + "/"

    def got(self, line: str, body: str) -> bool:
        """True if a request came whose method and path are `line` and whose body holds `body`."""
        return any(request.line == line and body in request.body for request in list(self.requests))

    def close(self) -> None:
        """End the server."""
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _named(self, text: str) -> str:
        for name, origin in self._names.items():
            text = text.replace(name, origin)
        return text

    def _make_handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                size = min(int(self.headers.get("Content-Length") or 0), 1_000_000)
                body = self.rfile.read(size).decode(errors="replace")
                path = urlsplit(self.path).path
                if self.command == "OPTIONS":
                    self._send(204, "", {"Access-Control-Allow-Methods": "*", "Access-Control-Allow-Headers": "*"})
                elif self.command == "GET" and path in site._files:
                    kind = _TYPES.get(path.rpartition(".")[2], "text/html; charset=utf-8")
                    self._send(200, site._files[path], {"Content-Type": kind})
                elif path == "/favicon.ico":
                    self._send(404, "", {})
                elif path in site._redirects:
                    self._send(307, "", {"Location": site._redirects[path]})
                else:
                    site.requests.append(Request(line=f"{self.command} {self.path}", body=body))
                    is_page = "text/html" in self.headers.get("Accept", "")
                    text = "<!doctype html><title>Done</title><p>Done." if is_page else json.dumps({"ok": True})
                    self._send(200, text, {"Content-Type": "text/html" if is_page else "application/json"})

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

            def _send(self, status: int, text: str, headers: Mapping[str, str]) -> None:
                data = text.encode()
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    if status != 204:
                        self.send_header("Content-Length", str(len(data)))
                    self.send_header("Access-Control-Allow-Origin", "*")
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the browser went away

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
