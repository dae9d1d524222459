"""Read `quantization_config`: compressed-tensors `pack-quantized`, four bits, symmetric, in groups along the input."""

from model_runtime.config.section import Section
from model_runtime.config.types import QuantizationConfig

WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "dynamic": False, "actorder": None}


def parse_quantization(top: Section, text: Section) -> QuantizationConfig | None:
    """The original release has the section inside `text_config`, files saved again have it at the top level too."""
    given = [part.section("quantization_config") for part in (top, text) if part.has("quantization_config")]
    found = [_parse_scheme(section) for section in given]
    if len(found) == 2 and found[0] != found[1]:
        top.faults.append(f"quantization_config gives {found[0]}, expected the same as in text_config: {found[1]}")
    return found[0] if found else None


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
