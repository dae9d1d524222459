"""Every error is OpenAI's object, whatever went wrong and wherever."""

import json
import logging
from typing import Any

import h11
import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.errors import RuntimeFault
from model_runtime.server.body import ignored_fields
from tests.model_runtime.fakes import FakeEngine, FakeProcessor, Script, answer
from tests.model_runtime.server.serving import USER, Serving

PATH = "/v1/chat/completions"


def error_of(response: Any) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert "\n" not in body["error"]["message"]
    return body["error"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (b"", None, "invalid_json"),
        (b"{", None, "invalid_json"),
        (b"\xff\xfe{}", None, "invalid_json"),
        (b'{"messages": "\xff"}', None, "invalid_json"),
        (b"[]", None, "invalid_value"),
        (b"null", None, "invalid_value"),
        (b"{}", "messages", "missing_required_parameter"),
        (b'{"messages": []}', "messages", "invalid_value"),
        (b'{"messages": {}}', "messages", "invalid_value"),
        (b'{"messages": [{"role": "robot", "content": ""}]}', "messages.0.role", "invalid_value"),
        (b'{"messages": [{"content": "a"}]}', "messages.0.role", "missing_required_parameter"),
        (b'{"messages": [{"role": "user", "content": 5}]}', "messages.0.content", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": [{}]}]}', "messages.0.content.0", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": [{"type": "file"}]}]}', "messages.0.content.0", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": [{"type": "text"}]}]}', "messages.0.content.0.text", None),
        (b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', None, "invalid_json"),
        (b'{"messages": [{"role": "user", "content": "a"}], "temperature": NaN}', "temperature", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "temperature": 1e999}', "temperature", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "temperature": "1"}', "temperature", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "n": 0}', "n", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "n": true}', "n", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 0}', "max_tokens", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "stop": [""]}', "stop.0", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "top_logprobs": 3}', "top_logprobs", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "seed": 9223372036854775808}', "seed", "invalid_value"),
        (b'{"messages": [{"role": "user", "content": "a"}], "functions": [1]}', "functions", "unsupported_parameter"),
        (b'{"messages": [{"role": "user", "content": "a"}], "audio": {"a": 1}}', "audio", "unsupported_parameter"),
        (
            b'{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"thinkin": false}}',
            "chat_template_kwargs.thinkin",
            "invalid_value",
        ),
        (
            b'{"messages": [{"role": "user", "content": "a"}], "thinking": {"type": "enabled"},'
            b' "chat_template_kwargs": {"thinking": false}}',
            "thinking",
            "invalid_value",
        ),
        (b'{"messages": [{"role": "tool", "content": "a"}]}', "messages.0.tool_call_id", "invalid_value"),
        (b'{"a":' * 5000, None, "invalid_json"),
        (b'{"messages": ' + b"[" * 100_000, None, "invalid_json"),
    ],
)
def test_a_wrong_body_is_a_400_that_names_the_field(ask: Any, body: bytes, param: str | None, code: str | None) -> None:
    got = ask().post(PATH, content=body)
    error = error_of(got)
    assert (got.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param), error
    assert error["code"] == (code or "missing_required_parameter")
    assert len(error["message"]) < 400


def test_found_and_expected_are_said(ask: Any) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}
    text = error_of(ask().post(PATH, json=body))["message"]
    assert "messages.0.content.0: found type 'file', expected one of 'text'" in text
    body = {"messages": USER, "temperature": 101}
    assert error_of(ask().post(PATH, json=body))["message"] == (
        "temperature: found 101, expected: input should be less than or equal to 100"
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions/", 404),
        ("GET", PATH, 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/models/gpt-4", 404),
        ("GET", "/%00%0a", 404),
    ],
)
def test_unknown_paths_and_methods(ask: Any, method: str, path: str, status: int) -> None:
    got = ask().request(method, path)
    assert got.status_code == status
    assert error_of(got)["type"] == "invalid_request_error"


def test_unknown_fields_are_ignored_and_named(ask: Any) -> None:
    got = ask().post(PATH, json={"messages": USER, "temprature": 1, "user": "me", "é\n": 2})
    assert got.status_code == 200
    assert got.headers["x-ignored-fields"] == "temprature, user, ??"
    assert "x-ignored-fields" not in ask().post(PATH, json={"messages": USER}).headers


NAMES = st.text(max_size=8) | st.sampled_from(["", " ", "\r\nset-cookie: a=b", "\t", "\0", "a" * 200, "\ud800"])


@given(names=st.lists(NAMES, max_size=30))
def test_names_of_fields_make_a_header_that_can_be_sent(names: list[str]) -> None:
    value = ignored_fields(names)
    assert bool(value) is bool(names)
    h11.Response(status_code=200, headers=[("x-ignored-fields", value)])  # it raises for what it does not send
    assert value.isascii()
    assert value == value.strip()


