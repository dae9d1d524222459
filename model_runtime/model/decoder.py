"""One decoder layer: attention, then an MLP or experts, each behind a norm and beside a residual.

Source: Vaswani et al. 2017 with pre-norm as in DeepSeek-V3 (arXiv 2412.19437), section 2.1.
"""

from torch import Tensor

from model_runtime.config.types import K25Config
from model_runtime.model.mla import Mla
from model_runtime.model.mlp import Mlp
from model_runtime.model.moe import Moe
from model_runtime.model.norm import RmsNorm
from model_runtime.model.plan import AttentionPlan
from model_runtime.model.weights import Weights


class DecoderLayer:
    """Layer `layer`, from 0."""

    def __init__(self, config: K25Config, layer: int, weights: Weights) -> None:
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

    def __call__(self, x: Tensor, residual: Tensor | None, plan: AttentionPlan, cache: Tensor) -> tuple[Tensor, Tensor]:
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
