"""Input and result types of a comparison, and a drawing of both images with the differences numbered.

Images are (H, W, 3) uint8 RGB.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.box import Box
from visual_tools.errors import ImageError


def as_rgb(image: object, name: str = "image") -> NDArray[np.uint8]:
    """Convert an image to (H, W, 3) uint8 RGB: grey is repeated, alpha is put on white, bool becomes 0 and 255.

    Args:
        image: uint8 or bool array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); or a Pillow image.
        name: Name in error messages.

    Raises:
        ImageError: If it has another shape or dtype, or no pixels.
    """
    if isinstance(image, Image.Image):
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
    """Two images cut from one.

    Attributes:
        first: Left or upper image, (H, W, 3) uint8 RGB.
        second: Right or lower image.
        layout: `"side by side"` or `"stacked"`.
        first_box: Box of `first` in the given image, in pixels.
        second_box: Box of `second` in the given image, in pixels.
        similarity: Correlation of their fine detail after registration, -1 to 1.
    """

    first: NDArray[np.uint8] = field(repr=False)
    second: NDArray[np.uint8] = field(repr=False)
    layout: str
    first_box: Box
    second_box: Box
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """Mapping from the first image to the second: rotation and scale about (0, 0), then a shift.

    Attributes:
        shift_px: Position of the first image's (0, 0) in the second, x and y in pixels.
        scale: Size in the second image divided by size in the first.
        rotation_deg: Rotation, clockwise as displayed.
        method: How it was found: `"same place"`, `"same size"`, `"phase correlation"` or `"features"`.
    """

    shift_px: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.0
    rotation_deg: float = 0.0
    method: str = "same place"

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Matrix, (2, 3) float64: second = matrix @ (x, y, 1) of first."""
        cos, sin = (self.scale * part(math.radians(self.rotation_deg)) for part in (math.cos, math.sin))
        return np.array([[cos, -sin, self.shift_px[0]], [sin, cos, self.shift_px[1]]])

    @property
    def is_identity(self) -> bool:
        """True if every point is at the same position in both images."""
        return self.shift_px == (0.0, 0.0) and self.scale == 1.0 and self.rotation_deg == 0.0

    def map_box(self, box: Box) -> Box:
        """Map a box of the first image to its bounding box in the second."""
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
        first_box: Box in the first image, in its pixels; the old position of a moved object.
        second_box: Box in the second image, in its pixels; the new position of a moved object.
        area_px: Number of differing pixels of the first image.
        confidence: Distance above the noise level, 0 to 1.
    """

    number: int
    kind: str
    first_box: Box
    second_box: Box
    area_px: int
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Differences between two images.

    Attributes:
        differences: In reading order of the first image; empty if nothing differs or nothing can be compared.
        comparable: True if the images show the same content, so that single differences are meaningful.
        reason: Why they are not comparable; empty if they are.
        similarity: Mean structural similarity (SSIM) of the lightness in the overlap, -1 to 1; 1 is equal.
        transform: Mapping from the first image to the second.
        overlap_box: Part of the first image that both show.
        halves: How one image was split in two; boxes are then in pixels of that image. None for two images.
        mask: (H, W) bool, differing pixels of the first image (or first half).
        aligned: Second image warped to the first, (H, W, 3) uint8; its edge is replicated outside.
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
        """Number of differences."""
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
        for change in self.differences[:40]:
            lines.append(f"  {change.number}. {change.kind}: {_short(change.first_box)} -> {_short(change.second_box)}")
        if self.count > 40:
            lines.append(f"  and {self.count - 40} more")
        return "\n".join(lines)


def _short(box: Box) -> str:
    return f"x {box.left}..{box.right} y {box.top}..{box.bottom}"


_COLOURS = {
    "removed": "#d7263d",
    "added": "#1b8a3a",
    "moved": "#2a5bd7",
    "recoloured": "#b5179e",
    "changed": "#d9720a",
}
_MAX_SIDE_PX = 1100  # of each image as drawn
_GAP_PX = 16  # between the two images of the drawing
_PAD_PX = 6  # around a marked difference, so that its edge stays visible


def draw_diff(first: object, second: object, result: Differences) -> NDArray[np.uint8]:
    """Draw both images side by side with a numbered frame around each difference, and a list below.

    A moved object has a thin frame at its old position in the second image, with a line to the new one.

    Args:
        first: First image, or the one image with two halves; not changed.
        second: Second image; None for the one image with two halves.
        result: Result of `pixel_diff` for them.

    Returns:
        (H, W, 3) uint8, a new image.

    Raises:
        ImageError: If an image is missing or invalid.

    Example:
        >>> save_image(draw_diff(before, after, pixel_diff(before, after)), "differences.png")
    """
    images, corners = _images(first, second, result)
    factor = min(1.0, _MAX_SIDE_PX / max(max(image.shape[:2]) for image in images))
    size_px = max(13, round(0.022 * factor * max(images[0].shape[:2])))
    panels = [_framed(image, result, at, corners[at], factor, size_px) for at, image in enumerate(images)]
    width = sum(panel.width for panel in panels) + _GAP_PX
    height = max(panel.height for panel in panels)
    below = _legend(result, width)
    sheet = Image.new("RGB", (width, height + below.height), "white")
    sheet.paste(panels[0], (0, 0))
    sheet.paste(panels[1], (panels[0].width + _GAP_PX, 0))
    sheet.paste(below, (0, height))
    return np.asarray(sheet)


def _images(
    first: object, second: object, result: Differences
) -> tuple[list[NDArray[np.uint8]], list[tuple[int, int]]]:
    """Return both images, and the position of the (0, 0) of each in the frame of its boxes."""
    halves = result.halves
    if halves is None:
        if second is None:
            raise ImageError("the second image is missing: these differences are between two images")
        return [as_rgb(first, "first"), as_rgb(second, "second")], [(0, 0), (0, 0)]
    boxes = halves.first_box, halves.second_box
    return [halves.first, halves.second], [(box.left, box.top) for box in boxes]


def _framed(
    image: NDArray[np.uint8], result: Differences, at: int, corner: tuple[int, int], factor: float, size_px: int
) -> Image.Image:
    """Draw one image, slightly faded, with its frames and numbers."""
    size = max(round(image.shape[1] * factor), 1), max(round(image.shape[0] * factor), 1)
    panel = Image.fromarray(image).resize(size, Image.Resampling.LANCZOS if factor < 1 else Image.Resampling.BOX)
    panel = Image.blend(panel, Image.new("RGB", size, "white"), 0.15)
    draw = ImageDraw.Draw(panel)
    tags = [_place(change, at, corner, factor, size) for change in result.differences]
    for change, box in zip(result.differences, tags, strict=True):
        colour = _COLOURS.get(change.kind, "#d9720a")
        if change.kind == "moved" and at == 1:
            _draw_trail(draw, _old_place(change, result, corner, factor, size), box, colour)
        draw.rectangle((box.left - 1, box.top - 1, box.right, box.bottom), outline="white", width=4)
        draw.rectangle((box.left, box.top, box.right - 1, box.bottom - 1), outline=colour, width=2)
    for change, box in zip(result.differences, tags, strict=True):
        _draw_tag(draw, str(change.number), box, _COLOURS.get(change.kind, "#d9720a"), size_px, size)
    return panel


def _place(change: Difference, at: int, corner: tuple[int, int], factor: float, size: tuple[int, int]) -> Box:
    box = change.second_box if at else change.first_box
    return _scaled(box.moved(-corner[0], -corner[1]), factor, size)


def _scaled(box: Box, factor: float, size: tuple[int, int]) -> Box:
    edges = [round(side * factor) for side in (box.left, box.top, box.right, box.bottom)]
    return Box(*edges).padded(_PAD_PX).clipped(*size)


def _old_place(
    change: Difference, result: Differences, corner: tuple[int, int], factor: float, size: tuple[int, int]
) -> Box:
    """Return the position in the second image where a moved object would be without the move."""
    box = change.first_box
    if result.halves is not None:
        box = box.moved(-result.halves.first_box.left, -result.halves.first_box.top)
        return _scaled(result.transform.map_box(box), factor, size)
    return _scaled(result.transform.map_box(box).moved(-corner[0], -corner[1]), factor, size)


def _draw_trail(draw: ImageDraw.ImageDraw, old: Box, new: Box, colour: str) -> None:
    draw.rectangle((old.left, old.top, old.right - 1, old.bottom - 1), outline=colour, width=1)
    if old.intersection(new) == 0:
        draw.line((*old.center, *new.center), fill=colour, width=2)


def _draw_tag(draw: ImageDraw.ImageDraw, text: str, box: Box, colour: str, size_px: int, size: tuple[int, int]) -> None:
    """Draw the number on a plate above the frame, or below if there is not enough space."""
    font = ImageFont.load_default(size_px)
    left, top, right, bottom = (int(side) for side in draw.textbbox((0, 0), text, font=font))
    width, height = right - left + 8, bottom - top + 6
    x = min(max(box.left, 0), max(size[0] - width, 0))
    y = box.top - height if box.top >= height else min(box.bottom, max(size[1] - height, 0))
    draw.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)
    draw.text((x + 4 - left, y + 3 - top), text, fill="white", font=font)


def _legend(result: Differences, width: int) -> Image.Image:
    """Draw the list of differences in as many columns as fit."""
    font = ImageFont.load_default(16)
    items = [(f"{change.number}  {change.kind}", _COLOURS.get(change.kind, "#d9720a")) for change in result.differences]
    if not items:
        items = [(result.reason if result.reason else "no differences", "#333333")]
    column_px = 150 if result.differences else width
    columns = max(1, (width - 10) // column_px)
    rows = -(-len(items) // columns)
    strip = Image.new("RGB", (width, 24 * rows + 16), "white")
    draw = ImageDraw.Draw(strip)
    for at, (text, colour) in enumerate(items):
        draw.text((10 + at % columns * column_px, 10 + at // columns * 24), text, fill=colour, font=font)
    return strip
