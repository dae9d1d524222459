"""From a checkpoint folder to a model."""

from dataclasses import replace
from pathlib import Path

import torch

from model_runtime.checkpoint.check import check_tensors
from model_runtime.checkpoint.prepared import open_prepared
from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.config import load_config
from model_runtime.config.types import K25Config
from model_runtime.errors import ConfigError
from model_runtime.model.k25 import K25Model
from model_runtime.ops import find_ops
from model_runtime.ops.registry import find_backends
from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.placement import Placement
from model_runtime.vision.tower import VisionTower

DTYPES: dict[str, torch.dtype] = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}


def load_model(
    model_dir: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    comm: Comm | None = None,
    config: K25Config | None = None,
    kernels: str = "auto",
    latent_norm_eps: float | None = None,
    kernel_cache_dir: Path | None = None,
) -> K25Model:
    """Read a release-named folder; this rank's part goes straight from the files to the device.

    Args:
        model_dir: Folder with config.json and safetensors.
        device: Where the weights stay.
        dtype: Of weights and cache, as torch's or its name; None is the checkpoint's. Packed experts stay packed.
        comm: The ranks; None is this process alone.
        config: In place of the folder's config.json.
        kernels: Which operators: `auto`, `torch` or `triton`.
        latent_norm_eps: Of the two norms inside MLA; None is the config's. See `TextConfig.latent_norm_eps`.
        kernel_cache_dir: Where packed experts are kept in the form that Triton's kernels read; None keeps none.

    Raises:
        ConfigError: config.json cannot be used, or the kernels asked for are not here.
        CheckpointError: Tensors are missing, extra, misshapen or corrupt.
        CapacityError: The parts cannot be split over so many ranks.
    """
    config = config or load_config(model_dir)
    if latent_norm_eps is not None:
        config = replace(config, text=replace(config.text, latent_norm_eps=latent_norm_eps))
    source = Checkpoint.open(model_dir)
    check_tensors(source, config)
    place = Placement(
        device=torch.device(device),
        dtype=find_dtype(dtype or config.dtype),
        comm=comm or OneRank(),
        ops=find_ops(device, kernels),
    )
    if kernel_cache_dir and config.quantization and find_backends(place.device, kernels)[0] == "triton":
        files = open_prepared(kernel_cache_dir, source.opened_as, place.comm, place.device)
        place = replace(place, prepared=files)
    vision = VisionTower(config.vision, comm=place.comm, device=place.device, dtype=place.dtype, ops=place.ops)
    vision.load(source)
    model = K25Model(config, source, place, vision)
    source.check_unchanged()  # half of one checkpoint and half of another would speak nonsense without a word
    return model


def find_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """Torch's dtype of that name.

    Raises:
        ConfigError: There is none that a model can have.
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise ConfigError(f"{dtype!r} is not a dtype of weights. Use one of: {', '.join(DTYPES)}")
    return DTYPES[dtype]
