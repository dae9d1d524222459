"""`/v1/completions`: text and token ids in and out, log-probabilities, echo; `/tokenize` and back."""

import json
from typing import Any

import openai
import pytest

from tests.model_runtime.fakes import SPECIAL, TOKENIZER, FakeEngine, Script
from tests.model_runtime.server.serving import USER, Serving

PATH = "/v1/completions"
END = SPECIAL.im_end


def test_the_sdk_reads_whole_answers_and_streams() -> None:
    engine = FakeEngine(lambda request: Script(pieces=("a", "b")))
    with Serving(engine) as serving, openai.OpenAI(base_url=serving.base_url, api_key="none") as client:
        got = client.completions.create(model="kimi-k2.5", prompt="Say", logprobs=1)
        stream = list(client.completions.create(model="kimi-k2.5", prompt="Say", stream=True))
    assert (got.object, got.choices[0].text, got.choices[0].finish_reason) == ("text_completion", "ab", "stop")
    assert got.choices[0].logprobs is not None
    assert got.choices[0].logprobs.tokens == ["a", "b", "<|im_end|>"]
    assert got.choices[0].logprobs.text_offset == [0, 1, 2]
    assert got.usage is not None
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (3, 3)
    assert [chunk.choices[0].text for chunk in stream] == ["a", "b"]
    assert engine.seen[0].params.max_tokens == 16
    assert (engine.seen[0].params.temperature, engine.seen[0].params.top_p) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("ab", [(97, 98)]),
        ([97, SPECIAL.think_begin], [(97, SPECIAL.think_begin)]),
        (["a", "b<think>"], [(97,), tuple(b"b<think>")]),
        ([[97], [98, 99]], [(97,), (98, 99)]),
    ],
)
def test_every_form_of_a_prompt(ask: Any, prompt: Any, prompts: list[tuple[int, ...]]) -> None:
    engine = FakeEngine(lambda request: Script(pieces=(str(request.prompt.token_ids[0]),)))
    got = ask(engine).post(PATH, json={"prompt": prompt, "n": 2}).json()
    assert sorted({request.prompt.token_ids for request in engine.seen}) == sorted(prompts)
    expected = [str(ids[0]) for ids in prompts for _ in range(2)]
    assert [choice["text"] for choice in got["choices"]] == expected
    assert [choice["index"] for choice in got["choices"]] == list(range(len(expected)))
    assert got["usage"]["prompt_tokens"] == sum(map(len, prompts))


def test_names_of_control_tokens_count_where_the_client_says_so(ask: Any) -> None:
    engine = FakeEngine()
    ask(engine).post(PATH, json={"prompt": "a<think>", "parse_special_tokens": True})
    assert engine.seen[0].prompt.token_ids == (97, SPECIAL.think_begin)


def test_tokens_out_for_tokens_in(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("x", "</think>", "é")))
    body = {"prompt": [1, 2], "logprobs": 0, "return_token_ids": True}
    choice = ask(engine).post(PATH, json=body).json()["choices"][0]
    ids = [120, SPECIAL.think_end, 0xC3, 0xA9, END]
    assert choice["token_ids"] == ids
    assert choice["prompt_token_ids"] == [1, 2]
    assert choice["logprobs"]["token_logprobs"] == [-0.5] * len(ids)
    assert choice["logprobs"]["top_logprobs"] == [None] * len(ids)
    assert choice["text"] == "xé"
    streamed = ask(engine).post(PATH, json=body | {"stream": True}).text
    chunks = [json.loads(line[6:])["choices"][0] for line in streamed.splitlines() if line.startswith("data: {")]
    assert [one for chunk in chunks for one in chunk["token_ids"]] == ids
    assert [one for chunk in chunks for one in chunk["logprobs"]["token_logprobs"]] == [-0.5] * len(ids)
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [[1, 2], None]


def test_control_tokens_show_on_request(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("x", "</think>", "y")))
    body = {"prompt": "a", "skip_special_tokens": False}
    assert ask(engine).post(PATH, json=body).json()["choices"][0]["text"] == "x</think>y"


def test_echo_scores_a_prompt(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("x",)))
    body = {"prompt": "ab", "echo": True, "logprobs": 1, "max_tokens": 0}
    got = ask(engine).post(PATH, json=body).json()
    choice = got["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("ab", "length")
    assert choice["logprobs"] == {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -1.5],
        "top_logprobs": [None, {"b": -0.5}],
        "text_offset": [0, 1],
    }
    assert got["usage"]["completion_tokens"] == 0
    assert engine.seen[0].params.max_tokens == 1


def test_prompt_logprobs_in_a_list_of_their_own(ask: Any) -> None:
    got = ask().post(PATH, json={"prompt": "ab", "prompt_logprobs": 0}).json()
    assert got["choices"][0]["prompt_logprobs"] == [None, {"98": {"logprob": -1.5, "decoded_token": "b"}}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt.0"),
        ({"prompt": [1, "a"]}, "prompt.1"),
        ({"prompt": [99_999]}, "prompt"),
        ({"prompt": [-1]}, "prompt.0"),
        ({"prompt": [SPECIAL.media_pad]}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "logit_bias": {"1": 2.0}}, "logit_bias"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
        ({}, "prompt"),
    ],
)
def test_wrong_requests(ask: Any, fields: dict[str, Any], param: str) -> None:
    got = ask().post(PATH, json=fields)
    assert (got.status_code, got.json()["error"]["param"]) == (400, param), got.text


def test_tokenize_and_back(ask: Any) -> None:
    engine = FakeEngine()
    client = ask(engine)
    assert client.post("/tokenize", json={"prompt": "aé"}).json() == {
        "count": 3,
        "max_model_len": 4096,
        "tokens": [97, 0xC3, 0xA9],
    }
    counted = client.post("/tokenize", json={"messages": USER}).json()
    client.post("/v1/chat/completions", json={"messages": USER})
    assert counted["tokens"] == list(engine.seen[0].prompt.token_ids)
    back = client.post("/detokenize", json={"tokens": counted["tokens"]}).json()
    assert back == {"prompt": TOKENIZER.decode(counted["tokens"])}
    assert client.post("/tokenize", json={}).status_code == 400
    assert client.post("/detokenize", json={"tokens": [10**6]}).json()["error"]["param"] == "tokens"
