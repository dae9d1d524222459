"""Token ids through our client: conversations of agents continue from the ids that the server returned."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cua import ask, run_task
from cua.errors import ModelError
from cua.messages import (
    ImagePart,
    Message,
    Part,
    Reply,
    ReplyTokens,
    Sampling,
    TextPart,
    ThinkPart,
    TokenMedia,
    ToolCall,
    VideoPart,
)
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.models.token_turns import TokenTurns
from cua.run.events import Event, Noted, Watch
from cua.trajectory import load_run
from envs import InstructionTask
from envs.fake import FakeEnv, FakeOptions
from model_runtime.engine.contract import EngineOutput, EngineRequest
from model_runtime.server import MediaAccess, ServerOptions
from tests.cua.models.clients import png
from tests.fake_openai import FakeOpenAI, raw, status
from tests.model_runtime.fakes import SPECIAL, FakeEngine, Script
from tests.model_runtime.server.serving import Serving
from visual_tools.sandbox import KernelMaker

TORN = tuple("\ufffd".encode())


class TornEngine(FakeEngine):
    """An engine whose replies hold half characters: their text, tokenized again, gives other ids."""

    async def _outputs(self, request: EngineRequest, script: Script) -> AsyncIterator[EngineOutput]:
        async for output in super()._outputs(request, script):
            ids: list[int] = []
            for token_id in output.token_ids:
                ids.append(token_id)
                if tuple(ids[-3:]) == TORN:
                    ids[-3:] = [0xFF]
            yield replace(output, token_ids=tuple(ids), logprobs=output.logprobs[: len(ids)])


def say_in_turn(*replies: Sequence[str]) -> Any:
    """A script that gives each turn of a conversation its reply; thoughts come first."""

    def say(request: EngineRequest) -> Script:
        turn = sum(token_id == SPECIAL.id_of("<|im_assistant|>") for token_id in request.prompt.token_ids) - 1
        return Script(pieces=("half a \ufffd", "</think>", *replies[min(turn, len(replies) - 1)]))

    return say


def call(name: str, number: int, **arguments: str) -> tuple[str, ...]:
    begin = ("<|tool_calls_section_begin|>", "<|tool_call_begin|>", f"functions.{name}:{number}")
    return (*begin, "<|tool_call_argument_begin|>", json.dumps(arguments, ensure_ascii=False), "<|tool_call_end|>")


def count_extended(tokens: Sequence[ReplyTokens | None]) -> list[bool]:
    """For each turn after the first: True if its prompt begins with the prompt and reply of the turn before."""
    known = [(one.prompt_ids, one.ids) for one in tokens if one is not None]
    return [after[: len(prompt + ids)] == prompt + ids for (prompt, ids), (after, _) in pairwise(known)]


async def converse(model: OpenAICompatModel, num_turns: int = 4) -> list[Reply]:
    """A conversation with images, in which each reply goes back as the tool agent sends it back."""
    messages = [Message(role="user", parts=(ImagePart(data=png()), VideoPart(data=b"v"), TextPart(text="Look.")))]
    replies: list[Reply] = []
    for turn in range(num_turns):
        reply = await model.generate(messages)
        replies.append(reply)
        parts: tuple[Part, ...] = (ThinkPart(text=reply.reasoning), TextPart(text=reply.content))
        messages.append(Message(role="assistant", parts=parts, tool_calls=reply.tool_calls))
        messages.append(Message(role="user", parts=(ImagePart(data=png(colour=f"#00000{turn}")),)))
    await model.close()
    return replies


def make_model(base_url: str, notes: list[str] | None = None, **options: Any) -> OpenAICompatModel:
    on_note = None if notes is None else notes.append
    options = {"model": "kimi-k2.5", "base_url": base_url, "record_tokens": True} | options
    return OpenAICompatModel(OpenAICompatOptions(**options), on_note=on_note)


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_conversation_continues_from_its_ids(streaming: bool) -> None:
    notes: list[str] = []
    with Serving(TornEngine(say_in_turn(["a \ufffd"]))) as serving:
        tokens = [reply.tokens for reply in await converse(make_model(serving.base_url, notes, streaming=streaming))]
    assert count_extended(tokens) == [True] * 3
    assert [len(one.media) for one in tokens if one] == [3, 4, 5, 6]
    assert {one.processor for one in tokens if one} == {"fake-1"}
    assert [one.versions for one in tokens if one] == [(("0", len(one.ids)),) for one in tokens if one]
    assert all(len(one.logprobs) == len(one.sampled) == len(one.ids) for one in tokens if one)
    assert notes == []


async def test_without_the_setting_the_text_is_tokenized_again() -> None:
    with Serving(TornEngine(say_in_turn(["a \ufffd"]))) as serving:
        model = make_model(serving.base_url, record_tokens=False, sampling=Sampling(with_tokens=True))
        tokens = [reply.tokens for reply in await converse(model)]
    assert count_extended(tokens) == [False] * 3


async def test_media_that_the_server_has_forgotten_are_sent_again() -> None:
    options = ServerOptions(media=MediaAccess(cache_bytes=0))
    with Serving(TornEngine(say_in_turn(["a \ufffd"])), options) as serving:
        tokens = [reply.tokens for reply in await converse(make_model(serving.base_url))]
    assert count_extended(tokens) == [True] * 3


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_cua_ask_records_turns_that_extend(tmp_path: Path, sandbox: KernelMaker) -> None:
    Image.new("RGB", (60, 40), "white").save(tmp_path / "a.png")
    show = "from PIL import Image  # \ufffd\nImage.new('RGB', (9, 9))"
    engine = TornEngine(
        say_in_turn(call("ipython", 0, code=show), call("ipython", 1, code="1 + 1"), ["It is 2 \ufffd [^1^]."])
    )
    engine.max_model_len = 100_000
    with Serving(engine) as serving:
        result = await ask(
            "What is it?",
            [tmp_path / "a.png"],
            model="kimi-k2.5",
            base_url=serving.base_url,
            sandbox=sandbox,
            runs_dir=tmp_path / "runs",
            record_tokens=True,
        )
    assert (result.end.status, result.num_steps) == ("unverified", 3)
    tokens = [step.reply.tokens for step in load_run(result.run_dir).tool_steps]  # type: ignore[arg-type]
    assert count_extended(tokens) == [True, True]
    assert [len(one.media) for one in tokens if one] == [1, 2, 2]


async def test_the_gui_agent_records_turns_that_extend(tmp_path: Path) -> None:
    def act(code: str) -> list[str]:
        return [f"## Action:\nGo on \ufffd\n## Code:\n```python\n{code}\n```"]

    clicks = [act(f"pyautogui.click(0.{number}, 0.5)") for number in range(1, 5)]
    engine = TornEngine(say_in_turn(*clicks, act('computer.terminate(status="success", answer="42")')))
    engine.max_model_len = 100_000
    with Serving(engine) as serving:
        result = await run_task(
            InstructionTask(instruction="Do it"),
            model="kimi-k2.5",
            base_url=serving.base_url,
            env=FakeEnv(FakeOptions()),
            runs_dir=str(tmp_path),
            record_tokens=True,
            max_images=10,
            approve="yolo",
        )
    assert (result.end.answer, result.num_steps) == ("42", 5)
    tokens = [step.reply.tokens for step in load_run(result.run_dir).steps if step.reply]  # type: ignore[arg-type]
    assert count_extended(tokens) == [True] * 4
    assert [len(one.media) for one in tokens if one] == [1, 2, 3, 4, 5]


# servers that give less


def vllm_answer(text: str, prompt_ids: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
    """An answer in the form of vLLM's `return_token_ids`."""
    content = [{"token": f"token_id:{one}", "logprob": -0.5, "bytes": [], "top_logprobs": []} for one in ids]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "reasoning": None, "tool_calls": []},
        "logprobs": {"content": content},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": list(ids),
    }
    usage = {"prompt_tokens": len(prompt_ids), "completion_tokens": len(ids), "total_tokens": 9}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "kimi-k2.5"}
    return {**head, "choices": [choice], "usage": usage, "prompt_logprobs": None, "prompt_token_ids": list(prompt_ids)}


