"""Read `config.json` of a release folder.

Accepted beside the original file: what transformers writes back (`rope_parameters`, `rope_type`, its vision names),
the values of K2.6, and the quantization section at the top level or inside `text_config`. Two spellings that differ are
refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from model_runtime.config.consistency import check_config
from model_runtime.config.section import Section
from model_runtime.config.text import parse_text
from model_runtime.config.types import DType, K25Config, QuantizationConfig
from model_runtime.config.vision import parse_vision
from model_runtime.errors import ConfigError

MODEL_TYPE = "kimi_k25"
ARCHITECTURE = "KimiK25ForConditionalGeneration"


def load_config(model_dir: Path, *, latent_norm_eps: float = 1e-6) -> K25Config:
    """Read `config.json` of a release folder.

    Args:
        model_dir: Folder of the release.
        latent_norm_eps: Epsilon of the two norms inside MLA, which the file does not name: 1e-6 as in transformers,
            1e-5 as in vLLM and SGLang.

    Raises:
        ConfigError: The file is missing or malformed, is of another model, contradicts itself, or asks for what this
            runtime does not have.
    """
    path = model_dir / "config.json"
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no config.json in {model_dir}: expected the folder of a Kimi K2.5 release") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, expected a JSON object")
    try:
        return parse_config(values, latent_norm_eps=latent_norm_eps)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_config(values: Mapping[str, Any], *, latent_norm_eps: float = 1e-6) -> K25Config:
    """A whole model from the object in config.json.

    Raises:
        ConfigError: With every contradiction and every unsupported value, not just the first.
    """
    _check_family(values)
    top = Section(values, "", [], [])
    text, vision = top.section("text_config"), top.section("vision_config")
    quantization = _parse_quantization(top, text)
    top.expect("model_type", MODEL_TYPE)
    top.expect("tie_word_embeddings", False)
    config = K25Config(
        text=parse_text(text, top, latent_norm_eps),
        vision=parse_vision(vision, top),
        quantization=quantization,
        media_placeholder_token_id=top.take("media_placeholder_token_id", 163_605, "image_token_id"),
        dtype=_parse_dtype(top, text),
        extra=MappingProxyType(top.left_over() | text.left_over() | vision.left_over()),
    )
    if top.missing and values.get("model_type") != MODEL_TYPE:
        names = ", ".join(top.missing)
        raise ConfigError(f"model_type is missing, and so are {names}; expected {MODEL_TYPE!r} or every one of them")
    check_config(config, top.faults)
    if top.faults:
        raise ConfigError("; ".join(top.faults))
    return config


def _check_family(values: Mapping[str, Any]) -> None:
    found = values.get("model_type")
    architectures = values.get("architectures") or []
    if found == MODEL_TYPE or (found is None and ARCHITECTURE in architectures):
        return
    if found is None and "text_config" in values and "vision_config" in values:
        return
    hint = " (a text-only model: this runtime serves the whole of Kimi K2.5, vision tower included)"
    what = f"model_type {found!r}, architectures {architectures}"
    text_only = found in ("kimi_k2", "deepseek_v3") or "text_config" not in values
    raise ConfigError(f"{what}; expected model_type {MODEL_TYPE!r}{hint if text_only else ''}")


def _parse_dtype(top: Section, text: Section) -> DType:
    """Dtype of the tensors that are not packed; older files say `torch_dtype`."""
    inner = (
        text.take("dtype", "bfloat16", "torch_dtype") if text.has("dtype") or text.has("torch_dtype") else "bfloat16"
    )
    found = top.take("dtype", inner, "torch_dtype") if top.has("dtype") or top.has("torch_dtype") else inner
    names: tuple[DType, ...] = get_args(DType)
    for name in names:
        if found == name:
            return name
    top.fault("dtype", found, " or ".join(names))
    return "bfloat16"


def _parse_quantization(top: Section, text: Section) -> QuantizationConfig | None:
    """The original release has the section inside `text_config`, files saved again have it at the top level too."""
    given = [part.section("quantization_config") for part in (top, text) if part.has("quantization_config")]
    found = [_parse_scheme(section) for section in given]
    if len(found) == 2 and found[0] != found[1]:
        top.fault("quantization_config", found[0], f"the same as in text_config ({found[1]})")
    return found[0] if found else None


def _parse_scheme(section: Section) -> QuantizationConfig:
    section.expect("quant_method", "compressed-tensors")
    section.expect("format", "pack-quantized")
    section.expect("kv_cache_scheme", None)
    groups = section.section("config_groups")
    names = groups.names()
    if len(names) != 1:
        groups.fault("*", list(names), "exactly one group")
        return QuantizationConfig()
    group = groups.section(names[0])
    group.expect("input_activations", None)
    group.expect("output_activations", None)
    weights = group.section("weights")
    for key, value in (
        ("num_bits", 4),
        ("type", "int"),
        ("symmetric", True),
        ("strategy", "group"),
        ("dynamic", False),
    ):
        weights.expect(key, value)
    weights.expect("actorder", None)
    ignore = section.find("ignore") or ()
    return QuantizationConfig(group_size=weights.take("group_size", 32), ignore=tuple(map(str, ignore)))
