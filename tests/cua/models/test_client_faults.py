"""What goes wrong at a server, over real HTTP: what is retried, what is reported at once, and in which words."""

import asyncio
import datetime
import email.utils
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from cua.errors import ModelError
from cua.models.gate import OverloadedError, RetryPolicy
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from tests.cua.models.clients import Connect, Watched, user
from tests.cua.models.conftest import REPLY
from tests.fake_openai import (
    FakeOpenAI,
    Fault,
    delta,
    events,
    half_stream,
    raw,
    refused_url,
    slow_first_byte,
    status,
    temperature_400,
)

NO_RETRIES = RetryPolicy(max_retries=0)
SECRET = "sk-verysecret1234567890"


async def failure(client: Watched) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await client.model.generate(user())
    return caught.value


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_overload_is_retried_with_growing_waits(server: FakeOpenAI, connect: Connect, code: int) -> None:
    server.next(*[status(code)] * 4)
    client = connect(server.base_url)
    assert (await client.model.generate(user())).content == REPLY.content
    assert client.time.slept == [1.0, 2.0, 4.0, 8.0]
    assert [str(told.error) for told in client.retries] == [f"{server.base_url} answered {code}: broken"] * 4
    assert [told.number for told in client.retries] == [1, 2, 3, 4]


async def test_retries_end(server: FakeOpenAI, connect: Connect) -> None:
    server.always(status(500))
    error = await failure(connect(server.base_url, retry=RetryPolicy(max_retries=2)))
    assert (str(error), error.retryable) == (
        f"{server.base_url} answered 500: broken (gave up after 3 tries in 3 s)",
        True,
    )
    assert len(server.chats) == 3


async def test_retry_after_in_seconds_and_as_a_date(server: FakeOpenAI, connect: Connect) -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=30)
    server.next(
        status(429, retry_after="7"),
        status(429, retry_after=email.utils.format_datetime(soon, usegmt=True)),
        status(503, retry_after_ms="2500"),
        status(429, retry_after="soon"),
    )
    client = connect(server.base_url)
    assert (await client.model.generate(user())).content == REPLY.content
    seconds, date, milliseconds, unreadable = client.time.slept
    assert seconds == pytest.approx(7.7)
    assert 28 <= date <= 33
    assert milliseconds == pytest.approx(2.75)
    assert unreadable == 8.0, "the fourth wait of the usual series"


async def test_a_wish_of_the_server_to_one_client_holds_all_others_of_that_endpoint(server: FakeOpenAI) -> None:
    server.next(status(429, retry_after="0.4"))
    options = OpenAICompatOptions(model="fake", base_url=server.base_url, retry=RetryPolicy(max_retries=0))
    one, two = OpenAICompatModel(options), OpenAICompatModel(options)
    with pytest.raises(OverloadedError):
        await one.generate(user())
    began = time.monotonic()
    await two.generate(user())
    assert time.monotonic() - began >= 0.4
    await one.close()
    await two.close()


async def test_retry_after_beyond_the_limit_is_not_waited_for(server: FakeOpenAI, connect: Connect) -> None:
    server.always(status(429, "slow down", retry_after="3600"))
    client = connect(server.base_url)
    error = await failure(client)
    assert str(error) == (
        f"{server.base_url} answered 429: slow down (gave up after 1 try in 0 s, the server asks to wait 3600 s; "
        "the limit is 600 s, --set retry_time=SECONDS)"
    )
    assert (error.retryable, client.time.slept, len(server.chats)) == (True, [], 1)


async def test_used_up_quota_is_not_retried(server: FakeOpenAI, connect: Connect) -> None:
    server.always(status(429, "You exceeded your current quota", "insufficient_quota"))
    error = await failure(connect(server.base_url))
    assert str(error) == (
        f"{server.base_url} answered 429: You exceeded your current quota. "
        "The account's quota is used up; waiting does not help"
    )
    assert (error.retryable, len(server.chats)) == (False, 1)


