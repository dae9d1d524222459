"""Prompts given as ids with media: they come back as they were sent, and each turn extends the one before it."""

import base64
import io
import json
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.engine.contract import EngineOutput, EngineRequest
from model_runtime.processor.processor import Processor
from model_runtime.server import MediaAccess, ServerOptions, make_app
from tests.model_runtime.engine.real import start
from tests.model_runtime.fakes import SPECIAL, FakeEngine, FakeProcessor, Script, answer
from tests.model_runtime.server.serving import TOOLS, USER

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PAD, END = SPECIAL.media_pad, SPECIAL.im_end
CALL = ("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.click:0", "<|tool_call_argument_begin|>")
CALL_END = ("{}", "<|tool_call_end|>", "<|tool_calls_section_end|>")


def image(name: bytes = b"a", **fields: Any) -> dict[str, Any]:
    url = "data:image/png;base64," + base64.b64encode(name).decode()
    return {"type": "image_url", "image_url": {"url": url}, **fields}


def video(name: bytes = b"v", **fields: Any) -> dict[str, Any]:
    url = "data:video/mp4;base64," + base64.b64encode(name).decode()
    return {"type": "video_url", "video_url": {"url": url}, **fields}


WITH_IMAGES = [{"role": "user", "content": [image(b"a"), {"type": "text", "text": "Look."}, image(b"b"), video()]}]


def post(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    got = client.post(path, json={"return_token_ids": True, **body})
    assert got.status_code == 200, got.text
    whole: dict[str, Any] = got.json()
    return whole


@pytest.mark.parametrize("by", ["hashes", "parts", "parts with offsets"])
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_returned_prompt_can_be_sent_as_it_is(ask: Any, path: str, by: str) -> None:
    engine = FakeEngine()
    client = ask(engine)
    first = post(client, CHAT, messages=WITH_IMAGES)
    ids, media = first["prompt_token_ids"], first["media"]
    assert [ids[item["offset"] : item["offset"] + item["num_tokens"]] for item in media] == [
        [PAD] * item["num_tokens"] for item in media
    ]
    if by != "hashes":
        offsets = [item["offset"] for item in media] if "offsets" in by else [None] * len(media)
        media = [image(b"a", offset=offsets[0]), image(b"b", offset=offsets[1]), video(offset=offsets[2])]
    named = {"prompt_token_ids": ids} if path == CHAT else {"prompt": ids}
    again = post(client, path, media=media, **named)
    assert engine.seen[1].prompt == engine.seen[0].prompt
    described = again if path == CHAT else again["choices"][0]
    names = ("prompt_token_ids", "media", "processor")
    assert [described[name] for name in names] == [ids, first["media"], "fake-1"]


def test_ids_and_new_messages_make_the_prompt_of_the_whole_conversation(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("I look.", "</think>", "Click", *CALL, *CALL_END)))
    client = ask(engine)
    messages: list[Any] = [*WITH_IMAGES]
    before = post(client, CHAT, messages=messages, tools=TOOLS)
    for turn in range(3):
        choice = before["choices"][0]
        message = {**choice["message"], "reasoning_content": "I look."}
        call = message["tool_calls"][0]
        assert call["id"] == f"functions.click:{turn}"
        result = {"role": "tool", "tool_call_id": call["id"], "content": [image(b"r%d" % turn)]}
        messages += [message, result]
        ids = before["prompt_token_ids"] + choice["token_ids"]
        by_ids = {"prompt_token_ids": ids, "media": before["media"], "messages": [result], "tools": TOOLS}
        before = post(client, CHAT, **by_ids)
        post(client, CHAT, messages=messages, tools=TOOLS)
        assert before["prompt_token_ids"][: len(ids)] == ids
        by_messages, continued = engine.seen[-1], engine.seen[-2]
        written = [SPECIAL.id_of("<|tool_call_begin|>")]
        assert continued.prompt.media == by_messages.prompt.media
        if turn == 0:  # later, the fake model repeats the number 0 in its calls, and the template counts
            assert continued == replace(by_messages, request_id=continued.request_id)
        assert written * (turn + 1) == [one for one in continued.prompt.token_ids if one in written]


def test_a_reply_that_was_cut_is_closed_before_new_messages(ask: Any) -> None:
    engine = FakeEngine(lambda request: answer("ab", "cd"))
    client = ask(engine)
    first = post(client, CHAT, messages=USER, max_tokens=2)
    ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
    assert ids[-1] != END
    following = post(client, CHAT, prompt_token_ids=ids, messages=USER)
    assert following["prompt_token_ids"][: len(ids) + 2] == [*ids, END, SPECIAL.id_of("<|im_user|>")]


