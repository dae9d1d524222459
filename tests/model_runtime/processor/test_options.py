"""`preprocessor_config.json`."""

import json
from pathlib import Path
from typing import Any

import pytest

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.errors import ConfigError
from model_runtime.processor.media_rules import MediaOptions
from model_runtime.processor.processor import Processor

RELEASE: dict[str, Any] = {
    "in_patch_limit": 16384,
    "patch_size": 14,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "merge_kernel_size": 2,
    "fixed_output_tokens": None,
    "patch_limit_on_one_side": 512,
    "in_patch_limit_each_frame": 4096,
    "in_patch_limit_video": None,
    "sample_fps": 2.0,
    "max_num_frames_each_video": None,
    "temporal_merge_kernel_size": 4,
    "timestamp_mode": "hh:mm:ss.fff",
    "config_type": "media_proc.processors.moonvit.MoonViTMediaProcessorConfig",
}


def load(folder: Path, media: object, **others: object) -> MediaOptions:
    (folder / "preprocessor_config.json").write_text(json.dumps({"media_proc_cfg": media, **others}), "utf-8")
    return Processor.load(folder).options


def test_the_release(tmp_path: Path) -> None:
    found = load(tmp_path, RELEASE, auto_map={"AutoProcessor": "kimi_k25_processor.KimiK25Processor"})
    own = {"in_patch_limit", "in_patch_limit_each_frame", "patch_limit_on_one_side", "sample_fps"}
    assert dict(found.extra) == {name: value for name, value in RELEASE.items() if name not in own}
    assert found == MediaOptions(extra=found.extra)


def test_the_folder_that_tests_and_trials_use(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    assert Processor.load(tmp_path).count_tokens(1920, 1080) == 2691


def test_numbers_are_read_and_unknown_keys_kept(tmp_path: Path) -> None:
    found = load(tmp_path, {"in_patch_limit": 100, "sample_fps": 0.5, "new_key": {"a": 1}})
    assert found == MediaOptions(in_patch_limit=100, sample_fps=0.5, extra={"new_key": {"a": 1}})
    assert Processor(options=found).count_tokens(1920, 1080) == 28


@pytest.mark.parametrize(
    ("media", "text"),
    [
        ({"patch_size": 16}, "media_proc_cfg.patch_size is 16; this runtime has 14 only"),
        ({"merge_kernel_size": 3}, "merge_kernel_size is 3"),
        ({"temporal_merge_kernel_size": 2}, "temporal_merge_kernel_size is 2"),
        ({"image_mean": [0.48, 0.45, 0.4]}, "image_mean is"),
        ({"timestamp_mode": "seconds"}, "timestamp_mode is 'seconds'"),
        ({"in_patch_limit_video": 655360}, "in_patch_limit_video is 655360"),
        ({"in_patch_limit": 0}, "expected a number above 0"),
        ({"in_patch_limit": "16384"}, "expected a number above 0"),
        ({"in_patch_limit": 1.5}, "expected a number above 0"),
        ({"sample_fps": True}, "expected a number above 0"),
        ([], "there is no object media_proc_cfg"),
    ],
)
def test_contradictions(tmp_path: Path, media: object, text: str) -> None:
    with pytest.raises(ConfigError, match=r"preprocessor_config\.json") as caught:
        load(tmp_path, media)
    assert text in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        Processor.load(tmp_path)
    (tmp_path / "preprocessor_config.json").write_bytes(b"\xff{")
    with pytest.raises(ConfigError, match="cannot be read as JSON"):
        Processor.load(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("[]")
    with pytest.raises(ConfigError, match="no object media_proc_cfg"):
        Processor.load(tmp_path)