PERMANENT = {
    "temperature": (
        temperature_400(),
        "answered 400: invalid temperature: only 1 is allowed for this model. Kimi K2.5 on this server takes one "
        "temperature only (1 with thinking, 0.6 without). Use --preset kimi-k2.5, or leave it out with --temperature "
        "omit",
    ),
    "reasoning missing": (
        status(400, "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"),
        "answered 400: thinking is enabled but reasoning_content is missing in assistant tool call message at index 2. "
        "The reasoning of a running tool loop must go back: keep the ThinkPart of assistant messages with tool calls",
    ),
    "context": (
        status(400, "This model's maximum context length is 4096 tokens"),
        "answered 400: This model's maximum context length is 4096 tokens. The conversation is longer than the model's "
        "context: send fewer images, or raise the server's limit",
    ),
    "no vision": (
        status(400, "At most 0 image(s) may be provided in one request."),
        "answered 400: At most 0 image(s) may be provided in one request. This model may not accept images; "
        "check with `cua doctor`, or choose a model with vision",
    ),
    "other 400": (
        status(400, "strange"),
        "answered 400: strange. The server rejects the request; its message above names the field",
    ),
    "422 of FastAPI": (
        raw(b'{"detail": [{"loc": ["body", "top_k"], "msg": "unknown"}]}', code=422),
        'answered 422: [{"loc": ["body", "top_k"], "msg": "unknown"}]. The server rejects the request; its '
        "message above names the field",
    ),
    "401": (
        status(401, "no"),
        "answered 401: no. The key is not accepted (the api_key setting): set OPENAI_API_KEY to one for 127.0.0.1",
    ),
    "403": (
        status(403, "no"),
        "answered 403: no. The key may not use model 'fake' here (the api_key setting), or the region is not served",
    ),
    "413": (
        raw(b"<html><head><style>b{}</style></head><h1>413 Too Large</h1><hr>nginx</html>", "text/html", 413),
        "answered 413: 413 Too Large nginx. The request is too large: send fewer images, or smaller ones with "
        "--image-format webp:75",
    ),
    "501": (status(501), "answered 501: broken"),
}


@pytest.mark.parametrize(("fault", "text"), PERMANENT.values(), ids=PERMANENT)
@pytest.mark.parametrize("streaming", [True, False])
async def test_refusals_are_reported_at_once(
    server: FakeOpenAI, connect: Connect, fault: Fault, text: str, streaming: bool
) -> None:
    server.always(fault)
    client = connect(server.base_url, api_key=SECRET, streaming=streaming)
    error = await failure(client)
    assert (str(error), error.retryable) == (f"{server.base_url} {text}", False)
    assert (len(server.chats), client.time.slept) == (1, [])


async def test_unknown_model_lists_the_known_ones(server: FakeOpenAI, connect: Connect) -> None:
    error = await failure(connect(server.base_url, model="fakey"))
    assert str(error) == (
        f"{server.base_url} answered 404: the model 'fakey' does not exist; this server has 'fake'. "
        "The server has no model 'fakey'. Did you mean 'fake'? Known: fake."
    )
    assert not error.retryable


@pytest.mark.parametrize(
    "list_of_models",
    [
        status(500),
        raw(b"<html>no", "text/html"),
        raw(b'{"data": "none"}'),
        raw(b'{"data": [5, {}]}'),
        raw(b"null"),
        half_stream(abrupt=True),
    ],
    ids=["500", "html", "text", "odd entries", "null", "broken"],
)
async def test_unknown_model_where_the_list_is_of_no_use(
    server: FakeOpenAI, connect: Connect, list_of_models: Fault
) -> None:
    server.on_models = list_of_models
    server.always(status(404, "no such model"))
    error = await failure(connect(server.base_url, model="fakey"))
    assert str(error) == (
        f"{server.base_url} answered 404: no such model. Either the model 'fakey' or the base URL is wrong"
    )


async def test_base_url_without_v1(server: FakeOpenAI, connect: Connect) -> None:
    url = server.base_url.removesuffix("/v1")
    error = await failure(connect(url))
    assert str(error) == f"{url} answered 404: Not Found. The base URL usually ends in /v1: {url}/v1"


