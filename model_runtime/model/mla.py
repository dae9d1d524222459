"""Multi-head latent attention: all heads' keys and values are projections of one short row per token; only it is
cached.

Source: DeepSeek-V2 report (arXiv 2405.04434), section 2.1; sizes: Kimi K2 report (arXiv 2507.20534), section 2.3.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model_runtime.config.types import TextConfig
from model_runtime.model.batch import PrefillRun, StepAttention, find_softmax_scale
from model_runtime.model.layers import RmsNorm, Weights, freeze
from model_runtime.ops.reference.norm import rotate
from model_runtime.parallel.comm import shard_slice


class Mla(nn.Module):
    """Attention of one layer. Each rank has a share of the heads; the ranks' results sum to the whole.

    With c the latent, r the rotary key, and W_k, W_v a head's up projections, the two forms are equal:

    - plain:    score = q_nope . (W_k c) + q_rope . r,   value = W_v c
    - absorbed: score = (W_k^T q_nope) . c + q_rope . r, value = c, and W_v is applied to the weighted sum
    """

    def __init__(self, text: TextConfig, weights: Weights) -> None:
        super().__init__()
        share = shard_slice(text.num_attention_heads, weights.placement.comm, "attention heads")
        self.text = text
        self.num_heads = share.stop - share.start
        self.scale = find_softmax_scale(text)
        self.ops = weights.placement.ops
        self.split_a = (text.q_lora_rank, text.kv_lora_rank, text.qk_rope_head_dim)
        names = ("q_a_proj.weight", "kv_a_proj_with_mqa.weight")
        self.qkv_a = freeze(weights.read_joined(names, (text.q_lora_rank, text.latent_dim), text.hidden_size))
        self.q_norm = RmsNorm(text.q_lora_rank, text.latent_norm_eps, weights.under("q_a_layernorm"))
        self.kv_norm = RmsNorm(text.kv_lora_rank, text.latent_norm_eps, weights.under("kv_a_layernorm"))
        self._load_heads(share, weights)

    def _load_heads(self, share: slice, weights: Weights) -> None:
        text, heads = self.text, self.num_heads
        q_rows = slice(share.start * text.qk_head_dim, share.stop * text.qk_head_dim)
        self.q_b = freeze(weights.read("q_b_proj.weight", (heads * text.qk_head_dim, text.q_lora_rank), (q_rows,)))
        width = text.qk_nope_head_dim + text.v_head_dim  # of a head's key and value
        kv_rows = slice(share.start * width, share.stop * width)
        kv_b = weights.read("kv_b_proj.weight", (heads * width, text.kv_lora_rank), (kv_rows,))
        self.kv_b = freeze(kv_b.view(heads, width, text.kv_lora_rank))
        columns = slice(share.start * text.v_head_dim, share.stop * text.v_head_dim)
        self.o = freeze(
            weights.read("o_proj.weight", (text.hidden_size, heads * text.v_head_dim), (slice(None), columns))
        )

    def forward(self, x: Tensor, plan: StepAttention, cache: Tensor) -> Tensor:
        """Write the tokens' latents, then attend.

        Args:
            x: (N, hidden), normalized.
            plan: Plan of the step.
            cache: (blocks, block_size, latent_dim) of this layer.

        Returns:
            (N, hidden), this rank's summand.
        """
        q_latent, latent, k_rope = F.linear(x, self.qkv_a).split_with_sizes(self.split_a, dim=-1)
        q_nope, q_rope = self._make_queries(q_latent, plan.rotations)
        norm = self.kv_norm
        self.ops.write_latent(cache, plan.slot_mapping, latent, k_rope, norm.weight, norm.eps, plan.rotations)
        parts = []  # each (tokens, heads * v_head_dim)
        if plan.num_decodes:
            parts.append(self._decode(q_nope[: plan.num_decodes], q_rope[: plan.num_decodes], plan, cache))
        parts += [self._prefill(q_nope[run.tokens], q_rope[run.tokens], run, cache) for run in plan.prefills]
        return F.linear(parts[0] if len(parts) == 1 else torch.cat(parts), self.o)

    def find_queries(self, x: Tensor, rotations: Tensor) -> Tensor:
        """Return absorbed queries: normalized (N, hidden), (N, rope_dim / 2) -> (N, heads, latent_dim)."""
        return self._absorb(*self.make_queries(x, rotations))

    def make_queries(self, x: Tensor, rotations: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries before absorption: (N, hidden) -> (N, heads, nope), (N, heads, rope). Arguments as in
        `find_queries`.
        """
        return self._make_queries(F.linear(x, self.qkv_a[: self.split_a[0]]), rotations)

    def _make_queries(self, q_latent: Tensor, rotations: Tensor) -> tuple[Tensor, Tensor]:
        """Project latents to queries: (N, q_lora_rank) -> (N, heads, nope), (N, heads, rope)."""
        q = F.linear(self.q_norm(q_latent), self.q_b).view(len(q_latent), self.num_heads, -1)
        q_nope, q_rope = q.split_with_sizes((self.text.qk_nope_head_dim, self.text.qk_rope_head_dim), dim=-1)
        return q_nope, rotate(q_rope, rotations)

    def _decode(self, q_nope: Tensor, q_rope: Tensor, plan: StepAttention, cache: Tensor) -> Tensor:
        q = self._absorb(q_nope, q_rope)
        return self._leave(self.ops.mla_decode(q, cache, plan.decode, self.text.kv_lora_rank, self.scale))

    def _prefill(self, q_nope: Tensor, q_rope: Tensor, run: PrefillRun, cache: Tensor) -> Tensor:
        context = cache.view(-1, cache.shape[-1]).index_select(0, run.context_slots)  # (M, latent_dim)
        if run.is_absorbed:
            q, keys = self._absorb(q_nope, q_rope), context.unsqueeze(1)
            values = keys[..., : self.text.kv_lora_rank]
            return self._leave(self.ops.mla_prefill(q, keys, values, run.cu_seqlens_q, run.cu_seqlens_k, self.scale))
        latent, k_rope = context.split_with_sizes((self.text.kv_lora_rank, self.text.qk_rope_head_dim), dim=-1)
        up = F.linear(latent, self.kv_b.flatten(0, 1)).view(len(latent), self.num_heads, -1)
        k_nope, values = up.split_with_sizes((self.text.qk_nope_head_dim, self.text.v_head_dim), dim=-1)
        keys = torch.cat((k_nope, k_rope.unsqueeze(1).expand(-1, self.num_heads, -1)), dim=-1)
        q = torch.cat((q_nope, q_rope), dim=-1)
        return self.ops.mla_prefill(q, keys, values, run.cu_seqlens_q, run.cu_seqlens_k, self.scale).flatten(1)

    def _absorb(self, q_nope: Tensor, q_rope: Tensor) -> Tensor:
        """Project queries to the width of a latent: (N, heads, nope), (N, heads, rope) -> (N, heads, latent_dim)."""
        w_k = self.kv_b[:, : self.text.qk_nope_head_dim]
        return torch.cat((torch.bmm(q_nope.transpose(0, 1), w_k).transpose(0, 1), q_rope), dim=-1)

    def _leave(self, context: Tensor) -> Tensor:
        """Project weighted latents to values: (N, heads, kv_lora_rank) -> (N, heads * v_head_dim)."""
        w_v = self.kv_b[:, self.text.qk_nope_head_dim :]
        return torch.bmm(context.transpose(0, 1), w_v.transpose(1, 2)).transpose(0, 1).flatten(1)
