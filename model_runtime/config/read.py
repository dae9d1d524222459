"""Parser of a release's `config.json`: the language model, the vision tower with its projector, the quantization.

In addition to the original file, these are accepted: the spellings that transformers writes (`rope_parameters`,
`rope_type`, its vision names), the values of K2.6, and the quantization section (compressed-tensors `pack-quantized`,
four bits, symmetric, in groups along the input) at the top level or inside `text_config`. Two spellings with different
values are rejected.

Keys are read with their type and marked as used. An error does not stop the parser: the operator gets all errors in one
message.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from model_runtime.config.types import (
    DType,
    K25Config,
    QuantizationConfig,
    RopeScaling,
    TextConfig,
    VisionConfig,
    check_config,
)
from model_runtime.errors import ConfigError

T = TypeVar("T", int, float, bool, str)
TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class Section:
    """Reader of the JSON object at `path` (`"text_config."`, or `""`); sections of a file share both lists."""

    def __init__(self, values: Mapping[str, object], path: str, faults: list[str], missing: list[str]) -> None:
        self.path = path
        self.faults = faults
        self.missing = missing
        self._values = values
        self._taken: set[str] = set()

    def has(self, key: str) -> bool:
        """Return True if the key exists with a value other than null."""
        return self._values.get(key) is not None

    def is_null(self, key: str) -> bool:
        """Return True if the key exists and is null."""
        return key in self._values and self._values[key] is None

    def names(self) -> tuple[str, ...]:
        """Return all keys of the object."""
        return tuple(self._values)

    def find(self, key: str) -> Any:
        """Return the unparsed value of a key, or None, and mark it as used."""
        self._taken.add(key)
        return self._values.get(key)

    def take(self, key: str, default: T, *aliases: str, at_least: int = 1) -> T:
        """Return the value of a key with the default's type; the default if the key does not exist under any name.

        Different values of two `aliases` are an error. Integers must be at least `at_least`; other numbers must be
        positive, or non-negative if `at_least` is 0.
        """
        values = [(name, self.find(name)) for name in (key, *aliases)]
        present = [(name, value) for name, value in values if value is not None]
        if not present:
            self.missing.append(self.path + key)
            return default
        name, value = present[0]
        for other, again in present[1:]:
            if again != value:
                self.fault(other, again, f"{json.dumps(value)} as in {self.path}{name}")
        expected = _find_mistake(value, default, at_least)
        if expected:
            self.fault(name, value, expected)
            return default
        return type(default)(value)

    def section(self, key: str) -> "Section":
        """Return the object under a key; an empty one if it is missing or not an object."""
        value = self.find(key)
        if value is not None and not isinstance(value, Mapping):
            self.fault(key, value, "an object")
        values = value if isinstance(value, Mapping) else {}
        return Section(values, f"{self.path}{key}.", self.faults, self.missing)

    def expect(self, key: str, *expected: object) -> None:
        """Record a fault unless the key is missing or has one of the values that this runtime supports."""
        value = self.find(key)
        if value is not None and not any(type(value) is type(each) and value == each for each in expected):
            self.fault(key, value, " or ".join(json.dumps(each) for each in expected))

    def fault(self, key: str, value: object, expected: str) -> None:
        """Record the found and the expected value."""
        self.faults.append(f"{self.path}{key} is {json.dumps(value)}, expected {expected}")

    def left_over(self) -> dict[str, object]:
        """Return unused keys, with their path."""
        return {self.path + key: value for key, value in self._values.items() if key not in self._taken}


def _find_mistake(value: Any, default: object, at_least: int) -> str:
    """Return the expectation that `value` violates; empty if it is valid."""
    kind = type(default)
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        is_number = (is_int or isinstance(value, float)) and math.isfinite(value)
        is_fit = is_number and (value > 0 or (value == 0 and at_least == 0))
        return "" if is_fit else f"a number {'of 0 or more' if at_least == 0 else 'above 0'}"
    if kind is int:
        return "" if is_int and value >= at_least else f"a whole number of {at_least} or more"
    return "" if isinstance(value, kind) else TYPE_NAMES[kind]


WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "dynamic": False, "actorder": None}


def parse_quantization(top: Section, text: Section) -> QuantizationConfig | None:
    """Parse the quantization: the original release has it inside `text_config`, files saved again also at the top
    level.
    """
    sections = [part.section("quantization_config") for part in (top, text) if part.has("quantization_config")]
    schemes = [_parse_scheme(section) for section in sections]
    if len(schemes) == 2 and schemes[0] != schemes[1]:
        top.faults.append(f"quantization_config gives {schemes[0]}, expected the same as in text_config: {schemes[1]}")
    return schemes[0] if schemes else None


def _parse_scheme(section: Section) -> QuantizationConfig:
    section.expect("quant_method", "compressed-tensors")
    section.expect("format", "pack-quantized")
    section.expect("kv_cache_scheme", None)
    ignore = section.find("ignore") or []
    if not isinstance(ignore, list):
        section.fault("ignore", ignore, "a list of names")
        ignore = []
    groups = section.section("config_groups")
    names = groups.names()
    if len(names) != 1:
        section.fault("config_groups", list(names), "exactly one group")
        return QuantizationConfig()
    group = groups.section(names[0])
    group.expect("format", "pack-quantized")
    group.expect("input_activations", None)
    group.expect("output_activations", None)
    weights = group.section("weights")
    for key, value in WEIGHTS.items():
        weights.expect(key, value)
    return QuantizationConfig(group_size=weights.take("group_size", 32), ignore=tuple(map(str, ignore)))


VISION_NAMES = {
    "patch_size": ("patch_size",),
    "hidden_size": ("vt_hidden_size", "hidden_size"),
    "num_hidden_layers": ("vt_num_hidden_layers", "num_hidden_layers"),
    "num_attention_heads": ("vt_num_attention_heads", "num_attention_heads"),
    "intermediate_size": ("vt_intermediate_size", "intermediate_size"),
    "init_pos_emb_height": ("init_pos_emb_height", "pos_emb_height"),
    "init_pos_emb_width": ("init_pos_emb_width", "pos_emb_width"),
    "init_pos_emb_time": ("init_pos_emb_time", "pos_emb_time"),
}
"""Keys of the vision part: the release's, then that of transformers if it differs."""


