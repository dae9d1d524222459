"""Where text stands on a picture: the detection network of PP-OCR, and boxes out of its map."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.require import find_package_dir, require
from visual_tools.widgets import find_edges

_MODEL = "PP-OCRv6_det_small.onnx"
_STRIDE = 32
_MAP_THRESHOLD = 0.3
_BOX_THRESHOLD = 0.45
_UNCLIP_RATIO = 1.6
_MIN_SIDE_PX = 3
_MARGIN_PX = 32
"""Source: rapidocr's config.yaml (Det section), from Liao et al. 2020, "Real-time Scene Text Detection
with Differentiable Binarization", section 3.4; the box threshold is a little lower, screens being clean."""


def make_session(model: str, num_threads: int) -> Any:
    """An onnxruntime session of a model that ships inside the rapidocr package.

    Raises:
        MissingPackageError: rapidocr or onnxruntime is not installed.
    """
    onnxruntime = require("onnxruntime", "literal")
    path = find_package_dir("rapidocr", "literal") / "models" / model
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a busy machine loses a third by it
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class TextDetector:
    """Finds lines of upright text.

    Args:
        num_threads: Threads of the network.
        max_side_px: Larger pictures are scaled down to this for detection.
    """

    def __init__(self, num_threads: int = 2, max_side_px: int = 2048) -> None:
        self._session = make_session(_MODEL, num_threads)
        self._max_side_px = max_side_px

    def detect(self, image: NDArray[np.uint8]) -> list[Box]:
        """Boxes of text lines, (H, W, 3) uint8 RGB in, pixels of the picture out, in no given order."""
        content = find_content_box(image)
        if content is None:
            return []
        region = content.padded(_MARGIN_PX).clipped(image.shape[1], image.shape[0])
        crop = np.ascontiguousarray(image[region.top : region.bottom, region.left : region.right])
        return [box.moved(region.left, region.top) for box in self._detect(crop)]

    def _detect(self, image: NDArray[np.uint8]) -> list[Box]:
        cv2 = require("cv2", "literal")
        height, width = image.shape[:2]
        scale = min(1.0, self._max_side_px / max(height, width))
        net_height, net_width = (max(_STRIDE, round(side * scale / _STRIDE) * _STRIDE) for side in (height, width))
        resized = cv2.resize(image, (net_width, net_height), interpolation=cv2.INTER_AREA)
        batch = cv2.dnn.blobFromImage(resized, 1 / 127.5, mean=(127.5, 127.5, 127.5), swapRB=True)
        text_map = self._session.run(None, {"x": batch})[0][0, 0]
        return _boxes_from_map(text_map, width / net_width, height / net_height, width, height)


def find_content_box(image: NDArray[np.uint8]) -> Box | None:
    """The smallest box around everything that is not one flat colour up to the picture's edge: (H, W, 3) uint8."""
    edges = find_edges(image).astype(bool)
    rows, columns = np.flatnonzero(edges.any(axis=1)), np.flatnonzero(edges.any(axis=0))
    if rows.size == 0:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def _boxes_from_map(
    text_map: NDArray[np.float32], scale_x: float, scale_y: float, width: int, height: int
) -> list[Box]:
    cv2 = require("cv2", "literal")
    mask = cv2.dilate((text_map > _MAP_THRESHOLD).astype(np.uint8), np.ones((2, 2), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    sums = np.bincount(labels.ravel(), weights=text_map.ravel(), minlength=count)
    boxes = []
    for index in range(1, count):
        left, top, box_width, box_height, area = (int(value) for value in stats[index])
        if min(box_width, box_height) < _MIN_SIDE_PX or sums[index] / area < _BOX_THRESHOLD:
            continue
        grow = box_width * box_height * _UNCLIP_RATIO / (2 * (box_width + box_height))
        box = Box(
            round((left - grow) * scale_x),
            round((top - grow) * scale_y),
            round((left + box_width + grow) * scale_x),
            round((top + box_height + grow) * scale_y),
        )
        boxes.append(box.clipped(width, height))
    return boxes
