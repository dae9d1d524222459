"""Token ids, log-probabilities and `sampled`, from our engine over HTTP and our client into the record.

The expected values come from logits in float64 (`oracle.py`) and filters written down once more in numpy.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cua.errors import TruncatedReplyError
from cua.messages import Message, Reply, ReplyTokens, Sampling, TextPart
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.trajectory.load import load_run
from cua.trajectory.writer import TrajectoryWriter
from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.engine.contract import MAX_KEPT_IDS
from model_runtime.engine.sampling.state import find_banned_ids
from model_runtime.processor.processor import Processor
from model_runtime.tokenizer import Tokenizer, load_tokenizer
from tests.cua.trajectory import samples
from tests.model_runtime.engine.real import start
from tests.model_runtime.model.oracle import Oracle
from tests.model_runtime.server.serving import Serving

ASKED = (Message(role="user", parts=(TextPart(text="Say hello."),)),)
INSTANT = {"chat_template_kwargs": {"thinking": False}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("sampled")
    write_tiny(folder)
    return folder


@pytest.fixture(scope="module")
def base_url(folder: Path) -> Iterator[str]:
    with Serving(start(folder, served_name="tiny"), processor=Processor.load(folder)) as serving:  # type: ignore[arg-type]
        yield serving.base_url


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


def ask(base_url: str, sampling: Sampling, *, streaming: bool = False) -> ReplyTokens:
    """The tokens of a reply, cut at its limit or not."""

    async def talk() -> Reply:
        model = OpenAICompatModel(OpenAICompatOptions(model="tiny", base_url=base_url, streaming=streaming))
        try:
            return await model.generate(ASKED, sampling=sampling)
        except TruncatedReplyError as error:
            assert error.reply is not None
            return error.reply
        finally:
            await model.close()

    tokens = asyncio.run(talk()).tokens
    assert tokens is not None
    return tokens


def processed(
    folder: Path, tokens: ReplyTokens, *, temperature: float, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> list[float]:
    """Log-probabilities of the reply's tokens, in float64."""
    rows = rows_of(folder, tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    return [row[token] for row, token in zip(rows, tokens.ids, strict=True)]


def rows_of(
    folder: Path, tokens: ReplyTokens, *, temperature: float, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> list[NDArray[np.float64]]:
    """Log-probabilities of all tokens at each place of the reply, in float64; of those left out, minus infinity."""
    logits = Oracle(folder)([*tokens.prompt_ids, *tokens.ids])[len(tokens.prompt_ids) - 1 : -1].numpy()
    logits[:, list(find_banned_ids(load_tokenizer(folder).special))] = -np.inf
    return [_filter(row / temperature, top_k, top_p, min_p) for row in logits]


def _filter(row: NDArray[np.float64], top_k: int, top_p: float, min_p: float) -> NDArray[np.float64]:
    kept = np.argsort(-row, kind="stable")[: top_k or len(row)]
    shares = np.exp(row[kept] - row[kept[0]])
    shares /= shares.sum()
    if top_p < 1:
        kept = kept[: np.searchsorted(shares.cumsum(), top_p) + 1]
    kept = kept[np.exp(row[kept] - row[kept[0]]) >= min_p]
    logprobs = np.full_like(row, -np.inf)
    logprobs[kept] = row[kept] - row[kept[0]] - np.log(np.exp(row[kept] - row[kept[0]]).sum())
    return logprobs


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "asked",
    [
        {"temperature": 1.0},
        {"temperature": 0.7},
        {"temperature": 1.3, "top_p": 0.8},
        {"temperature": 0.9, "top_k": 7},
        {"temperature": 1.1, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    ],
    ids=str,
)
def test_log_probabilities_are_those_of_the_distribution_that_was_drawn_from(
    folder: Path, base_url: str, asked: dict[str, Any], streaming: bool
) -> None:
    filters = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, **asked}
    extra = {**INSTANT, "top_k": filters["top_k"], "min_p": filters["min_p"], "ignore_eos": True}
    sampling = Sampling(
        temperature=filters["temperature"],
        top_p=filters["top_p"],
        max_tokens=12,
        seed=5,
        with_tokens=True,
        extra_body=extra,
    )
    tokens = ask(base_url, sampling, streaming=streaming)
    assert len(tokens.ids) == 12
    assert tokens.sampled == (True,) * 12
    is_filtered = filters != {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "temperature": filters["temperature"]}
    filters["top_k"] = filters["top_k"] or (MAX_KEPT_IDS if is_filtered else 0)  # so that kept sets are bounded
    np.testing.assert_allclose(tokens.logprobs, processed(folder, tokens, **filters), atol=2e-4)
    assert max(tokens.logprobs) < 0
    places = np.split(np.array(tokens.kept_ids), np.cumsum(tokens.num_kept)[:-1])
    rows = rows_of(folder, tokens, **filters)
    kept = [np.flatnonzero(np.isfinite(row)) for row in rows] if is_filtered else [np.array([])] * 12
    assert [place.tolist() for place in places] == [ids.tolist() for ids in kept]


def test_they_stand_in_the_record(base_url: str, tmp_path: Path) -> None:
    sampling = Sampling(temperature=1.0, max_tokens=12, seed=5, with_tokens=True, extra_body={"thinking_budget": 2})
    tokens = ask(base_url, sampling)
    assert set(tokens.sampled) == {True, False}
    step = replace(samples.make_step(1), reply=Reply(content="", tokens=tokens))
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        samples.write_step(writer, step)
    reply = load_run(writer.run_dir).steps[0].reply
    assert reply is not None
    assert reply.tokens == tokens


def test_the_same_seed_gives_the_same_tokens_streamed_or_not(base_url: str) -> None:
    sampling = Sampling(temperature=1.0, top_p=0.9, max_tokens=12, seed=8, with_tokens=True, extra_body=INSTANT)
    assert ask(base_url, sampling, streaming=True) == ask(base_url, sampling)


def test_the_model_s_own_log_probabilities_are_still_there(folder: Path, base_url: str) -> None:
    extra = {**INSTANT, "logprobs_mode": "raw_logprobs", "ignore_eos": True}
    sampling = Sampling(temperature=0.5, top_p=0.5, max_tokens=8, seed=1, with_tokens=True, extra_body=extra)
    tokens = ask(base_url, sampling)
    logits = Oracle(folder)([*tokens.prompt_ids, *tokens.ids])[len(tokens.prompt_ids) - 1 : -1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(tokens.ids)[:, None])[:, 0]
    np.testing.assert_allclose(tokens.logprobs, expected.numpy(), atol=2e-4)


def test_greedy_has_all_its_mass_on_what_it_takes(base_url: str) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=6, with_tokens=True, extra_body={**INSTANT, "ignore_eos": True})
    tokens = ask(base_url, sampling)
    assert tokens.logprobs == (0.0,) * 6
    assert tokens.sampled == (True,) * 6