def parse_vision(section: Section, top: Section, text_hidden_size: int) -> VisionConfig:
    """Parse MoonViT-3D and the projector from `vision_config`; transformers keeps two projector values outside of
    it.
    """
    release = VisionConfig()
    section.expect("model_type", "", "kimi_k25_vision")
    section.expect("pos_emb_type", "divided_fixed")
    section.expect("merge_type", "sd2_tpool")
    section.expect("video_attn_type", "spatial_temporal")
    section.expect("mm_projector_type", "patchmerger")
    section.expect("projector_hidden_act", "gelu")
    section.expect("hidden_act", "gelu_pytorch_tanh")
    section.section("rope_parameters").expect("rope_theta", 10_000.0, 10_000)
    return VisionConfig(
        **{name: section.take(key, getattr(release, name), *others) for name, (key, *others) in VISION_NAMES.items()},
        merge_kernel_size=_parse_merge_kernel(section),
        mm_hidden_size=_take_projection(section, top, "mm_hidden_size", "projection_hidden_size"),
        text_hidden_size=section.take("text_hidden_size", text_hidden_size),
        projector_ln_eps=_take_projection(section, top, "projector_ln_eps", "projection_layer_norm_eps"),
    )


def _take_projection(section: Section, top: Section, name: str, top_name: str) -> Any:
    default = getattr(VisionConfig(), name)
    if not section.has(name) and top.has(top_name):
        return top.take(top_name, default)
    value = section.take(name, default)
    top.expect(top_name, value)
    return value


def _parse_merge_kernel(section: Section) -> tuple[int, int]:
    value: Any = section.find("merge_kernel_size")
    if value is None:
        section.missing.append(section.path + "merge_kernel_size")
    elif not (isinstance(value, list) and len(value) == 2 and all(type(each) is int and each > 0 for each in value)):
        section.fault("merge_kernel_size", value, "two whole numbers, for example [2, 2]")
    else:
        return value[0], value[1]
    return VisionConfig().merge_kernel_size


TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
TEXT_ALIASES = {"n_routed_experts": ("num_local_experts",)}
LOWEST = {"first_k_dense_replace": 0}


def parse_text(section: Section, top: Section, latent_norm_eps: float) -> TextConfig:
    """Parse the language model from `text_config` and, for token ids, the object around it."""
    release = TextConfig()
    _expect_text(section)
    if section.is_null("q_lora_rank"):
        section.fault("q_lora_rank", None, "a whole number (queries go through a latent)")
    theta, scaling = _parse_rope(section)
    numbers: dict[str, Any] = {
        name: section.take(name, getattr(release, name), *TEXT_ALIASES.get(name, ()), at_least=LOWEST.get(name, 1))
        for name in TextConfig.__dataclass_fields__
        if name not in ("latent_norm_eps", "rope_theta", "rope_scaling", *TOKENS)
    }
    numbers |= {name: _take_token(name, getattr(release, name), top, section) for name in TOKENS}
    text = TextConfig(**numbers, latent_norm_eps=latent_norm_eps, rope_theta=theta, rope_scaling=scaling)
    section.expect("num_key_value_heads", text.num_attention_heads)
    section.expect("qk_head_dim", text.qk_head_dim)
    return text


def _expect_text(section: Section) -> None:
    section.expect("model_type", "kimi_k2", "deepseek_v3")
    section.expect("scoring_func", "sigmoid")
    section.expect("topk_method", "noaux_tc")
    section.expect("hidden_act", "silu")
    section.expect("attention_bias", False)
    section.expect("tie_word_embeddings", False)
    section.expect("num_nextn_predict_layers", 0)
    section.expect("num_mtp_layers", 0)
    section.expect("rope_interleave", True)


