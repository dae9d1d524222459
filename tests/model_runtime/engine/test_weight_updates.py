"""New weights in a running engine: nothing of the old ones is left, and every token names its version."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.engine.contract import EngineOutput, OnUpdate, WeightUpdate
from model_runtime.engine.thread import EngineThread
from model_runtime.errors import CheckpointError, EngineDead
from model_runtime.media import Prompt
from model_runtime.model import load_model
from model_runtime.tokenizer import Tokenizer, load_tokenizer
from model_runtime.training.release import export_model, export_tensors
from tests.model_runtime.engine.counting import make_engine, make_request
from tests.model_runtime.engine.real import assert_same, collect, greedy, make_item, make_prompt, run, start


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "INT4"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of the same sizes."""
    folder = tmp_path_factory.mktemp("two")
    for seed in (1, 2):
        write_tiny(folder / str(seed), quantized=request.param, seed=seed)
    return folder / "1", folder / "2"


def read_tensors(folder: Path) -> dict[str, Tensor]:
    checkpoint = Checkpoint.open(folder)
    return {name: checkpoint.get(name).clone() for name in checkpoint.places}


def make_prompts(folder: Path) -> list[Prompt]:
    tokenizer = load_tokenizer(folder)
    text = "A text that fills blocks of the prefix cache. "
    return [make_prompt(tokenizer, text * 2), make_prompt(tokenizer, text, make_item(1), "What is this?")]


async def outputs_of(engine: EngineThread, prompts: list[Prompt], name: str) -> list[list[tuple[int, float]]]:
    return await run(engine, [greedy(f"{name}{i}", prompt) for i, prompt in enumerate(prompts)])


@pytest.mark.parametrize("where", ["folder", "memory"])
async def test_an_updated_engine_is_a_new_one(folders: tuple[Path, Path], where: str) -> None:
    first, second = folders
    prompts = make_prompts(first)
    fresh = start(second)
    expected = await outputs_of(fresh, prompts, "a")
    await fresh.close()
    engine = start(first)
    before = await outputs_of(engine, prompts, "a")
    assert [row[0][0] for row in before] != [row[0][0] for row in expected] or before != expected
    source: Path | Mapping[str, Tensor] = second if where == "folder" else read_tensors(second)
    await engine.update_weights(WeightUpdate(version="1", source=source))
    outputs = await collect(engine, greedy("b", prompts[1]))
    assert (outputs[0].num_cached_tokens, {output.version for output in outputs}) == (0, {"1"})
    for name in ("c", "d"):  # the second time from the prefix cache
        assert_same(await outputs_of(engine, prompts, name), expected, within=1e-5)
    await engine.update_weights(WeightUpdate(version="0", source=first))
    assert_same(await outputs_of(engine, prompts, "e"), before, within=1e-5)
    await engine.close()


@pytest.mark.parametrize("is_packed", [False, True])
async def test_a_model_in_training_gives_its_weights(tmp_path: Path, is_packed: bool) -> None:
    for name, seed, packed in (("trained", 1, False), ("served", 2, is_packed)):
        write_tiny(tmp_path / name, quantized=packed, seed=seed)
    trained = load_model(tmp_path / "trained")
    config = export_model(
        trained,
        tmp_path / "exported",
        ranks=(tmp_path / "trained" / "tiktoken.model").read_bytes(),
        group_size=32 if is_packed else None,
    )
    prompts = make_prompts(tmp_path / "served")
    fresh, engine = start(tmp_path / "exported"), start(tmp_path / "served")
    expected = await outputs_of(fresh, prompts, "a")
    await engine.update_weights(WeightUpdate(version="1", source=dict(export_tensors(trained, config))))
    assert_same(await outputs_of(engine, prompts, "b"), expected, within=1e-5)
    await asyncio.gather(fresh.close(), engine.close())


def test_weights_keep_their_memory(folders: tuple[Path, Path]) -> None:
    first, second = folders
    model, fresh = load_model(first), load_model(second)

    def pointers() -> list[int]:
        return [tensor.data_ptr() for tensor in model.state_dict().values()]

    before = pointers()
    model.update(second)
    assert pointers() == before
    for name, tensor in fresh.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


async def test_weights_that_do_not_fit_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = folders
    prompts = make_prompts(first)
    engine = start(first)
    before = await outputs_of(engine, prompts, "a")
    tensors = read_tensors(second)
    norm = "language_model.model.norm.weight"
    is_packed = any(name.endswith("weight_packed") for name in tensors)
    write_tiny(tmp_path / "other", quantized=not is_packed, seed=3)
    for source in (
        tmp_path / "none",
        tmp_path / "other",
        {name: tensor for name, tensor in tensors.items() if name != norm},
        tensors | {norm: torch.ones(3)},
        {},
    ):
        with pytest.raises(CheckpointError):
            await engine.update_weights(WeightUpdate(version="1", source=source))
    assert_same(await outputs_of(engine, prompts, "b"), before, within=1e-5)
    outputs = await collect(engine, greedy("c", prompts[0]))
    assert {output.version for output in outputs} == {"0"}
    await engine.close()


