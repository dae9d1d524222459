"""Kimi K2.5: decoder layers, the vision tower that gives rows in place of tokens, and how a folder becomes a model.

Source: Kimi K2.5 report (arXiv 2602.02276), section 2; Kimi K2 report (arXiv 2507.20534), section 2.3; a layer is that
of Vaswani et al. 2017 with pre-norm as in DeepSeek-V3 (arXiv 2412.19437), section 2.1.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from model_runtime.checkpoint.prepared import open_prepared
from model_runtime.checkpoint.reader import Checkpoint, TensorSource, check_tensors
from model_runtime.config import load_config
from model_runtime.config.types import K25Config
from model_runtime.errors import ConfigError
from model_runtime.media import MediaItem
from model_runtime.model.batch import AttentionPlan, ForwardBatch, Rope, make_plan
from model_runtime.model.layers import Embedding, Head, Mlp, RmsNorm, Weights
from model_runtime.model.mla import Mla
from model_runtime.model.moe import Moe
from model_runtime.ops import find_ops
from model_runtime.ops.registry import find_backends
from model_runtime.parallel.comm import Comm, OneRank, check_ranks
from model_runtime.placement import Placement
from model_runtime.vision.tower import VisionTower


class DecoderLayer(nn.Module):
    """Layer `layer`, from 0."""

    def __init__(self, config: K25Config, layer: int, weights: Weights) -> None:
        super().__init__()
        text = config.text
        self.comm = weights.placement.comm
        self.input_norm = RmsNorm(text.hidden_size, text.rms_norm_eps, weights.under("input_layernorm"))
        self.attention = Mla(text, weights.under("self_attn"))
        self.post_norm = RmsNorm(text.hidden_size, text.rms_norm_eps, weights.under("post_attention_layernorm"))
        self.mlp: Mlp | Moe
        if text.is_moe_layer(layer):
            self.mlp = Moe(config, weights.under("mlp"))
        else:
            self.mlp = Mlp(text.hidden_size, text.intermediate_size, weights.under("mlp"))

    def forward(self, x: Tensor, residual: Tensor | None, plan: AttentionPlan, cache: Tensor) -> tuple[Tensor, Tensor]:
        """Two steps of the residual stream. The last summand is left for the next norm, which adds and reads at once.

        Args:
            x: (N, hidden), what the layer before adds.
            residual: (N, hidden), the stream before that; None where x is all of it.
            plan: The step.
            cache: (blocks, block_size, latent_dim) of this layer, which is written.

        Returns:
            What this layer adds, and the stream before that.
        """
        normed, residual = (self.input_norm(x), x) if residual is None else self.input_norm.add(x, residual)
        attended = self.comm.all_reduce(self.attention(normed, plan, cache))
        normed, residual = self.post_norm.add(attended, residual)
        return self.comm.all_reduce(self.mlp(normed)), residual


PREFIX = "language_model."


class K25Model(nn.Module):
    """One rank of the model.

    Args:
        config: The model's numbers.
        source: Its weights.
        placement: Device, dtype, ranks and operators.
        vision: The loaded tower, or None for a model that takes text only.

    Raises:
        CapacityError: Its parts cannot be split over so many ranks.
        CheckpointError: A tensor is missing or misshapen.
    """

    def __init__(
        self, config: K25Config, source: TensorSource, placement: Placement, vision: "VisionTower | None" = None
    ) -> None:
        super().__init__()
        check_ranks(config, placement.comm)
        text = config.text
        weights = Weights(source=source, placement=placement, prefix=PREFIX)
        body = weights.under("model")
        self.config, self.placement, self.vision = config, placement, vision
        self.device, self.dtype = placement.device, placement.dtype
        self.rope = Rope(text, placement.device)
        self.embedding = Embedding(text, body.under("embed_tokens"))
        layers = (DecoderLayer(config, layer, body.under(f"layers.{layer}")) for layer in range(text.num_hidden_layers))
        self.layers = cast("Sequence[DecoderLayer]", nn.ModuleList(layers))
        self.norm = RmsNorm(text.hidden_size, text.rms_norm_eps, body.under("norm"))
        self.head = Head(text, weights.under("lm_head"))

    def make_cache(self, num_blocks: int, block_size: int) -> Tensor:
        """An empty latent cache: (layers, num_blocks, block_size, latent_dim) of the model's dtype."""
        text = self.config.text
        shape = (text.num_hidden_layers, num_blocks, block_size, text.latent_dim)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def embed(self, token_ids: Tensor) -> Tensor:
        """(N,) int64 -> (N, hidden). Rows of media placeholders are to be replaced by `encode_media`'s."""
        return self.embedding(token_ids)

    def encode_media(self, items: Sequence[MediaItem]) -> list[Tensor]:
        """Rows of each image or video chunk: (num_tokens, hidden).

        Raises:
            ConfigError: The model was loaded without its vision tower.
        """
        if self.vision is None:
            raise ConfigError("this model was loaded without a vision tower and takes text only")
        rows: list[Tensor] = self.vision(items)
        return rows

    def forward(self, embeds: Tensor, batch: ForwardBatch, cache: Tensor | Sequence[Tensor]) -> Tensor:
        """One step of all sequences of a batch.

        Args:
            embeds: (num_tokens, hidden).
            batch: Which token belongs where.
            cache: Of `make_cache`, or as much for each layer; the tokens' latents are written.

        Returns:
            (num_tokens, hidden), normed, ready for `logits`.
        """
        return self.run_layers(
            embeds, make_plan(batch, cache[0], self.config.text, self.rope, self.placement.ops), cache
        )

    def run_layers(self, embeds: Tensor, plan: AttentionPlan, cache: Tensor | Sequence[Tensor]) -> Tensor:
        """As `forward`, with a plan that was made before."""
        x, residual = embeds, None
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            x, residual = layer(x, residual, plan, layer_cache)
        return self.norm(x) if residual is None else self.norm.add(x, residual)[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, hidden) of `forward` -> (M, vocab) fp32."""
        return self.head(hidden)


DTYPES: dict[str, torch.dtype] = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}


def load_model(
    model_dir: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    comm: Comm | None = None,
    config: K25Config | None = None,
    kernels: str = "auto",
    latent_norm_eps: float | None = None,
    kernel_cache_dir: Path | None = None,
) -> K25Model:
    """Read a release-named folder; this rank's part goes straight from the files to the device.

    Args:
        model_dir: Folder with config.json and safetensors.
        device: Where the weights stay.
        dtype: Of weights and cache, as torch's or its name; None is the checkpoint's. Packed experts stay packed.
        comm: The ranks; None is this process alone.
        config: In place of the folder's config.json.
        kernels: Which operators: `auto`, `torch` or `triton`.
        latent_norm_eps: Of the two norms inside MLA; None is the config's. See `TextConfig.latent_norm_eps`.
        kernel_cache_dir: Where packed experts are kept in the form that Triton's kernels read; None keeps none.

    Raises:
        ConfigError: config.json cannot be used, or the kernels asked for are not here.
        CheckpointError: Tensors are missing, extra, misshapen or corrupt.
        CapacityError: The parts cannot be split over so many ranks.
    """
    config = config or load_config(model_dir)
    if latent_norm_eps is not None:
        config = replace(config, text=replace(config.text, latent_norm_eps=latent_norm_eps))
    source = Checkpoint.open(model_dir)
    check_tensors(source, config)
    place = Placement(
        device=torch.device(device),
        dtype=find_dtype(dtype or config.dtype),
        comm=comm or OneRank(),
        ops=find_ops(device, kernels),
    )
    if kernel_cache_dir and config.quantization and find_backends(place.device, kernels)[0] == "triton":
        files = open_prepared(kernel_cache_dir, source.opened_as, place.comm, place.device)
        place = replace(place, prepared=files)
    vision = VisionTower(config.vision, comm=place.comm, device=place.device, dtype=place.dtype, ops=place.ops)
    vision.load(source)
    model = K25Model(config, source, place, vision)
    source.check_unchanged()  # half of one checkpoint and half of another would speak nonsense without a word
    return model


def find_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """Torch's dtype of that name.

    Raises:
        ConfigError: There is none that a model can have.
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise ConfigError(f"{dtype!r} is not a dtype of weights. Use one of: {', '.join(DTYPES)}")
    return DTYPES[dtype]
