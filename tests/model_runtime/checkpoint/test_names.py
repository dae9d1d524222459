"""Names, shapes and number of the release's tensors."""

import math
import re
from collections import Counter
from dataclasses import replace

from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.checkpoint.tiny import tiny_config
from model_runtime.config import K25Config, QuantizationConfig

RELEASE = K25Config(quantization=QuantizationConfig())
ANY_FLOAT = ("bfloat16", "float32", "float16")


def kind_of(name: str) -> str:
    for kind, pattern in (
        ("experts", r"\.experts\."),
        ("shared", r"\.shared_experts\."),
        ("router", r"\.mlp\.gate\."),
        ("attention", r"\.self_attn\."),
        ("layer norms", r"^language_model.*layernorm\."),
        ("dense", r"^language_model.*\.mlp\."),
        ("text ends", r"^language_model\."),
        ("vision blocks", r"\.blocks\."),
        ("projector", r"^mm_projector\."),
    ):
        if re.search(pattern, name):
            return kind
    return "vision ends"


def test_release_has_208550_tensors():
    names = expected_tensors(RELEASE)
    assert len(names) == 208_550
    assert Counter(map(kind_of, names)) == {
        "experts": 60 * 384 * 3 * 3,
        "shared": 60 * 3,
        "router": 60 * 2,
        "attention": 61 * 7,
        "layer norms": 61 * 2,
        "dense": 3,
        "text ends": 3,
        "vision blocks": 27 * 12,
        "vision ends": 3 + 2,
        "projector": 6,
    }


def test_release_has_a_trillion_parameters():
    names = expected_tensors(RELEASE, quantized=False)
    text = sum(math.prod(info.shape) for name, info in names.items() if name.startswith("language_model."))
    assert (len(names), round(text / 1e12, 3)) == (70_310, 1.026)


def test_shapes_of_the_release():
    names = expected_tensors(RELEASE)
    layer = "language_model.model.layers.60."
    shapes = {
        "language_model.lm_head.weight": (163840, 7168),
        layer + "self_attn.q_b_proj.weight": (12288, 1536),
        layer + "self_attn.kv_a_proj_with_mqa.weight": (576, 7168),
        layer + "self_attn.kv_b_proj.weight": (16384, 512),
        layer + "self_attn.o_proj.weight": (7168, 8192),
        layer + "mlp.gate.weight": (384, 7168),
        layer + "mlp.shared_experts.down_proj.weight": (7168, 2048),
        "language_model.model.layers.0.mlp.up_proj.weight": (18432, 7168),
        layer + "mlp.experts.383.down_proj.weight_scale": (7168, 64),
        "vision_tower.patch_embed.proj.weight": (1152, 3, 14, 14),
        "vision_tower.patch_embed.pos_emb.weight": (64, 64, 1152),
        "vision_tower.encoder.blocks.26.wqkv.weight": (3456, 1152),
        "vision_tower.encoder.blocks.0.mlp.fc1.weight": (1152, 4304),
        "vision_tower.encoder.final_layernorm.bias": (1152,),
        "mm_projector.proj.0.weight": (4608, 4608),
        "mm_projector.proj.2.weight": (7168, 4608),
    }
    assert {name: names[name] for name in shapes} == {
        name: TensorInfo(shape, ANY_FLOAT) for name, shape in shapes.items()
    }
    expert = layer + "mlp.experts.0.gate_proj.weight"
    assert names[expert + "_packed"] == TensorInfo((2048, 896), ("int32",))
    assert names[expert + "_shape"] == TensorInfo((2,), ("int32", "int64"))
    assert names[layer + "mlp.gate.e_score_correction_bias"] == TensorInfo((384,), ("float32", "bfloat16"))


def test_packing_concerns_routed_experts_only():
    plain, packed = expected_tensors(RELEASE, quantized=False), expected_tensors(replace(RELEASE, quantization=None))
    assert plain == packed
    names = expected_tensors(RELEASE)
    assert {kind_of(name) for name in set(names) ^ set(plain)} == {"experts"}


def test_layers_without_experts():
    config = tiny_config(text={"num_hidden_layers": 5, "first_k_dense_replace": 2, "moe_layer_freq": 2})
    moe = {name.split(".")[3] for name in expected_tensors(config) if ".mlp.gate." in name}
    dense = {name.split(".")[3] for name in expected_tensors(config) if name.endswith("mlp.gate_proj.weight")}
    assert (moe, dense) == ({"2", "4"}, {"0", "1", "3"})
