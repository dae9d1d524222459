"""What a comparison takes and gives: images as (H, W, 3) uint8 RGB; differences, and how one image lies on another."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError


def as_rgb(image: Any, name: str = "image") -> NDArray[np.uint8]:
    """The image as (H, W, 3) uint8 RGB: grey is repeated, alpha is laid over white, bool becomes 0 and 255.

    Args:
        image: uint8 or bool array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); or a Pillow image.
        name: What to call it in an error.

    Raises:
        ImageError: Another shape or type of number, or no pixels.
    """
    if not isinstance(image, np.ndarray) and hasattr(image, "convert"):
        image = np.asarray(image.convert("RGBA" if "A" in image.getbands() else "RGB"))
    if not isinstance(image, np.ndarray):
        raise ImageError(f"{name} is a {type(image).__name__}, not an array of pixels; load_image(path) makes one")
    if image.dtype == np.bool_:
        image = image.astype(np.uint8) * np.uint8(255)
    if image.dtype != np.uint8:
        raise ImageError(f"{name} holds {image.dtype}, not uint8; scale it to 0..255 and use .astype('uint8')")
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4):
        raise ImageError(f"{name} has shape {image.shape}, not (H, W), (H, W, 3) or (H, W, 4)")
    if image.size == 0:
        raise ImageError(f"{name} is empty: its shape is {image.shape}")
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return _over_white(image) if image.shape[2] == 4 else image


def _over_white(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    alpha = image[:, :, 3:]
    if (alpha == 255).all():
        return np.ascontiguousarray(image[:, :, :3])
    share = alpha.astype(np.float32) / 255
    return np.rint(image[:, :, :3] * share + 255 * (1 - share)).astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Two images that stood in one.

    Attributes:
        first: The left or upper one, (H, W, 3) uint8 RGB.
        second: The right or lower one.
        layout: `"side by side"` or `"stacked"`.
        first_box: Where `first` was cut out, in pixels of the image given.
        second_box: Where `second` was cut out.
        similarity: How well their fine detail agrees once one is laid on the other: correlation, -1 to 1.
    """

    first: NDArray[np.uint8] = field(repr=False)
    second: NDArray[np.uint8] = field(repr=False)
    layout: str
    first_box: Box
    second_box: Box
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """Where a point of the first image lies in the second: turned and scaled about (0, 0), then shifted.

    Attributes:
        shift_px: Where the first image's (0, 0) lies in the second, x and y in pixels.
        scale: Size in the second image by size in the first.
        rotation_deg: Turn, clockwise as seen on a screen.
        method: How it was found: `"same place"`, `"same size"`, `"phase correlation"` or `"features"`.
    """

    shift_px: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.0
    rotation_deg: float = 0.0
    method: str = "same place"

    @property
    def matrix(self) -> NDArray[np.float64]:
        """(2, 3) float64: second = matrix @ (x, y, 1) of first."""
        cos, sin = (self.scale * part(math.radians(self.rotation_deg)) for part in (math.cos, math.sin))
        return np.array([[cos, -sin, self.shift_px[0]], [sin, cos, self.shift_px[1]]])

    @property
    def is_identity(self) -> bool:
        """Whether each point lies in the same place in both images."""
        return self.shift_px == (0.0, 0.0) and self.scale == 1.0 and self.rotation_deg == 0.0

    def map_box(self, box: Box) -> Box:
        """The box in the second image around the place of `box` in the first."""
        edges = np.array([[x, y, 1.0] for x in (box.left, box.right) for y in (box.top, box.bottom)])
        points = (edges - [0.5, 0.5, 0]) @ self.matrix.T + 0.5
        (left, top), (right, bottom) = np.rint(points.min(axis=0)), np.rint(points.max(axis=0))
        return Box(int(left), int(top), int(right), int(bottom))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference, as a person would count it.

    Attributes:
        number: 1, 2, 3... in reading order.
        kind: `"removed"`, `"added"`, `"moved"`, `"recoloured"` or `"changed"` (another text, form or size).
        first_box: Where it shows in the first image, in that image's pixels; the old place of what moved.
        second_box: Where it shows in the second image, in that one's pixels; the new place of what moved.
        area_px: How many pixels of the first image differ.
        confidence: 0 to 1: how far it stands above what still counts as noise.
    """

    number: int
    kind: str
    first_box: Box
    second_box: Box
    area_px: int
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """How two images differ.

    Attributes:
        differences: In reading order of the first image; none where nothing differs or nothing can be compared.
        comparable: Whether the images show the same thing, so that single differences mean something.
        reason: Why not; empty where they are comparable.
        similarity: Mean structural similarity (SSIM) of the lightness where the images overlap, -1 to 1; equal is 1.
        transform: Where points of the first image lie in the second.
        overlap_box: The part of the first image that both show.
        halves: How one image was cut in two; boxes are then in pixels of that one image. None for two images.
        mask: (H, W) bool, pixels of the first image (or first half) that differ.
        aligned: The second image laid on the first, (H, W, 3) uint8; its edge goes on where it has nothing.
    """

    differences: tuple[Difference, ...]
    comparable: bool
    reason: str
    similarity: float
    transform: Transform
    overlap_box: Box
    halves: Halves | None = field(default=None, repr=False)
    mask: NDArray[np.bool_] = field(repr=False)
    aligned: NDArray[np.uint8] = field(repr=False)

    @property
    def count(self) -> int:
        """How many differences were found."""
        return len(self.differences)

    def __repr__(self) -> str:
        if not self.comparable:
            return f"Differences(not comparable: {self.reason}; similarity {self.similarity:.3f})"
        how = self.transform
        lies = "" if how.is_identity else (
            f", second = first shifted ({how.shift_px[0]:.1f}, {how.shift_px[1]:.1f}) px, "
            f"scaled {how.scale:.3f}, turned {how.rotation_deg:.2f} deg"
        )  # fmt: skip
        lines = [f"Differences({self.count} found, similarity {self.similarity:.3f}{lies})"]
        for one in self.differences[:40]:
            lines.append(f"  {one.number}. {one.kind}: {_short(one.first_box)} -> {_short(one.second_box)}")
        if self.count > 40:
            lines.append(f"  and {self.count - 40} more")
        return "\n".join(lines)


def _short(box: Box) -> str:
    return f"x {box.left}..{box.right} y {box.top}..{box.bottom}"
