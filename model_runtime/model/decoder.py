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

    def __call__(self, hidden: Tensor, plan: AttentionPlan, cache: Tensor) -> Tensor:
        """(N, hidden) -> (N, hidden); the cache of this layer is written."""
        hidden = hidden + self.comm.all_reduce(self.attention(self.input_norm(hidden), plan, cache))
        return hidden + self.comm.all_reduce(self.mlp(self.post_norm(hidden)))
