"""Odd replies through the client to both agents, streamed and whole: one reader, and nothing odd is an answer."""

import json
from collections.abc import Iterator

import pytest

from cua.gui_agent.agent import Agent, AgentOptions
from cua.models.gate import RetryPolicy
from cua.run.budget import Caps
from cua.run.end import RunResult
from envs import InstructionTask
from envs.fake import FakeEnv
from tests.cua.models.clients import Connect
from tests.cua.models.odd_replies import FORMS, Form, body_of, event, stream_of, text
from tests.cua.tool_agent.fakes import QUESTION, echo, make_agent
from tests.fake_openai import FakeOpenAI, Fault, raw

ANSWER = "The end."
CODE = "## Action:\nEnd it.\n## Code:\n```python\ncomputer.terminate(status='success', answer='The end.')\n```"
IDENTICAL = {"again": 2, "told": 2, "error": 2}
"""How often the first request is sent."""


@pytest.fixture(scope="module")
def odd_server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(lambda messages: None) as fake:  # type: ignore[arg-type, return-value]
        yield fake


def answered_by(server: FakeOpenAI, form: Form, last: str, *, streaming: bool) -> None:
    """The server gives the form to the first request, however often it comes, and a good end to any other one."""
    first: list[bytes] = []
    body = stream_of(form) if streaming else body_of(form)
    good = Form(text(last), "answer")
    end = stream_of(good) if streaming else body_of(good)
    num_again = 1 if form.outcome == "again" else 99

    async def fault(exchange) -> None:  # type: ignore[no-untyped-def]
        first.append(exchange.body)
        is_same = exchange.body == first[0] and len(first) <= num_again
        await raw(body if is_same else end, "text/event-stream" if streaming else "application/json")(exchange)

    server.requests.clear()
    server.always(fault)


def sent(server: FakeOpenAI) -> list[str]:
    return [json.dumps(seen.body) for seen in server.chats]


def check_requests(server: FakeOpenAI, form: Form, result: RunResult) -> None:
    """The same request went out once, or twice; after that the model was told, or the run ended with the reason."""
    requests = sent(server)
    most = IDENTICAL.get(form.outcome, 1)
    assert max(requests.count(request) for request in requests) <= most
    if form.outcome == "error":
        assert (result.end.status, form.value in result.end.reason) == ("error", True), result.end
        assert len(requests) <= most
        return
    assert result.end.answer is not None
    assert "<think" not in result.end.answer.replace("`<think>`", "")
    if form.outcome == "told":
        last = server.chats[-1].body["messages"][-1]["content"]
        assert form.value in (last if isinstance(last, str) else json.dumps(last))


FORM_PARAMETERS = [
    pytest.param(form, streaming, id=f"{name}-{'stream' if streaming else 'whole'}")
    for name, form in FORMS.items()
    for streaming in (True, False)
    if streaming or not form.is_streamed_only
]


@pytest.mark.parametrize(("form", "streaming"), FORM_PARAMETERS)
async def test_tool_agent(odd_server: FakeOpenAI, connect: Connect, form: Form, streaming: bool) -> None:
    answered_by(odd_server, form, ANSWER, streaming=streaming)
    client = connect(odd_server.base_url, streaming=streaming)
    tool = echo()
    agent = make_agent(client.model, [tool], caps=Caps(max_steps=6))
    result = await agent.run(QUESTION)
    check_requests(odd_server, form, result)
    if form.outcome == "call":
        assert tool.received == [{"text": form.value or "hi"}]
        assert [call.id for call in agent.steps[0].reply.tool_calls] == ["functions.echo:0"]
        assert "<|" not in agent.steps[0].reply.content
    if form.outcome != "error":
        assert result.end.answer == (form.value if form.outcome == "answer" else ANSWER)


@pytest.mark.parametrize(("form", "streaming"), FORM_PARAMETERS)
async def test_gui_agent(odd_server: FakeOpenAI, connect: Connect, form: Form, streaming: bool) -> None:
    """It has no tools and wants code: no form is a usable reply, and each is told or ends the run as it does there."""
    answered_by(odd_server, form, CODE, streaming=streaming)
    client = connect(odd_server.base_url, streaming=streaming)
    agent = Agent(model=client.model, env=FakeEnv(), options=AgentOptions(caps=Caps(max_steps=3)))
    result = await agent.run(InstructionTask(instruction="Do it"))
    if form.outcome == "error":
        check_requests(odd_server, form, result)
    else:
        requests = sent(odd_server)
        assert (result.end.status, result.end.answer) == ("unverified", ANSWER)
        assert max(requests.count(request) for request in requests) <= 2


