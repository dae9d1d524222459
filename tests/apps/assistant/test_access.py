"""Who gets in, and what passes: the access rules in front of a small application."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.assistant.access import MAX_JSON_BYTES, POLICY, Access, is_loopback
from apps.assistant.api import make_api
from apps.assistant.assistant import Assistant
from apps.assistant.preferences import Preferences
from apps.assistant.server import ServeOptions, check_options
from cua.errors import ConfigError, CuaError

TOKEN = "t" * 43
GOOD = {"host": "127.0.0.1:7860"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


async def inner(scope: Any, receive: Any, send: Any) -> None:
    taken = 0
    while True:
        message = await receive()
        taken += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    headers = [(b"access-control-allow-origin", b"https://evil.example"), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": f"{message['type']} {taken}".encode()})


def client(host: str = "127.0.0.1") -> httpx.AsyncClient:
    app = Access(inner, token=TOKEN, host=host, port=7860, hosts=["box.example"])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7860")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/sessions", {}, 401),
        ("/api/sessions", BEARER, 200),
        ("/api/sessions", {"authorization": "Bearer wrong"}, 401),
        ("/api/sessions", {**BEARER, "host": "evil.example:7860"}, 400),
        ("/api/sessions", {**BEARER, "host": "evil.example"}, 400),
        ("/api/sessions", {**BEARER, "host": "127.0.0.1:7861"}, 400),
        ("/api/sessions", {**BEARER, "host": "127.0.0.1:x"}, 400),
        ("/api/sessions", {**BEARER, "host": "localhost:7860"}, 200),
        ("/api/sessions", {**BEARER, "host": "box.example:7860"}, 200),
        ("/api/sessions", {**BEARER, "host": "10.0.0.7:7860"}, 400),
        ("/api/sessions", {**BEARER, "origin": "https://evil.example"}, 403),
        ("/api/sessions", {**BEARER, "origin": "http://127.0.0.1:7861"}, 403),
        ("/api/sessions", {**BEARER, "origin": "null"}, 403),
        ("/api/sessions", {**BEARER, "origin": "http://127.0.0.1:7860"}, 200),
        ("/api/sessions", {**BEARER, "sec-fetch-site": "cross-site"}, 403),
        ("/api/sessions", {**BEARER, "sec-fetch-site": "same-site"}, 403),
        ("/", {"sec-fetch-site": "cross-site"}, 401),
        ("/gradio_api/file=/etc/passwd", BEARER, 404),
        ("/gradio_api/file/etc/passwd", BEARER, 404),
        ("/file=/etc/passwd", BEARER, 404),
        ("/gradio_api/proxy=http://evil.example/", BEARER, 404),
        ("/gradio_api/runs", BEARER, 404),
        ("/gradio_api/mcp/", BEARER, 404),
        ("/gradio_api/stream/a/b/c/playlist.m3u8", BEARER, 404),
        ("/gradio_api/component_server", BEARER, 404),
        ("/assets/%2e%2e/%2e%2e/secret", BEARER, 404),
        ("/monitoring", BEARER, 404),
        ("/gradio_api/queue/join", BEARER, 200),
        ("/assets/index.js", BEARER, 200),
    ],
)
async def test_who_gets_in(path: str, headers: dict[str, str], status: int) -> None:
    async with client() as web:
        answer = await web.get(path, headers={**GOOD, **headers})
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert "access-control-allow-origin" not in answer.headers


async def test_the_token_in_the_address_becomes_a_cookie_that_pages_cannot_read() -> None:
    async with client() as web:
        answer = await web.get(f"/?token={TOKEN}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
        web.cookies.clear()
        sent = {"cookie": cookie.partition(";")[0]}
        assert (await web.get("/", headers=sent)).status_code == 200
        assert (await web.get("/api/sessions", headers=sent)).status_code == 200
        assert (await web.get("/", headers={"cookie": "k25_assistant_7860=wrong"})).status_code == 401
        assert (await web.get("/?token=wrong")).status_code == 401
        posted = await web.post("/login", content=f"token={TOKEN}")
        assert posted.status_code == 303


async def test_bodies_have_an_end() -> None:
    async with client() as web:
        big = await web.post("/api/sessions", headers=BEARER, content=b"x" * (MAX_JSON_BYTES + 1))
        assert big.status_code == 413

        async def drip() -> Any:  # no length is told
            for _ in range(40):
                yield b"x" * 100_000

        cut = await web.post("/api/sessions", headers=BEARER, content=drip())
        assert cut.text.startswith("http.disconnect")
        assert (await web.post("/api/files?name=a", headers=BEARER, content=b"x" * 3_000_000)).text.endswith("3000000")


async def test_an_address_of_this_machine_lets_in_where_it_listens_beyond_loopback() -> None:
    async with client("0.0.0.0") as web:
        assert (await web.get("/api/sessions", headers={**BEARER, "host": "10.0.0.7:7860"})).status_code == 200
        assert (await web.get("/api/sessions", headers={**BEARER, "host": "rebound.example:7860"})).status_code == 400


async def test_a_websocket_needs_an_origin_and_the_cookie() -> None:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    app = Access(inner, token=TOKEN, host="127.0.0.1", port=7860)
    for more in ([], [(b"origin", b"https://evil.example")], [(b"origin", b"http://127.0.0.1:7860")]):
        scope = {"type": "websocket", "path": "/api/sessions/a/live", "headers": [(b"host", b"127.0.0.1:7860"), *more]}
        await app(scope, receive, send)
    assert [(message["type"], message["code"]) for message in said] == [
        ("websocket.close", 4403),
        ("websocket.close", 4403),
        ("websocket.close", 4401),
    ]


def test_beyond_loopback_a_token_of_ones_own_is_needed() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "box")] == [
        *[True] * 3,
        *[False] * 3,
    ]
    check_options(ServeOptions())
    check_options(ServeOptions(host="0.0.0.0", token="x" * 16))
    with pytest.raises(ConfigError, match="--token-file"):
        check_options(ServeOptions(host="0.0.0.0"))
    with pytest.raises(ConfigError, match="expected 16 or more"):
        check_options(ServeOptions(token="short"))


async def test_uploads_end_where_the_disk_is_theirs_no_more() -> None:
    app = Access(inner, token=TOKEN, host="127.0.0.1", port=7860, has_room=lambda: False)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7860") as web:
        for path in ("/gradio_api/upload", "/api/files"):
            assert (await web.post(path, headers=BEARER, content=b"x")).status_code == 413
        assert (await web.post("/api/sessions", headers=BEARER, content=b"x")).status_code == 200


async def test_uploads_take_no_more_than_their_room() -> None:
    assistant = Assistant(Preferences(), max_uploads_bytes=10)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"1234"

    with pytest.raises(CuaError, match="restart the app"):
        await assistant.save_upload("more.txt", chunks())
    assert list(assistant.uploads_dir.iterdir()) == []
    await assistant.close()


async def test_a_body_with_half_a_character_is_refused(tmp_path: Path) -> None:
    app = make_api(Assistant(Preferences(tmp_path / "settings.json")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7860") as web:
        json_type = {"content-type": "application/json"}
        answer = await web.post("/api/sessions", headers=json_type, content=rb'{"instruction": "half \ud800"}')
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "instruction"]