@pytest.mark.slow
async def test_ranks_take_a_folder(folders: tuple[Path, Path]) -> None:
    first, second = folders
    prompts = make_prompts(first)
    fresh, engine = start(second), start(first, tensor_parallel_size=2)
    expected = await outputs_of(fresh, prompts, "a")
    await outputs_of(engine, prompts, "a")
    with pytest.raises(CheckpointError, match="from a folder only"):
        await engine.update_weights(WeightUpdate(version="1", source=read_tensors(second)))
    await engine.update_weights(WeightUpdate(version="1", source=second))
    assert_same(await outputs_of(engine, prompts, "b"), expected, within=1e-4)
    await asyncio.gather(fresh.close(), engine.close())


# running requests

NEW = {"x": torch.zeros(1)}


def run_with_update(tokenizer: Tokenizer, running: OnUpdate) -> tuple[dict[str, list[EngineOutput]], list[str]]:
    """Two requests run, two wait, when an update comes in; outputs by request, and the order of the events."""
    engine, executor = make_engine(tokenizer, max_num_seqs=2)
    outputs: dict[str, list[EngineOutput]] = {}
    events: list[str] = []

    def step() -> None:
        for name, output in engine.step():
            outputs.setdefault(name, []).append(output)
            if output.finish_reason is not None:
                events.append(f"{name} {output.finish_reason}")

    for name in "abcd":
        engine.add(make_request([10, 11, 12, 13, 14], name=name, max_tokens=4 if name != "b" else 6))
    for _ in range(3):
        step()
    engine.update_weights(
        WeightUpdate(version="1", source=NEW, running=running), lambda error: events.append("updated")
    )
    for _ in range(60):
        if not engine.has_work:
            break
        step()
    assert not engine.has_work
    assert executor.updates[0][1] == "1"
    return outputs, events


def versions_of(outputs: list[EngineOutput]) -> str:
    return "".join(output.version for output in outputs if output.token_ids)


def test_running_requests_finish_and_new_ones_wait(tokenizer: Tokenizer) -> None:
    outputs, events = run_with_update(tokenizer, "finish")
    assert events == ["a length", "b length", "updated", "c length", "d length"]
    assert {name: versions_of(outputs[name]) for name in "abcd"} == {
        "a": "0000",
        "b": "000000",
        "c": "1111",
        "d": "1111",
    }


def test_paused_requests_go_on_with_the_new_weights(tokenizer: Tokenizer) -> None:
    outputs, events = run_with_update(tokenizer, "pause")
    assert events[0] == "updated"
    assert versions_of(outputs["a"]).lstrip("0") == "1" * versions_of(outputs["a"]).count("1")
    assert {versions_of(outputs[name]) for name in "cd"} == {"1111"}
    assert 0 < versions_of(outputs["a"]).count("1") < 4
    assert [t for output in outputs["a"] for t in output.token_ids] == [15, 16, 17, 18]


def test_requests_to_restart_end_as_outdated(tokenizer: Tokenizer) -> None:
    outputs, events = run_with_update(tokenizer, "restart")
    assert events[:3] == ["updated", "a outdated", "b outdated"]
    assert "version 1" in (outputs["a"][-1].error or "")
    assert {versions_of(outputs[name]) for name in "cd"} == {"1111"}


def test_no_block_of_old_weights_is_shared(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    prompt = list(range(40))
    cached = []
    for number in range(4):
        if number == 2:
            engine.update_weights(WeightUpdate(version="0", source=NEW), lambda error: None)
            engine.step()
        engine.add(make_request(prompt, name=str(number), max_tokens=1))
        cached += [output.num_cached_tokens for _, output in engine.step()]
    assert cached == [0, 36, 0, 36]


async def test_a_dead_engine_ends_updates(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    thread = EngineThread(engine, tokenizer)
    executor.gate.clear()
    running = asyncio.create_task(collect(thread, make_request([1], max_tokens=200)))
    await asyncio.sleep(0.05)
    updating = asyncio.create_task(thread.update_weights(WeightUpdate(version="1", source=NEW)))
    await asyncio.sleep(0.05)
    thread.die("rank 1 ended")
    for task in (running, updating):
        with pytest.raises(EngineDead, match="rank 1"):
            await task
    executor.gate.set()
    await thread.close()
