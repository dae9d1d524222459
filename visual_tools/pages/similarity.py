"""Visual similarity of two screenshots by structure, edges, colours and CLIP (fifth part of Design2Code's score).

CLIP's weights are loaded from a local folder. Source: Si et al., "Design2Code", 2024: text is inpainted from its
surroundings (Telea), the image is made square, and the embeddings of ViT-B/32 are compared by their cosine.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visual_tools.diff.maps import find_structure
from visual_tools.errors import ImageError, require
from visual_tools.images.files import ImageSource, load_image
from visual_tools.packages import cv2
from visual_tools.pages.text_blocks import TextBlock

if TYPE_CHECKING:
    from transformers import CLIPVisionModelWithProjection

_WIDTH_PX = 640
"""Width to which both pages are scaled, so that a shift of a pixel or two does not count."""

_MAX_HEIGHT_PX = 6400
_EDGE_REACH_PX = 2
_GRID_PX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class VisualSimilarity:
    """Visual similarity of two screenshots, each part in [0, 1].

    Parts of one page below the other's end count as different.

    Attributes:
        structure: Mean SSIM of the grey images.
        edges: F1 of the edges; an edge matches another at most two pixels away.
        colors: Mean over cells of 1 minus the distance of their mean colours, limited to 100 CIE76.
    """

    structure: float
    edges: float
    colors: float

    @property
    def score(self) -> float:
        """Mean of the three parts."""
        return (self.structure + self.edges + self.colors) / 3


def visual_similarity(reference: ImageSource, page: ImageSource) -> VisualSimilarity:
    """Compare two screenshots of pages; both are scaled to one width, the shorter one is extended by its last row.

    Args:
        reference: Any image.
        page: Any image.

    Raises:
        ImageError: If one cannot be read.
    """
    first, second = (_scaled(load_image(source)) for source in (reference, page))
    height = max(first.shape[0], second.shape[0])
    share = min(first.shape[0], second.shape[0]) / height
    first, second = (_continued(image, height) for image in (first, second))
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, second)]
    structure = max(0.0, float(find_structure(grey[0], grey[1]).mean()))
    return VisualSimilarity(
        structure=structure * share, edges=_edge_f1(grey[0], grey[1]) * share, colors=_alike(first, second) * share
    )


def _scaled(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height = min(max(round(image.shape[0] * _WIDTH_PX / image.shape[1]), 8), _MAX_HEIGHT_PX)
    scaled: NDArray[np.uint8] = cv2.resize(image, (_WIDTH_PX, height), interpolation=cv2.INTER_AREA)
    return scaled


def _continued(image: NDArray[np.uint8], height: int) -> NDArray[np.uint8]:
    return np.pad(image, ((0, height - image.shape[0]), (0, 0), (0, 0)), mode="edge")


def _edge_f1(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    edges = [cv2.Canny(image, 40, 120) for image in (first, second)]
    if not edges[0].any() and not edges[1].any():
        return 1.0
    side = 2 * _EDGE_REACH_PX + 1
    near = [cv2.dilate(image, np.ones((side, side), np.uint8)) for image in edges]
    precise = np.count_nonzero(edges[1] & near[0]) / max(int(np.count_nonzero(edges[1])), 1)
    recalled = np.count_nonzero(edges[0] & near[1]) / max(int(np.count_nonzero(edges[0])), 1)
    return float(2 * precise * recalled / (precise + recalled)) if precise + recalled else 0.0


def _alike(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    size = _WIDTH_PX // _GRID_PX * 2, max(first.shape[0] // _GRID_PX * 2, 1)
    labs = []
    for image in (first, second):
        cells = cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
        labs.append(cv2.cvtColor(cells, cv2.COLOR_RGB2LAB))
    distance = np.linalg.norm(labs[0] - labs[1], axis=2)
    return float(np.maximum(0, 1 - distance / 100).mean())


EXTRA = "clip"
_RADIUS_PX = 3
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Normalization of images for OpenAI's CLIP; a folder's preprocessor_config.json takes precedence.

Source: OpenAI's CLIP.
"""


def clip_similarity(
    reference: ImageSource,
    page: ImageSource,
    folder: Path,
    *,
    reference_blocks: Sequence[TextBlock] = (),
    page_blocks: Sequence[TextBlock] = (),
) -> float:
    """Return the cosine of the embeddings of two screenshots, in [-1, 1]; nothing is downloaded.

    Text in `reference_blocks` and `page_blocks` is inpainted. `folder` contains a CLIP model as saved by transformers;
    Design2Code's is `openai/clip-vit-base-patch32`.

    Raises:
        ImageError: If an image cannot be read, or the folder does not contain a CLIP model.
        MissingPackageError: If transformers or torch is not installed.
    """
    torch = require("torch", EXTRA)
    model, size, mean, std = _load(folder)
    prepared = [
        _prepared(without_text(load_image(source), blocks), size, mean, std)
        for source, blocks in ((reference, reference_blocks), (page, page_blocks))
    ]
    with torch.inference_mode():
        embeds = model(pixel_values=torch.from_numpy(np.stack(prepared))).image_embeds
        embeds = embeds / embeds.norm(dim=-1, keepdim=True)
        return float((embeds[0] * embeds[1]).sum())


def without_text(image: NDArray[np.uint8], blocks: Sequence[TextBlock]) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) with its text inpainted from its surroundings."""
    height, width = image.shape[:2]
    mask = np.zeros((height, width), np.uint8)
    for block in blocks:
        left, top = int(block.left * width), int(block.top * height)
        mask[top : top + int(block.height * height), left : left + int(block.width * width)] = 255
    painted: NDArray[np.uint8] = cv2.inpaint(image, mask, _RADIUS_PX, cv2.INPAINT_TELEA) if mask.any() else image
    return painted


def _prepared(image: NDArray[np.uint8], size: int, mean: object, std: object) -> NDArray[np.float32]:
    """Return the input of the model: (3, size, size) float32, normalized."""
    from PIL import Image

    square = Image.fromarray(image).resize((max(image.shape[:2]),) * 2).resize((size, size), Image.Resampling.BICUBIC)
    scaled = (np.asarray(square, np.float32) / 255 - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


@lru_cache(maxsize=1)
def _load(folder: Path) -> "tuple[CLIPVisionModelWithProjection, int, Sequence[float], Sequence[float]]":
    transformers = require("transformers", EXTRA)
    if not (folder / "config.json").is_file():
        raise ImageError(f"{folder} holds no model; expected a folder with config.json and the weights of a CLIP model")
    try:
        model = transformers.CLIPVisionModelWithProjection.from_pretrained(folder, local_files_only=True).eval()
        about = folder / "preprocessor_config.json"
        settings = json.loads(about.read_text()) if about.is_file() else {}
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ImageError(f"{folder} holds no CLIP model: {str(error).splitlines()[0]}") from error
    return model, int(model.config.image_size), settings.get("image_mean", _MEAN), settings.get("image_std", _STD)
