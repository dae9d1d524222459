"""Kimi K2.5: decoder layers, the vision tower, and loading from a folder.

Source: Kimi K2.5 report (arXiv 2602.02276), section 2; Kimi K2 report (arXiv 2507.20534), section 2.3; a layer is that
of Vaswani et al. 2017 with pre-norm as in DeepSeek-V3 (arXiv 2412.19437), section 2.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from model_runtime.checkpoint.prepared import open_prepared
from model_runtime.checkpoint.reader import Checkpoint, TensorSource, check_tensors, open_tensors
from model_runtime.config import load_config
from model_runtime.config.types import K25Config
from model_runtime.errors import ConfigError, EngineDead
from model_runtime.media import MediaItem
from model_runtime.model.batch import ForwardBatch, Rope, StepAttention, make_plan
from model_runtime.model.layers import Embedding, Head, Mlp, RmsNorm, Weights
from model_runtime.model.mla import Mla
from model_runtime.model.moe import Moe
from model_runtime.ops import DenseExperts, find_ops
from model_runtime.ops.registry import find_backends
from model_runtime.parallel.comm import Comm, OneRank, check_ranks
from model_runtime.placement import ModelPlacement
from model_runtime.vision.tower import VisionTower


class DecoderLayer(nn.Module):
    """Decoder layer number `layer`, from 0."""

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

    def forward(self, x: Tensor, residual: Tensor | None, plan: StepAttention, cache: Tensor) -> tuple[Tensor, Tensor]:
        """Apply attention and MLP. The result is not added to the residual yet: the next norm adds and normalizes in
        one pass.

        Args:
            x: (N, hidden), output of the previous layer.
            residual: (N, hidden), residual stream without x; None if x is the whole stream.
            plan: Plan of the step.
            cache: (blocks, block_size, latent_dim) of this layer, which is written.

        Returns:
            Output of this layer, and the residual stream without it.
        """
        normed, residual = (self.input_norm(x), x) if residual is None else self.input_norm.add(x, residual)
        attended = self.comm.all_reduce(self.attention(normed, plan, cache))
        normed, residual = self.post_norm.add(attended, residual)
        return self.comm.all_reduce(self.mlp(normed)), residual


PREFIX = "language_model."


class K25Model(nn.Module):
    """One rank of the model.

    Args:
        config: Configuration of the model.
        source: Weights.
        placement: Device, dtype, ranks and operators.
        vision: Loaded tower, or None for a text-only model.

    Raises:
        CapacityError: If its parts cannot be split over the ranks.
        CheckpointError: If a tensor is missing or misshapen.
    """

    def __init__(
        self, config: K25Config, source: TensorSource, placement: ModelPlacement, vision: "VisionTower | None" = None
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
        """Return an empty latent cache: (layers, num_blocks, block_size, latent_dim) of the model's dtype."""
        text = self.config.text
        shape = (text.num_hidden_layers, num_blocks, block_size, text.latent_dim)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def update(self, source: Path | Mapping[str, Tensor]) -> None:
        """Replace all weights in place, so that captured graphs stay valid; one layer at a time is in memory twice.

        Raises:
            CheckpointError: If the weights do not fit; nothing was changed then.
            EngineDead: If the files changed meanwhile.
        """
        text, moes = self.config.text, [layer.mlp for layer in self.layers if isinstance(layer.mlp, Moe)]
        is_packed = any(not isinstance(moe.experts, DenseExperts) for moe in moes)
        tensors = open_tensors(source, self.config, quantized=is_packed)
        weights = Weights(source=tensors, placement=replace(self.placement, prepared=None), prefix=PREFIX)
        body = weights.under("model")
        _overwrite(self.embedding, Embedding(text, body.under("embed_tokens")))
        for number, layer in enumerate(self.layers):
            _overwrite(layer, DecoderLayer(self.config, number, body.under(f"layers.{number}")))
        _overwrite(self.norm, RmsNorm(text.hidden_size, text.rms_norm_eps, body.under("norm")))
        _overwrite(self.head, Head(text, weights.under("lm_head")))
        if self.vision is not None:
            self.vision.load(tensors)
        if isinstance(tensors, Checkpoint) and tensors.fingerprint() != tensors.opened_as:
            raise EngineDead(f"files in {tensors.model_dir} changed while weights were replaced by them; restart")

    def embed(self, token_ids: Tensor) -> Tensor:
        """Embed tokens, (N,) int64 -> (N, hidden). The caller replaces rows of media placeholders with those of
        `encode_media`.
        """
        return self.embedding(token_ids)

    def encode_media(self, items: Sequence[MediaItem]) -> list[Tensor]:
        """Encode images and video chunks to rows: (num_tokens, hidden) each.

        Raises:
            ConfigError: If the model was loaded without its vision tower.
        """
        if self.vision is None:
            raise ConfigError("this model was loaded without a vision tower and takes text only")
        rows: list[Tensor] = self.vision(items)
        return rows

    def forward(self, embeds: Tensor, batch: ForwardBatch, cache: Tensor | Sequence[Tensor]) -> Tensor:
        """Compute one step of all sequences of a batch.

        Args:
            embeds: (num_tokens, hidden).
            batch: Layout of the tokens.
            cache: Result of `make_cache`, or one tensor per layer; the tokens' latents are written.

        Returns:
            (num_tokens, hidden), normalized, input of `logits`.
        """
        return self.run_layers(
            embeds, make_plan(batch, cache[0], self.config.text, self.rope, self.placement.ops), cache
        )

    def run_layers(self, embeds: Tensor, plan: StepAttention, cache: Tensor | Sequence[Tensor]) -> Tensor:
        """Compute a step like `forward`, with a given plan."""
        x, residual = embeds, None
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            x, residual = layer(x, residual, plan, layer_cache)
        return self.norm(x) if residual is None else self.norm.add(x, residual)[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits of `forward`'s result: (M, hidden) -> (M, vocab) fp32."""
        return self.head(hidden)


def _overwrite(old: nn.Module, new: nn.Module) -> None:
    """Copy all weights of a module into another one of the same structure."""
    for old_part, new_part in zip(old.modules(), new.modules(), strict=True):
        pairs = [
            *zip(old_part.parameters(recurse=False), new_part.parameters(recurse=False), strict=True),
            *zip(old_part.buffers(recurse=False), new_part.buffers(recurse=False), strict=True),
        ]
        if isinstance(old_part, Moe) and isinstance(new_part, Moe):
            pairs += zip(old_part.prepared_tensors, new_part.prepared_tensors, strict=True)
        for target, value in pairs:
            target.copy_(value)


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
    """Load a folder in the release's layout; this rank's part is copied directly from the files to the device.

    Args:
        model_dir: Folder with config.json and safetensors.
        device: Device of the weights.
        dtype: Dtype of weights and cache, as torch's or its name; None for the checkpoint's. Packed experts stay
            packed.
        comm: Ranks; None for a single process.
        config: Configuration instead of the folder's config.json.
        kernels: Operators to use: `auto`, `torch` or `triton`.
        latent_norm_eps: Epsilon of the two norms inside MLA; None for the config's. See `TextConfig.latent_norm_eps`.
        kernel_cache_dir: Cache of packed experts in the layout of Triton's kernels; None for no cache.

    Raises:
        ConfigError: If config.json is invalid, or the requested kernels are not available.
        CheckpointError: If tensors are missing, extra, misshapen or corrupt.
        CapacityError: If the parts cannot be split over the ranks.
    """
    config = config or load_config(model_dir)
    if latent_norm_eps is not None:
        config = replace(config, text=replace(config.text, latent_norm_eps=latent_norm_eps))
    source = Checkpoint.open(model_dir)
    check_tensors(source, config)
    place = ModelPlacement(
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
    source.check_unchanged()  # a mix of two checkpoints would produce nonsense without an error
    return model


def find_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """Return torch's dtype of that name.

    Raises:
        ConfigError: If a model cannot have this dtype.
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise ConfigError(f"{dtype!r} is not a dtype of weights. Use one of: {', '.join(DTYPES)}")
    return DTYPES[dtype]