def test_vllm_gives_ids_and_gets_the_whole_conversation() -> None:
    notes: list[str] = []
    with FakeOpenAI(lambda messages: Reply(content="unused"), model_id="kimi-k2.5") as server:
        server.next(*(raw(json.dumps(vllm_answer("a", [1, 2, *range(turn)], [3])).encode()) for turn in range(3)))
        replies = asyncio.run(converse(make_model(server.base_url, notes, streaming=False), 3))
        sent = [request.body for request in server.chats]
    assert replies[0].tokens == ReplyTokens(prompt_ids=(1, 2), ids=(3,), logprobs=(-0.5,))
    assert [reply.tokens is not None for reply in replies] == [True] * 3
    assert [len(body["messages"]) for body in sent] == [1, 3, 5]
    assert all("prompt_token_ids" not in body for body in sent)
    (note,) = notes
    assert "tokenized again" in note


def test_a_server_without_ids_is_named_once() -> None:
    notes: list[str] = []
    with FakeOpenAI(lambda messages: Reply(content="a"), model_id="kimi-k2.5") as server:
        replies = asyncio.run(converse(make_model(server.base_url, notes), 3))
    assert [reply.tokens for reply in replies] == [None] * 3
    (note,) = notes
    assert "no token ids" in note


async def test_a_model_without_an_endpoint_is_named(tmp_path: Path) -> None:
    events: list[Event] = []
    await run_task(
        InstructionTask(instruction="Do it"),
        model="baseline:null",
        env=FakeEnv(),
        runs_dir=str(tmp_path),
        record_tokens=True,
        watch=Watch(listener=events.append),
    )
    assert [event.text for event in events if isinstance(event, Noted) and event.kind == "tokens"] == [
        "the model 'baseline:null' gives no token ids: replies are recorded without tokens"
    ]


