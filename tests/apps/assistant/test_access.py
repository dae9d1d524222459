"""Who gets in, and what passes: the access rules in front of a small application."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.assistant.access import MAX_JSON_BYTES, POLICY, Access, is_loopback
from apps.assistant.answers import SessionRow
from apps.assistant.api import make_api
from apps.assistant.assistant import Assistant
from apps.assistant.preferences import Preferences
from apps.assistant.run_request import RunRequest
from apps.assistant.saved_tasks import SavedTask
from apps.assistant.server import ServeOptions, check_options
from apps.assistant.session import AssistantSession
from cua.errors import ConfigError, CuaError
from envs.browser import BrowserEnv, find_browser
from tests.cua.trajectory.samples import HEADER, write_run

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


async def test_a_file_over_the_limit_is_refused_with_413(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.assistant.assistant.MAX_FILE_BYTES", 1000)
    assistant = Assistant(Preferences(tmp_path / "settings.json"))

    async def chunks() -> AsyncIterator[bytes]:  # without a length
        for _ in range(3):
            yield b"x" * 500

    async with api_of(assistant) as web:
        answer = await web.post("/api/files", params={"name": "a.txt"}, content=chunks())
    assert (answer.status_code, answer.json()["error"]) == (413, "The file is larger than 100 MB.")
    assert list(assistant.uploads_dir.iterdir()) == []
    await assistant.close()


async def test_uploads_take_no_more_than_their_room() -> None:
    assistant = Assistant(Preferences(), max_uploads_bytes=10)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"1234"

    with pytest.raises(CuaError, match="restart the app"):
        await assistant.save_upload("more.txt", chunks())
    assert list(assistant.uploads_dir.iterdir()) == []
    await assistant.close()


@asynccontextmanager
async def api_of(assistant: Assistant) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(make_api(assistant), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as web:
        yield web


MISSING = {"type": "missing", "loc": ["body", "data"], "msg": "Field required", "input": {"a": "secret"}}


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (422, json.dumps({"detail": [MISSING]}), {"error": "The data is missing.", "detail": [MISSING]}),
        (405, json.dumps({"detail": "Method Not Allowed"}), {"error": "Method Not Allowed."}),
        (404, "Upload not found", {"error": "Upload not found."}),
        (500, "", {"error": "Internal Server Error."}),
        (400, json.dumps({"error": "Mine; as it is", "detail": []}), {"error": "Mine; as it is", "detail": []}),
        (400, json.dumps(["odd"]), {"error": "Bad Request."}),
    ],
)
async def test_errors_of_all_routes_have_the_documented_form(status: int, body: str, answer: Any) -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body[:9].encode(), "more_body": True})
        await send({"type": "http.response.body", "body": body[9:].encode()})

    app = Access(failing, token=TOKEN, host="127.0.0.1", port=7860)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7860") as web:
        found = await web.post("/gradio_api/queue/join", headers=BEARER, content=b"{}")
    if answer.get("detail"):
        answer = {**answer, "detail": [{name: MISSING[name] for name in ("loc", "msg", "type")}]}
    assert (found.status_code, found.json()) == (status, answer)
    assert found.headers["content-type"] == "application/json" and found.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("path", ["/gradio_api/upload", "/api/files?name=a"])
async def test_the_limit_of_an_upload_is_the_same_everywhere(path: str, tmp_path: Path) -> None:
    assistant = Assistant(Preferences(tmp_path / "settings.json"))
    app = Access(make_api(assistant), token=TOKEN, host="127.0.0.1", port=7860)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7860") as web:
        headers = {**BEARER, "content-length": str(111 * 2**20)}
        answer = await web.post(path, headers=headers, content=b"x")
        text = "The file is larger than 100 MB."
        assert (answer.status_code, answer.json()) == (413, {"error": text})
        assert (await web.post("/api/sessions", headers=headers)).json() == {
            "error": "More than 2 MB are not accepted."
        }
    await assistant.close()


async def test_runs_are_filtered_by_what_a_request_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path / "runs"))
    modes = {"instant": {"thinking": False}, "thinking": {"thinking": True}}
    for protocol in modes.values():
        write_run(tmp_path / "runs", header=replace(HEADER, env="browser", protocol=protocol))
    async with api_of(Assistant(Preferences(tmp_path / "settings.json"))) as web:
        for given, number in (
            ("mode=instant", 1),
            ("status=succeeded", 2),
            ("status=failed", 0),
            ("env=browser", 2),
            ("model=no", 0),
        ):
            assert len((await web.get(f"/api/runs?{given}")).json()) == number, given
        for wrong in ("mode=slow", "status=odd", "colour=red", "limit=0"):
            answer = await web.get(f"/api/runs?{wrong}")
            assert answer.status_code == 422 and wrong.partition("=")[0] in answer.json()["error"], answer.text


async def test_a_body_with_half_a_character_is_refused(tmp_path: Path) -> None:
    async with api_of(Assistant(Preferences(tmp_path / "settings.json"))) as web:
        json_type = {"content-type": "application/json"}
        answer = await web.post("/api/sessions", headers=json_type, content=rb'{"instruction": "half \ud800"}')
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "instruction"]


async def test_a_body_that_cannot_be_parsed_is_answered_in_the_documented_form(tmp_path: Path) -> None:
    async with api_of(Assistant(Preferences(tmp_path / "settings.json"))) as web:
        json_type = {"content-type": "application/json"}
        answer = await web.post("/api/sessions", headers=json_type, content=b"[" * 100_000)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


async def test_wrong_requests_are_answered_in_the_documented_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assistant = Assistant(Preferences(tmp_path / "settings.json"))
    assistant.sessions["s1"] = AssistantSession("thinking")
    web_start = {"instruction": "Click Save", "place": "web"}
    cases: list[tuple[int, str, str, str, dict[str, Any]]] = [
        (400, "Last-Event-ID is 'abc'", "GET", "/sessions/s1/events", {"headers": {"last-event-id": "abc"}}),
        (400, "Last-Event-ID", "GET", "/sessions/s1/events", {"headers": {"last-event-id": "9" * 5000}}),
        (404, "There is no setting 'colour'", "PUT", "/settings/colour", {"json": {"value": "red"}}),
        (400, "expected a whole number", "PUT", "/settings/max_steps", {"json": {"value": "many"}}),
        (404, "/api/docs.json lists all", "GET", "/nothing/here", {}),
        (404, "/api/docs.json lists all", "DELETE", "/about", {}),
        (422, "The instruction is missing.", "POST", "/sessions", {"json": {"instruktion": "Click"}}),
        (422, "The name is missing.", "POST", "/files", {"content": b"x"}),
        (400, "An address is needed", "POST", "/sessions", {"json": web_start}),
        (400, "Upload a file to use it", "POST", "/sessions", {"json": {**web_start, "url": "file:///etc/passwd"}}),
        (400, "are not taken", "POST", "/sessions", {"json": {**web_start, "url": "javascript:alert(1)"}}),
    ]
    async with api_of(assistant) as web:
        for status, says, method, path, given in cases:
            answer = await web.request(method, f"/api{path}", **given)
            assert (answer.status_code, says in answer.json()["error"]) == (status, True), (path, answer.text)
        monkeypatch.setattr(assistant.preferences, "rows", lambda: 1 / 0)
        answer = await web.get("/api/settings")
    assert (answer.status_code, answer.json()["error"].partition(".")[0]) == (500, "Internal error")


async def test_the_document_names_the_token_and_the_form_of_errors(tmp_path: Path) -> None:
    async with api_of(Assistant(Preferences(tmp_path / "settings.json"))) as web:
        document = (await web.get("/api/docs.json")).json()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["security"] == [{"HTTPBearer": []}], (method, path)
            error = operation["responses"]["422"]["content"]["application/json"]["schema"]
            assert error == {"$ref": "#/components/schemas/ApiError"}, (method, path)


async def test_answers_have_the_documented_fields_and_lose_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path))
    assistant = Assistant(Preferences(tmp_path / "settings.json"))
    assistant.tasks.save("total", SavedTask(instruction="Tell me the {what}."))
    session = assistant.sessions["s1"] = AssistantSession("thinking")
    async with api_of(assistant) as web:
        assert (await web.get("/api/sessions/s1")).json() == session.view()
        assert (await web.get("/api/tasks")).json() == assistant.tasks.rows()
        assert (await web.get("/api/settings")).json() == json.loads(json.dumps(assistant.preferences.rows()))
        assert (await web.get("/api/sessions")).json()[0].keys() == SessionRow.model_fields.keys()
        document = (await web.get("/api/docs.json")).json()
    answer = document["paths"]["/api/sessions/{session_id}"]["get"]["responses"]["200"]["content"]
    assert answer["application/json"]["schema"] == {"$ref": "#/components/schemas/SessionState"}


@pytest.mark.parametrize("name", ["ä" * 300 + ".txt", "😀" * 150 + ".txt", "x" * 5000 + ".txt", "." * 300])
async def test_names_of_uploads_fit_into_any_file_system(tmp_path: Path, name: str) -> None:
    assistant = Assistant(Preferences(tmp_path / "settings.json"))
    async with api_of(assistant) as web:
        saved = (await web.post("/api/files", params={"name": name}, content=b"x")).json()["name"]
    kept = saved.partition("/")[2]
    assert len(kept.encode()) <= 200 and kept.endswith(".txt") == name.endswith(".txt") and kept
    assert (assistant.uploads_dir / saved).read_text() == "x"
    await assistant.close()


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.skipif(find_browser() is None, reason="no browser was found; `cua setup` gets one")
async def test_a_page_can_be_given_each_of_several_files_and_not_the_assistant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path))
    assistant = Assistant(Preferences(tmp_path / "settings.json"), own_places=["localhost:7860"])
    async with api_of(assistant) as web:
        names = [
            (await web.post("/api/files", params={"name": name}, content=b"x")).json()["name"]
            for name in ("3-a.txt", "a.txt", "a.txt")
        ]
    session = await assistant.send(RunRequest(instruction="Wait 60 seconds.", files=tuple(names)))
    while session.is_running and not isinstance(session.screen.env, BrowserEnv):
        await asyncio.sleep(0.05)
    assert isinstance(session.screen.env, BrowserEnv), session.view()
    options = session.screen.env.options
    assert options.uploads_dir is not None
    assert _names_in(Path(options.uploads_dir)) == ["3-3-a.txt", "3-a.txt", "a.txt"]
    assert options.denied_domains == ("localhost:7860",)
    await assistant.close()


def _names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
