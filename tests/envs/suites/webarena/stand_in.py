"""A small web server that signs people in as the sites of WebArena do: forms, cookies, a shop's REST interface."""

import base64
import http.server
import json
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit


class StandIn:
    """A forum and a shop in one: `/login` (Postmill's form), `/customer/account/login/` (Magento's), pages, REST.

    Attributes:
        sessions: What the server takes for a login; taking one out signs that browser out.
        logins: How often somebody signed in.
        seen: Paths that were asked for.
        reviews: Of every product.
        pages: More pages by path.
        dies_at: The path whose request ends the server, without an answer.
        broken: Status by path of what is answered with an error, or with a redirect to another host.
        http_login: `USER:PASSWORD` that every page asks for by HTTP; "": none does.
    """

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.logins = 0
        self.seen: list[str] = []
        self.pages: dict[str, str] = {}
        self.broken: dict[str, int] = {}
        self.dies_at = self.http_login = ""
        self.reviews: list[dict[str, Any]] = [
            {"nickname": "Ann", "ratings": [{"rating_name": "Rating", "percent": 80}]}
        ]
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, cookie: str) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers of a page."""
        self.seen.append(path)
        if path in self.broken:
            return self.broken[path], "<p>Down for maintenance</p>", {"Location": "http://login.test/"}
        if path in self.pages:
            return 200, self.pages[path], {}
        is_known = any(f"session={session}" in cookie for session in self.sessions)
        if path in ("/login", "/customer/account/login/"):
            fields = ("_username", "_password") if path == "/login" else ("email", "pass")
            ids = " ".join(f'<input name="{name}" id="{name}">' for name in fields)
            return 200, f'<form method="post">{ids}<button id="send2">Log in</button></form>', {}
        if path in ("/notifications", "/customer/account/"):
            if not is_known:
                return 302, "", {"Location": "/login" if path == "/notifications" else "/customer/account/login/"}
            return 200, "<p>Nothing new</p>", {}
        if path.startswith("/f/"):
            who = "you are in" if is_known else "you are out"
            return 200, f'<div class="submission__inner">racing cars &amp; more, {who}</div>', {}
        if path == "/rest/V1/orders":
            return 200, json.dumps({"items": [{"increment_id": "000000190"}]}), {}
        if path.endswith("/reviews"):
            return 200, json.dumps(self.reviews), {}
        return 200, f"<p>{path}</p>", {}

    def _make_handler(outer) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer.dies_at == urlsplit(self.path).path:
                    outer.close()
                    self.close_connection = True
                    return
                if not self._is_let_in():
                    self._send(401, "who are you?", {"WWW-Authenticate": 'Basic realm="all"'})
                    return
                self._send(*outer.answer(urlsplit(self.path).path, self.headers.get("Cookie", "")))

            def _is_let_in(self) -> bool:
                given = base64.b64encode(outer.http_login.encode()).decode()
                return not outer.http_login or self.headers.get("Authorization") == f"Basic {given}"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                path = urlsplit(self.path).path
                if path.endswith("/token"):
                    is_right = json.loads(body) == {"username": "admin", "password": "admin1234"}
                    self._send(200 if is_right else 401, json.dumps("a-token"), {})
                    return
                given = {name: values[0] for name, values in parse_qs(body).items()}
                if "test1234" in given.values() or "Password.123" in given.values():
                    outer.logins += 1
                    session = f"s{outer.logins}"
                    outer.sessions.add(session)
                    home = "/notifications" if path == "/login" else "/customer/account/"
                    self._send(302, "", {"Location": home, "Set-Cookie": f"session={session}; Path=/"})
                else:
                    self._send(302, "", {"Location": path})

            def _send(self, status: int, body: str, headers: dict[str, str]) -> None:
                data = body.encode()
                self.send_response(status)
                for name, value in {"Content-Type": "text/html", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
