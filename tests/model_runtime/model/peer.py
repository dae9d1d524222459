"""transformers' own K2.5 on the same folder."""

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from model_runtime.media import MediaItem


class Peer:
    """`Kimi_K25ForConditionalGeneration`; loading leaves nothing missing, unexpected or misshapen."""

    def __init__(self, model_dir: Path, dtype: torch.dtype = torch.float32) -> None:
        load = transformers.Kimi_K25ForConditionalGeneration.from_pretrained
        self.model, info = load(model_dir, dtype=dtype, output_loading_info=True)
        assert {kind: names for kind, names in info.items() if names} == {}

    def set_latent_norm_eps(self, eps: float) -> None:
        for name, module in self.model.named_modules():
            if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
                module.variance_epsilon = eps

    def widen_experts(self) -> None:
        """Unpacked experts stay in bf16 whatever dtype was asked for, and round their inputs to it."""
        for name, parameter in self.model.named_parameters():
            if ".experts." in name and "shared" not in name:
                assert parameter.dtype == torch.bfloat16
                parameter.data = parameter.data.float()

    @torch.no_grad()
    def __call__(self, token_ids: list[int], images: tuple[MediaItem, ...] = ()) -> Tensor:
        """Logits (tokens, vocab)."""
        inputs: dict[str, Any] = {"input_ids": torch.tensor([token_ids])}
        if images:
            inputs["pixel_values"] = torch.cat([make_patches(item) for item in images])
            inputs["image_grid_thw"] = torch.tensor([item.grid for item in images])
        return self.model(**inputs).logits[0].float()


def make_patches(item: MediaItem) -> Tensor:
    """(patches, 3, 14, 14), frame by frame, row by row, each pixel from -1 to 1."""
    t, h, w = item.grid
    pixels = torch.from_numpy(item.frames.copy()).float() / 255 * 2 - 1
    return pixels.view(t, h, 14, w, 14, 3).permute(0, 1, 3, 5, 2, 4).reshape(-1, 3, 14, 14)
