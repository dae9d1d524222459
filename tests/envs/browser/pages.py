"""A small web server on loopback for browser tests: pages given as text, and awkward answers."""

import base64
import http.server
import itertools
import ssl
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class PageServer:
    """Serves pages from memory.

    Paths with a meaning: `/slow?s=0.5` answers late, `/redirect?to=URL` redirects, `/loop` to itself, `/file/NAME` is a
    download that holds its own name, `/empty` has no content, `/json` is data, `/echo` answers with
    the request's headers, `/status?code=503` answers so, a path of `logins` wants "user:password",
    bodies of what is posted are kept in `uploads`, other requests than GET in `changes`; `/moved?to=URL` sends them on.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.seen: list[str] = []
        self.logins: dict[str, str] = {}
        self.uploads: list[bytes] = []
        self.changes: list[str] = []
        self._pages: dict[str, bytes] = {}
        self._data: dict[str, tuple[bytes, str, str]] = {}
        self._numbers = itertools.count()
        self._scheme = "https" if certificate else "http"
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._make_answerer())
        self._server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    def serve(self, body: str, *, title: str = "Test page", host: str = "127.0.0.1") -> str:
        """Make a page of a body; returns its URL."""
        path = f"/page{next(self._numbers)}"
        document = f"<!doctype html><meta charset=utf-8><title>{title}</title><body style='margin:0'>{body}"
        self._pages[path] = document.encode()
        return self.url(path, host)

    def serve_data(self, name: str, data: bytes, kind: str, disposition: str = "", at: str = "") -> str:
        """Serve data of a media type, to GET and to POST; returns its URL. `at` is the URL of data to replace."""
        path = urlsplit(at).path or f"/data{next(self._numbers)}/{name}"
        self._data[path] = (data, kind, disposition)
        return self.url(path)

    def serve_whole(self, document: str) -> str:
        """Make a page of a whole document; returns its path."""
        path = f"/page{next(self._numbers)}"
        self._pages[path] = document.encode()
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _make_answerer(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Answerer(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                server.seen.append(parts.path)
                if parts.path == "/slow":
                    time.sleep(float(query["s"]))
                    self._answer(b"<title>slow</title>slow page")
                elif parts.path == "/redirect":
                    self._answer(b"", status=302, headers={"Location": query["to"]})
                elif parts.path == "/loop":
                    self._answer(b"", status=302, headers={"Location": "/loop"})
                elif parts.path.startswith("/file/"):
                    name = parts.path.removeprefix("/file/")
                    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
                    self._answer(name.encode(), kind="application/octet-stream", headers=headers)
                elif parts.path == "/empty":
                    self._answer(b"", status=204)
                elif parts.path == "/json":
                    self._answer(b'{"ok": true}', kind="application/json")
                elif parts.path == "/echo":
                    self._answer(str(self.headers).encode(), kind="text/plain")
                elif parts.path == "/status":
                    self._answer(b"<title>failed</title>", status=int(query["code"]))
                elif parts.path in server.logins:
                    login = server.logins[parts.path]
                    wanted = "Basic " + base64.b64encode(login.encode()).decode()
                    is_in = self.headers["Authorization"] == wanted
                    headers = {} if is_in else {"WWW-Authenticate": f'Basic realm="{parts.path}"'}
                    self._answer(b"<title>inside</title>", status=200 if is_in else 401, headers=headers)
                elif parts.path in server._data:
                    self._answer_data(parts.path)
                elif parts.path in server._pages:
                    self._answer(server._pages[parts.path])
                else:
                    self._answer(b"<title>Not found</title>nothing here", status=404)

            def do_POST(self) -> None:
                server.uploads.append(self.rfile.read(int(self.headers["Content-Length"] or 0)))
                host = (self.headers["Host"] or "").partition(":")[0]
                server.changes.append(f"{self.command} {host}{self.path}")
                if self.path.startswith("/moved?to="):
                    self._answer(b"", status=307, headers={"Location": self.path.removeprefix("/moved?to=")})
                elif self.path in server._data:
                    self._answer_data(self.path)
                else:
                    self._answer(b"<title>uploaded</title>uploaded")

            do_PUT = do_PATCH = do_DELETE = do_POST

            def do_OPTIONS(self) -> None:
                self._answer(b"", headers={"Access-Control-Allow-Methods": "*"})

            def _answer_data(self, path: str) -> None:
                data, kind, disposition = server._data[path]
                headers = {"Content-Disposition": disposition} if disposition else {}
                self._answer(data, kind=kind, headers=headers)

            def _answer(
                self,
                body: bytes,
                *,
                status: int = 200,
                kind: str = "text/html; charset=utf-8",
                headers: dict[str, str] | None = None,
            ) -> None:
                try:
                    self.send_response(status)
                    for name, value in (headers or {}).items():
                        self.send_header(name, value)
                    if status != 204:
                        self.send_header("Content-Type", kind)
                        self.send_header("Content-Length", str(len(body)))
                    self.send_header("Access-Control-Allow-Origin", "*")
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the browser went away

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Answerer
