"""What every request passes: ids, keys, sizes, CORS."""

import http.client
import json
import socket
from typing import Any

import pytest

from model_runtime.server import ServerOptions
from tests.model_runtime.fakes import FakeEngine
from tests.model_runtime.server.serving import USER, Serving

PATH = "/v1/chat/completions"
KEYS = ServerOptions(api_keys=("first", "second"))


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("abc-123", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("", False), ("caf\xe9", False)],
)
def test_request_ids_go_in_and_out(ask: Any, given: str, is_kept: bool) -> None:
    got = ask().get("/health", headers={"x-request-id": given.encode("latin-1")}).headers["x-request-id"]
    assert (got == given) is is_kept
    assert is_kept or got.startswith("req-")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer third", 401),
        ("Basic first", 401),
        ("first", 401),
        ("Bearer first", 200),
        ("bearer second", 200),
        ("Bearer  first ", 200),
    ],
)
def test_any_of_the_keys_opens(ask: Any, header: str | None, status: int) -> None:
    client = ask(options=KEYS)
    headers = {} if header is None else {"authorization": header}
    for path in ("/v1/models", "/metrics", "/openapi.json"):
        got = client.get(path, headers=headers)
        assert got.status_code == status
        if status == 401:
            assert got.json()["error"]["code"] == "invalid_api_key"
            assert got.headers["www-authenticate"] == "Bearer"
    assert client.get("/health").status_code == 200


def test_a_wrong_key_says_nothing_of_what_there_is(ask: Any) -> None:
    client = ask(options=KEYS)
    assert client.get("/nothing").status_code == client.post(PATH, content=b"{").status_code == 401
    assert "second" not in repr(KEYS)


def test_a_large_body_is_refused_before_it_is_read() -> None:
    with Serving(FakeEngine(), ServerOptions(max_body_bytes=1000)) as serving:
        with socket.create_connection(("127.0.0.1", serving.port)) as plug:
            plug.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n")
            head = plug.recv(65536)
        assert head.startswith(b"HTTP/1.1 413 ")
        connection = http.client.HTTPConnection("127.0.0.1", serving.port)
        connection.request("POST", PATH, body=(b"x" * 100 for _ in range(100)), encode_chunked=True)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["code"]) == (413, "request_too_large")
        connection.request("POST", PATH, body=json.dumps({"messages": USER}))  # the connection still serves
        assert connection.getresponse().status == 200
        connection.close()


def test_a_body_that_does_not_come_is_given_up() -> None:
    with (
        Serving(FakeEngine(), ServerOptions(body_timeout_s=0.1)) as serving,
        socket.create_connection(("127.0.0.1", serving.port)) as plug,
    ):
        plug.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
        assert plug.recv(65536).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(("origins", "expected"), [((), None), (("https://a.example",), "https://a.example")])
def test_cors_is_off_until_origins_are_named(ask: Any, origins: tuple[str, ...], expected: str | None) -> None:
    client = ask(options=ServerOptions(cors_origins=origins, api_keys=("k",)))
    preflight = {"origin": "https://a.example", "access-control-request-method": "POST"}
    got = client.options(PATH, headers=preflight)
    assert got.headers.get("access-control-allow-origin") == expected
