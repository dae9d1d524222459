"""Random weights under the release's names, and the same weights in the peer's model."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model_runtime.config import VisionConfig
from model_runtime.errors import CheckpointError
from model_runtime.media import MediaItem

TINY = VisionConfig(
    hidden_size=144,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=200,
    init_pos_emb_height=6,
    init_pos_emb_width=6,
    mm_hidden_size=144,
    text_hidden_size=40,
)


@dataclass(frozen=True, slots=True)
class DictSource:
    """Tensors from a dict."""

    tensors: dict[str, Tensor]

    def has(self, name: str) -> bool:
        return name in self.tensors

    def get(self, name: str, index: tuple[slice, ...] = ()) -> Tensor:
        if name not in self.tensors:
            raise CheckpointError(f"there is no tensor {name}")
        return self.tensors[name][index]


def shapes_of(config: VisionConfig) -> dict[str, tuple[int, ...]]:
    """Section of the checkpoint that the tower reads."""
    width, hidden, merged = config.hidden_size, config.intermediate_size, 4 * config.mm_hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "vision_tower.patch_embed.proj.weight": (width, 3, 14, 14),
        "vision_tower.patch_embed.proj.bias": (width,),
        "vision_tower.patch_embed.pos_emb.weight": (config.init_pos_emb_height, config.init_pos_emb_width, width),
        "vision_tower.encoder.final_layernorm.weight": (width,),
        "vision_tower.encoder.final_layernorm.bias": (width,),
        "mm_projector.pre_norm.weight": (width,),
        "mm_projector.pre_norm.bias": (width,),
        "mm_projector.proj.0.weight": (merged, merged),
        "mm_projector.proj.0.bias": (merged,),
        "mm_projector.proj.2.weight": (config.text_hidden_size, merged),
        "mm_projector.proj.2.bias": (config.text_hidden_size,),
    }
    layer = {"wqkv": (3 * width, width), "wo": (width, width), "mlp.fc0": (hidden, width), "mlp.fc1": (width, hidden)}
    for index in range(config.num_hidden_layers):
        block = f"vision_tower.encoder.blocks.{index}"
        for name, shape in layer.items():
            shapes |= {f"{block}.{name}.weight": shape, f"{block}.{name}.bias": shape[:1]}
        for name in ("norm0", "norm1"):
            shapes |= {f"{block}.{name}.weight": (width,), f"{block}.{name}.bias": (width,)}
    return shapes


def make_weights(config: VisionConfig, seed: int = 0) -> DictSource:
    """Random tensors: matrices that keep the scale of their input, norms near one, biases that matter."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes_of(config).items():
        values = torch.randn(shape, generator=generator)
        if "norm" in name and name.endswith("weight"):
            tensors[name] = 1 + 0.2 * values
        elif len(shape) == 1:
            tensors[name] = 0.2 * values
        elif name.endswith("pos_emb.weight"):
            tensors[name] = values
        else:
            tensors[name] = values * 1.5 / float(np.sqrt(np.prod(shape[1:])))
    return DictSource(tensors)


def make_item(t: int, h: int, w: int, seed: int = 0) -> MediaItem:
    """Random pixels of a grid of patches."""
    random = np.random.default_rng((seed, t, h, w))
    return MediaItem(frames=random.integers(0, 256, (t, 14 * h, 14 * w, 3), dtype=np.uint8), content_hash=b"")


class Peer:
    """transformers' vision tower and projector with our weights. It fails on a mix of frame counts in one call."""

    def __init__(self, config: VisionConfig, source: DictSource, dtype: torch.dtype = torch.float32) -> None:
        from transformers.models.kimi_k25.configuration_kimi_k25 import Kimi_K25Config, Kimi_K25VisionConfig
        from transformers.models.kimi_k25.modeling_kimi_k25 import (
            Kimi_K25MultimodalProjection,
            Kimi_K25VisionModel,
        )

        vision = Kimi_K25VisionConfig(
            patch_size=config.patch_size,
            pos_emb_height=config.init_pos_emb_height,
            pos_emb_width=config.init_pos_emb_width,
            pos_emb_time=config.init_pos_emb_time,
            num_attention_heads=config.num_attention_heads,
            num_hidden_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            merge_kernel_size=list(config.merge_kernel_size),
        )
        vision._attn_implementation = "sdpa"
        whole = Kimi_K25Config(
            vision_config=vision,
            text_config={"model_type": "deepseek_v3", "hidden_size": config.text_hidden_size},
            projection_hidden_size=config.mm_hidden_size,
            projection_layer_norm_eps=config.projector_ln_eps,
        )
        self.tower = Kimi_K25VisionModel(vision).eval()
        self.projector = Kimi_K25MultimodalProjection(whole).eval()
        tower, projector = peer_names(config, source)
        self.tower.load_state_dict(tower, strict=True)
        self.projector.load_state_dict(projector, strict=True)
        self.tower.to(dtype)
        self.projector.to(dtype)
        self.dtype = dtype
        self.config = config

    def __call__(self, item: MediaItem) -> Tensor:
        """(num_tokens, text_hidden_size) of one item."""
        return self.encode([item])

    @torch.no_grad()
    def encode(self, items: list[MediaItem]) -> Tensor:
        """Rows of all items, which have equally many frames."""
        pixels = torch.cat([make_pixel_values(item) for item in items])
        out = self.tower(pixels.to(self.dtype), torch.tensor([item.grid for item in items]))
        return self.projector(out.pooler_output).squeeze(1)


def make_pixel_values(item: MediaItem) -> Tensor:
    """(patches, 3, 14, 14) fp32 from -1 to 1."""
    t, h, w = item.grid
    pixels = (torch.from_numpy(item.frames).float() / 255 - 0.5) / 0.5
    return pixels.view(t, h, 14, w, 14, 3).permute(0, 1, 3, 5, 2, 4).reshape(-1, 3, 14, 14)


def peer_names(config: VisionConfig, source: DictSource) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights under the peer's names; queries and keys in its half-split order."""
    renames = (
        ("vision_tower.encoder.blocks.", "layers."),
        ("vision_tower.encoder.", ""),
        ("vision_tower.patch_embed.pos_emb.weight", "patch_embed.pos_emb.position_embeddings"),
        ("vision_tower.", ""),
        ("norm1.", "norm2."),
        ("norm0.", "norm1."),
        ("mlp.fc1.", "mlp.fc2."),
        ("mlp.fc0.", "mlp.fc1."),
        (".wo.", ".attn.proj."),
        ("mm_projector.proj.0.", "mm_projector.in_proj."),
        ("mm_projector.proj.2.", "mm_projector.out_proj."),
    )
    tower, projector = {}, {}
    for name, tensor in source.tensors.items():
        for ours, theirs in renames:
            name = name.replace(ours, theirs)
        if name.startswith("mm_projector."):
            projector[name.removeprefix("mm_projector.")] = tensor
        elif "wqkv" in name:
            for letter, part in zip("qkv", tensor.chunk(3), strict=True):
                pairs = part.unflatten(0, (config.num_attention_heads, config.head_dim // 2, 2))
                ordered = part if letter == "v" else pairs.transpose(1, 2).flatten(0, 2)
                tower[name.replace("wqkv", f"attn.{letter}_proj")] = ordered
        else:
            tower[name] = tensor
    return tower, projector
