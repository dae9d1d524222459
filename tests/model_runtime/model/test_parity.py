"""The whole model beside transformers' own, on the same folder of random weights, in fp32 unless said otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from model_runtime.checkpoint.int4 import dequantize
from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.config import RopeScaling
from model_runtime.model import K25Model, load_model
from model_runtime.model.moe import Moe
from model_runtime.ops import DenseExperts, Int4Experts
from tests.model_runtime.model.drive import Drive, difference, make_ids, run_whole
from tests.model_runtime.model.peer import Peer
from tests.model_runtime.vision.weights import make_item

IDS = make_ids(60)


@pytest.fixture(scope="module")
def peer(tiny_dir: Path) -> Peer:
    return Peer(tiny_dir)


def test_text(tiny: K25Model, peer: Peer) -> None:
    theirs = peer(IDS)
    assert theirs.std() > 0.5
    assert difference(run_whole(tiny, IDS), theirs) <= 2e-5


def test_the_eps_of_the_latent_norms_is_a_choice_that_shows(tiny_dir: Path, peer: Peer) -> None:
    """transformers has 1e-6 there, vLLM the 1e-5 of config.json."""
    ours = run_whole(load_model(tiny_dir, dtype=torch.float32, latent_norm_eps=1e-5), IDS)
    assert difference(ours, peer(IDS)) > 4e-5
    peer.set_latent_norm_eps(1e-5)
    try:
        assert difference(ours, peer(IDS)) <= 2e-5
    finally:
        peer.set_latent_norm_eps(1e-6)


@pytest.mark.parametrize(
    "text",
    [
        {"n_routed_experts": 12, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3},
        {"norm_topk_prob": False},
        {"n_shared_experts": 2, "first_k_dense_replace": 2},
        {"rope_scaling": RopeScaling(beta_fast=1.0, factor=32.0), "max_position_embeddings": 131_072},
        {"rope_scaling": RopeScaling(mscale=0.7, original_max_position_embeddings=16), "max_position_embeddings": 1024},
        {"num_attention_heads": 3, "qk_nope_head_dim": 10, "v_head_dim": 6, "q_lora_rank": 20},
    ],
    ids=lambda text: "-".join(text),
)
def test_other_numbers(tmp_path: Path, text: dict[str, Any]) -> None:
    write_tiny(tmp_path, config=tiny_config(text=text))
    ours = run_whole(load_model(tmp_path, dtype=torch.float32), IDS)
    assert difference(ours, Peer(tmp_path)(IDS)) <= 2e-5


def test_bfloat16_is_as_near_to_fp32_as_the_peer_is(tiny_dir: Path, peer: Peer) -> None:
    exact = peer(IDS)
    model = load_model(tiny_dir)
    assert model.dtype == torch.bfloat16
    ours = (run_whole(model, IDS) - exact).abs().mean()
    theirs = (Peer(tiny_dir, torch.bfloat16)(IDS) - exact).abs().mean()
    assert 0 < ours <= 1.2 * theirs


def test_images_stand_in_place_of_their_tokens(tiny: K25Model, peer: Peer) -> None:
    """Two images between text, in chunks that cut both."""
    images = (make_item(1, 4, 6, seed=1), make_item(1, 8, 4, seed=2))
    pad = tiny.config.media_placeholder_token_id
    ids = [*IDS[:5], *[pad] * 6, *IDS[5:9], *[pad] * 8, *IDS[9:20]]
    rows = tiny.embed(torch.tensor(ids))
    rows[torch.tensor(ids) == pad] = torch.cat(tiny.encode_media(images))
    drive = Drive(tiny)
    ours = torch.cat([drive.step_rows({"one": chunk})["one"] for chunk in rows.split(9)])
    theirs = peer(ids, images)
    assert difference(ours, theirs) <= 2e-5
    assert difference(run_whole(tiny, ids), theirs) > 0.1


def unpack_all(model: K25Model, model_dir: Path) -> None:
    """Put dense experts, unpacked by the checkpoint's own reader and rounded to bf16, in place of the packed ones."""
    source = Checkpoint.open(model_dir)
    for number, layer in enumerate(model.layers):
        if isinstance(layer.mlp, Moe):
            prefix = f"language_model.model.layers.{number}.mlp.experts"
            weights = {
                part: [
                    dequantize(source.get(f"{name}_packed"), source.get(f"{name}_scale")).float()
                    for name in (f"{prefix}.{expert}.{part}_proj.weight" for expert in range(8))
                ]
                for part in ("gate", "up", "down")
            }
            gate_up = [torch.cat(pair) for pair in zip(weights["gate"], weights["up"], strict=True)]
            layer.mlp.set_experts(DenseExperts(gate_up=torch.stack(gate_up), down=torch.stack(weights["down"])))


def test_int4_is_the_model_with_its_weights_unpacked(int4_dir: Path) -> None:
    packed, dense = (load_model(int4_dir, dtype=torch.float32) for _ in range(2))
    assert isinstance(packed.layers[1].mlp, Moe)
    assert isinstance(packed.layers[1].mlp.experts, Int4Experts)
    unpack_all(dense, int4_dir)
    assert difference(run_whole(packed, IDS), run_whole(dense, IDS)) <= 1e-6


def test_int4_of_transformers(int4_dir: Path, tiny: K25Model) -> None:
    """Both round the unpacked weights to bf16; with theirs computed in fp32 as ours, nothing else is left."""
    peer = Peer(int4_dir)
    peer.widen_experts()
    theirs = peer(IDS)
    ours = run_whole(load_model(int4_dir, dtype=torch.float32), IDS)
    assert difference(ours, theirs) <= 2e-5
    assert difference(run_whole(tiny, IDS), theirs) > 0.05  # four bits do show


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.long
def test_int4_in_bfloat16_is_as_near_as_the_peer_is(tmp_path: Path, seed: int) -> None:
    """By the median: a token whose router scores bf16 moves across each other takes another expert, here or there."""
    write_tiny(tmp_path, quantized=True, seed=seed)
    exact = run_whole(load_model(tmp_path, dtype=torch.float32), IDS)
    ours = (run_whole(load_model(tmp_path), IDS) - exact).abs().median()
    theirs = (Peer(tmp_path, torch.bfloat16)(IDS) - exact).abs().median()
    assert 0 < ours <= 1.1 * theirs


def test_a_config_given_is_taken_in_place_of_the_file(tiny_dir: Path, tiny: K25Model) -> None:
    text = replace(tiny.config.text, routed_scaling_factor=1.0)
    other = load_model(tiny_dir, dtype=torch.float32, config=replace(tiny.config, text=text))
    assert difference(run_whole(other, IDS), run_whole(tiny, IDS)) > 0.05