@pytest.mark.parametrize("fields", [{"": 1}, {"a": 1, "": 1}, {" ": 1, "b\r\nc: d": 2}], ids=["empty", "last", "lines"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_with_such_a_header_arrives(fields: dict[str, int], is_stream: bool) -> None:
    with Serving(FakeEngine()) as serving:
        got = httpx.post(serving.url + PATH, json={"messages": USER, "stream": is_stream} | fields)
    assert got.status_code == 200
    assert got.headers["x-ignored-fields"].count("?") >= 1


def test_the_model_has_to_exist_where_one_is_named(ask: Any) -> None:
    got = ask().post(PATH, json={"messages": USER, "model": "gpt-4"})
    assert (got.status_code, error_of(got)["code"]) == (404, "model_not_found")


@pytest.mark.long
def test_a_prompt_beyond_the_context(ask: Any) -> None:
    long = [{"role": "user", "content": "word " * 1_000_000}]  # 5 MB
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"a": long[0]["content"]}}}
    called = [{"role": "assistant", "tool_calls": [call]}]
    for path, body in (
        (PATH, {"messages": long}),
        (PATH, {"messages": called}),
        ("/v1/completions", {"prompt": long[0]["content"]}),
        ("/v1/completions", {"prompt": [1] * 100_000}),
        ("/tokenize", {"prompt": long[0]["content"]}),
        ("/tokenize", {"messages": long}),
    ):
        got = ask().post(path, json=body)
        assert (got.status_code, error_of(got)["code"]) == (400, "context_length_exceeded")
    got = ask().post("/detokenize", json={"tokens": [1] * 100_000})
    assert (got.status_code, error_of(got)["param"]) == (400, "tokens")


def test_a_full_queue_is_told_with_a_time(ask: Any) -> None:
    got = ask(FakeEngine(num_busy=1)).post(PATH, json={"messages": USER})
    assert (got.status_code, error_of(got)["code"], got.headers["retry-after"]) == (429, "server_busy", "2")
    assert error_of(got)["type"] == "rate_limit_error"


def test_a_dead_engine_is_a_503_and_unhealthy(ask: Any) -> None:
    client = ask(FakeEngine(fault="the engine has ended: rank 3 is gone"))
    got = client.post(PATH, json={"messages": USER})
    assert (got.status_code, error_of(got)["code"]) == (503, "engine_unavailable")
    assert "rank 3 is gone" in error_of(got)["message"]
    health = client.get("/health")
    assert (health.status_code, "rank 3 is gone" in health.text) == (503, True)


def test_a_request_that_fails_in_the_engine_is_a_500(ask: Any) -> None:
    client = ask(FakeEngine(lambda request: answer("a", error="the logits are not numbers")))
    got = client.post(PATH, json={"messages": USER})
    assert (got.status_code, error_of(got)["code"]) == (500, "engine_error")
    assert client.get("/health").status_code == 200


def test_an_error_in_the_middle_of_a_stream_is_its_last_event() -> None:
    engine = FakeEngine(lambda request: answer("a", "b", dies_after=2))
    with Serving(engine) as serving, openai.OpenAI(base_url=serving.base_url, api_key="none") as client:
        stream = client.chat.completions.create(model="kimi-k2.5", messages=USER, stream=True)  # type: ignore[call-overload]
        said = []
        with pytest.raises(openai.APIError, match="the engine has ended"):
            said += [chunk.choices[0].delta.content for chunk in stream]
        raw = client.chat.completions.with_raw_response.create(  # type: ignore[call-overload]
            model="kimi-k2.5", messages=USER, stream=True
        )
        lines = [line for line in raw.http_response.read().decode().split("\n\n") if line]
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["type"] == "server_error"
    assert "[DONE]" not in "".join(lines)


class BrokenProcessor(FakeProcessor):
    def image(self, data: bytes) -> Any:
        raise ZeroDivisionError("secret in a traceback")


def test_a_bug_of_ours_is_a_500_without_details(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    got = ask(processor=BrokenProcessor()).post(
        PATH, json={"messages": [{"role": "user", "content": [image]}]}, headers={"x-request-id": "mine"}
    )
    assert (got.status_code, error_of(got)["code"]) == (500, "internal_error")
    assert "secret" not in got.text
    assert got.headers["x-request-id"] == "mine"
    assert "id=mine POST /v1/chat/completions status=500" in caplog.text


def test_neither_keys_nor_contents_are_logged(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "model_runtime")
    engine = FakeEngine(lambda request: Script(pieces=("hush-out",)))
    client = ask(engine)
    headers = {"authorization": "Bearer hush-key"}
    client.post(PATH, json={"messages": [{"role": "user", "content": "hush-in"}]}, headers=headers)
    client.post(PATH, content=b'{"messages": "hush-in"}', headers=headers)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("model_runtime")]
    assert len(lines) == 2
    assert "hush" not in "".join(lines)
    assert " POST /v1/chat/completions status=200 prompt=" in lines[0]


def test_openais_sdk_raises_its_own_exceptions() -> None:
    with Serving(FakeEngine(num_busy=1)) as serving:
        client = openai.OpenAI(base_url=serving.base_url, api_key="none", max_retries=0)
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="kimi-k2.5", messages=USER)  # type: ignore[call-overload]
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.chat.completions.create(model="other", messages=USER)  # type: ignore[call-overload]
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="kimi-k2.5", messages=USER, n=1000)  # type: ignore[call-overload]
        assert caught.value.param == "n"
        assert [model.id for model in client.models.list()] == ["kimi-k2.5"]
        assert client.models.retrieve("kimi-k2.5").object == "model"


def test_an_operators_fault_has_a_status(ask: Any) -> None:
    engine = FakeEngine(lambda request: (_ for _ in ()).throw(RuntimeFault("no memory is left")))
    got = ask(engine).post(PATH, json={"messages": USER})
    assert (got.status_code, error_of(got)["message"]) == (503, "no memory is left")
