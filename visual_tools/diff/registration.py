"""Register one image to another: shift, scale and a small rotation, accepted only if the images then agree.

Several candidates are made (same place, same size, phase correlation, matched features), each is scored by how well
the fine detail of both images then agrees, and the best is refined by tracking corners to subpixel accuracy.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.diff.result import Transform
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Differences".
_COARSE_PX = 1000
_FINE_PX = 2400
_MIN_SIDE_PX = 16
_MIN_OVERLAP = 0.2  # of the smaller image
_MIN_KEPT = 0.4  # minimum share of the detail of one of the images inside the overlap
_PLAIN = 0.15  # mean size of detail, in levels, below which an image has none
_BETTER_BY = 0.03  # correlation by which a candidate must exceed the simpler ones
_FEW = 8
_SCALES = (0.25, 4.0)

Matrix = NDArray[np.float64]
IDENTITY: Matrix = np.array([[1.0, 0, 0], [0, 1, 0]])


def find_transform(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> tuple[Transform, float]:
    """Register `second` to `first`.

    Args:
        first: (H, W) uint8 grey.
        second: (H, W) uint8 grey, of any size.

    Returns:
        The transform, and the correlation of fine detail under it, -1 to 1; 1 if there is no detail, and the images are
        assumed to be in the same place.
    """
    if min(*first.shape, *second.shape) < _MIN_SIDE_PX:
        return make_transform(IDENTITY, "same place"), 1.0
    factor = min(1.0, _COARSE_PX / max(*first.shape, *second.shape))
    small, other = _shrunk(first, factor), _shrunk(second, factor)
    judge = _Judge(small, other)
    if judge.is_plain:
        return make_transform(IDENTITY, "same place"), 1.0
    best, method, score = IDENTITY, "same place", judge.score(IDENTITY)
    for name, guess in _guesses(small, other, score):
        guess_score = judge.score(guess)
        if guess_score > score + _BETTER_BY:
            best, method, score = guess, name, guess_score
    if score <= 0:
        return make_transform(IDENTITY, "same place"), score
    matrix, score = _refined(first, second, _rescaled(best, factor), score)
    return make_transform(_snapped(matrix, first.shape), method), score


def make_transform(matrix: Matrix, method: str) -> Transform:
    """Make a transform from a (2, 3) matrix that rotates, scales and shifts."""
    return Transform(
        shift_px=(float(matrix[0, 2]), float(matrix[1, 2])),
        scale=math.hypot(matrix[0, 0], matrix[1, 0]),
        rotation_deg=math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])),
        method=method,
    )


def warp_onto(image: NDArray[np.uint8], matrix: Matrix, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Warp `image` to the first image's frame of `shape`; its edge is replicated outside."""
    if np.array_equal(matrix, IDENTITY) and image.shape[:2] == tuple(shape[:2]):
        return image
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    if scale > 1.2:  # low-pass filter before downscaling
        image = cv2.GaussianBlur(image, (0, 0), 0.5 * math.sqrt(scale * scale - 1))
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    warped: NDArray[np.uint8] = cv2.warpAffine(
        image, matrix, (shape[1], shape[0]), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return warped


def find_overlap(matrix: Matrix, shape: tuple[int, ...], other: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return 255 on the pixels of the first image that the second covers too: (H, W) uint8."""
    full = np.full(other[:2], 255, np.uint8)
    flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    covered: NDArray[np.uint8] = cv2.warpAffine(full, matrix, (shape[1], shape[0]), flags=flags, borderValue=(0,))
    return covered


class _Judge:
    """Correlation of the fine detail of two images under a transform."""

    def __init__(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> None:
        self._first, self._second = _detail(first), _detail(second)
        self._needed_px = _MIN_OVERLAP * min(first.size, second.size)
        self._energies = [float(np.vdot(detail, detail)) for detail in (self._first, self._second)]
        self.is_plain = min(float(np.abs(detail).mean()) for detail in (self._first, self._second)) < _PLAIN

    def score(self, matrix: Matrix) -> float:
        shape = self._first.shape
        covered = find_overlap(matrix, shape, self._second.shape) > 0
        if np.count_nonzero(covered) < self._needed_px:
            return -1.0
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        moved = cv2.warpAffine(self._second, matrix, (shape[1], shape[0]), flags=flags)
        first, second = self._first[covered], moved[covered]
        area = abs(float(np.linalg.det(matrix[:, :2])))  # pixels of the second image per pixel of the first
        energies = float(first @ first), float(second @ second)
        if max(energies[0] / self._energies[0], area * energies[1] / self._energies[1]) < _MIN_KEPT:
            return -1.0
        size = math.sqrt(energies[0] * energies[1])
        return float(first @ second) / size if size > 0 else 0.0


def _detail(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    smooth = cv2.GaussianBlur(image.astype(np.float32), (0, 0), 1.0)
    detail: NDArray[np.float32] = np.clip(smooth - cv2.GaussianBlur(smooth, (0, 0), 4.0), -25, 25)
    return detail


def _guesses(first: NDArray[np.uint8], second: NDArray[np.uint8], score: float) -> list[tuple[str, Matrix]]:
    guesses: list[tuple[str, Matrix]] = []
    if first.shape != second.shape:
        fit = second.shape[1] / first.shape[1], second.shape[0] / first.shape[0]
        if abs(fit[0] / fit[1] - 1) < 0.02:
            scale = math.sqrt(fit[0] * fit[1])
            guesses.append(("same size", np.array([[scale, 0, (scale - 1) / 2], [0, scale, (scale - 1) / 2]])))
    elif score > 0.97:
        return guesses
    guesses.append(("phase correlation", _phase_shift(first, second)))
    matched = _feature_match(first, second)
    return guesses if matched is None else [*guesses, ("features", matched)]


def _phase_shift(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Matrix:
    shape = max(first.shape[0], second.shape[0]), max(first.shape[1], second.shape[1])
    sheets = [np.zeros(shape, np.float32) for _ in range(2)]
    for sheet, image in zip(sheets, (first, second), strict=True):
        sheet[: image.shape[0], : image.shape[1]] = _detail(image)
    (x, y), _ = cv2.phaseCorrelate(*sheets)
    return np.array([[1.0, 0, x], [0, 1, y]])


def _feature_match(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Matrix | None:
    sift = cv2.SIFT_create(nfeatures=1500, contrastThreshold=0.02)
    (points, words), (others, other_words) = sift.detectAndCompute(first, None), sift.detectAndCompute(second, None)
    if len(points) < _FEW or len(others) < _FEW:
        return None
    pairs = [
        best
        for best, *next_best in cv2.BFMatcher().knnMatch(words, other_words, k=2)
        if not next_best or best.distance < 0.8 * next_best[0].distance
    ]
    if len(pairs) < _FEW:
        return None
    start = np.array([points[pair.queryIdx].pt for pair in pairs], np.float32)
    end = np.array([others[pair.trainIdx].pt for pair in pairs], np.float32)
    return _fit(start, end, 2.0)


def _fit(start: Any, end: object, within_px: float) -> Matrix | None:
    """Return the rotation, scale and shift on which most point pairs agree."""
    if len(start) < _FEW:
        return None
    matrix, kept = cv2.estimateAffinePartial2D(
        start, end, method=cv2.RANSAC, ransacReprojThreshold=within_px, maxIters=4000, confidence=0.999
    )
    if matrix is None or np.count_nonzero(kept) < _FEW:
        return None
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    return np.asarray(matrix, np.float64) if _SCALES[0] < scale < _SCALES[1] else None


def _refined(first: NDArray[np.uint8], second: NDArray[np.uint8], matrix: Matrix, score: float) -> tuple[Matrix, float]:
    """Refine a transform by tracking corners of the first image in the warped second image, twice."""
    factor = min(1.0, _FINE_PX / max(*first.shape, *second.shape))
    small, other = _shrunk(first, factor), _shrunk(second, factor)
    judge, best = _Judge(small, other), _rescaled(matrix, 1 / factor)
    score = judge.score(best)
    for _ in range(2):
        tracked = _tracked(small, warp_onto(other, best, small.shape), best)
        if tracked is None:
            break
        new_score = judge.score(tracked)
        if new_score < score - 0.002:
            break
        best, score = tracked, new_score
    return _rescaled(best, factor), score


def _tracked(first: NDArray[np.uint8], laid: NDArray[np.uint8], matrix: Matrix) -> Matrix | None:
    corners = cv2.goodFeaturesToTrack(first, 1500, 0.005, max(5, max(first.shape) // 120))
    if corners is None or len(corners) < _FEW:
        return None
    window = {"winSize": (21, 21), "maxLevel": 2}
    there, ok, _ = cv2.calcOpticalFlowPyrLK(first, laid, corners, None, **window)
    back, ok_back, _ = cv2.calcOpticalFlowPyrLK(laid, first, there, None, **window)
    agrees = (ok.ravel() > 0) & (ok_back.ravel() > 0) & (np.abs(back - corners).max(axis=(1, 2)) < 0.3)
    start, end = corners[agrees, 0], there[agrees, 0]
    return _fit(start, (end @ matrix[:, :2].T + matrix[:, 2]).astype(np.float32), 0.7)


def _shrunk(image: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    if factor == 1.0:
        return image
    size = max(round(image.shape[1] * factor), 1), max(round(image.shape[0] * factor), 1)
    smaller: NDArray[np.uint8] = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return smaller


def _rescaled(matrix: Matrix, factor: float) -> Matrix:
    """Convert a transform between images downscaled by `factor` to one between the full images."""
    offset = (factor - 1) / 2  # pixel centers, not corners, have integer coordinates
    full = matrix.copy()
    full[:, 2] = (matrix[:, :2] @ [offset, offset] + matrix[:, 2] - offset) / factor
    return full


def _snapped(matrix: Matrix, shape: tuple[int, ...]) -> Matrix:
    """Round to a shift by whole pixels if within a tenth of one, so that nothing is resampled."""
    whole = IDENTITY.copy()
    whole[:, 2] = np.rint(matrix[:, 2])
    corners = np.array([[x, y, 1.0] for x in (0, shape[1]) for y in (0, shape[0])])
    return whole if np.abs(corners @ (matrix - whole).T).max() < 0.12 else matrix
