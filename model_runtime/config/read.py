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
from model_runtime.config.quantization import parse_quantization
from model_runtime.config.section import Section
from model_runtime.config.text import parse_text
from model_runtime.config.types import DType, K25Config
from model_runtime.config.vision import parse_vision
from model_runtime.errors import ConfigError

MODEL_TYPE = "kimi_k25"
ARCHITECTURES = ("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration")
"""As the release and as transformers spell it."""


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
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds a {type(values).__name__}, expected a JSON object")
    try:
        return parse_config(values, latent_norm_eps=latent_norm_eps)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_config(values: Mapping[str, Any], *, latent_norm_eps: float = 1e-6) -> K25Config:
    """A whole model from the object in config.json.

    Args:
        values: The object.
        latent_norm_eps: As for `load_config`.

    Raises:
        ConfigError: With every contradiction and every unsupported value, not just the first.
    """
    top = Section(values, "", [], [])
    is_k25 = _check_family(values, top)
    text, vision = top.section("text_config"), top.section("vision_config")
    text_config = parse_text(text, top, latent_norm_eps)
    config = K25Config(
        text=text_config,
        vision=parse_vision(vision, top, text_config.hidden_size),
        quantization=parse_quantization(top, text),
        media_placeholder_token_id=top.take("media_placeholder_token_id", 163_605, "image_token_id"),
        dtype=_parse_dtype(top, text),
        extra=MappingProxyType(top.left_over() | text.left_over() | vision.left_over()),
    )
    if top.missing and not is_k25:
        names = ", ".join(top.missing)
        raise ConfigError(f"model_type is missing, and so are {names}; expected {MODEL_TYPE!r} or every one of them")
    check_config(config, top.faults)
    if top.faults:
        raise ConfigError("; ".join(top.faults))
    return config


def _check_family(values: Mapping[str, Any], top: Section) -> bool:
    """Whether the file says that it is a K2.5; False where it does not say what it is but has both parts.

    Raises:
        ConfigError: It is of another model.
    """
    found, architectures = top.find("model_type"), top.find("architectures")
    known = [name for name in ARCHITECTURES if isinstance(architectures, list) and name in architectures]
    if architectures is not None and not known and found in (MODEL_TYPE, None):
        top.fault("architectures", architectures, f"{ARCHITECTURES[0]!r} among them")
    top.expect("tie_word_embeddings", False)
    if found == MODEL_TYPE or (found is None and known):
        return True
    if found is None and "text_config" in values and "vision_config" in values:
        return False
    is_text_only = found in ("kimi_k2", "deepseek_v3") or "text_config" not in values
    hint = ": a text-only model, and this runtime serves the whole of Kimi K2.5, vision tower included"
    what = f"model_type is {json.dumps(found)}{hint if is_text_only else ''}"
    raise ConfigError(f"{what}; expected {MODEL_TYPE!r} with text_config and vision_config")


def _parse_dtype(top: Section, text: Section) -> DType:
    """Dtype of the tensors that are not packed; older files say `torch_dtype`. The outer object wins."""
    inner = text.find("dtype") or text.find("torch_dtype")
    found = top.find("dtype") or top.find("torch_dtype") or inner or "bfloat16"
    names: tuple[DType, ...] = get_args(DType)
    for name in names:
        if found == name:
            return name
    top.fault("dtype", found, " or ".join(names))
    return "bfloat16"