@pytest.mark.parametrize("prompt_ids", [[], [1], [1, 2, 4, 5]])
def test_a_server_that_does_not_continue_is_an_error(prompt_ids: list[int]) -> None:
    ours = {"media": [], "processor": "p"}
    with FakeOpenAI(lambda messages: Reply(content="unused"), model_id="kimi-k2.5") as server:
        first, second = vllm_answer("a", [1, 2], [3]) | ours, vllm_answer("b", prompt_ids, [9]) | ours
        server.next(raw(json.dumps(first).encode()), raw(json.dumps(second).encode()))
        with pytest.raises(ModelError, match="did not continue from the token ids"):
            asyncio.run(converse(make_model(server.base_url, streaming=False), 2))
        assert server.chats[1].body["prompt_token_ids"] == [1, 2, 3]


@pytest.mark.parametrize(
    "media",
    [[{"media_hash": 5, "offset": 0, "num_tokens": 1}], [{"media_hash": "a"}], [{"offset": -1}]],
    ids=str,
)
def test_odd_media_make_the_tokens_unusable(media: list[dict[str, Any]]) -> None:
    with FakeOpenAI(lambda messages: Reply(content="unused"), model_id="kimi-k2.5") as server:
        answer = vllm_answer("a", [1, 2], [3]) | {"media": media, "processor": "p"}
        server.next(raw(json.dumps(answer).encode()))
        (reply,) = asyncio.run(converse(make_model(server.base_url, streaming=False), 1))
    assert reply.tokens is None


def test_other_errors_are_not_sent_again() -> None:
    ours = vllm_answer("a", [1, 2], [3]) | {"media": [], "processor": "p"}
    with FakeOpenAI(lambda messages: Reply(content="unused"), model_id="kimi-k2.5") as server:
        server.next(raw(json.dumps(ours).encode()), status(400, "no", "invalid_value"))
        with pytest.raises(ModelError, match="no"):
            asyncio.run(converse(make_model(server.base_url, streaming=False), 2))
        assert len(server.chats) == 2


# the memory of turns

USER = Message(role="user", parts=(TextPart(text="a"),))
CALL = ToolCall(id="x", name="f", arguments="{}")


def said(text: str = "b", *calls: ToolCall, thought: str = "") -> Message:
    parts: tuple[Part, ...] = (*([ThinkPart(text=thought)] if thought else []), TextPart(text=text))
    return Message(role="assistant", parts=parts, tool_calls=calls)


def made(text: str = "b", *calls: ToolCall, thought: str = "", **fields: Any) -> Reply:
    tokens = ReplyTokens(prompt_ids=(1, 2), ids=(3,), **({"processor": "p"} | fields))
    return Reply(content=text, reasoning=thought, tool_calls=calls, tokens=tokens)


@pytest.mark.parametrize(
    ("reply", "message", "is_same"),
    [
        (made(), said(), True),
        (made(), said("c"), False),
        (made("b", CALL), said("b", replace(CALL, id="y")), True),
        (made("b", CALL), said("b"), False),
        (made("b", CALL), said("b", replace(CALL, arguments='{"a": 1}')), False),
        (made("", thought="t"), said("(no answer)", thought="t"), True),
        (made(thought="t"), said(), True),
        (made(thought="t"), said(thought="other"), False),
        (made(processor=""), said(), False),
    ],
)
def test_a_turn_is_continued_if_the_reply_is_as_it_was(reply: Reply, message: Message, is_same: bool) -> None:
    turns = TokenTurns()
    turns.add([USER], reply)
    found = turns.find([USER, message, USER])
    assert (found is not None) is is_same
    if found is not None:
        assert (found.ids.tolist(), found.num_messages) == ([1, 2, 3], 2)
        assert turns.find([replace(USER, name="other"), message, USER]) is None
        assert turns.find([USER, message]) is None


def test_old_turns_are_dropped() -> None:
    turns = TokenTurns(max_ids=7)
    users = [Message(role="user", parts=(TextPart(text=text),)) for text in "abc"]
    for user in users:
        turns.add([user], made())
    turns.add([users[2]], made())
    assert [turns.find([user, said(), USER]) is not None for user in users] == [False, True, True]


def test_media_go_by_hash_or_as_parts() -> None:
    turns = TokenTurns()
    turns.add([USER], made(media=(TokenMedia(media_hash="ab", offset=1, num_tokens=1),)))
    turn = turns.find([USER, said(), USER])
    assert turn is not None
    by_hash = {"type": "media_hash", "media_hash": "ab", "offset": 1}
    assert turn.fields() == {"prompt_token_ids": [1, 2, 3], "media": [by_hash]}
    assert turn.fields([{"type": "image_url"}])["media"] == [{"type": "image_url"}]