def test_the_end_of_a_thought_without_budget_is_nobody_s_choice(base_url: str, tokenizer: Tokenizer) -> None:
    extra = {"thinking_budget": 3, "ignore_eos": True}
    tokens = ask(base_url, Sampling(temperature=1.0, max_tokens=6, seed=3, with_tokens=True, extra_body=extra))
    assert tokens.ids[3] == tokenizer.special.think_end
    assert tokens.sampled == (True, True, True, False, True, True)
    assert tokens.logprobs[3] == 0.0


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_grammar_s_only_choice_is_not_sampled(base_url: str, tokenizer: Tokenizer, streaming: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema | {"additionalProperties": False}}}
    extra = {**INSTANT, "response_format": wanted}
    sampling = Sampling(temperature=1.0, max_tokens=400, seed=2, with_tokens=True, extra_body=extra)
    tokens = ask(base_url, sampling, streaming=streaming)
    assert json.loads(tokenizer.decode(tokens.ids[:-1])) in ({"a": "x"}, {"a": "y"})
    assert tokens.ids[-1] == tokenizer.special.im_end
    by_flag = {
        flag: [p for p, s in zip(tokens.logprobs, tokens.sampled, strict=True) if s is flag] for flag in (False, True)
    }
    assert set(by_flag[False]) == {0.0}
    assert {num for num, s in zip(tokens.num_kept, tokens.sampled, strict=True) if not s} == {1}
    assert {num for num, s in zip(tokens.num_kept, tokens.sampled, strict=True) if s} >= {2}  # x or y
    assert by_flag[True]
    assert max(by_flag[True]) < 0
    assert tokens.sampled[-1] is False


def test_text_completions_say_the_same(base_url: str, folder: Path) -> None:
    import httpx

    body = {"model": "tiny", "prompt": "Hello", "temperature": 0.8, "top_p": 0.9, "max_tokens": 8, "seed": 4}
    more = {"logprobs": 3, "return_token_ids": True, "logprobs_mode": "processed_logprobs", "echo": True}
    got = httpx.post(f"{base_url}/completions", json={**body, **more, "ignore_eos": True}, timeout=60).json()
    (choice,) = got["choices"]
    num_prompt = len(choice["prompt_token_ids"])
    assert choice["logprobs"]["sampled"] == [False] * num_prompt + [True] * 8
    found = choice["logprobs"]["token_logprobs"][num_prompt:]
    tokens = ReplyTokens(prompt_ids=tuple(choice["prompt_token_ids"]), ids=tuple(choice["token_ids"]))
    np.testing.assert_allclose(found, processed(folder, tokens, temperature=0.8, top_p=0.9), atol=2e-4)
    with_sets = {**body, **more, "ignore_eos": True, "return_kept_token_ids": True}
    (choice,) = httpx.post(f"{base_url}/completions", json=with_sets, timeout=60).json()["choices"]
    assert len(choice["num_kept"]) == len(choice["token_ids"]) == 8
    assert sum(choice["num_kept"]) == len(choice["kept_token_ids"]) <= 8 * MAX_KEPT_IDS
    assert set(choice["token_ids"]) <= set(choice["kept_token_ids"])
    for name in ("logprobs", "return_token_ids"):
        alone = httpx.post(f"{base_url}/completions", json={**with_sets, name: None}, timeout=60)
        assert (alone.status_code, alone.json()["error"]["param"]) == (400, "return_kept_token_ids")
    wrong = httpx.post(f"{base_url}/completions", json={**body, "logprobs_mode": "raw"}, timeout=60)
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "logprobs_mode")
