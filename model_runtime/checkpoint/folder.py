"""Writer of a folder in the release's layout: config, shards, vocabulary, processor settings; and unpacking of one.

The folder loads in this runtime and in transformers: config.json has both spellings.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from model_runtime.checkpoint.int4 import dequantize, pack, quantize
from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.checkpoint.reader import Checkpoint, check_tensors, is_quantized
from model_runtime.checkpoint.writer import TensorSpec, write_shards
from model_runtime.config import load_config
from model_runtime.config.types import DType, K25Config, check_config
from model_runtime.config.write import config_json
from model_runtime.errors import CheckpointError, ConfigError
from model_runtime.json_types import Json
from model_runtime.processor.media_rules import CHUNK_FRAMES, MediaOptions, load_media_options
from model_runtime.tokenizer.special import NUM_SLOTS, SLOT_OF, SpecialTokens

IGNORE = (
    "lm_head",
    "re:.*self_attn.*",
    "re:.*shared_experts.*",
    "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
    "re:.*vision_tower.*",
    "re:.*mm_projector.*",
)
"""Modules that stay in the model's dtype if routed experts are packed."""


def write_folder(
    model_dir: Path,
    config: K25Config,
    tensors: Iterable[tuple[str, Tensor]],
    *,
    ranks: bytes,
    media: MediaOptions | None = None,
    num_shards: int = 2,
) -> None:
    """Write a model.

    Args:
        model_dir: Folder to create; files in it are overwritten.
        config: Sizes.
        tensors: All tensors of the release by name, on the CPU, in any order, of the dtype from `dtype_of`; packed
            experts as returned by `pack_named`.
        ranks: Content of `tiktoken.model`: `vocab_size` minus the slots of control tokens.
        media: Limits of the processor; None for the release's.
        num_shards: Number of files for the tensors.

    Raises:
        ConfigError: If the sizes contradict each other.
    """
    faults: list[str] = []
    check_config(config, faults)
    if (count := ranks.count(b"\n")) != config.text.vocab_size - NUM_SLOTS:
        faults.append(f"{count} ranks, expected {config.text.vocab_size - NUM_SLOTS} (vocab_size less {NUM_SLOTS})")
    if faults:
        raise ConfigError("; ".join(faults))
    model_dir.mkdir(parents=True, exist_ok=True)
    expected = expected_tensors(config)
    plan = {name: TensorSpec(dtype_of(info, config.dtype), info.shape) for name, info in expected.items()}
    write_shards(model_dir, plan, tensors, num_shards)
    _write_json(model_dir / "config.json", config_json(config))
    _write_vocabulary(model_dir, config, ranks)
    _write_json(model_dir / "preprocessor_config.json", _processor_json(config, media or MediaOptions()))


def dtype_of(info: TensorInfo, dtype: DType) -> str:
    """Return the dtype in which a tensor is written if the model's is `dtype`."""
    return dtype if dtype in info.dtypes and info.dtypes[0] != "float32" else info.dtypes[0]


def pack_named(name: str, weight: Tensor, group_size: int) -> Iterator[tuple[str, Tensor]]:
    """Pack an expert's (out, in) matrix `NAME.weight` to the three tensors of the release, one scale per
    `group_size`.
    """
    q, scale = quantize(weight, group_size)
    yield name + "_packed", pack(q)
    yield name + "_scale", scale
    yield name + "_shape", torch.tensor(weight.shape, dtype=torch.int32)


def unpack_folder(model_dir: Path, target: Path, dtype: DType | None = None) -> K25Config:
    """Write a folder with dense experts from one with packed experts, tensor by tensor; the model stays the same.

    Args:
        model_dir: Folder with INT4 experts.
        target: Folder to create; files in it are overwritten.
        dtype: Dtype of the tensors; None for the folder's.

    Returns:
        The config as written.

    Raises:
        CheckpointError: If tensors are missing or misshapen, or the experts are not packed.
        ConfigError: If a file of the folder is invalid.
    """
    config, source = load_config(model_dir), Checkpoint.open(model_dir)
    check_tensors(source, config)
    if not is_quantized(source):
        raise CheckpointError(f"the experts in {model_dir} are not packed: the folder can be used as it is")
    config = replace(config, quantization=None, dtype=dtype or config.dtype)
    write_folder(
        target,
        config,
        _unpack_tensors(source, config),
        ranks=(model_dir / "tiktoken.model").read_bytes(),
        media=load_media_options(model_dir),
        num_shards=len({place.file_name for place in source.places.values()}),
    )
    return config


def _unpack_tensors(source: Checkpoint, config: K25Config) -> Iterator[tuple[str, Tensor]]:
    for name, info in expected_tensors(config).items():
        if source.has(name):
            tensor = source.get(name)
        else:  # rounded to the scale's dtype, as where packed experts are used
            scale = source.get(f"{name}_scale")
            tensor = dequantize(source.get(f"{name}_packed"), scale, scale.dtype, info.shape[1])
        yield name, tensor.to(getattr(torch, dtype_of(info, config.dtype)))


def _write_vocabulary(model_dir: Path, config: K25Config, ranks: bytes) -> None:
    special = SpecialTokens(config.text.vocab_size - NUM_SLOTS)
    (model_dir / "tiktoken.model").write_bytes(ranks)
    added = {
        str(special.id_of(text)): {
            "content": text,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": text not in ("<think>", "</think>"),
        }
        for text in SLOT_OF
    }
    tokenizer = {
        "added_tokens_decoder": added,
        "bos_token": "[BOS]",
        "eos_token": "[EOS]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "clean_up_tokenization_spaces": False,
        "model_max_length": config.text.max_position_embeddings,
        "tokenizer_class": "TikTokenTokenizer",
    }
    _write_json(model_dir / "tokenizer_config.json", tokenizer)
    text = config.text
    ids = {"bos_token_id": text.bos_token_id, "eos_token_id": special.im_end, "pad_token_id": text.pad_token_id}
    _write_json(model_dir / "generation_config.json", ids | {"max_length": text.max_position_embeddings})


def _processor_json(config: K25Config, media: MediaOptions) -> Json:
    """Return the content of `preprocessor_config.json`. Source: the release's file."""
    return {
        "media_proc_cfg": {
            "in_patch_limit": media.in_patch_limit,
            "in_patch_limit_each_frame": media.in_patch_limit_each_frame,
            "in_patch_limit_video": None,
            "patch_size": config.vision.patch_size,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            "merge_kernel_size": config.vision.merge_kernel_size[0],
            "fixed_output_tokens": None,
            "patch_limit_on_one_side": media.patch_limit_on_one_side,
            "max_num_frames_each_video": None,
            "sample_fps": media.sample_fps,
            "temporal_merge_kernel_size": CHUNK_FRAMES,
            "timestamp_mode": "hh:mm:ss.fff",
            "config_type": "media_proc.processors.moonvit.MoonViTMediaProcessorConfig",
        }
    }


def _write_json(path: Path, values: Mapping[str, object]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8")