def _take_token(key: str, default: int, top: Section, text: Section) -> int:
    """Return a token id; the outer object takes precedence, as K2.6 changed `[EOS]` to `<|im_end|>`."""
    inner = text.take(key, default, at_least=0) if text.has(key) or not top.has(key) else text.find(key)
    return top.take(key, default, at_least=0) if top.has(key) else inner


def _parse_rope(section: Section) -> tuple[float, RopeScaling | None]:
    """Parse `rope_theta` and `rope_scaling`, or both inside `rope_parameters` as transformers 5 writes them."""
    release = TextConfig().rope_theta
    sections = [section.section(key) for key in ("rope_scaling", "rope_parameters") if section.has(key)]
    thetas = [part.take("rope_theta", release) for part in sections if part.has("rope_theta")]
    theta = section.take("rope_theta", release) if section.has("rope_theta") or not thetas else thetas[0]
    for other in thetas:
        if other != theta:
            section.fault("rope_parameters.rope_theta", other, f"{theta:g} as in {section.path}rope_theta")
    scalings = [_parse_scaling(part) for part in sections]
    if len(scalings) == 2 and scalings[0] != scalings[1]:
        problem = f"rope_parameters give {scalings[1]}, expected the same as in rope_scaling: {scalings[0]}"
        section.faults.append(section.path + problem)
    if scalings:
        return theta, scalings[0]
    if section.is_null("rope_scaling"):
        return theta, None
    section.missing.append(section.path + "rope_scaling")
    return theta, TextConfig().rope_scaling


def _parse_scaling(section: Section) -> RopeScaling | None:
    release = RopeScaling()
    kind = section.take("rope_type", "yarn", "type")
    if kind == "default":
        return None
    if kind != "yarn":
        section.fault("rope_type" if section.has("rope_type") else "type", kind, '"yarn" or "default"')
    return RopeScaling(
        factor=section.take("factor", release.factor),
        original_max_position_embeddings=section.take(
            "original_max_position_embeddings", release.original_max_position_embeddings
        ),
        beta_fast=section.take("beta_fast", release.beta_fast),
        beta_slow=section.take("beta_slow", release.beta_slow),
        mscale=section.take("mscale", release.mscale, at_least=0),
        mscale_all_dim=section.take("mscale_all_dim", release.mscale_all_dim, at_least=0),
    )


MODEL_TYPE = "kimi_k25"
ARCHITECTURES = ("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration")
"""Architecture names of the release and of transformers."""


def load_config(model_dir: Path, *, latent_norm_eps: float = 1e-6) -> K25Config:
    """Read `config.json` of a release folder.

    Args:
        model_dir: Folder of the release.
        latent_norm_eps: Epsilon of the two norms inside MLA, which is not in the file: 1e-6 as in transformers, 1e-5 as
            in vLLM and SGLang.

    Raises:
        ConfigError: If the file is missing or malformed, is of another model, contradicts itself, or requires a feature
            that this runtime does not have.
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


def parse_config(values: Mapping[str, object], *, latent_norm_eps: float = 1e-6) -> K25Config:
    """Parse a whole model from the object in config.json.

    Raises:
        ConfigError: If there are contradictions or unsupported values; the text has all of them.
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


def _check_family(values: Mapping[str, object], top: Section) -> bool:
    """Return True if the file declares a K2.5; False if it declares no model but has both parts.

    Raises:
        ConfigError: If it is of another model.
    """
    model_type, architectures = top.find("model_type"), top.find("architectures")
    known = [name for name in ARCHITECTURES if isinstance(architectures, list) and name in architectures]
    if architectures is not None and not known and model_type in (MODEL_TYPE, None):
        top.fault("architectures", architectures, f"{ARCHITECTURES[0]!r} among them")
    top.expect("tie_word_embeddings", False)
    if model_type == MODEL_TYPE or (model_type is None and known):
        return True
    if model_type is None and "text_config" in values and "vision_config" in values:
        return False
    is_text_only = model_type in ("kimi_k2", "deepseek_v3") or "text_config" not in values
    hint = ": a text-only model, and this runtime serves the whole of Kimi K2.5, vision tower included"
    problem = f"model_type is {json.dumps(model_type)}{hint if is_text_only else ''}"
    raise ConfigError(f"{problem}; expected {MODEL_TYPE!r} with text_config and vision_config")


def _parse_dtype(top: Section, text: Section) -> DType:
    """Parse the dtype of the tensors that are not packed; older files have `torch_dtype`. The outer object takes
    precedence.
    """
    inner = text.find("dtype") or text.find("torch_dtype")
    dtype = top.find("dtype") or top.find("torch_dtype") or inner or "bfloat16"
    names: tuple[DType, ...] = get_args(DType)
    for name in names:
        if dtype == name:
            return name
    top.fault("dtype", dtype, " or ".join(names))
    return "bfloat16"
