"""MoonViT-3D with its projector: any mix of images and chunks of up to four frames to rows of the language model.

Source: Kimi K2.5 report, section 4.2; Kimi-VL report, arXiv 2504.07491, section 2.1 (tower and MLP projector); Dehghani
et al. 2023 (NaViT), arXiv 2307.06304, section 2.1 for packing items of any size into one batch.

Rotary positions have two dimensions: columns and rows alternate over the pairs of a head. Pair 2i is rotated by f_i
times the column, pair 2i + 1 by f_i times the row, with f_i = 10000^(-4i / head_dim). All frames of a chunk have the
same angles.

Source: Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.2 (resampling a learned table); Vaswani et al. 2017,
arXiv 1706.03762, section 3.5 (sinusoid); Su et al. 2021, arXiv 2104.09864, equation 34, and Kimi-VL report,
arXiv 2504.07491, section 2.1 (rotary); Kimi K2.5 report, section 4.2 (MoonViT-3D: chunks of four frames).

Source: Dosovitskiy et al. 2020, arXiv 2010.11929, equation 1; Kimi-VL report, arXiv 2504.07491, section 2.1 (MoonViT).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.reader import TensorSource, copy_into
from model_runtime.config.types import VisionConfig
from model_runtime.media import MediaItem
from model_runtime.ops import CuSeqlens, Ops, find_ops
from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.placement import ModelPlacement
from model_runtime.vision.block import ColumnLinear, LayerNorm, Packing, RowLinear, VisionBlock, add, make_weight

BASE = 10_000.0
GRIDS_KEPT = 8  # each kept grid costs memory; images of one run have few sizes


def make_sinusoid(num_frames: int, width: int, device: torch.device) -> Tensor:
    """Return (num_frames, width) fp32: sines of frame * 10000^(-2i / width), then their cosines."""
    frequencies = BASE ** -(torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
    angles = torch.arange(num_frames, device=device, dtype=torch.float32)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class PositionTable(nn.Module):
    """Learned position table, added to patches. Tables of the last few grids are cached: an agent's screenshots have
    one size.
    """

    def __init__(self, config: VisionConfig, placement: ModelPlacement) -> None:
        super().__init__()
        self.weight = make_weight(placement, config.init_pos_emb_height, config.init_pos_emb_width, config.hidden_size)
        self.max_frames = config.init_pos_emb_time
        self._kept = lru_cache(maxsize=GRIDS_KEPT)(self._resample)

    def load(self, source: TensorSource, name: str) -> None:
        """Load the table from `name`.weight."""
        copy_into(self.weight, source.get(f"{name}.weight"), f"{name}.weight")
        self._kept.cache_clear()

    def spatial(self, h: int, w: int) -> Tensor:
        """Return the table for a grid of h x w patches: (h * w, width) fp32. Cached, unless the table is being
        trained.
        """
        return self._resample(h, w) if self.weight.requires_grad else self._kept(h, w)

    def _resample(self, h: int, w: int) -> Tensor:
        """Resample the table: (h * w, width) fp32; bicubic, a = -0.75, corners not aligned, no antialiasing."""
        table = self.weight.float()  # (table_h, table_w, width)
        if (h, w) != tuple(table.shape[:2]):
            channels_first = table.permute(2, 0, 1)[None]
            table = F.interpolate(channels_first, size=(h, w), mode="bicubic", align_corners=False)[0].permute(1, 2, 0)
        return table.reshape(h * w, -1).contiguous()

    def forward(self, x: Tensor, grids: Sequence[tuple[int, int, int]]) -> Tensor:
        """Add the positions of concatenated items.

        Args:
            x: (N, width), the items' rows, may be overwritten.
            grids: (t, h, w) of each in patches. With t = 1 there is no temporal part; the first of several frames has
                one.

        Returns:
            (N, width).
        """
        x = add(x, torch.cat([self.spatial(h, w).to(x.dtype) for t, h, w in grids for _ in range(t)]))
        if all(t == 1 for t, _, _ in grids):
            return x
        return add(x, torch.cat([self._temporal(grid, x) for grid in grids]))

    def _temporal(self, grid: tuple[int, int, int], like: Tensor) -> Tensor:
        t, h, w = grid
        if t == 1:
            return like.new_zeros(h * w, like.shape[1])
        return make_sinusoid(t, like.shape[1], like.device).to(like.dtype).repeat_interleave(h * w, dim=0)


ROTARY_BASE = 10_000.0
ROTARY_GRIDS_KEPT = 8


class Rope2D:
    """Rotary angles of grids. The last few grids are cached."""

    def __init__(self, head_dim: int, device: torch.device) -> None:
        self.head_dim, self.device = head_dim, device
        self.of_frame = lru_cache(maxsize=ROTARY_GRIDS_KEPT)(self._make)

    def _make(self, h: int, w: int) -> Tensor:
        """Return the rotations of one frame, (h * w, head_dim / 2) complex64: e^(i * angle) of each pair."""
        steps = torch.arange(0, self.head_dim, 4, device=self.device, dtype=torch.float32)
        frequencies = ROTARY_BASE ** -(steps / self.head_dim)  # (head_dim / 4)
        columns = torch.arange(w, device=self.device, dtype=torch.float32)[:, None] * frequencies
        rows = torch.arange(h, device=self.device, dtype=torch.float32)[:, None] * frequencies
        pairs = torch.stack([columns.expand(h, w, -1), rows[:, None].expand(h, w, -1)], dim=-1)  # (h, w, dim / 4, 2)
        angles = pairs.reshape(h * w, -1)
        return torch.polar(torch.ones_like(angles), angles)

    def make(self, grids: list[tuple[int, int, int]]) -> Tensor:
        """Return the rotations of concatenated items, (N, head_dim / 2) complex64."""
        return torch.cat([self.of_frame(h, w) for t, h, w in grids for _ in range(t)])


CHANNELS = 3


def make_patches(frames: Tensor, patch_size: int) -> Tensor:
    """Cut frames into patches, in raster order: frame, row, column.

    Args:
        frames: (t, height, width, 3) uint8.
        patch_size: Side of a patch in px.

    Returns:
        (t * h * w, patch_size * patch_size * 3) uint8, each patch row by row with its channels last.
    """
    t, height, width, channels = frames.shape
    h, w = height // patch_size, width // patch_size
    grid = frames.view(t, h, patch_size, w, patch_size * channels)
    return grid.transpose(2, 3).reshape(t * h * w, -1)  # (t, h, w, patch_size, patch_size * 3)


class PatchEmbed(nn.Module):
    """Linear layer on each normalized patch: the convolution of the release, whose stride is its kernel size."""

    def __init__(self, config: VisionConfig, placement: ModelPlacement) -> None:
        super().__init__()
        self.patch_size = config.patch_size
        self.weight = make_weight(placement, config.hidden_size, CHANNELS * config.patch_size**2)
        self.bias = make_weight(placement, config.hidden_size)

    def load(self, source: TensorSource, name: str) -> None:
        """Load the weights; the release's are (width, 3, 14, 14), ours have the channels last, as in the pixels."""
        stored = source.get(f"{name}.weight")
        if stored.shape[1:] != (CHANNELS, self.patch_size, self.patch_size):
            stored = stored.flatten(1)  # misshapen: the check below reports it
        else:
            stored = stored.permute(0, 2, 3, 1).flatten(1)
        copy_into(self.weight, stored, f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias"), f"{name}.bias")

    def forward(self, items: Sequence[MediaItem]) -> Tensor:
        """Return (concatenated patches of the items, hidden_size)."""
        device = self.weight.device
        frames = [torch.from_numpy(item.frames).to(device) for item in items]
        pixels = torch.cat([make_patches(each, self.patch_size) for each in frames])  # (N, 588) uint8
        values = pixels.to(torch.float32).mul_(2 / 255).sub_(1)  # mean 0.5, standard deviation 0.5
        return F.linear(values.to(self.weight.dtype), self.weight, self.bias)


class Projector(nn.Module):
    """Projector of four neighbouring patches to one token of the language model. The hidden width is split over the
    ranks.
    """

    def __init__(self, config: VisionConfig, placement: ModelPlacement) -> None:
        super().__init__()
        down, right = config.merge_kernel_size
        width = config.mm_hidden_size * down * right
        self.merge, self.merge_patches = config.merge_kernel_size, placement.ops.merge_patches
        self.pre_norm = LayerNorm(config.mm_hidden_size, placement, config.projector_ln_eps)
        self.first = ColumnLinear(width, width, placement)
        self.second = RowLinear(width, config.text_hidden_size, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Load the projector from tensors under `name`."""
        self.pre_norm.load(source, f"{name}.pre_norm")
        self.first.load(source, f"{name}.proj.0")
        self.second.load(source, f"{name}.proj.2")

    def forward(self, x: Tensor, grids: Sequence[tuple[int, int, int]]) -> Tensor:
        """Project patches of items, (N, mm_hidden_size), to (tokens, text_hidden_size). The GELU is the exact one
        here.
        """
        norm = self.pre_norm
        merged = self.merge_patches(x, grids, self.merge, norm.weight, norm.bias, norm.eps)
        return self.second(F.gelu(self.first(merged)))


MAX_PATCHES_PER_PASS = 16_384  # bounds the activations of one pass; more images are split


class VisionTower(nn.Module):
    """Vision part of the model, including the projector.

    Attributes:
        max_patches_per_pass: Maximum patches in a group of items that is encoded together (a larger item is encoded
            alone). At the release's width a patch takes 22 kB of memory for activations in bf16 (measured on a CPU with
            16,384 patches): 0.36 GB per pass.
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
        place = ModelPlacement(
            comm=comm or OneRank(), device=torch.device(device), dtype=dtype, ops=ops or find_ops(device)
        )
        self.patch_embed = PatchEmbed(config, place)
        self.position = PositionTable(config, place)
        self.rope = Rope2D(config.head_dim, place.device)
        blocks = nn.ModuleList(VisionBlock(config, place) for _ in range(config.num_hidden_layers))
        self.blocks = cast("Sequence[VisionBlock]", blocks)
        self.final_norm = LayerNorm(config.hidden_size, place)
        self.projector = Projector(config, place)

    @torch.no_grad()
    def load(self, source: TensorSource) -> None:
        """Load all weights by their release names (`vision_tower.*`, `mm_projector.*`), this rank's part of each.

        Raises:
            CheckpointError: If a tensor is missing or misshapen.
        """
        self.patch_embed.load(source, "vision_tower.patch_embed.proj")
        self.position.load(source, "vision_tower.patch_embed.pos_emb")
        for index, block in enumerate(self.blocks):
            block.load(source, f"vision_tower.encoder.blocks.{index}")
        self.final_norm.load(source, "vision_tower.encoder.final_layernorm")
        self.projector.load(source, "mm_projector")

    def forward(self, items: Sequence[MediaItem]) -> list[Tensor]:
        """Encode items; the result of each does not depend on the others.

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
        """Encode concatenated items in one pass."""
        grids = [item.grid for item in items]
        sizes = [item.num_patches for item in items]
        packing = Packing(cu_seqlens=CuSeqlens.of_lengths(sizes), rotations=self.rope.make(grids))
        x = self.position(self.patch_embed(items), grids)  # (N, hidden_size)
        for block in self.blocks:
            x = block(x, packing)
        projected = self.projector(self.final_norm(x), grids)  # (tokens of all items, text_hidden_size)
        down, right = self.config.merge_kernel_size
        return iter(projected.split([(h // down) * (w // right) for _, h, w in grids]))


def make_groups(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Return indices of items in groups of at most `limit` patches, sorted by size so that equal ones are adjacent."""
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if not groups or sizes[index] > room:
            groups.append([])
            room = limit
        groups[-1].append(index)
        room -= sizes[index]
    return groups
