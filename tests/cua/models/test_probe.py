import dataclasses

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import ImagePart, Message, Reply, Usage
from cua.models.endpoint import ProbeReport, probe
from cua.models.gate import RetryPolicy
from cua.models.scripted import ScriptedModel
from tests.cua.models.clients import Connect
from tests.fake_openai import FakeOpenAI, refused_url, status


def look(messages: object) -> Reply:
    assert isinstance(messages, tuple)
    (message,) = messages
    assert isinstance(message, Message)
    has_image = any(isinstance(part, ImagePart) for part in message.parts)
    return Reply(content="Red." if has_image else "ready", reasoning="hm", usage=Usage(input_tokens=9, output_tokens=1))


def untimed(report: ProbeReport) -> ProbeReport:
    assert not report.ok or 0 < report.latency_s < 30
    return dataclasses.replace(report, latency_s=0.0)


async def test_model_that_sees(connect: Connect) -> None:
    with FakeOpenAI(look, reasoning_field="reasoning") as server:
        report = await probe(connect(server.base_url).model)
        assert len(server.chats) == 1
    assert untimed(report) == ProbeReport(
        ok=True,
        model="fake",
        accepts_images=True,
        saw_image=True,
        reasoning_field="reasoning",
        reports_usage=True,
        answer="Red.",
    )


async def test_model_that_refuses_pictures(connect: Connect) -> None:
    with FakeOpenAI(look) as server:
        server.next(status(400, "image input is not supported"))
        report = await probe(connect(server.base_url).model)
    assert untimed(report) == ProbeReport(
        ok=True,
        model="fake",
        accepts_images=False,
        reasoning_field="reasoning_content",
        reports_usage=True,
        answer="ready",
        error=f"{server.base_url} answered 400: image input is not supported. "
        "This model may not accept images; check with `cua doctor`, or choose a model with vision",
    )


async def test_model_that_does_not_look(connect: Connect) -> None:
    with FakeOpenAI(lambda messages: Reply(content="Blue")) as server:
        report = await probe(connect(server.base_url).model)
    assert untimed(report) == ProbeReport(ok=True, model="fake", accepts_images=True, answer="Blue")


async def test_wrong_key_and_no_server(connect: Connect) -> None:
    with FakeOpenAI(look) as server:
        server.always(status(401, "no"))
        refused = await probe(connect(server.base_url).model)
        assert len(server.chats) == 2
    assert (refused.ok, refused.retryable, refused.accepts_images) == (False, False, None)
    assert "answered 401: no. The key is not accepted" in refused.error
    down = await probe(connect(refused_url(), retry=RetryPolicy(max_retries=0)).model)
    assert (down.ok, down.retryable) == (False, True)
    assert down.error.startswith("no connection to http://127.0.0.1:")


async def test_cut_reply_is_an_answer() -> None:
    cut = TruncatedReplyError("cut", reply=Reply(content="Re", model="m", finish_reason="length"))
    report = await probe(ScriptedModel([cut]))
    assert untimed(report) == ProbeReport(ok=True, model="m", accepts_images=True, answer="Re")
    unknown = await probe(ScriptedModel([TruncatedReplyError("cut"), ModelError("no", retryable=False)]))
    assert unknown == ProbeReport(ok=False, error="no")
