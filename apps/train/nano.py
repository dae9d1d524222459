"""nano-K2.5: the release's architecture at a millionth of its size."""

import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from apps.train.vocabulary import make_vocabulary
from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.config.types import K25Config
from model_runtime.model import K25Model, load_model
from model_runtime.tokenizer.special import NUM_SLOTS, SpecialTokens
from model_runtime.vision.tower import CHANNELS, VisionTower

MAX_PATCHES = 4_900
"""Of a screenshot: 1280 x 720 has 4,784, larger ones are made smaller."""
MAX_POSITIONS = 16_384
PLACE_SCALE = 0.04
BRIGHTNESS_SCALE = 0.05
"""Of what is drawn for a position; of the filter of a patch's brightness."""


def make_config(ranks: bytes, *, hidden_size: int = 96, num_layers: int = 4, vision_size: int = 96) -> K25Config:
    """The numbers of nano-K2.5.

    Args:
        ranks: Content of its `tiktoken.model`.
        hidden_size: Width of the language model.
        num_layers: Of the language model, the first of them dense.
        vision_size: Width of the vision tower, a multiple of 32, the width of its heads.
    """
    num_ranks = ranks.count(b"\n")
    special = SpecialTokens(num_ranks)
    config = tiny_config(
        text={
            "vocab_size": num_ranks + NUM_SLOTS,
            "hidden_size": hidden_size,
            "num_hidden_layers": num_layers,
            "intermediate_size": 256,
            "moe_intermediate_size": 64,
            "num_attention_heads": 4,
            "q_lora_rank": 48,
            "kv_lora_rank": 32,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 16,
            "v_head_dim": 16,
            "rope_scaling": None,
            "rope_theta": 10_000.0,
            "max_position_embeddings": MAX_POSITIONS,
            "bos_token_id": special.bos,
            "eos_token_id": special.eos,
            "pad_token_id": special.id_of("[PAD]"),
        },
        vision={
            "hidden_size": vision_size,
            "num_hidden_layers": 3,
            "num_attention_heads": vision_size // 32,
            "intermediate_size": 4 * vision_size,
            "init_pos_emb_height": 32,
            "init_pos_emb_width": 32,
            "mm_hidden_size": vision_size,
        },
        dtype="float32",
    )
    return replace(config, media_placeholder_token_id=special.media_pad)


def make_model(folder: Path, config: K25Config, seed: int) -> K25Model:
    """An untrained model, ready to be trained.

    Args:
        folder: Where its files are written; made where it is not there.
        config: Of `make_config`.
        seed: Of the weights.
    """
    write_tiny(folder, config=config, seed=seed, num_shards=1)
    (folder / "tiktoken.model").write_bytes(make_vocabulary())
    model = load_model(folder, dtype="float32", kernels="autograd")
    assert model.vision is not None
    start_vision(model.vision)
    return model


@torch.no_grad()
def start_vision(tower: VisionTower) -> None:
    """Weights from which a tower learns to read soon.

    Places weigh little, norms and biases change nothing, and the patch embedding sees each patch's lowest frequencies
    (those of the cosine transform, type II), its brightness hardly: random filters pass on brightness above all.
    """
    tower.position.weight.mul_(PLACE_SCALE)
    for name, weight in tower.named_parameters():
        if weight.dim() == 1:
            weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
    size = tower.patch_embed.patch_size
    filters = make_filters(len(tower.patch_embed.weight), size)
    filters[0] *= BRIGHTNESS_SCALE
    gray = filters[..., None].expand(-1, size, size, CHANNELS) / CHANNELS**0.5
    tower.patch_embed.weight.copy_(gray.flatten(1))


def make_filters(count: int, size: int) -> Tensor:
    """The cosine transform's patterns of the lowest frequencies, the flat one first: (count, size, size), orthonormal.

    Source: Ahmed, Natarajan, Rao 1974, "Discrete Cosine Transform".
    """
    places = torch.arange(size) + 0.5
    waves = torch.stack([torch.cos(math.pi * number * places / size) for number in range(size)])
    waves = waves / waves.norm(dim=1, keepdim=True)
    pairs = sorted(((i, j) for i in range(size) for j in range(size)), key=lambda pair: pair[0] ** 2 + pair[1] ** 2)
    return torch.stack([torch.outer(waves[i], waves[j]) for i, j in pairs[:count]])
