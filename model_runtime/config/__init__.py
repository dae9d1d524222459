"""`config.json` of a release, as typed numbers."""

from model_runtime.config.types import K25Config, QuantizationConfig, RopeScaling, TextConfig, VisionConfig

__all__ = ["K25Config", "QuantizationConfig", "RopeScaling", "TextConfig", "VisionConfig"]
