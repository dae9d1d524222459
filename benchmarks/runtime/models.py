"""Random models for benchmarks, written once to a temporary folder."""

from pathlib import Path

from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.config import K25Config

SMALL = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "moe_intermediate_size": 320,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "q_lora_rank": 256,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
}
"""About 100 M parameters."""


def write_small(folder: Path, *, dtype: str = "float32") -> K25Config:
    """A model of about 100 M parameters with a tiny vision tower."""
    return write_tiny(folder, config=tiny_config(text=SMALL, dtype=dtype))  # type: ignore[arg-type]


def count_parameters(folder: Path) -> int:
    """Parameters in a folder's shards."""
    from model_runtime.checkpoint.reader import Checkpoint

    checkpoint = Checkpoint.open(folder)
    return sum(checkpoint.get(name).numel() for name in checkpoint.places)
