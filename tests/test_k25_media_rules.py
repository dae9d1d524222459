"""K2.5's rules of media, one table for all who apply them: the agent, its video functions and the runtime."""

import json
from pathlib import Path
from typing import Any

import pytest

from cua.tool_agent.inputs import size_for_model
from model_runtime.processor.media_rules import format_timestamp, sample_indices
from model_runtime.processor.processor import Processor
from visual_tools.video.sample import find_indices, find_size, make_timestamp

RULES = json.loads((Path(__file__).parent / "k25_media_rules.json").read_text("utf-8"))


@pytest.mark.parametrize("rule", RULES["sizes"], ids=lambda rule: "x".join(map(str, rule["size"])))
def test_sizes(rule: dict[str, Any]) -> None:
    width, height = rule["size"]
    processor = Processor()
    image, frame = processor.fit(width, height), processor.fit(width, height, is_frame=True)
    assert size_for_model((width, height)) == image.resized == tuple(rule["image"])
    assert find_size(width, height) == frame.resized == tuple(rule["frame"])
    assert image.padded == tuple(rule["padded_image"])
    assert (image.num_tokens, frame.num_tokens) == (rule["image_tokens"], rule["frame_group_tokens"])


@pytest.mark.parametrize("rule", RULES["sampled_frames"], ids=lambda rule: f"{rule['num_frames']} at {rule['fps']}")
def test_sampled_frames(rule: dict[str, Any]) -> None:
    assert find_indices(rule["num_frames"], rule["fps"]) == rule["indices"]
    assert list(sample_indices(rule["num_frames"], rule["fps"], Processor().options.sample_fps)) == rule["indices"]


@pytest.mark.parametrize("rule", RULES["timestamps"], ids=lambda rule: rule["text"])
def test_timestamps(rule: dict[str, Any]) -> None:
    assert make_timestamp(rule["index"] / rule["fps"]) == format_timestamp(rule["index"], rule["fps"]) == rule["text"]
