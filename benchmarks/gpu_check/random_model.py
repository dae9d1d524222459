"""K2.5 with random weights that are made where they stay: no file, at any number of layers and experts."""

import base64
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.checkpoint.tiny import tiny_config, tiny_ranks
from model_runtime.config import K25Config, QuantizationConfig
from model_runtime.launch.sizes import RELEASE
from model_runtime.media import MediaItem
from model_runtime.model import K25Model
from model_runtime.ops import Ops, find_ops
from model_runtime.parallel.comm import OneRank
from model_runtime.placement import ModelPlacement
from model_runtime.processor.media_rules import hash_frames
from model_runtime.tokenizer import SpecialTokens, Tokenizer
from model_runtime.vision import VisionTower

RUN = 1_000_003
"""Random numbers that all tensors are cut from; odd, so that rows of a matrix differ."""


class RandomSource:
    """Tensors of the release's names and shapes, each a part of one random run that begins at a place of its own."""

    def __init__(self, config: K25Config, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)
        self.infos: dict[str, TensorInfo] = expected_tensors(config)
        self.device = device
        self.values = torch.empty(RUN).uniform_(-1.7, 1.7, generator=generator).to(device)
        words = torch.randint(-(2**31), 2**31, (RUN,), generator=generator, dtype=torch.int64)
        self.words = words.to(torch.int32).to(device)

    def has(self, name: str) -> bool:
        """See `TensorSource`."""
        return name in self.infos

    def get(self, name: str, index: tuple[slice, ...] = ()) -> Tensor:
        """See `TensorSource`; on the device."""
        shape = torch.empty(self.infos[name].shape, device="meta")[index].shape
        if name.endswith("weight_packed"):
            return _cut(self.words, name, shape)
        if name.endswith("weight_scale"):
            return torch.full(shape, 0.004, dtype=torch.bfloat16, device=self.device)
        if len(shape) == 1:  # norms near 1, biases small
            values = _cut(self.values, name, shape) * 0.1
            return values + 1 if name.endswith("weight") else values
        return _cut(self.values, name, shape) * (shape[1:].numel() ** -0.5)


def _cut(run: Tensor, name: str, shape: torch.Size) -> Tensor:
    first, count = zlib.crc32(name.encode()) % RUN, shape.numel()
    return run.repeat(-(-(first + count) // RUN))[first : first + count].view(shape)


def make_config(*, layers: int, experts: int, vocab_size: int, is_toy: bool) -> K25Config:
    """The release's shapes with fewer layers, experts and words; or a tiny model with all its parts."""
    if is_toy:
        small = tiny_config(text={"num_hidden_layers": 2})
        return replace(small, quantization=QuantizationConfig())
    text = replace(RELEASE.text, num_hidden_layers=layers, n_routed_experts=experts, vocab_size=vocab_size)
    return replace(RELEASE, text=text)


def make_model(
    config: K25Config, device: torch.device, kernels: str, *, dtype: torch.dtype = torch.bfloat16, **changed: Any
) -> K25Model:
    """A model with its vision tower.

    Args:
        config: Of `make_config`.
        device: Where it is made and stays.
        kernels: `torch` or `triton`.
        dtype: Of weights and cache.
        changed: Operators in place of the backend's.
    """
    ops: Ops = replace(find_ops(device, kernels), **changed)
    place = ModelPlacement(device=device, dtype=dtype, comm=OneRank(), ops=ops)
    source = RandomSource(config, device)
    return K25Model(config, source, place, make_tower(source, config, place))


def make_tower(source: RandomSource, config: K25Config, place: ModelPlacement) -> VisionTower:
    """The vision tower with its projector."""
    vision = VisionTower(config.vision, comm=place.comm, device=place.device, dtype=place.dtype, ops=place.ops)
    vision.load(source)
    return vision


def make_screenshot(config: K25Config, seed: int, *, is_toy: bool) -> MediaItem:
    """Noise of 1920x1080, as it is after padding; in a toy run a few patches."""
    height, width = (56, 84) if is_toy else (1092, 1932)
    frames = np.random.default_rng(seed).integers(0, 255, (1, height, width, 3), np.uint8)
    return MediaItem(frames=frames, content_hash=hash_frames(frames))


def make_tokenizer(vocab_size: int) -> Tokenizer:
    """A vocabulary of that size with made-up words."""
    import tiktoken

    from model_runtime.tokenizer.tokenizer import PATTERN

    special = SpecialTokens(vocab_size - 256)
    lines = tiny_ranks(vocab_size - 256).splitlines()
    ranks = {base64.b64decode(line.split()[0]): rank for rank, line in enumerate(lines)}
    encoding = tiktoken.Encoding("made-up", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return Tokenizer(special, (*ranks, *(text.encode() for text in special.ids)), encoding)
