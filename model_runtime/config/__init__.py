"""Typed representation of a release's `config.json`."""

from model_runtime.config.read import load_config, parse_config
from model_runtime.config.types import K25Config, QuantizationConfig, RopeScaling, TextConfig, VisionConfig
from model_runtime.config.write import config_json

__all__ = [
    "K25Config",
    "QuantizationConfig",
    "RopeScaling",
    "TextConfig",
    "VisionConfig",
    "config_json",
    "load_config",
    "parse_config",
]