@pytest.mark.parametrize("body", [b"", b" \n\r\n "])
async def test_an_empty_body_is_retried(server: FakeOpenAI, connect: Connect, body: bytes) -> None:
    server.next(raw(body), raw(body))
    client = connect(server.base_url, retry=RetryPolicy(max_retries=1))
    error = await failure(client)
    told = "the server closed the connection without sending a reply (gave up after 2 tries in 1 s)"
    assert (str(error), error.retryable) == (told, True)
    assert (await client.model.generate(user())).content == REPLY.content, "the client still works"


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://127.0.0.1:1/v2/chat/completions", "set --base-url to 'http://127.0.0.1:1/v2'"),
        ("https://me:pw@other.example/v1/chat/completions?key=x", "set --base-url to 'https://other.example/v1'"),
        ("/v2/chat/completions", "/v2'"),
        ("http://[::1/v1", "set --base-url to the address of the API itself"),
        ("javascript:alert(1)", "set --base-url to the address of the API itself"),
    ],
)
@pytest.mark.parametrize("code", [301, 302, 307, 308])
async def test_redirects_are_reported_and_never_followed(
    server: FakeOpenAI, connect: Connect, location: str, told: str, code: int
) -> None:
    with FakeOpenAI(lambda messages: REPLY) as other:
        place = location.replace("http://127.0.0.1:1/v2", other.base_url)
        server.always(raw(b"moved", code=code, location=place))
        error = await failure(connect(server.base_url, api_key=SECRET))
        assert other.requests == []
    assert f"{server.base_url} answered with a redirect ({code})" in str(error)
    assert told.replace("http://127.0.0.1:1/v2", other.base_url) in str(error)
    assert (error.retryable, len(server.requests)) == (False, 1)
    assert "pw" not in str(error)
    assert "key" not in str(error)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (raw(b"{}", content_length=str(10**9)), "the reply is longer than 128 MiB, more than any model writes"),
        (raw(b"x" * 50_000_000, code=400), "answered 400: x"),
        (raw(b"\x1f\x8b" + b"x" * 1000, code=400, content_encoding="gzip"), "answered 400. "),
    ],
    ids=["length announced", "long error", "packed error"],
)
async def test_bodies_are_bounded(server: FakeOpenAI, connect: Connect, fault: Fault, told: str) -> None:
    server.always(fault)
    error = await failure(connect(server.base_url, retry=NO_RETRIES))
    assert told in str(error)
    assert len(str(error)) < 1000


async def test_client_error_inside_a_stream_is_permanent(server: FakeOpenAI, connect: Connect) -> None:
    server.always(events({"error": {"message": "context length exceeded", "code": 400}}))
    error = await failure(connect(server.base_url))
    assert str(error) == (
        "the server reports an error: context length exceeded. The conversation is longer than the model's context: "
        "send fewer images, or raise the server's limit"
    )
    assert (error.retryable, len(server.chats)) == (False, 1)


async def test_half_a_stream_is_not_a_short_reply(server: FakeOpenAI, connect: Connect) -> None:
    server.next(half_stream("abcd"), half_stream("efg", abrupt=True))
    client = connect(server.base_url)
    assert (await client.model.generate(user())).content == REPLY.content
    first, second = (str(told.error) for told in client.retries)
    assert first == "the stream ended in the middle of the reply, after 4 characters"
    assert second.startswith(f"the connection to {server.base_url} broke in the middle of the reply: ")
    kinds = [told.kind for told in client.deltas]
    assert kinds[:4] == ["content", "restart", "content", "restart"]


async def test_break_after_the_finish_reason_loses_nothing(server: FakeOpenAI, connect: Connect) -> None:
    async def cut_after_the_end(exchange):  # type: ignore[no-untyped-def]
        await exchange.start()
        await exchange.write(b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n')
        raise ConnectionAbortedError

    server.next(cut_after_the_end)
    client = connect(server.base_url)
    assert (await client.model.generate(user())).content == "ok"
    assert client.retries == []


async def test_nobody_listens(connect: Connect) -> None:
    url = refused_url()
    client = connect(url)
    error = await failure(client)
    assert str(error).startswith(f"no connection to {url}: ")
    assert str(error).endswith("Is the server running? (gave up after 6 tries in 31 s)")
    assert error.retryable
    assert client.time.slept == [1.0, 2.0, 4.0, 8.0, 16.0]


async def test_restarted_server_is_found_again(connect: Connect) -> None:
    """The kept connection is dead then; that costs one retry at most."""
    with FakeOpenAI(lambda messages: REPLY) as first:
        client = connect(first.base_url)
        await client.model.generate(user())
    with FakeOpenAI(lambda messages: REPLY, port=int(first.base_url.split(":")[2].removesuffix("/v1"))):
        assert (await client.model.generate(user())).content == REPLY.content
    assert len(client.retries) <= 1


async def test_unknown_host(connect: Connect) -> None:
    error = await failure(connect("http://no-such-host.invalid/v1", retry=NO_RETRIES))
    assert str(error).startswith("no connection to http://no-such-host.invalid/v1: ")
    assert error.retryable


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({"idle_timeout_s": 1.5}, "10 s to connect, 1.5 s between pieces, 1200 s in all"),
        ({"timeout_s": 1.5}, "10 s to connect, 300 s between pieces, 1.5 s in all"),
        ({"timeout_s": 1.5, "streaming": False}, "10 s to connect, 1.5 s in all"),
    ],
)
async def test_server_that_never_answers(
    server: FakeOpenAI, connect: Connect, options: dict[str, object], limits: str
) -> None:
    client = connect(server.base_url, retry=NO_RETRIES, **options)
    await client.model.generate(user())
    server.always(slow_first_byte(30))
    started = time.monotonic()
    error = await failure(client)
    assert 1.4 < time.monotonic() - started < 10
    assert (str(error), error.retryable) == (f"{server.base_url} did not answer in time (limits: {limits})", True)
    assert await asyncio.to_thread(server.exchanges[1].client_left.wait, 10), "the connection is let go"


