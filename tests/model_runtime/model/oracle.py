"""The language model once more, in float64 and as plainly as its papers have it: no cache, no absorption, no batches.

It shares nothing with the runtime but the reader of files, so that a mistake that the runtime and its peers have in
common shows too.

Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; DeepSeek-V3 (arXiv 2412.19437), section 2.1.2; YaRN (arXiv
2309.00071), section 3; INT4: eight values of a row in each int32, lowest four bits first, each 8 too large.
"""

import math
from pathlib import Path

import torch
from torch import Tensor

from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.config import TextConfig, load_config


class Oracle:
    """Logits of a folder in float64."""

    def __init__(self, model_dir: Path) -> None:
        self.source = Checkpoint.open(model_dir)
        self.text = load_config(model_dir).text
        assert self.text.n_group == 1

    def __call__(self, token_ids: list[int]) -> Tensor:
        """(tokens, vocab) float64."""
        x = self.get("model.embed_tokens.weight")[token_ids]
        for number in range(self.text.num_hidden_layers):
            layer = f"model.layers.{number}"
            x = x + self.attend(f"{layer}.self_attn", self.norm(x, f"{layer}.input_layernorm"))
            h = self.norm(x, f"{layer}.post_attention_layernorm")
            x = x + (self.mix if self.text.is_moe_layer(number) else self.mlp)(f"{layer}.mlp", h)
        return self.norm(x, "model.norm") @ self.get("lm_head.weight").T

    def get(self, name: str) -> Tensor:
        """A weight; packed ones as the product of value and scale, rounded to bf16 as loaders do."""
        name = f"language_model.{name}"
        if self.source.has(name):
            return self.source.get(name).double()
        packed, scale = self.source.get(f"{name}_packed"), self.source.get(f"{name}_scale")
        nibbles = torch.stack([(packed.long() >> 4 * place & 15) - 8 for place in range(8)], dim=-1).flatten(1)
        return (nibbles * scale.double().repeat_interleave(32, dim=1)).bfloat16().double()

    def norm(self, x: Tensor, name: str, eps: float | None = None) -> Tensor:
        eps = self.text.rms_norm_eps if eps is None else eps
        return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * self.get(f"{name}.weight")

    def attend(self, name: str, x: Tensor) -> Tensor:
        text, count = self.text, len(x)
        nope, rope, value = text.qk_nope_head_dim, text.qk_rope_head_dim, text.v_head_dim
        inner = self.norm(x @ self.get(f"{name}.q_a_proj.weight").T, f"{name}.q_a_layernorm", text.latent_norm_eps)
        q = (inner @ self.get(f"{name}.q_b_proj.weight").T).view(count, -1, nope + rope)
        latent, k_rope = (x @ self.get(f"{name}.kv_a_proj_with_mqa.weight").T).split([text.kv_lora_rank, rope], dim=-1)
        latent = self.norm(latent, f"{name}.kv_a_layernorm", text.latent_norm_eps)
        kv = (latent @ self.get(f"{name}.kv_b_proj.weight").T).view(count, -1, nope + value)
        k_rope = rotate(text, k_rope[:, None])
        scores = torch.einsum("qhd,khd->hqk", q[..., :nope], kv[..., :nope])
        scores = scores + torch.einsum("qhd,kd->hqk", rotate(text, q[..., nope:]), k_rope[:, 0])
        future = torch.ones(count, count, dtype=torch.bool).triu(1)
        shares = (scores * softmax_scale(text)).masked_fill(future, -math.inf).softmax(-1)
        out = torch.einsum("hqk,khd->qhd", shares, kv[..., nope:]).flatten(1)
        return out @ self.get(f"{name}.o_proj.weight").T

    def mlp(self, name: str, x: Tensor) -> Tensor:
        gate, up = (x @ self.get(f"{name}.{part}_proj.weight").T for part in ("gate", "up"))
        return (gate / (1 + (-gate).exp()) * up) @ self.get(f"{name}.down_proj.weight").T

    def mix(self, name: str, x: Tensor) -> Tensor:
        scores = 1 / (1 + (-x @ self.get(f"{name}.gate.weight").T).exp())
        chosen = (scores + self.get(f"{name}.gate.e_score_correction_bias")).topk(self.text.num_experts_per_tok).indices
        weights = scores.gather(1, chosen)
        if self.text.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        out = self.mlp(f"{name}.shared_experts", x)
        for expert in range(self.text.n_routed_experts):
            share = (weights * (chosen == expert)).sum(-1, keepdim=True) * self.text.routed_scaling_factor
            out = out + share * self.mlp(f"{name}.experts.{expert}", x)
        return out


def softmax_scale(text: TextConfig) -> float:
    scale = (text.qk_nope_head_dim + text.qk_rope_head_dim) ** -0.5
    scaling = text.rope_scaling
    return scale if scaling is None else scale * (0.1 * scaling.mscale_all_dim * math.log(scaling.factor) + 1) ** 2


def rotate(text: TextConfig, x: Tensor) -> Tensor:
    """(tokens, heads, rope) with pairs (2j, 2j + 1) turned by position * frequency j."""
    dim, base, scaling = text.qk_rope_head_dim, text.rope_theta, text.rope_scaling
    frequencies = base ** (-2 * torch.arange(dim // 2, dtype=torch.float64) / dim)
    if scaling is not None:
        assert scaling.mscale == scaling.mscale_all_dim  # else the rotation had an amplitude
        low, high = (
            dim * math.log(scaling.original_max_position_embeddings / (2 * math.pi * turns)) / (2 * math.log(base))
            for turns in (scaling.beta_fast, scaling.beta_slow)
        )
        first, last = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
        ramp = ((torch.arange(dim // 2, dtype=torch.float64) - first) / max(last - first, 0.001)).clamp(0, 1)
        frequencies = frequencies / scaling.factor * ramp + frequencies * (1 - ramp)
    angles = torch.arange(len(x), dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
