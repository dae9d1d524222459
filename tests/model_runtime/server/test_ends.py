"""How requests end early: clients that leave, limits of time, servers that leave."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from model_runtime.engine.contract import EngineRequest
from model_runtime.server import ServerOptions
from tests.model_runtime.fakes import FakeEngine, Script, answer
from tests.model_runtime.server.serving import USER, Serving, wait_until

PATH = "/v1/chat/completions"
SLOW = answer("a", *["b"] * 2000, gap_s=0.02)


def send(port: int, body: dict[str, Any]) -> socket.socket:
    """A raw request; its answer is not read."""
    raw = json.dumps(body).encode()
    plug = socket.create_connection(("127.0.0.1", port))
    plug.sendall(b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(raw)) + raw)
    return plug


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"stream": True, "n": 3}])
def test_a_client_that_leaves_is_cancelled_in_the_engine(fields: dict[str, Any]) -> None:
    engine = FakeEngine(lambda request: SLOW)
    with Serving(engine) as serving:
        plug = send(serving.port, {"messages": USER, **fields})
        if fields.get("stream"):
            assert b"200 OK" in plug.recv(65536)
        wait_until(lambda: len(engine.seen) == fields.get("n", 1))
        plug.close()
        wait_until(lambda: engine.num_running == 0)
        assert sorted(engine.cancelled) == sorted(request.request_id for request in engine.seen)
        text = httpx.get(f"{serving.url}/metrics").text
    assert "k25_aborted_total 1.0" in text
    assert 'k25_http_requests_total{route="/v1/chat/completions",status="499"} 1.0' in text


def test_a_client_that_leaves_the_queue_is_cancelled_too() -> None:
    engine = FakeEngine(lambda request: answer("a", first_s=30.0))
    with Serving(engine) as serving:
        plug = send(serving.port, {"messages": USER, "stream": True})
        wait_until(lambda: engine.num_running == 1)
        plug.close()
        wait_until(lambda: engine.num_running == 0)
    assert len(engine.cancelled) == 1


def post(serving: Serving, **fields: Any) -> httpx.Response:
    return httpx.post(serving.url + PATH, json={"messages": USER, **fields}, timeout=30)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_request_that_is_not_begun_in_time_is_a_503(is_stream: bool) -> None:
    engine = FakeEngine(lambda request: answer("a", first_s=30.0))
    with Serving(engine, ServerOptions(queue_timeout_s=0.1)) as serving:
        got = post(serving, stream=is_stream)
        assert (got.status_code, got.json()["error"]["code"]) == (503, "queue_timeout")
        wait_until(lambda: engine.num_running == 0)
    assert len(engine.cancelled) == 1


@pytest.mark.long
def test_a_request_that_is_not_done_in_time_is_a_504() -> None:
    engine = FakeEngine(lambda request: SLOW)
    with Serving(engine, ServerOptions(request_timeout_s=1.0, queue_timeout_s=0.9)) as serving:
        got = post(serving)
        assert (got.status_code, got.json()["error"]["code"]) == (504, "request_timeout")
        streamed = post(serving, stream=True)
        assert streamed.status_code == 200
        last = [line for line in streamed.text.split("\n\n") if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "request_timeout"
        wait_until(lambda: engine.num_running == 0)


def test_a_silent_stream_is_kept_open_by_comments() -> None:
    engine = FakeEngine(lambda request: answer("a", first_s=0.3))
    with Serving(engine, ServerOptions(ping_s=0.05)) as serving:
        text = post(serving, stream=True).text
    assert text.startswith(": waiting\n\n")
    assert text.endswith("data: [DONE]\n\n")


async def test_a_leaving_server_finishes_what_it_has_and_turns_others_away() -> None:
    gate = asyncio.Event()
    engine = FakeEngine(lambda request: answer("done", waits=gate))
    with Serving(engine, ServerOptions(drain_s=20.0)) as serving:
        async with httpx.AsyncClient(base_url=serving.url, timeout=30) as client:
            running = asyncio.create_task(client.post(PATH, json={"messages": USER}))
            await asyncio.to_thread(wait_until, lambda: engine.num_running == 1)
            serving.terminate()
            await asyncio.to_thread(wait_until, lambda: serving.app.state.server.drain.is_draining)
            late = await client.post(PATH, json={"messages": USER})
            assert (late.status_code, late.json()["error"]["code"]) == (503, "shutting_down")
            assert late.headers["retry-after"] == "5"
            assert (await client.get("/health")).status_code == 503
            serving.call(gate.set)
            assert (await running).json()["choices"][0]["message"]["content"] == "done"
        await asyncio.to_thread(wait_until, lambda: serving.is_over)
    assert engine.is_closed
    assert engine.cancelled == []


def test_what_does_not_finish_while_the_server_leaves_ends_with_an_error() -> None:
    engine = FakeEngine(lambda request: SLOW)
    with Serving(engine, ServerOptions(drain_s=0.1)) as serving:
        with httpx.stream("POST", serving.url + PATH, json={"messages": USER, "stream": True}) as got:
            lines = got.iter_lines()
            next(lines)
            serving.terminate()
            rest = [line for line in lines if line]
        wait_until(lambda: serving.is_over)
    assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "shutting_down"


SCRIPT = """
import asyncio
from model_runtime.server import ServerOptions, make_app, serve
from tests.model_runtime.fakes import FakeEngine, FakeProcessor, answer
engine = FakeEngine(lambda request: answer("a", "b", gap_s=0.5))
serve(make_app(engine, FakeProcessor(), ServerOptions(drain_s=20.0)), host="127.0.0.1", port=0)
print("closed", engine.is_closed)
"""


@pytest.mark.slow
def test_the_process_says_where_it_listens_and_obeys_sigterm(root: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=root, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().removeprefix("listening on ").strip()
        with httpx.stream("POST", url + PATH, json={"messages": USER, "stream": True}, timeout=30) as got:
            lines = got.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert process.wait(20) == 0
        assert process.stdout.read() == "closed True\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_second_signal_does_not_wait() -> None:
    engine = FakeEngine(lambda request: SLOW)
    with Serving(engine, ServerOptions(drain_s=600.0)) as serving:
        plug = send(serving.port, {"messages": USER, "stream": True})
        wait_until(lambda: engine.num_running == 1)
        serving.terminate()
        wait_until(lambda: serving.app.state.server.drain.is_draining)
        serving.terminate()
        wait_until(lambda: serving.is_over)
        plug.close()
    assert engine.num_running == 0


def test_a_choice_that_fails_takes_the_others_with_it() -> None:
    def say(request: EngineRequest) -> Script:
        return answer("a", error="broken") if request.params.seed == 8 else SLOW

    engine = FakeEngine(say)
    with Serving(engine) as serving:
        got = post(serving, n=3, seed=7)
        assert (got.status_code, got.json()["error"]["code"]) == (500, "engine_error")
        wait_until(lambda: engine.num_running == 0)
    assert len(engine.cancelled) == 2