@pytest.mark.parametrize(("tail", "is_open"), [(["<think>"], True), (["<think>", "</think>"], False), ([], False)])
def test_whole_prompts_show_if_the_reasoning_is_open(ask: Any, tail: list[str], is_open: bool) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("x",)))
    got = post(ask(engine), CHAT, prompt_token_ids=[SPECIAL.id_of(name) for name in ("<|im_middle|>", *tail)] + [97])
    assert engine.seen[0].starts_in_reasoning is is_open
    message = got["choices"][0]["message"]
    assert (message.get("reasoning_content"), message["content"]) == (("x", None) if is_open else (None, "x"))


PADS = [PAD] * 3  # an image of the fake processor has one token, its video two of two each
IDS = [97, PAD, 98]


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"prompt_token_ids": []}, "prompt_token_ids", "invalid_value"),
        ({"prompt_token_ids": [-1]}, "prompt_token_ids.0", "invalid_value"),
        ({"prompt_token_ids": [2**40]}, "prompt_token_ids.0", "invalid_value"),
        ({"prompt_token_ids": ["a"]}, "prompt_token_ids.0", "invalid_value"),
        ({"prompt_token_ids": [99_999]}, "prompt", "invalid_value"),
        ({"prompt_token_ids": [1] * 5000}, "messages", "context_length_exceeded"),
        ({"prompt_token_ids": IDS}, "prompt_token_ids", "invalid_value"),
        ({"prompt_token_ids": [97], "media": [image()]}, "media", "invalid_value"),
        ({"prompt_token_ids": IDS, "media": [image(), image()]}, "media", "invalid_value"),
        ({"prompt_token_ids": [*IDS, PAD], "media": [image()]}, "prompt_token_ids", "invalid_value"),
        ({"prompt_token_ids": IDS, "media": [image(offset=0)]}, "media", "invalid_value"),
        ({"prompt_token_ids": IDS, "media": [image(offset=-1)]}, "media.0.offset", "invalid_value"),
        ({"prompt_token_ids": IDS, "media": [video()]}, "media", "invalid_value"),
        ({"prompt_token_ids": [PAD, PAD, 98, PAD, 98, PAD], "media": [video()]}, "media", "invalid_value"),
        (
            {"prompt_token_ids": IDS, "media": [{"type": "media_hash", "media_hash": "ab" * 16}]},
            "media.0",
            "unknown_media",
        ),
        ({"prompt_token_ids": IDS, "media": [{"type": "media_hash", "media_hash": "../x"}]}, None, "invalid_value"),
        ({"prompt_token_ids": IDS, "media": [{"type": "media_hash"}]}, None, "missing_required_parameter"),
        ({"prompt_token_ids": IDS, "media": [{"type": "text", "text": "a"}]}, "media.0", "invalid_value"),
        ({"prompt_token_ids": IDS, "media": [image(b"")]}, "media.0", "invalid_media"),
        ({"prompt_token_ids": PADS * 100, "media": [image()] * 300}, "messages", "too_many_images"),
        ({"messages": USER, "media": [image()]}, "media", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({}, "messages", "missing_required_parameter"),
        (
            {"prompt_token_ids": [97], "messages": [{"role": "tool", "content": "a"}]},
            "messages.0.tool_call_id",
            "invalid_value",
        ),
    ],
    ids=str,
)
def test_hostile_prompts_are_refused(ask: Any, fields: dict[str, Any], param: str | None, code: str) -> None:
    got = ask().post(CHAT, json=fields)
    error = got.json()["error"]
    assert (got.status_code, error["code"]) == (400, code), got.text
    assert param is None or error["param"] == param, got.text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "a", "media": [image()]}, "media"),
        ({"prompt": ["a", "b"], "media": [image()]}, "media"),
        ({"prompt": [IDS, IDS], "media": [image(), image()]}, "media"),
        ({"prompt": IDS}, "prompt"),
        ({"prompt": IDS, "media": [image(), image()]}, "media"),
    ],
    ids=str,
)
def test_hostile_completions_are_refused(ask: Any, fields: dict[str, Any], param: str) -> None:
    got = ask().post(TEXT, json=fields)
    assert (got.status_code, got.json()["error"]["param"]) == (400, param), got.text


def test_media_are_forgotten_when_the_cache_is_full(ask: Any) -> None:
    size_bytes = 28 * 28 * 3
    processor = FakeProcessor()
    client = ask(None, ServerOptions(media=MediaAccess(cache_bytes=2 * size_bytes)), processor)
    seen = [post(client, CHAT, messages=[{"role": "user", "content": [image(b"%d" % i)]}]) for i in range(3)]
    by_hash = [{"prompt": one["prompt_token_ids"], "media": one["media"]} for one in seen]
    assert [client.post(TEXT, json=body).status_code for body in by_hash] == [400, 200, 200]
    post(client, CHAT, messages=[{"role": "user", "content": [image(b"1")]}])
    assert processor.num_decoded == 3
    post(client, CHAT, messages=[{"role": "user", "content": [image(b"0")]}])
    assert processor.num_decoded == 4


