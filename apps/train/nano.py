"""nano-K2.5: the release's architecture, three hundred thousand times smaller."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from apps.train.vocabulary import make_vocabulary
from cua.errors import ConfigError
from model_runtime.checkpoint.folder import unpack_folder
from model_runtime.checkpoint.reader import Checkpoint, is_quantized
from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.config.types import K25Config
from model_runtime.model import K25Model, load_model
from model_runtime.tokenizer.special import NUM_SLOTS, SpecialTokens
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.vision.tower import CHANNELS, VisionTower

MAX_PATCHES = 4_900
"""Maximum number of patches of a screenshot: 1280 x 720 has 4,784, larger ones are scaled down."""
MAX_POSITIONS = 16_384
BRIGHTNESS_SCALE = 0.05
"""Scale of the filter of a patch's brightness."""
PLACE_WAVES, PLACE_SCALE = 8, 0.2
"""Waves over width and over height that encode a position, and the scale of their contribution to a patch's row."""
NUMBER_WAVES = 32
"""Waves over the thousand coordinates in the embedding rows of their tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoSize:
    """Size of a nano-K2.5.

    Attributes:
        hidden_size: Width of the language model.
        num_layers: Layers of the language model; the first one is dense.
        expert_size: Width inside an expert, a multiple of 32, the group size of INT4 scales.
        vision_size: Width of the vision tower, a multiple of 32, the width of its heads.
        vision_layers: Layers of the vision tower.
    """

    hidden_size: int = 128
    num_layers: int = 5
    expert_size: int = 64
    vision_size: int = 128
    vision_layers: int = 4


SIZES = {
    "small": NanoSize(),
    "large": NanoSize(hidden_size=256, num_layers=7, expert_size=128, vision_size=256, vision_layers=6),
}
"""Sizes by name, as in `cua train --size`: 3.4 and 15.4 million parameters. The large one is for a GPU."""


def make_config(ranks: bytes, size: NanoSize = SIZES["small"]) -> K25Config:
    """Return the configuration of nano-K2.5.

    Args:
        ranks: Content of its `tiktoken.model`.
        size: Model size.
    """
    num_ranks = ranks.count(b"\n")
    special = SpecialTokens(num_ranks)
    config = tiny_config(
        text={
            "vocab_size": num_ranks + NUM_SLOTS,
            "hidden_size": size.hidden_size,
            "num_hidden_layers": size.num_layers,
            "intermediate_size": 4 * size.expert_size,
            "moe_intermediate_size": size.expert_size,
            "num_attention_heads": 4,
            "q_lora_rank": 64,
            "kv_lora_rank": 64,
            "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 16,
            "v_head_dim": 32,
            "rope_scaling": None,
            "rope_theta": 10_000.0,
            "max_position_embeddings": MAX_POSITIONS,
            "bos_token_id": special.bos,
            "eos_token_id": special.eos,
            "pad_token_id": special.id_of("[PAD]"),
        },
        vision={
            "hidden_size": size.vision_size,
            "num_hidden_layers": size.vision_layers,
            "num_attention_heads": size.vision_size // 32,
            "intermediate_size": 6 * size.vision_size,
            "init_pos_emb_height": 32,
            "init_pos_emb_width": 32,
            "mm_hidden_size": size.vision_size,
        },
        dtype="float32",
    )
    return replace(config, media_placeholder_token_id=special.media_pad)


def make_model(folder: Path, config: K25Config, seed: int, device: str = "cpu") -> K25Model:
    """Return an untrained model; the same seed gives the same weights on all devices.

    Args:
        folder: Folder for its files; existing files are kept.
        config: Result of `make_config`.
        seed: Seed of the weights.
        device: Device of the training.
    """
    if not (folder / "tiktoken.model").is_file():
        write_tiny(folder, config=config, seed=seed, num_shards=1)
        (folder / "tiktoken.model").write_bytes(make_vocabulary())
    torch.manual_seed(seed)
    model = load_model(folder, device=device, dtype="float32", kernels="autograd")
    assert model.vision is not None
    start_vision(model.vision)
    tokenizer = load_tokenizer(folder)
    start_numbers(model, [tokenizer.encode(f"{number:03}")[0] for number in range(1000)])
    return model


def load_trained(source: Path, folder: Path, device: str = "cpu") -> K25Model:
    """Return a trained model for further training.

    Args:
        source: Folder of the model, packed to INT4 or not.
        folder: Folder for its unpacked files; existing files are kept.
        device: Device of the training.

    Raises:
        ConfigError: If it has another vocabulary than the lessons.
        CheckpointError: If `source` holds no model of the release's layout.
    """
    if not (folder / "tiktoken.model").is_file():
        if not (source / "tiktoken.model").is_file():
            raise ConfigError(f"{source} has no tiktoken.model; expected the folder of a nano-K2.5, as in FOLDER/model")
        if (source / "tiktoken.model").read_bytes() != make_vocabulary():
            raise ConfigError(f"{source} has another vocabulary than the lessons; only a nano-K2.5 can be trained here")
        if is_quantized(Checkpoint.open(source)):
            unpack_folder(source, folder, "float32")
        else:
            shutil.copytree(source, folder)
    return load_model(folder, device=device, dtype="float32", kernels="autograd")


@torch.no_grad()
def start_vision(tower: VisionTower) -> None:
    """Initialize a vision tower so that it learns to read quickly.

    Norms and biases are neutral. The patch embedding has the lowest frequencies of each patch, with little weight on
    brightness: random filters mostly pass on brightness. A position is encoded by waves over width and height, so that
    it can be read from a patch's row; random values would have to be memorized.
    """
    for name, weight in tower.named_parameters():
        if weight.dim() == 1:
            weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
    size = tower.patch_embed.patch_size
    filters = make_filters(len(tower.patch_embed.weight), size)
    filters[0] *= BRIGHTNESS_SCALE
    gray = filters[..., None].expand(-1, size, size, CHANNELS) / CHANNELS**0.5
    tower.patch_embed.weight.copy_(gray.flatten(1))
    height, width, channels = tower.position.weight.shape
    across, down = (_mix_waves(count, PLACE_WAVES, channels) for count in (width, height))
    tower.position.weight.copy_(PLACE_SCALE * (across[None] + down[:, None]) / 2**0.5)


@torch.no_grad()
def start_numbers(model: K25Model, ids: Sequence[int]) -> None:
    """Initialize token rows so that a model learns quickly to predict numbers and to copy.

    Half of a coordinate's row are waves over all coordinates, so that neighbours are similar; the other half
    distinguishes them. Initially, the head has the same rows as the embedding, so that copying learned on some tokens
    generalizes to all.

    Args:
        model: Model whose embedding and head are overwritten.
        ids: Tokens of the coordinates, in ascending order.
    """
    embedding, head = model.embedding.weight, model.head.weight
    places = torch.tensor(ids)
    waves = _mix_waves(len(ids), NUMBER_WAVES, embedding.shape[1]).to(embedding.device)
    own = embedding[places] / embedding[places].std()
    embedding[places] = (waves + own) / 2**0.5 * embedding.std()
    head.copy_(embedding * (head.std() / embedding.std()))


def _mix_waves(count: int, num_waves: int, width: int) -> Tensor:
    """Return rows for positions in a line, made of waves in random directions: (count, width), mean square 1."""
    directions: Tensor = torch.linalg.qr(torch.randn(width, num_waves)).Q
    rows: Tensor = make_waves(count, num_waves + 1)[1:].T @ directions.T
    return rows.div(rows.square().mean().sqrt())


def make_waves(count: int, num_waves: int) -> Tensor:
    """Return the lowest-frequency waves of the cosine transform, starting with the constant one: (waves, count),
    orthonormal.

    Source: Ahmed, Natarajan, Rao 1974, "Discrete Cosine Transform" (type II).
    """
    places = torch.arange(count) + 0.5
    waves = torch.stack([torch.cos(math.pi * number * places / count) for number in range(num_waves)])
    return torch.nn.functional.normalize(waves, dim=1)


def make_filters(count: int, size: int) -> Tensor:
    """Return products of two waves, lowest frequencies first, starting with the constant one: (count, size, size)."""
    waves = make_waves(size, size)
    pairs = sorted(((i, j) for i in range(size) for j in range(size)), key=lambda pair: pair[0] ** 2 + pair[1] ** 2)
    return torch.stack([torch.outer(waves[i], waves[j]) for i, j in pairs[:count]])
