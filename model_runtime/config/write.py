"""Writer of `config.json` in both spellings: keys of the release, and keys of transformers."""

from model_runtime.config.read import VISION_NAMES
from model_runtime.config.types import K25Config, QuantizationConfig, RopeScaling, TextConfig, VisionConfig
from model_runtime.json_types import Json

ARCHITECTURE = "KimiK25ForConditionalGeneration"


def config_json(config: K25Config) -> Json:
    """Return the object of config.json; `parse_config` returns the same config, except `latent_norm_eps` and
    `extra`.
    """
    text = config.text
    written: Json = {
        "architectures": [ARCHITECTURE],
        "model_type": "kimi_k25",
        "dtype": config.dtype,
        "bos_token_id": text.bos_token_id,
        "eos_token_id": text.eos_token_id,
        "pad_token_id": text.pad_token_id,
        "ignore_index": -100,
        "media_placeholder_token_id": config.media_placeholder_token_id,
        "image_token_id": config.media_placeholder_token_id,
        "video_token_id": text.vocab_size,
        "projection_hidden_size": config.vision.mm_hidden_size,
        "projection_layer_norm_eps": config.vision.projector_ln_eps,
        "use_unified_vision_chunk": True,
        "video_placeholder": "<|kimi_k25_video_placeholder|>",
        "tie_word_embeddings": False,
        "text_config": _text_json(text, config.dtype),
        "vision_config": _vision_json(config.vision),
    }
    if config.quantization is not None:
        written["quantization_config"] = _quantization_json(config.quantization)
    return written


def _text_json(text: TextConfig, dtype: str) -> Json:
    names = set(TextConfig.__dataclass_fields__) - {"latent_norm_eps", "rope_scaling"}
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        **{name: getattr(text, name) for name in TextConfig.__dataclass_fields__ if name in names},
        "num_key_value_heads": text.num_attention_heads,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "num_nextn_predict_layers": 0,
        "rope_scaling": None if text.rope_scaling is None else _rope_json(text.rope_scaling),
        "tie_word_embeddings": False,
        "dtype": dtype,
    }


def _rope_json(scaling: RopeScaling) -> Json:
    return {"type": "yarn", **{name: getattr(scaling, name) for name in RopeScaling.__dataclass_fields__}}


def _vision_json(vision: VisionConfig) -> Json:
    sizes = {key: getattr(vision, name) for name, keys in VISION_NAMES.items() for key in keys}
    same = ("mm_hidden_size", "projector_ln_eps", "text_hidden_size")
    return {
        "model_type": "",
        **sizes,
        **{name: getattr(vision, name) for name in same},
        "pos_emb_type": "divided_fixed",
        "merge_kernel_size": list(vision.merge_kernel_size),
        "merge_type": "sd2_tpool",
        "video_attn_type": "spatial_temporal",
        "mm_projector_type": "patchmerger",
        "projector_hidden_act": "gelu",
    }


def _quantization_json(quantization: QuantizationConfig) -> Json:
    weights = {
        "num_bits": quantization.num_bits,
        "type": "int",
        "symmetric": quantization.symmetric,
        "strategy": "group",
        "group_size": quantization.group_size,
        "dynamic": False,
        "actorder": None,
        "block_structure": None,
        "observer": "minmax",
        "observer_kwargs": {},
    }
    group = {"targets": ["Linear"], "input_activations": None, "output_activations": None, "weights": weights}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "kv_cache_scheme": None,
        "config_groups": {"group_0": group},
        "ignore": list(quantization.ignore),
    }
