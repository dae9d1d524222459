"""A real tiny model gives the same tokens and probabilities however its requests are run."""

import asyncio
from pathlib import Path

import pytest

from model_runtime.engine.sampling import GrammarSpec
from model_runtime.media import Prompt
from model_runtime.tokenizer import Tokenizer
from tests.model_runtime.engine.real import assert_same, collect, greedy, make_item, make_prompt, run, start

Results = list[list[tuple[int, float]]]


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> list[Prompt]:
    shared = "The agent sends the same beginning with every step. "
    picture, clip = make_item(1), make_item(2, t=3)
    return [
        make_prompt(tokenizer, "hi"),
        make_prompt(tokenizer, shared, picture, "what is this?"),
        make_prompt(tokenizer, shared, picture, "and this?", clip, make_item(3, height=112), "."),
        make_prompt(tokenizer, shared * 3, "long"),
        make_prompt(tokenizer, make_item(4), make_item(5, t=4, width=28), "only images"),
    ]


@pytest.fixture(scope="module")
def alone(tiny_dir: Path, prompts: list[Prompt]) -> Results:
    """Each prompt by itself, whole, nothing shared."""

    async def one_by_one() -> Results:
        engine = start(tiny_dir, max_num_seqs=1, max_num_batched_tokens=2048)
        results = [(await run(engine, [greedy(str(i), prompt)]))[0] for i, prompt in enumerate(prompts)]
        await engine.close()
        return results

    return asyncio.run(one_by_one())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_num_batched_tokens": 16, "max_num_seqs": 3},
        {"max_num_batched_tokens": 7, "max_num_seqs": 2, "block_size": 4},
        {"num_blocks": 20},
        {"block_size": 1, "num_blocks": 512},
    ],
    ids=["together", "in pieces", "in odd pieces", "with little room", "blocks of one"],
)
async def test_however_they_are_run(
    tiny_dir: Path, prompts: list[Prompt], alone: Results, options: dict[str, object]
) -> None:
    engine = start(tiny_dir, **options)
    for _ in range(2):  # the second time from the prefix cache
        requests = [greedy(f"{i}", prompt) for i, prompt in enumerate(prompts)]
        assert_same(await run(engine, requests), alone, within=1e-5)
    await engine.close()


async def test_preempted_ones_are_as_if_nothing_had_happened(tiny_dir: Path, prompts: list[Prompt]) -> None:
    requests = [greedy(str(i), prompts[0], 40) for i in range(3)]
    wide, narrow = start(tiny_dir), start(tiny_dir, num_blocks=12)
    expected, found = await run(wide, requests), await run(narrow, requests)
    assert narrow.stats().preemptions_total > 0
    assert_same(found, expected, within=1e-5)
    await wide.close()
    await narrow.close()


async def test_a_screenshot_sent_again_is_neither_encoded_nor_computed_again(
    tiny_dir: Path, tokenizer: Tokenizer
) -> None:
    engine = start(tiny_dir, num_blocks=512)
    parts: list[object] = ["You are an agent. "]
    for step in range(4):
        parts += [make_item(step, height=112, width=112), f"step {step}: click. "]
        prompt = make_prompt(tokenizer, *parts)  # type: ignore[arg-type]
        (output, *_) = await collect(engine, greedy(str(step), prompt, 1))
        stats = engine.stats()
        assert stats.media_encoded_total == step + 1
        new = output.num_prompt_tokens - output.num_cached_tokens
        assert step == 0 or new < 16 + 24 + 8, "more was computed than the new image, its text and part of a block"
    await engine.close()


async def test_prompt_log_probabilities_are_those_of_generation(tiny_dir: Path, tokenizer: Tokenizer) -> None:
    engine = start(tiny_dir, max_num_batched_tokens=16, max_num_seqs=4)
    prompt = make_prompt(tokenizer, "some text to go on from")
    generated = (await run(engine, [greedy("a", prompt, 5)]))[0]
    whole = Prompt(token_ids=(*prompt.token_ids, *(token for token, _ in generated)))
    (output, *_) = await collect(engine, greedy("b", whole, 1, prompt_logprobs=2))
    assert output.prompt_logprobs is not None
    assert len(output.prompt_logprobs) == len(whole.token_ids)
    tail = [p for p in output.prompt_logprobs[-5:] if p is not None]
    assert [(p.token_id, pytest.approx(p.logprob, abs=1e-5)) for p in tail] == generated
    assert all(len(p.top) == 2 and p.top[0][1] >= max(p.top[1][1], p.logprob) for p in tail)
    await engine.close()


async def test_a_seed_gives_the_same_whatever_runs_beside_it(tiny_dir: Path, prompts: list[Prompt]) -> None:
    engine = start(tiny_dir)
    request = greedy("seeded", prompts[1], 12, temperature=1.0, seed=7, top_p=0.9)
    alone = await run(engine, [request])
    beside = await run(engine, [request, *(greedy(str(i), p, 12, temperature=1.0) for i, p in enumerate(prompts))])
    assert_same(beside[:1], alone, within=1e-5)
    await engine.close()


async def test_a_grammar_ends_the_output_before_min_tokens_would(tiny_dir: Path, tokenizer: Tokenizer) -> None:
    engine = start(tiny_dir)
    spec = GrammarSpec(kind="json_schema", text='{"enum": ["yes"]}')
    request = greedy("a", make_prompt(tokenizer, "well?"), 50, grammar=spec, min_tokens=30)
    outputs = await collect(engine, request)
    assert "".join(str(delta) for output in outputs for delta in output.deltas) == '"yes"'
    assert outputs[-1].finish_reason == "stop"
    await engine.close()
