"""The whole model through the kernels, in the interpreter: what `tests/model_runtime/model` holds of the references."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.kernels.repack import HalfSplitExperts
from model_runtime.model import K25Model, load_model
from model_runtime.model.moe import Moe
from model_runtime.ops import find_ops
from model_runtime.ops.registry import Ops, find_backends
from model_runtime.vision import VisionTower
from tests.model_runtime.engine.real import assert_same, greedy, make_prompt, run, start
from tests.model_runtime.model.drive import Drive, difference, make_ids, run_whole
from tests.model_runtime.model.peer import Peer
from tests.model_runtime.vision.weights import TINY, make_item, make_weights
from tests.model_runtime.vision.weights import Peer as TowerPeer

IDS = make_ids(15)
TWO_LAYERS = {"num_hidden_layers": 2}
"""One without experts and one with; the interpreter is slow."""

PLAIN = {"run_concurrently"}
"""Operators that have no kernel: on a GPU `beside` takes a second stream."""


def load(model_dir: Path, **options: Any) -> K25Model:
    return load_model(model_dir, dtype=torch.float32, kernels="triton", **options)


@pytest.fixture(scope="module")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("two-layers") / "bf16"
    write_tiny(folder, config=tiny_config(text=TWO_LAYERS))
    return folder


@pytest.fixture(scope="module")
def int4_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("two-layers") / "int4"
    write_tiny(folder, config=tiny_config(text=TWO_LAYERS), quantized=True)
    return folder


@pytest.fixture(scope="module")
def dense(tiny_dir: Path) -> K25Model:
    return load(tiny_dir)


@pytest.fixture(scope="module")
def packed(int4_dir: Path) -> K25Model:
    return load(int4_dir)


@pytest.fixture(scope="module")
def peer(tiny_dir: Path) -> Peer:
    return Peer(tiny_dir)


def test_every_operator_is_a_kernel() -> None:
    assert find_backends(torch.device("cpu"), "triton") == ("triton", "torch")
    ours, reference = find_ops("cpu", "triton"), find_ops("cpu", "torch")
    assert {name for name in Ops.__slots__ if getattr(ours, name) is getattr(reference, name)} <= PLAIN


@pytest.mark.long
def test_text(dense: K25Model, peer: Peer) -> None:
    assert difference(run_whole(dense, IDS), peer(IDS)) <= 2e-5


@pytest.mark.long
def test_four_bits(packed: K25Model, int4_dir: Path) -> None:
    assert isinstance(packed.layers[1].mlp, Moe)
    assert isinstance(packed.layers[1].mlp.experts, HalfSplitExperts)
    peer = Peer(int4_dir)
    peer.widen_experts()
    assert difference(run_whole(packed, IDS), peer(IDS)) <= 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "packed"])
def test_chunks_and_single_tokens(name: str, request: pytest.FixtureRequest) -> None:
    model: K25Model = request.getfixturevalue(name)
    drive = Drive(model)
    bounds = [0, 9, 12, 13, 15]
    parts = [drive.step({"one": IDS[start:end]})["one"] for start, end in pairwise(bounds)]
    assert difference(torch.cat(parts), run_whole(model, IDS)) <= 1e-5


@pytest.mark.slow
def test_beside_others(dense: K25Model, peer: Peer) -> None:
    tokens = {name: make_ids(length + 3, seed) for seed, (name, length) in enumerate({"a": 1, "b": 8, "c": 12}.items())}
    drive = Drive(dense)
    drive.step({name: ids[:-3] for name, ids in tokens.items()})
    found = drive.step({"a": tokens["a"][-3:-2], "b": tokens["b"][-3:-2], "c": tokens["c"][-3:], "new": IDS[:5]})
    assert difference(found["new"], peer(IDS[:5])) <= 2e-5
    assert difference(found["c"], peer(tokens["c"])[-3:]) <= 2e-5
    assert difference(found["a"], peer(tokens["a"])[1:2]) <= 2e-5
    assert difference(found["b"], peer(tokens["b"])[8:9]) <= 2e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        {"n_routed_experts": 12, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3},
        {"num_attention_heads": 3, "qk_nope_head_dim": 10, "v_head_dim": 6, "q_lora_rank": 20},
        {"n_shared_experts": 2, "norm_topk_prob": False, "moe_intermediate_size": 40},
    ],
    ids=lambda text: "-".join(text),
)
def test_other_numbers(tmp_path: Path, text: dict[str, Any]) -> None:
    write_tiny(tmp_path, config=tiny_config(text={**text, **TWO_LAYERS}))
    assert difference(run_whole(load(tmp_path), IDS[:12]), Peer(tmp_path)(IDS[:12])) <= 2e-5


@pytest.mark.long
def test_bfloat16_is_as_near_to_fp32_as_the_reference_is(tiny_dir: Path, peer: Peer) -> None:
    """The interpreter cuts what a GPU rounds, so that twice the distance is still the same arithmetic."""
    exact = peer(IDS)
    ours = (run_whole(load_model(tiny_dir, kernels="triton"), IDS) - exact).abs().mean()
    reference = (run_whole(load_model(tiny_dir, kernels="torch"), IDS) - exact).abs().mean()
    assert 0 < ours <= 3 * reference


@pytest.mark.slow
def test_a_single_token_of_four_bits_in_bfloat16(int4_dir: Path) -> None:
    """Through the matrix-vector kernels, which in fp32 run for dense experts only."""
    exact, ours, reference = (
        _last_logits(load_model(int4_dir, dtype=dtype, kernels=kernels))
        for dtype, kernels in ((torch.float32, "torch"), (torch.bfloat16, "triton"), (torch.bfloat16, "torch"))
    )
    assert 0 < (ours - exact).abs().mean() <= 3 * (reference - exact).abs().mean()


def _last_logits(model: K25Model) -> torch.Tensor:
    drive = Drive(model)
    drive.step({"one": IDS[:9]})
    return drive.step({"one": IDS[9:10]})["one"]


@pytest.mark.long
def test_pictures_and_chunks_in_one_call() -> None:
    tower = VisionTower(TINY, dtype=torch.float32, ops=find_ops("cpu", "triton"))
    tower.load(make_weights(TINY))
    items = [make_item(1, 4, 6), make_item(3, 6, 4, seed=1), make_item(1, 8, 8, seed=2)]
    theirs = TowerPeer(TINY, make_weights(TINY))
    for item, ours in zip(items, tower(items), strict=True):
        assert difference(ours, theirs(item)) <= 1e-4


@pytest.mark.slow
def test_a_picture_in_a_text(dense: K25Model, peer: Peer) -> None:
    image, pad = make_item(1, 4, 6, seed=1), dense.config.media_placeholder_token_id
    ids = [*IDS[:5], *[pad] * 6, *IDS[5:9]]
    rows = dense.embed(torch.tensor(ids))
    rows[torch.tensor(ids) == pad] = torch.cat(dense.encode_media([image]))
    drive = Drive(dense)
    ours = torch.cat([drive.step_rows({"one": chunk})["one"] for chunk in rows.split(9)])
    assert difference(ours, peer(ids, (image,))) <= 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
async def test_the_engine(int4_dir: Path, size: int) -> None:
    """One rank and two: heads and experts shared, the experts' repacked weights too."""
    results = []
    for kernels, ranks in (("torch", 1), ("triton", size)):
        engine = start(int4_dir, kernels=kernels, tensor_parallel_size=ranks)
        prompts = [make_prompt(engine.tokenizer, text) for text in ("hello", "a longer text")]
        results.append(await run(engine, [greedy(str(i), prompt, 2) for i, prompt in enumerate(prompts)]))
        await engine.close()
    assert_same(results[1], results[0], within=1e-4)


@pytest.mark.slow
def test_a_second_start_reads_the_repacked_experts(int4_dir: Path, packed: K25Model, tmp_path: Path) -> None:
    load(int4_dir, kernel_cache_dir=tmp_path)
    files = [path.name for path in tmp_path.rglob("*.safetensors")]
    assert files == ["language_model.model.layers.1.mlp.experts.0-of-1.safetensors"]
    written = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))]
    again = load(int4_dir, kernel_cache_dir=tmp_path)
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))] == written
    assert torch.equal(run_whole(again, IDS[:9]), run_whole(packed, IDS[:9]))
