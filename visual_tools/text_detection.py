"""Detect text on an image in any direction with the detection network of PP-OCR."""

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import find_package_dir, require
from visual_tools.packages import LazyPackage
from visual_tools.widgets import find_edges

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

cv2 = LazyPackage("cv2", "literal")

Point = tuple[float, float]
_MODEL = "PP-OCRv6_det_small.onnx"
_STRIDE = 32
_MAP_THRESHOLD = 0.3
_BOX_THRESHOLD = 0.45
_UNCLIP_RATIO = 1.6
_MIN_SIDE_PX = 3
_MARGIN_PX = 32
TALL = 1.5
"""Parameters of the detector.

Source: rapidocr's config.yaml (Det section), from Liao et al. 2020, "Real-time Scene Text Detection with Differentiable
Binarization", section 3.4; the box threshold is slightly lower because screenshots have little noise. An area at least
`TALL` times as high as wide is treated as rotated, as in its get_rotate_crop_image.
"""
_UPRIGHT_FILL = 0.8
_TURNED_FILL = 0.7
_FILL_GAIN = 1.2
_MIN_RISE = 0.35
_MIN_LENGTH = 1.5
"""Conditions for treating a line as rotated.

A rotated rectangle must fit its region clearly better than an upright one, be longer than thick by this factor so that
it has a direction, and rise over its length by more than this share of its thickness.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArea:
    """Rectangle rotated like its text.

    Attributes:
        box: Upright box around it, in pixels of the image.
        center: Center, x and y in pixels of the image.
        length_px: Size along the text.
        thickness_px: Size across the text.
        angle_deg: Direction of the text, clockwise from left to right, 0 to 360: 90 is downward, 180 upside down.
    """

    box: Box
    center: Point
    length_px: float
    thickness_px: float
    angle_deg: float

    @classmethod
    def from_box(cls, box: Box, angle_deg: float = 0.0) -> "TextArea":
        """Make an area from a box with text along one of its sides: `angle_deg` is 0, 90, 180 or 270."""
        length, thickness = (box.width, box.height) if angle_deg % 180 == 0 else (box.height, box.width)
        return cls(box=box, center=box.center, length_px=length, thickness_px=thickness, angle_deg=angle_deg)

    @classmethod
    def turned(cls, center: Point, length_px: float, thickness_px: float, angle_deg: float) -> "TextArea":
        """Make an area rotated by any angle."""
        blank = Box(0, 0, 0, 0)
        area = cls(
            box=blank, center=center, length_px=length_px, thickness_px=thickness_px, angle_deg=angle_deg % 360.0
        )
        return replace(area, box=box_around(area.corners()))

    @property
    def is_along_sides(self) -> bool:
        """True if its sides are those of its box, so that it is cut without resampling."""
        return self.angle_deg % 90 == 0

    def moved(self, x_px: int, y_px: int) -> "TextArea":
        """Return the area moved by an offset in pixels."""
        x, y = self.center
        return replace(self, box=self.box.moved(x_px, y_px), center=(x + x_px, y + y_px))

    def reversed(self) -> "TextArea":
        """Return the same rectangle with text in the opposite direction."""
        return replace(self, angle_deg=(self.angle_deg + 180.0) % 360.0)

    def corners(self) -> tuple[Point, Point, Point, Point]:
        """Return the corners in pixels of the image, from the top of the text's start, clockwise along the text."""
        length, thickness = self.length_px, self.thickness_px
        return (
            self.to_image(0, 0),
            self.to_image(length, 0),
            self.to_image(length, thickness),
            self.to_image(0, thickness),
        )

    def to_image(self, along_px: float, across_px: float) -> Point:
        """Map a point of the crop, in pixels from its upper left corner, to the image."""
        cos, sin = self._direction()
        along, across = along_px - self.length_px / 2, across_px - self.thickness_px / 2
        return self.center[0] + along * cos - across * sin, self.center[1] + along * sin + across * cos

    def cut(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return its pixels rotated so that the text runs left to right: (H, W, 3) uint8 in and out."""
        if self.is_along_sides:
            box = self.box
            return np.rot90(image[box.top : box.bottom, box.left : box.right], k=round(self.angle_deg) // 90)
        cos, sin = self._direction()
        left, top = self.to_image(0.5, 0.5)  # the center of the first pixel, whose index is 0, 0 in both
        matrix = np.array([[cos, -sin, left - 0.5], [sin, cos, top - 0.5]])
        size = max(round(self.length_px), 1), max(round(self.thickness_px), 1)
        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        cut: NDArray[np.uint8] = cv2.warpAffine(image, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        return cut

    def _direction(self) -> Point:
        if self.is_along_sides:
            return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[round(self.angle_deg) // 90 % 4]
        angle = math.radians(self.angle_deg)
        return math.cos(angle), math.sin(angle)


def box_around(points: tuple[Point, ...]) -> Box:
    """Return the smallest box around points, in whole pixels."""
    xs, ys = zip(*points, strict=True)
    return Box(math.floor(min(xs)), math.floor(min(ys)), math.ceil(max(xs)), math.ceil(max(ys)))


def make_session(model: str, num_threads: int) -> "InferenceSession":
    """Create an onnxruntime session of a model that is included in the rapidocr package.

    Raises:
        MissingPackageError: If rapidocr or onnxruntime is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # telemetry must be disabled before the import
    onnxruntime = require("onnxruntime", "literal")
    path = find_package_dir("rapidocr", "literal") / "models" / model
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a third slower on a busy machine
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class TextDetector:
    """Detector of text lines in any direction."""

    def __init__(self, num_threads: int = 2, max_side_px: int = 2048) -> None:
        self._session = make_session(_MODEL, num_threads)
        self._max_side_px = max_side_px

    def detect(self, image: NDArray[np.uint8]) -> list[TextArea]:
        """Return the areas of text lines, (H, W, 3) uint8 RGB in, pixels of the image out, in no particular order.

        The network cannot distinguish a line from one rotated by 180 degrees: wide areas are reported as running right,
        tall ones downward, all others right and up or down.
        """
        content = find_content_box(image)
        if content is None:
            return []
        region = content.padded(_MARGIN_PX).clipped(image.shape[1], image.shape[0])
        crop = np.ascontiguousarray(image[region.top : region.bottom, region.left : region.right])
        return [area.moved(region.left, region.top) for area in self._detect(crop)]

    def _detect(self, image: NDArray[np.uint8]) -> list[TextArea]:
        height, width = image.shape[:2]
        scale = min(1.0, self._max_side_px / max(height, width))
        net_height, net_width = (max(_STRIDE, round(side * scale / _STRIDE) * _STRIDE) for side in (height, width))
        resized = cv2.resize(image, (net_width, net_height), interpolation=cv2.INTER_AREA)
        batch = cv2.dnn.blobFromImage(resized, 1 / 127.5, mean=(127.5, 127.5, 127.5), swapRB=True)
        text_map = self._session.run(None, {"x": batch})[0][0, 0]
        return _areas_from_map(text_map, width / net_width, height / net_height, width, height)


def find_content_box(image: NDArray[np.uint8]) -> Box | None:
    """Return the smallest box around everything except a flat colour that reaches the image's edge: (H, W, 3) uint8."""
    edges = find_edges(image).astype(bool)
    rows, columns = np.flatnonzero(edges.any(axis=1)), np.flatnonzero(edges.any(axis=0))
    if rows.size == 0:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def _areas_from_map(
    text_map: NDArray[np.float32], scale_x: float, scale_y: float, width: int, height: int
) -> list[TextArea]:
    mask = cv2.dilate((text_map > _MAP_THRESHOLD).astype(np.uint8), np.ones((2, 2), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    sums = np.bincount(labels.ravel(), weights=text_map.ravel(), minlength=count)
    areas = []
    for index in range(1, count):
        left, top, box_width, box_height, area = (int(value) for value in stats[index])
        if min(box_width, box_height) < _MIN_SIDE_PX or sums[index] / area < _BOX_THRESHOLD:
            continue
        if area < _UPRIGHT_FILL * box_width * box_height:
            part = labels[top : top + box_height, left : left + box_width] == index
            turned = _fit_turned(part, (left, top), (scale_x, scale_y))
            if turned is not None:
                areas.append(turned)
                continue
        grow = box_width * box_height * _UNCLIP_RATIO / (2 * (box_width + box_height))
        box = Box(
            round((left - grow) * scale_x),
            round((top - grow) * scale_y),
            round((left + box_width + grow) * scale_x),
            round((top + box_height + grow) * scale_y),
        ).clipped(width, height)
        areas.append(TextArea.from_box(box, 90.0 if box.height >= TALL * box.width else 0.0))
    return areas


def _fit_turned(part: NDArray[np.bool_], corner: tuple[int, int], scale: tuple[float, float]) -> TextArea | None:
    """Fit a rotated rectangle to a region of the map, grown as text requires; None if an upright one fits as well.

    Args:
        part: The region within its upright box, (H, W) bool.
        corner: Left and top of that box on the map.
        scale: Pixels of the image per pixel of the map, in x and y.
    """
    contours, _ = cv2.findContours(part.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    points = (contours[0].reshape(-1, 2) + np.array(corner) + 0.5) * np.array(scale)
    (x_px, y_px), sides, angle = cv2.minAreaRect(points.astype(np.float32))
    length, thickness = (side + 1.0 for side in sides)
    if length < thickness:
        length, thickness, angle = thickness, length, angle + 90.0
    angle = (angle + 90.0) % 180.0 - 90.0
    fill = np.count_nonzero(part) * scale[0] * scale[1] / (length * thickness)
    rise = length * abs(math.sin(math.radians(2 * angle))) / 2
    if length < _MIN_LENGTH * thickness or rise < _MIN_RISE * thickness:
        return None
    if fill < max(_TURNED_FILL, _FILL_GAIN * part.mean()):
        return None
    grow = length * thickness * _UNCLIP_RATIO / (length + thickness)
    return TextArea.turned((x_px, y_px), length + grow, thickness + grow, angle)