@pytest.mark.long
async def test_stream_that_drips_is_bounded_in_all(server: FakeOpenAI, connect: Connect) -> None:
    server.always(events(*[delta(content="x")] * 1000, gap_s=0.05))
    error = await failure(connect(server.base_url, retry=NO_RETRIES, idle_timeout_s=5.0, timeout_s=2.0))
    assert str(error) == (
        f"{server.base_url} did not finish its answer in time (limits: 10 s to connect, 5 s between pieces, 2 s in all)"
    )


async def test_listening_socket_that_accepts_nothing(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        error = await failure(connect(url, retry=NO_RETRIES, idle_timeout_s=0.2))
    assert str(error).startswith(f"{url} did not answer in time")


@pytest.mark.parametrize("pieces", [0, 3])
async def test_cancelling_closes_the_connection(server: FakeOpenAI, connect: Connect, pieces: int) -> None:
    async def endless(exchange):  # type: ignore[no-untyped-def]
        await exchange.start()
        for _ in range(pieces):
            await exchange.write(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n')
        await exchange.wait(30)

    server.next(endless)
    client = connect(server.base_url)
    task = asyncio.create_task(client.model.generate(user()))
    async with asyncio.timeout(20):
        while not server.exchanges or len(client.deltas) < pieces:
            await asyncio.sleep(0.005)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 3
    assert await asyncio.to_thread(server.exchanges[0].client_left.wait, 20)
    assert (await client.model.generate(user())).content == REPLY.content


async def test_cancelling_during_a_retry_wait(server: FakeOpenAI, connect: Connect) -> None:
    server.always(status(429, retry_after="100"))
    client = connect(server.base_url)
    client.model._clock = type(client.model._clock)()
    task = asyncio.create_task(client.model.generate(user()))
    async with asyncio.timeout(20):
        while not client.retries:
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "fault",
    [
        status(401, f"Incorrect API key provided: {SECRET}"),
        status(500, f"while calling with Bearer {SECRET}"),
        raw(f"garbage {SECRET}".encode()),
        events({"error": {"message": f"key {SECRET}"}}),
        events(delta(refusal=f"not for {SECRET}"), delta("stop")),
    ],
)
async def test_key_is_never_shown(server: FakeOpenAI, connect: Connect, fault: Fault) -> None:
    server.always(fault)
    client = connect(server.base_url.replace("//", "//me:hunter2@"), api_key=SECRET, retry=NO_RETRIES)
    error = await failure(client)
    shown = f"{error} {error!r} {client.model!r} {client.model.options!r} {client.model.endpoint!r} {error.__cause__!r}"
    assert "***" in str(error)
    assert SECRET not in shown
    assert "hunter2" not in shown


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that nobody trusts, and its key."""
    path, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    curve, names = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "subjectAltName=DNS:localhost"
    command = ["openssl", "req", "-x509", *curve, "-nodes", "-subj", "/CN=localhost", "-addext", names]
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, so there is no certificate to test with")
    subprocess.run([*command, "-keyout", key, "-out", path], capture_output=True, timeout=30, check=True)
    return path, key


async def test_untrusted_certificate_is_reported_at_once(certificate: tuple[Path, Path], connect: Connect) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    tls_server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with tls_server:
        url = f"https://localhost:{tls_server.sockets[0].getsockname()[1]}/v1"
        client = connect(url)
        error = await failure(client)
    assert str(error) == (
        f"the certificate of {url} cannot be trusted: self-signed certificate. "
        "Set SSL_CERT_FILE to the authority's certificate"
    )
    assert (error.retryable, client.time.slept) == (False, [])


def test_overloaded_error_is_a_retryable_model_error() -> None:
    error = OverloadedError("busy", retry_after_s=3.0)
    assert isinstance(error, ModelError)
    assert (str(error), error.retryable, error.retry_after_s) == ("busy", True, 3.0)
