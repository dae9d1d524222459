"""Predictions of all cases that are measured, under the keys that measurements have."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from benchmarks.kernels.cost import mla, moe, vision
from benchmarks.kernels.cost.hardware import (
    BATCHES,
    CONTEXTS,
    PROMPTS,
    TOKENS,
    Hardware,
    Part,
    Work,
    patches_of,
    vision_inputs,
)
from benchmarks.kernels.cost.measured import Key, key_of
from model_runtime.config import K25Config, TextConfig, VisionConfig

PREDICTED_INPUTS = ("1 screenshot", "3 screenshots", "64 chunks")

Predicted = tuple[Key, Work, Iterable[Part]]
"""A case, the work of its floor, and our launches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One case: what it takes at the least, and by the model.

    Attributes:
        key: As measurements have it.
        floor_us: Arithmetic.
        bound: Of the floor, `memory` or `matmul`.
        predicted_us: All launches, one after the other.
        launches: How many.
        longest: The kernel that takes most, its launches together, and its share of the prediction.
    """

    key: Key
    floor_us: float
    bound: str
    predicted_us: float
    launches: int
    longest: tuple[str, float]


def predict_all(config: K25Config, hardware: Hardware) -> Iterator[Prediction]:
    """All cases, family by family."""
    cases = (
        *_moe_cases(config),
        *_router_cases(config.text),
        *_decode_cases(config.text, hardware),
        *_prefill_cases(config.text),
        *_vision_cases(config.vision),
    )
    for key, floor, parts in cases:
        yield predict(key, floor, parts, hardware)


def predict(key: Key, floor: Work, parts: Iterable[Part], hardware: Hardware) -> Prediction:
    """One case under the assumptions of the package."""
    times: dict[str, float] = {}
    count = 0
    for part in parts:
        times[part.name] = times.get(part.name, 0.0) + part.predict_us(hardware)
        count += 1
    total, longest = sum(times.values()), max(times, key=lambda name: times[name])
    return Prediction(
        key=key,
        floor_us=floor.floor_us(hardware),
        bound=floor.bound(hardware),
        predicted_us=total,
        launches=count,
        longest=(longest, times[longest] / total),
    )


def _moe_cases(config: K25Config) -> Iterator[Predicted]:
    families: tuple[tuple[str, Callable[..., Work], Callable[..., list[Part]]], ...] = (
        ("", moe.routed_work, moe.expert_parts),
        (" layer", moe.layer_work, moe.layer_parts),
    )
    for variant in moe.VARIANTS:
        for name, work, cut in families:
            for tokens in TOKENS:
                key = key_of("moe", variant + name, {"tokens": tokens})
                yield key, work(config, tokens, variant), cut(config, tokens, variant)


def _router_cases(text: TextConfig) -> Iterator[Predicted]:
    for tokens in TOKENS:
        key = key_of("router", f"{text.n_routed_experts} top {text.num_experts_per_tok}", {"tokens": tokens})
        yield key, moe.router_work(text, tokens), moe.router_parts(text, tokens)


def _decode_cases(text: TextConfig, hardware: Hardware) -> Iterator[Predicted]:
    for batch in BATCHES:
        for context in CONTEXTS:
            key = key_of("mla_decode", f"{text.num_attention_heads} heads", {"batch": batch, "context": context})
            parts = mla.decode_parts(text, context, batch, hardware.multiprocessors)
            yield key, mla.cache_work(text, context, batch), parts


def _prefill_cases(text: TextConfig) -> Iterator[Predicted]:
    for tokens in PROMPTS:
        key = key_of("mla_prefill", f"{text.num_attention_heads} heads", {"tokens": tokens})
        yield key, mla.prefill_work(text, tokens), mla.prefill_parts(text, tokens)


def _vision_cases(sight: VisionConfig) -> Iterator[Predicted]:
    """One layer's attention, then tower and projector, which are not measured as a whole."""
    for name in PREDICTED_INPUTS:
        grids = vision_inputs(sight)[name]
        size = {"patches": patches_of(grids)}
        attention = key_of("vision_attention", name, size)
        yield attention, vision.attention_work(sight, grids), vision.attention_parts(sight, grids)
        yield key_of("vision", name, size), vision.encoder_work(sight, grids), vision.encoder_parts(sight, grids)