def test_calls_of_a_prompt_are_counted_for_the_next_ones(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("</think>", *CALL, *CALL_END)))
    client = ask(engine)
    first = post(client, CHAT, messages=USER, tools=TOOLS)
    ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
    post(client, CHAT, prompt_token_ids=ids, messages=USER, tools=TOOLS, tool_choice="required")
    messages = [*USER, first["choices"][0]["message"], *USER]
    post(client, CHAT, messages=messages, tools=TOOLS, tool_choice="required")
    assert engine.seen[1].params.grammar is not None
    assert engine.seen[1].params.grammar == engine.seen[2].params.grammar


# real conversations


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny(folder)
    engine = start(folder, served_name="tiny", num_blocks=256, max_model_len=1600)
    with TestClient(make_app(engine, Processor.load(folder))) as client:  # type: ignore[arg-type]
        yield client


def draw_black(num_tokens: int) -> dict[str, Any]:
    """A black picture of one row of tokens."""
    file = io.BytesIO()
    Image.new("RGB", (28 * num_tokens, 28)).save(file, "PNG")
    return image(file.getvalue())


class Talk:
    """A random conversation by ids and media, and what it must keep to."""

    def __init__(self, client: TestClient, seed: int) -> None:
        self.client = client
        self.chance = random.Random(seed)
        self.ids: list[int] = []
        self.media: list[dict[str, Any]] = []
        self.pictures: list[dict[str, Any]] = []

    def draw(self) -> dict[str, Any]:
        file = io.BytesIO()
        size_px = (self.chance.randrange(20, 130), self.chance.randrange(20, 90))
        Image.frombytes("RGB", size_px, self.chance.randbytes(3 * size_px[0] * size_px[1])).save(file, "PNG")
        self.pictures.append(image(file.getvalue()))
        return self.pictures[-1]

    def content(self) -> list[dict[str, Any]]:
        text = "".join(self.chance.choices("aé <|im_end|>漢\n🙂\t'", k=self.chance.randrange(9)))
        return [{"type": "text", "text": text}, *(self.draw() for _ in range(self.chance.randrange(3)))]

    def turn(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ask, compare with the turn before, and return the next messages."""
        is_forced = self.chance.random() < 0.3
        known = self.media if self.chance.random() < 0.7 else [{**part} for part in self.pictures]
        by_ids = {"prompt_token_ids": self.ids, "media": known[: len(self.media)]} if self.ids else {}
        got = post(
            self.client,
            CHAT,
            **by_ids,
            messages=messages,
            tools=TOOLS,
            tool_choice="required" if is_forced else "auto",
            chat_template_kwargs={"thinking": self.chance.random() < 0.5},
            thinking_budget=self.chance.randrange(1, 6),
            max_tokens=70 if is_forced else self.chance.randrange(2, 12),
            temperature=1.0,
            top_p=1.0,
            seed=self.chance.randrange(10**6),
            logprobs=True,
            logprobs_mode="processed_logprobs",
        )
        choice = got["choices"][0]
        assert got["prompt_token_ids"][: len(self.ids)] == self.ids
        assert got["media"][: len(self.media)] == self.media
        assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
        assert sum(one["num_tokens"] for one in got["media"]) == got["prompt_token_ids"].count(self.pad)
        self.ids, self.media = got["prompt_token_ids"] + choice["token_ids"], got["media"]
        calls = choice["message"].get("tool_calls", [])
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self.content()} for call in calls]
        return results or [{"role": "user", "content": self.content()}]

    @property
    def pad(self) -> int:
        return self.client.app.state.server.engine.tokenizer.special.media_pad  # type: ignore[attr-defined,no-any-return]


@pytest.mark.slow
def test_a_hundred_random_conversations_extend_exactly(tiny: TestClient) -> None:
    num_extended = num_with_media = 0
    for seed in range(100):
        talk = Talk(tiny, seed)
        messages = [{"role": "user", "content": talk.content()}]
        for _ in range(4):
            num_extended += bool(talk.ids)
            messages = talk.turn(messages)
        num_with_media += bool(talk.media)
    assert num_extended == 300
    assert num_with_media > 60


def test_a_prompt_with_images_is_scored_as_it_was_sampled(tiny: TestClient) -> None:
    talk = Talk(tiny, 1)
    pictures = [talk.draw(), talk.draw()]
    sampling = {
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 8,
        "seed": 5,
        "chat_template_kwargs": {"thinking": False},
    }
    first = post(tiny, CHAT, messages=[{"role": "user", "content": pictures}], logprobs=True, **sampling)
    choice = first["choices"][0]
    ids = first["prompt_token_ids"] + choice["token_ids"]
    scored = post(tiny, TEXT, prompt=ids, media=first["media"], prompt_logprobs=0, max_tokens=1)
    found = scored["choices"][0]["prompt_logprobs"][len(first["prompt_token_ids"]) :]
    sampled = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert [entry[str(one)]["logprob"] for entry, one in zip(found, choice["token_ids"], strict=True)] == pytest.approx(
        sampled, abs=1e-3
    )
    black = [draw_black(item["num_tokens"]) for item in first["media"]]
    other = post(tiny, TEXT, prompt=ids, media=black, prompt_logprobs=0, max_tokens=1)
    assert other["choices"][0]["prompt_logprobs"] != scored["choices"][0]["prompt_logprobs"]


# sampling parameters as used


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (CHAT, {"messages": USER}, {"temperature": 1.0, "top_p": 0.95}),
        (CHAT, {"messages": USER, "thinking": {"type": "disabled"}}, {"temperature": 0.6, "top_p": 0.95}),
        (
            CHAT,
            {"messages": USER, "temperature": 0.2, "top_p": 1, "seed": 3},
            {"temperature": 0.2, "top_p": 1.0, "seed": 3},
        ),
        (CHAT, {"messages": USER, "thinking_budget": 5}, {"thinking_budget": 5}),
        (TEXT, {"prompt": "a"}, {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 16, "seed": None}),
        (TEXT, {"prompt": "a", "top_k": -1, "min_p": 0.1}, {"top_k": 0, "min_p": 0.1, "logprobs_mode": "raw_logprobs"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_sampling_parameters_are_echoed_as_used(
    ask: Any, path: str, body: dict[str, Any], expected: dict[str, Any], is_stream: bool
) -> None:
    engine = FakeEngine()
    got = ask(engine).post(path, json={**body, "stream": is_stream})
    lines = [line.removeprefix("data: ") for line in got.text.splitlines() if line.startswith("data: {")]
    first = json.loads(lines[0] if is_stream else got.text)
    assert expected.items() <= first["sampling"].items()
    used = engine.seen[0].params
    assert all(getattr(used, name) == value for name, value in first["sampling"].items())


# versions of the weights


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("is_stream", [False, True])
def test_replies_carry_the_versions_of_their_tokens(ask: Any, path: str, is_stream: bool) -> None:
    class Updated(FakeEngine):
        async def _outputs(self, request: EngineRequest, script: Script) -> AsyncIterator[EngineOutput]:
            async for output in super()._outputs(request, script):
                yield replace(output, version=self.version)
                self.version = "1"

    body = {"messages": USER} if path == CHAT else {"prompt": "a"}
    got = ask(Updated(lambda request: answer("a", "bc"))).post(
        path, json={**body, "return_token_ids": True, "stream": is_stream}
    )
    lines = [line.removeprefix("data: ") for line in got.text.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines] if is_stream else [got.json()]
    spans = [span for chunk in chunks for choice in chunk["choices"] for span in choice.get("weight_versions", ())]
    assert [(span["version"], span["num_tokens"]) for span in spans if span["version"] == "0"] == [("0", 1)]
    assert sum(span["num_tokens"] for span in spans if span["version"] == "1") == 4
    assert chunks[-1]["weight_version"] == "1"


def test_an_outdated_request_is_to_be_sent_again(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("a",), finish="outdated"))
    got = ask(engine).post(CHAT, json={"messages": USER})
    assert (got.status_code, got.json()["error"]["code"]) == (503, "weights_replaced")
    assert got.headers["retry-after"] == "1"


def test_weights_come_from_below_the_allowed_folder(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "allowed" / "step-3").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "other")
    engine = FakeEngine()
    client = ask(engine, ServerOptions(weights_dir=tmp_path / "allowed"))
    for folder in ("../other", "link", str(tmp_path / "other"), "step-3/../../other"):
        got = client.post("/v1/update_weights", json={"version": "3", "folder": folder})
        assert (got.status_code, got.json()["error"]["param"]) == (403, "folder"), folder
    missing = client.post("/v1/update_weights", json={"version": "3", "folder": "step-4"})
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "folder")
    assert engine.version == "0"
    got = client.post("/v1/update_weights", json={"version": "3", "folder": "step-3", "running": "pause"})
    assert (got.status_code, got.json()) == (200, {"weight_version": "3"})
    assert client.post(CHAT, json={"messages": USER}).json()["weight_version"] == "3"
    wrong = client.post("/v1/update_weights", json={"version": "4", "folder": "step-3", "running": "stop"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "running")


def test_weights_are_refused_unless_the_operator_allows_them(ask: Any) -> None:
    got = ask().post("/v1/update_weights", json={"version": "1", "folder": "x"})
    assert (got.status_code, got.json()["error"]["code"]) == (403, "forbidden")
