"""Batch-invariant mode: the same bits alone, in a crowd, in pieces, from the cache and after a preemption."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from model_runtime.engine.contract import EngineRequest
from model_runtime.media import Prompt
from model_runtime.tokenizer import Tokenizer
from tests.model_runtime.engine.real import greedy, make_item, make_prompt, run, start

Results = list[list[tuple[int, float]]]
CROWDS: list[dict[str, object]] = [
    {},
    {"max_num_batched_tokens": 7, "max_num_seqs": 3, "block_size": 4, "num_blocks": 128},
    {"num_blocks": 24},
]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(1)


def make_prompts(tokenizer: Tokenizer) -> list[Prompt]:
    shared = "The agent sends the same beginning with every step. "
    return [
        make_prompt(tokenizer, "hi"),
        make_prompt(tokenizer, shared, make_item(1), "what is this?"),
        make_prompt(tokenizer, shared, make_item(1), "and this?", make_item(2, t=3), make_item(3, height=112), "."),
        make_prompt(tokenizer, shared * 3, "long"),
        make_prompt(tokenizer, make_item(4), "only images"),
    ]


def request(name: str, index: int, prompt: Prompt) -> EngineRequest:
    """Half of them greedy, half sampled with every filter."""
    sampled = {"temperature": 0.9, "top_p": 0.9, "top_k": 50, "seed": index, "logprobs_mode": "processed_logprobs"}
    return greedy(name, prompt, 6, **(sampled if index % 2 else {}))


async def run_alone_and_in_crowds(folder: Path, prompts: list[Prompt], **options: object) -> tuple[Results, Results]:
    """Results of each request by itself, and of all in each crowd, first without and then with a cached prefix."""
    engine = start(folder, dtype="bfloat16", **options)
    alone = [(await run(engine, [request(f"a{i}", i, prompt)]))[0] for i, prompt in enumerate(prompts)]
    await engine.close()
    crowded: Results = []
    for crowd in CROWDS:
        engine = start(folder, dtype="bfloat16", **{**options, **crowd})
        for again in range(2):
            crowded += await run(engine, [request(f"{again}{i}", i, prompt) for i, prompt in enumerate(prompts)])
        await engine.close()
    return alone, crowded


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tiny_dir", "int4_dir"])
def test_a_token_has_the_same_bits_alone_and_in_a_crowd(
    request: pytest.FixtureRequest, tokenizer: Tokenizer, kind: str, threads: int
) -> None:
    prompts = make_prompts(tokenizer)
    folder = request.getfixturevalue(kind)
    alone, crowded = asyncio.run(run_alone_and_in_crowds(folder, prompts, batch_invariant=True))
    assert crowded == alone * (2 * len(CROWDS))


@pytest.mark.slow
def test_without_the_mode_the_bits_depend_on_the_crowd(tiny_dir: Path, tokenizer: Tokenizer) -> None:
    alone, crowded = asyncio.run(run_alone_and_in_crowds(tiny_dir, make_prompts(tokenizer)))
    assert crowded != alone * (2 * len(CROWDS))


async def test_the_mode_computes_what_the_model_computes(tiny_dir: Path, tokenizer: Tokenizer) -> None:
    prompts = make_prompts(tokenizer)
    results = []
    for mode in (False, True):
        engine = start(tiny_dir, batch_invariant=mode)
        results.append(await run(engine, [greedy(str(i), prompt) for i, prompt in enumerate(prompts)]))
        await engine.close()
    for usual, invariant in zip(*results, strict=True):
        assert [token for token, _ in usual] == [token for token, _ in invariant]
        assert [p for _, p in usual] == pytest.approx([p for _, p in invariant], abs=1e-5)
