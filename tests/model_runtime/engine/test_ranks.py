"""Several processes for one model, and what happens when one of them is killed."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from model_runtime.engine.thread import EngineThread
from model_runtime.errors import CapacityError, EngineDead, RuntimeFault
from model_runtime.tokenizer import load_tokenizer
from tests.model_runtime.engine.real import assert_same, collect, greedy, make_item, make_prompt, run, start


def workers_of_this_process() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
async def test_ranks_give_what_one_gives(int4_dir: Path, size: int) -> None:
    tokenizer = load_tokenizer(int4_dir)
    prompts = [
        make_prompt(tokenizer, "hello", make_item(1), "there"),
        make_prompt(tokenizer, "a clip", make_item(2, t=2)),
        make_prompt(tokenizer, "a much longer text " * 6),
    ]
    results = []
    for ranks in (1, size):
        engine = start(int4_dir, tensor_parallel_size=ranks, max_num_batched_tokens=40, max_num_seqs=4)
        for _ in range(2):
            results.append(await run(engine, [greedy(str(i), prompt) for i, prompt in enumerate(prompts)]))
        await engine.close()
    for found in results[1:]:
        assert_same(found, results[0], within=1e-4)
    assert workers_of_this_process() == []


@pytest.mark.long
async def test_a_killed_rank_ends_the_requests_and_is_named(int4_dir: Path) -> None:
    engine = start(int4_dir, tensor_parallel_size=2, max_model_len=2000, num_blocks=300)
    prompt = make_prompt(load_tokenizer(int4_dir), "count")
    task = asyncio.create_task(collect(engine, greedy("a", prompt, 1900)))
    await wait_for_a_token(engine)
    (worker,) = workers_of_this_process()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(EngineDead, match=r"rank 1 ended \(signal SIGKILL\)"):
        await asyncio.wait_for(task, timeout=30)
    assert "SIGKILL" in (engine.fault or "")
    with pytest.raises(EngineDead):
        await collect(engine, greedy("b", prompt, 1))
    await engine.close()
    assert workers_of_this_process() == []


async def wait_for_a_token(engine: EngineThread) -> None:
    for _ in range(1000):
        if engine.stats().generated_tokens_total:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no token came")


def test_ranks_that_do_not_fit_are_refused_and_nothing_is_left(int4_dir: Path) -> None:
    with pytest.raises(RuntimeFault, match=r"cannot be split .*over 3 ranks"):
        start(int4_dir, tensor_parallel_size=3)
    assert workers_of_this_process() == []


def test_too_little_memory_for_a_cache_is_refused(int4_dir: Path) -> None:
    with pytest.raises(CapacityError, match="MiB are left for the cache"):
        start(int4_dir, num_blocks=None, cache_gib=1e-6)
