"""config.json as it is found in releases, re-releases and in what transformers writes back."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from model_runtime.checkpoint.tiny import tiny_config
from model_runtime.config import (
    K25Config,
    QuantizationConfig,
    RopeScaling,
    TextConfig,
    VisionConfig,
    config_json,
    load_config,
    parse_config,
)
from model_runtime.errors import ConfigError
from tests.model_runtime.config.release import QUANTIZATION, make_release
from tests.tables import table

SCHEME = QuantizationConfig(ignore=tuple(QUANTIZATION["ignore"]))


def changed(path: str, value: Any) -> dict[str, Any]:
    """The release with one key set (dotted path), or removed where the value is `...`."""
    values = deepcopy(make_release())
    *parents, key = path.split(".")
    inner = values
    for parent in parents:
        inner = inner.setdefault(parent, {})
    if value is ...:
        del inner[key]
    else:
        inner[key] = value
    return values


def text_of(config: K25Config) -> tuple[TextConfig, VisionConfig, QuantizationConfig | None]:
    return config.text, config.vision, config.quantization


def test_release_gives_the_release(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(make_release()))
    config = load_config(tmp_path)
    assert replace(config, extra={}) == K25Config(quantization=SCHEME, extra={})
    assert config.text.latent_norm_eps == 1e-6
    assert load_config(tmp_path, latent_norm_eps=1e-5).text.latent_norm_eps == 1e-5


def test_what_is_not_used_is_kept():
    extra = parse_config(changed("text_config.something_new", [1])).extra
    assert extra == {
        "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
        "ignore_index": -100,
        "use_unified_vision_chunk": True,
        "video_placeholder": "<|kimi_k25_video_placeholder|>",
        "text_config.architectures": ["DeepseekV3ForCausalLM"],
        "text_config.attention_dropout": 0.0,
        "text_config.aux_loss_alpha": 0.001,
        "text_config.ep_size": 1,
        "text_config.initializer_range": 0.02,
        "text_config.pretraining_tp": 1,
        "text_config.seq_aux": True,
        "text_config.something_new": [1],
    }


def test_quantization_at_the_top_level_or_in_both_places():
    at_top = changed("text_config.quantization_config", ...)
    assert parse_config(at_top).quantization is None
    at_top["quantization_config"] = deepcopy(QUANTIZATION)
    assert parse_config(at_top).quantization == SCHEME
    assert parse_config(changed("quantization_config", deepcopy(QUANTIZATION))).quantization == SCHEME


def test_k26_ends_with_im_end_and_leaves_vision_out():
    values = changed("eos_token_id", 163586)
    ignore = [*QUANTIZATION["ignore"], "re:vision_tower.*", "re:mm_projector.*"]
    values["text_config"]["quantization_config"] = QUANTIZATION | {"ignore": ignore}
    config = parse_config(values)
    assert (config.text.eos_token_id, config.quantization) == (163586, QuantizationConfig(ignore=tuple(ignore)))
    inner = changed("text_config.eos_token_id", 163586)
    del inner["eos_token_id"]
    assert parse_config(inner).text.eos_token_id == 163586


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("text_config.model_type", "deepseek_v3"),
        ("text_config.rope_scaling.rope_type", "yarn"),
        ("architectures", ["Kimi_K25ForConditionalGeneration"]),
        ("architectures", ...),
        ("vision_config.hidden_size", 1152),
        ("vision_config.pos_emb_height", 64),
        ("text_config.rope_theta", 50000),
        ("text_config.num_key_value_heads", ...),
        ("text_config.max_position_embeddings", ...),
        ("model_type", ...),
        ("image_token_id", 163605),
        ("dtype", ...),
        ("quantization_config", None),
    ],
)
def test_same_model_spelt_otherwise(path, value):
    assert replace(parse_config(changed(path, value)), extra={}) == K25Config(quantization=SCHEME, extra={})


def test_rope_in_the_style_of_transformers_5():
    values = make_release()
    scaling = values["text_config"].pop("rope_scaling")
    del scaling["type"]
    theta = values["text_config"].pop("rope_theta")
    values["text_config"]["rope_parameters"] = {**scaling, "rope_type": "yarn", "rope_theta": theta, "factor": 32.0}
    values["text_config"]["max_position_embeddings"] = 131072
    text = parse_config(values).text
    assert text == TextConfig(rope_scaling=RopeScaling(factor=32.0), max_position_embeddings=131072)


def test_no_scaling_at_all():
    assert parse_config(changed("text_config.rope_scaling", None)).text.rope_scaling is None
    assert parse_config(changed("text_config.rope_scaling", {"type": "default"})).text.rope_scaling is None
    assert parse_config(changed("text_config.rope_scaling", ...)).text.rope_scaling == RopeScaling()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dtype_in_new_and_old_spelling(dtype):
    old = changed("torch_dtype", dtype)
    del old["dtype"]
    assert [parse_config(values).dtype for values in (changed("dtype", dtype), old)] == [dtype, dtype]


def test_what_transformers_writes_back_is_read():
    from transformers import Kimi_K25Config

    config = replace(tiny_config(), quantization=SCHEME)
    saved = Kimi_K25Config(**config_json(config)).to_dict()
    assert "rope_parameters" in saved["text_config"]
    assert text_of(parse_config(saved)) == text_of(config)


def test_names_of_transformers_alone_are_read():
    config = tiny_config()
    values = config_json(config)
    vision = values["vision_config"]
    for name in [*vision]:
        if name.startswith(("vt_", "init_", "mm_", "text_hidden", "projector")):
            del vision[name]
    del values["media_placeholder_token_id"]
    read = parse_config(values)
    assert (text_of(read), read.media_placeholder_token_id) == (text_of(config), config.media_placeholder_token_id)


@pytest.mark.parametrize(
    "config", [tiny_config(), replace(tiny_config(dtype="float32"), quantization=SCHEME), K25Config()]
)
def test_written_config_reads_back(config):
    assert replace(parse_config(config_json(config)), extra=config.extra) == config


CONTRADICTIONS = [
    ("text_config.scoring_func", "softmax", 'text_config.scoring_func is "softmax", expected "sigmoid"'),
    ("text_config.topk_method", "greedy", 'text_config.topk_method is "greedy", expected "noaux_tc"'),
    ("text_config.hidden_act", "gelu", 'text_config.hidden_act is "gelu", expected "silu"'),
    ("text_config.attention_bias", True, "text_config.attention_bias is true, expected false"),
    ("text_config.tie_word_embeddings", True, "text_config.tie_word_embeddings is true, expected false"),
    ("tie_word_embeddings", True, "tie_word_embeddings is true, expected false"),
    ("text_config.num_nextn_predict_layers", 1, "text_config.num_nextn_predict_layers is 1, expected 0"),
    ("text_config.num_key_value_heads", 8, "text_config.num_key_value_heads is 8, expected 64"),
    ("text_config.model_type", "llama", 'text_config.model_type is "llama", expected "kimi_k2" or "deepseek_v3"'),
    ("text_config.rope_interleave", False, "text_config.rope_interleave is false, expected true"),
    ("text_config.qk_head_dim", 128, "text_config.qk_head_dim is 128, expected 192"),
    (
        "text_config.q_lora_rank",
        None,
        "text_config.q_lora_rank is null, expected a whole number (queries go through a latent)",
    ),
    ("text_config.qk_rope_head_dim", 63, "text_config.qk_rope_head_dim is 63, expected an even number"),
    ("text_config.hidden_size", "7168", 'text_config.hidden_size is "7168", expected a whole number of 1 or more'),
    ("text_config.hidden_size", True, "text_config.hidden_size is true, expected a whole number of 1 or more"),
    ("text_config.num_hidden_layers", 0, "text_config.num_hidden_layers is 0, expected a whole number of 1 or more"),
    ("text_config.rms_norm_eps", float("nan"), "text_config.rms_norm_eps is NaN, expected a number above 0"),
    ("text_config.norm_topk_prob", 1, "text_config.norm_topk_prob is 1, expected true or false"),
    ("text_config.n_group", 5, "text_config.n_group is 5, expected a divisor of n_routed_experts (384)"),
    ("text_config.topk_group", 2, "text_config.topk_group is 2, expected at most n_group (1)"),
    (
        "text_config.num_experts_per_tok",
        385,
        "text_config.num_experts_per_tok is 385, expected at most 384 (the experts of topk_group groups)",
    ),
    (
        "text_config.max_position_embeddings",
        262145,
        "text_config.max_position_embeddings is 262145, expected at most 262144 "
        "(original_max_position_embeddings x factor of rope_scaling)",
    ),
    (
        "text_config.rope_scaling.type",
        "linear",
        'text_config.rope_scaling.type is "linear", expected "yarn" or "default"',
    ),
    (
        "text_config.rope_scaling.rope_type",
        "linear",
        'text_config.rope_scaling.type is "yarn", expected "linear" as in text_config.rope_scaling.rope_type; '
        'text_config.rope_scaling.rope_type is "linear", expected "yarn" or "default"',
    ),
    (
        "text_config.rope_scaling.beta_fast",
        0.5,
        "text_config.rope_scaling.beta_fast is 0.5, expected beta_slow (1) or more",
    ),
    ("text_config.rope_scaling", 64, "text_config.rope_scaling is 64, expected an object"),
    ("text_config", [], "text_config is [], expected an object"),
    ("vision_config.merge_type", "sd2", 'vision_config.merge_type is "sd2", expected "sd2_tpool"'),
    ("vision_config.pos_emb_type", "rope", 'vision_config.pos_emb_type is "rope", expected "divided_fixed"'),
    (
        "vision_config.video_attn_type",
        "spatial",
        'vision_config.video_attn_type is "spatial", expected "spatial_temporal"',
    ),
    ("vision_config.mm_projector_type", "mlp", 'vision_config.mm_projector_type is "mlp", expected "patchmerger"'),
    (
        "vision_config.merge_kernel_size",
        [2],
        "vision_config.merge_kernel_size is [2], expected two whole numbers, for example [2, 2]",
    ),
    (
        "vision_config.text_hidden_size",
        4096,
        "vision_config.text_hidden_size is 4096, expected 7168 as text_config.hidden_size",
    ),
    ("vision_config.mm_hidden_size", 1024, "vision_config.mm_hidden_size is 1024, expected 1152 as vt_hidden_size"),
    (
        "vision_config.hidden_size",
        1024,
        "vision_config.hidden_size is 1024, expected 1152 as in vision_config.vt_hidden_size",
    ),
    (
        "vision_config.pos_emb_width",
        32,
        "vision_config.pos_emb_width is 32, expected 64 as in vision_config.init_pos_emb_width",
    ),
    (
        "vision_config.vt_num_attention_heads",
        7,
        "vision_config.vt_hidden_size is 1152, expected a multiple of vt_num_attention_heads (7)",
    ),
    (
        "vision_config.vt_num_attention_heads",
        64,
        "vision_config.vt_hidden_size / vt_num_attention_heads is 18, "
        "expected a multiple of 4 (pairs of rotary x and y)",
    ),
    ("projection_hidden_size", 1024, "projection_hidden_size is 1024, expected 1152"),
    ("image_token_id", 5, "image_token_id is 5, expected 163605 as in media_placeholder_token_id"),
    (
        "media_placeholder_token_id",
        163840,
        "media_placeholder_token_id is 163840, expected less than vocab_size (163840)",
    ),
    ("dtype", "float8", 'dtype is "float8", expected bfloat16 or float32 or float16'),
    (
        "architectures",
        ["KimiVL"],
        "architectures is [\"KimiVL\"], expected 'KimiK25ForConditionalGeneration' among them",
    ),
]


@table(("path", "value", "message"), CONTRADICTIONS)
def test_contradiction_is_named_with_what_was_found_and_expected(path, value, message):
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(path, value))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_bits", 8, "num_bits is 8, expected 4"),
        ("type", "float", 'type is "float", expected "int"'),
        ("symmetric", False, "symmetric is false, expected true"),
        ("strategy", "channel", 'strategy is "channel", expected "group"'),
        ("dynamic", True, "dynamic is true, expected false"),
        ("actorder", "weight", 'actorder is "weight", expected null'),
    ],
)
def test_quantization_of_another_kind_is_refused(key, value, message):
    values = deepcopy(make_release())
    values["text_config"]["quantization_config"]["config_groups"]["group_0"]["weights"][key] = value
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert str(caught.value) == f"text_config.quantization_config.config_groups.group_0.weights.{message}"


def test_group_size_has_to_divide():
    values = deepcopy(make_release())
    values["text_config"]["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] = 48
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert str(caught.value) == (
        "text_config.hidden_size is 7168, expected a multiple of the INT4 group_size (48); "
        "text_config.moe_intermediate_size is 2048, expected a multiple of the INT4 group_size (48)"
    )


def test_two_schemes_that_differ_are_refused():
    with pytest.raises(ConfigError, match=r"quantization_config gives .*'lm_head'.* as in text_config: .*ignore=\(\)"):
        values = changed("quantization_config", deepcopy(QUANTIZATION))
        values["text_config"]["quantization_config"] = QUANTIZATION | {"ignore": []}
        parse_config(values)


def test_all_contradictions_are_told_at_once():
    values = changed("text_config.hidden_act", "relu")
    values["vision_config"]["merge_type"] = "other"
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert str(caught.value).count("expected") == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            make_release()["text_config"],
            'model_type is "kimi_k2": a text-only model, and this runtime serves the whole of Kimi K2.5, vision tower '
            "included; expected 'kimi_k25' with text_config and vision_config",
        ),
        (
            {"model_type": "kimi_vl", "text_config": {}, "vision_config": {}},
            "model_type is \"kimi_vl\"; expected 'kimi_k25' with text_config and vision_config",
        ),
    ],
)
def test_another_model_is_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert str(caught.value) == message


def test_defaults_are_for_files_that_say_what_they_are():
    values = make_release()
    del values["model_type"], values["architectures"], values["text_config"]["hidden_size"], values["pad_token_id"]
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert str(caught.value) == (
        "model_type is missing, and so are text_config.hidden_size; expected 'kimi_k25' or every one of them"
    )
    values["model_type"] = "kimi_k25"
    assert parse_config(values).text == TextConfig()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[1]", "holds a list, expected a JSON object"),
        ("\udcff", "cannot be read as JSON"),
    ],
)
def test_file_that_is_no_json_object(tmp_path, content, message):
    (tmp_path / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path)


def test_folder_without_config(tmp_path):
    with pytest.raises(ConfigError, match=r"no config\.json in .*: expected the folder of a Kimi K2\.5 release"):
        load_config(tmp_path)
