"""How alike two screenshots are to CLIP, from weights in a local folder: the fifth part of Design2Code's score.

Source: Si et al., "Design2Code", 2024: text is painted over from its surroundings (Telea), the image is made square,
and the embeddings of ViT-B/32 are compared by their cosine.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError, require
from visual_tools.images import ImageSource, load_image
from visual_tools.packages import cv2
from visual_tools.pages.text_blocks import TextBlock

EXTRA = "clip"
_RADIUS_PX = 3
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Source: OpenAI's CLIP, what its images are normalized with; a folder's preprocessor_config.json goes before."""


def clip_similarity(
    reference: ImageSource,
    page: ImageSource,
    folder: Path,
    *,
    reference_blocks: Sequence[TextBlock] = (),
    page_blocks: Sequence[TextBlock] = (),
) -> float:
    """Cosine of the embeddings of two screenshots, in [-1, 1]; nothing is downloaded.

    Args:
        reference: Any image.
        page: Any image.
        folder: Of a CLIP model as transformers saves it; Design2Code's is `openai/clip-vit-base-patch32`.
        reference_blocks: Text that is painted over.
        page_blocks: The same of the page.

    Raises:
        ImageError: An image cannot be read, or the folder holds no CLIP model.
        MissingPackageError: transformers or torch is not installed.
    """
    torch = require("torch", EXTRA)
    model, size, mean, std = _load(folder)
    prepared = [
        _prepared(without_text(load_image(source), blocks), size, mean, std)
        for source, blocks in ((reference, reference_blocks), (page, page_blocks))
    ]
    with torch.inference_mode():
        found = model(pixel_values=torch.from_numpy(np.stack(prepared))).image_embeds
        found = found / found.norm(dim=-1, keepdim=True)
        return float((found[0] * found[1]).sum())


def without_text(image: NDArray[np.uint8], blocks: Sequence[TextBlock]) -> NDArray[np.uint8]:
    """An image (H, W, 3) with its text painted over from what is around it."""
    height, width = image.shape[:2]
    mask = np.zeros((height, width), np.uint8)
    for block in blocks:
        left, top = int(block.left * width), int(block.top * height)
        mask[top : top + int(block.height * height), left : left + int(block.width * width)] = 255
    painted: NDArray[np.uint8] = cv2.inpaint(image, mask, _RADIUS_PX, cv2.INPAINT_TELEA) if mask.any() else image
    return painted


def _prepared(image: NDArray[np.uint8], size: int, mean: Any, std: Any) -> NDArray[np.float32]:
    """(3, size, size) float32, normalized."""
    from PIL import Image

    square = Image.fromarray(image).resize((max(image.shape[:2]),) * 2).resize((size, size), Image.Resampling.BICUBIC)
    scaled = (np.asarray(square, np.float32) / 255 - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


@lru_cache(maxsize=1)
def _load(folder: Path) -> tuple[Any, int, Any, Any]:
    transformers = require("transformers", EXTRA)
    if not (folder / "config.json").is_file():
        raise ImageError(f"{folder} holds no model; expected a folder with config.json and the weights of a CLIP model")
    try:
        model = transformers.CLIPVisionModelWithProjection.from_pretrained(folder, local_files_only=True).eval()
        about = folder / "preprocessor_config.json"
        told = json.loads(about.read_text()) if about.is_file() else {}
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ImageError(f"{folder} holds no CLIP model: {str(error).splitlines()[0]}") from error
    return model, int(model.config.image_size), told.get("image_mean", _MEAN), told.get("image_std", _STD)
