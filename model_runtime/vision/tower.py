"""MoonViT-3D: images and chunks of up to four frames, in any mix, to rows for the language model, projector included.

Source: Kimi K2.5 report, section 4.2; Kimi-VL report, arXiv 2504.07491, section 2.1 (tower and MLP projector); Dehghani
et al. 2023 (NaViT), arXiv 2307.06304, section 2.1 for packing items of any size into one batch.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.reader import TensorSource
from model_runtime.config.types import VisionConfig
from model_runtime.media import MediaItem
from model_runtime.ops import CuSeqlens, Ops, find_ops
from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.placement import Placement
from model_runtime.vision.block import Block, ColumnLinear, LayerNorm, Packing, RowLinear
from model_runtime.vision.position import PatchEmbed, PositionTable, Rope2D


class Projector(nn.Module):
    """Four neighbouring patches become one token of the language model. The hidden width is split over the ranks."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        down, right = config.merge_kernel_size
        width = config.mm_hidden_size * down * right
        self.merge, self.merge_patches = config.merge_kernel_size, placement.ops.merge_patches
        self.pre_norm = LayerNorm(config.mm_hidden_size, placement, config.projector_ln_eps)
        self.first = ColumnLinear(width, width, placement)
        self.second = RowLinear(width, config.text_hidden_size, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill the projector from tensors under `name`."""
        self.pre_norm.load(source, f"{name}.pre_norm")
        self.first.load(source, f"{name}.proj.0")
        self.second.load(source, f"{name}.proj.2")

    def forward(self, x: Tensor, grids: Sequence[tuple[int, int, int]]) -> Tensor:
        """Patches of items, (N, mm_hidden_size), to (tokens, text_hidden_size). The GELU is the exact one here."""
        norm = self.pre_norm
        merged = self.merge_patches(x, grids, self.merge, norm.weight, norm.bias, norm.eps)
        return self.second(F.gelu(self.first(merged)))


MAX_PATCHES_PER_PASS = 16_384


class VisionTower(nn.Module):
    """The vision part of the model, projector included.

    Attributes:
        max_patches_per_pass: Items are encoded in groups of at most so many patches (an item that alone has more goes
            alone). At the release's width a patch takes 22 kB of memory for activations in bf16 (measured on a CPU with
            16,384 patches): 0.36 GB a pass.
    """

    def __init__(
        self,
        config: VisionConfig,
        *,
        comm: Comm | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.bfloat16,
        ops: Ops | None = None,
        max_patches_per_pass: int = MAX_PATCHES_PER_PASS,
    ) -> None:
        super().__init__()
        self.config, self.max_patches_per_pass = config, max_patches_per_pass
        place = Placement(comm=comm or OneRank(), device=torch.device(device), dtype=dtype, ops=ops or find_ops(device))
        self.patch_embed = PatchEmbed(config, place)
        self.position = PositionTable(config, place)
        self.rope = Rope2D(config.head_dim, place.device)
        self.blocks = nn.ModuleList(Block(config, place) for _ in range(config.num_hidden_layers))
        self.final_norm = LayerNorm(config.hidden_size, place)
        self.projector = Projector(config, place)

    @torch.no_grad()
    def load(self, source: TensorSource) -> None:
        """Fill all weights by their release names (`vision_tower.*`, `mm_projector.*`), this rank's part of each.

        Raises:
            CheckpointError: A tensor is missing or misshapen.
        """
        self.patch_embed.load(source, "vision_tower.patch_embed.proj")
        self.position.load(source, "vision_tower.patch_embed.pos_emb")
        for index, block in enumerate(self.blocks):
            cast(Block, block).load(source, f"vision_tower.encoder.blocks.{index}")
        self.final_norm.load(source, "vision_tower.encoder.final_layernorm")
        self.projector.load(source, "mm_projector")

    @torch.no_grad()
    def forward(self, items: Sequence[MediaItem]) -> list[Tensor]:
        """Encode items; each is encoded as if it were alone.

        Args:
            items: Images and chunks, of any sizes and frame counts.

        Returns:
            For each item (num_tokens, text_hidden_size) in the tower's dtype.
        """
        rows: list[Tensor] = [torch.empty(0)] * len(items)
        for group in make_groups([item.num_patches for item in items], self.max_patches_per_pass):
            for index, encoded in zip(group, self._encode([items[i] for i in group]), strict=True):
                rows[index] = encoded
        return rows

    def _encode(self, items: list[MediaItem]) -> Iterator[Tensor]:
        """One pass over items laid end to end."""
        grids = [item.grid for item in items]
        sizes = [item.num_patches for item in items]
        packing = Packing(cu_seqlens=CuSeqlens.of_lengths(sizes), rotations=self.rope.make(grids))
        x = self.patch_embed(items)  # (N, hidden_size)
        for part, grid in zip(x.split(sizes), grids, strict=True):
            self.position.add_to(part, grid)
        for block in self.blocks:
            x = block(x, packing)
        projected = self.projector(self.final_norm(x), grids)  # (tokens of all items, text_hidden_size)
        down, right = self.config.merge_kernel_size
        return iter(projected.split([(h // down) * (w // right) for _, h, w in grids]))


def make_groups(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Indices of items in groups of at most `limit` patches, by size so that equal ones lie side by side."""
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if not groups or sizes[index] > room:
            groups.append([])
            room = limit
        groups[-1].append(index)
        room -= sizes[index]
    return groups