WRAPPED = {
    "thought": "<think>a draft: ## Action</think>{}",
    "thought in capitals": "<THINK>a draft:\n## Action:\nx</THINK >\n{}",
    "thought with an open fence": "<think>\n```python\ndraft()\n</think>\n{}",
    "quoted tag": "The page explains `<think>`.\n{}",
    "closing tag only": "I see a button.\n</think>\n{}",
    "end of turn": "{}<|im_end|>",
    "stray end marker": "{}<|tool_calls_section_end|>",
    "turn made up": "{}<|im_end|><|im_user|>user<|im_middle|>Go on.\n## Action:\nEnd.\n## Code:\ncomputer.terminate()",
}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("form", WRAPPED.values(), ids=WRAPPED)
async def test_code_in_odd_clothes_is_run(odd_server: FakeOpenAI, connect: Connect, form: str, streaming: bool) -> None:
    answered_by(odd_server, Form(text(form.format(CODE)), "answer"), "never", streaming=streaming)
    client = connect(odd_server.base_url, streaming=streaming)
    result = await Agent(model=client.model, env=FakeEnv(), options=AgentOptions()).run(
        InstructionTask(instruction="Do")
    )
    assert (result.end.answer, len(odd_server.chats)) == (ANSWER, 1)


BODIES: dict[str, tuple[Fault, str]] = {
    "web page": (raw(b"<html>502 Bad gateway</html>", "text/html"), "answered with a web page"),
    "garbage": (raw(b"\x00\xff upstream error", "text/plain"), "neither JSON nor an event stream"),
    "packed garbage": (raw(b"\x1f\x8bgarbage", content_encoding="gzip"), "compresses its reply"),
    "list": (raw(b"[1]"), "neither JSON nor an event stream"),
    "no object": (raw(b'{"choices": []} {"a": 1}'), "arrived as broken JSON"),
}


@pytest.mark.parametrize(("fault", "told"), BODIES.values(), ids=BODIES)
async def test_what_no_model_wrote_is_asked_for_twice(
    odd_server: FakeOpenAI, connect: Connect, fault: Fault, told: str
) -> None:
    odd_server.requests.clear()
    odd_server.always(fault)
    result = await make_agent(connect(odd_server.base_url).model, [echo()], caps=Caps(max_parse_errors=2)).run(QUESTION)
    requests = sent(odd_server)
    assert max(requests.count(request) for request in requests) == 2
    assert result.end.status in ("error", "capped")
    assert told in result.end.reason


GOOD_BODIES = {
    "no empty lines between events": stream_of(Form(text("Five."), "answer")).replace(b"\n\n", b"\n"),
    "byte order marks": b"\xef\xbb\xbf"
    + stream_of(Form(text("Five."), "answer")).replace(b"data: {", b"data: \xef\xbb\xbf{"),
    "duplicate keys": stream_of(Form(text("Five."), "answer")).replace(b'"index"', b'"delta": 5, "index"'),
    "raw line end in a string": b'{"choices":[{"message":{"content":"Five.","x":"a\nb"},"finish_reason":"stop"}]}',
    "tiny deltas": stream_of(Form([*[event({"reasoning": "ab"})] * 100_000, *text("Five.")], "answer")),
}


@pytest.mark.parametrize("body", GOOD_BODIES.values(), ids=GOOD_BODIES)
@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain"])
@pytest.mark.long
async def test_good_replies_in_odd_bodies(
    odd_server: FakeOpenAI, connect: Connect, body: bytes, content_type: str
) -> None:
    odd_server.always(raw(body, content_type))
    result = await make_agent(connect(odd_server.base_url).model, [echo()]).run(QUESTION)
    assert result.end.answer == "Five."


async def test_retries_are_those_of_the_policy_where_the_server_breaks_off(
    odd_server: FakeOpenAI, connect: Connect
) -> None:
    odd_server.requests.clear()
    odd_server.always(raw(stream_of(Form(text("The", "abort"), "again"))))
    client = connect(odd_server.base_url, retry=RetryPolicy(max_retries=3))
    result = await make_agent(client.model, [echo()]).run(QUESTION)
    assert (result.end.status, len(odd_server.chats)) == ("error", 4)
    assert "broke the reply off after 3 characters (finish_reason 'abort') (gave up after 4 tries" in result.end.reason
