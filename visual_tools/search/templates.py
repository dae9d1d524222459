"""Find the places of an image that look like a smaller image."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_alpha, load_image
from visual_tools.packages import cv2
from visual_tools.results import ResultSequence

SCALES = tuple(2 ** (step / 6) for step in range(-6, 7))
"""Scales from half to double the size; neighbours differ by 12 %, which the refinement bridges."""

_SEARCH_PIXELS = 1_000_000  # the first search is on an image reduced to this size, unless the template gets too small
_SEARCH_SIDE_PX = 16  # shorter side that a template keeps in the reduced search
_SEARCH_SLACK = 0.25  # a reduced image scores lower than the full one by up to this; candidates are measured again
_MAX_OVERLAP = 0.3  # of the smaller box; a larger share is the same object
_OPAQUE = 128  # alpha from which a pixel of a template counts
_FINE_FACTORS = (0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06)  # scales around the best coarse one


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Place that looks like the template.

    Attributes:
        box: Box in pixels of the image.
        score: Normalised correlation of the pixels minus the mean difference of the colours (as a share of 255); 1 is
            equal.
        scale: Size relative to the template.
    """

    box: Box
    score: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches(ResultSequence[Match]):
    """Places that look like the template, best first; may be indexed and iterated.

    Attributes:
        matches: Matches with at least the requested score; they overlap little.
        best_score: Highest score found, even if it was too low.
    """

    _items = "matches"
    matches: tuple[Match, ...]
    best_score: float

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    pixels: NDArray[np.uint8] = field(repr=False)
    mask: NDArray[np.uint8] | None = field(repr=False)

    def resized(self, width: int, height: int) -> "_Template":
        if (width, height) == (self.pixels.shape[1], self.pixels.shape[0]):
            return self
        way = cv2.INTER_AREA if width <= self.pixels.shape[1] else cv2.INTER_CUBIC
        mask = None
        if self.mask is not None:
            mask = (cv2.resize(self.mask * 255, (width, height), interpolation=way) >= _OPAQUE).astype(np.uint8)
        return _Template(pixels=cv2.resize(self.pixels, (width, height), interpolation=way), mask=mask)

    def scaled(self, scale: float) -> "_Template":
        return self.resized(round(self.pixels.shape[1] * scale), round(self.pixels.shape[0] * scale))


def match_template(
    image: ImageSource,
    template: ImageSource,
    *,
    min_score: float = 0.8,
    scales: Sequence[float] = SCALES,
    max_matches: int = 50,
) -> Matches:
    """Find a small image (an icon, a symbol) on a larger one, upright, at several sizes.

    The image is searched at a reduced size first, then each candidate is examined at full size.

    Args:
        image: Anything `load_image` takes.
        template: Image to search for; its transparent parts are not compared.
        min_score: Minimum score of a match.
        scales: Sizes to try, relative to the template. `scales=[1]` is faster and finds only the same size.
        max_matches: Maximum number of matches; the best are kept.

    Raises:
        ImageError: If the template is larger than the image at every scale, or has only one colour.

    Example:
        >>> image = np.zeros((60, 80, 3), np.uint8)
        >>> image[20:30, 40:50, 1] = np.eye(10) * 255
        >>> match_template(image, image[18:32, 38:52], scales=[1])[0].box
        Box(left=38, top=18, right=52, bottom=32)
    """
    pixels, wanted = load_image(image), _load_template(template)
    tried = _check_scales(pixels, wanted, scales)
    candidates = _search(pixels, wanted, tried, min_score - _SEARCH_SLACK, 4 * max_matches)
    is_fixed = len(tried) == 1
    refined = [_refine(pixels, wanted, candidate, is_fixed) for candidate in candidates]
    good = [match for match in refined if match.score >= min_score]
    best = max((match.score for match in refined), default=0.0)
    return Matches(matches=tuple(_without_overlap(good)[:max_matches]), best_score=best)


def _load_template(source: ImageSource) -> _Template:
    pixels, alpha = load_image(source), load_alpha(source)
    mask = None if alpha is None or alpha.min() >= _OPAQUE else (alpha >= _OPAQUE).astype(np.uint8)
    seen = pixels.reshape(-1, 3) if mask is None else pixels[mask > 0]
    if len(seen) == 0 or (seen == seen[0]).all():
        raise ImageError(
            "the template has one colour only, expected something with a shape. "
            "Cut it with some of its surroundings, or use color_mask to find an area of a colour."
        )
    return _Template(pixels=pixels, mask=mask)


def _check_scales(image: NDArray[np.uint8], template: _Template, scales: Sequence[float]) -> list[float]:
    if not scales or not all(math.isfinite(scale) and scale > 0 for scale in scales):
        raise ImageError(f"found the scales {list(scales)}, expected numbers above 0")
    height, width = template.pixels.shape[:2]
    fitting = [
        scale
        for scale in scales
        if 2 <= round(width * scale) <= image.shape[1] and 2 <= round(height * scale) <= image.shape[0]
    ]
    if not fitting:
        raise ImageError(
            f"the template of {width}x{height} pixels fits the image of {image.shape[1]}x{image.shape[0]} "
            f"at none of the scales {min(scales):g} to {max(scales):g}; were the two arguments swapped?"
        )
    return fitting


def _search(
    image: NDArray[np.uint8], template: _Template, scales: Sequence[float], min_score: float, max_found: int
) -> list[Match]:
    """Return candidates from a reduced copy of the image, always including the best one."""
    candidates: list[Match] = []
    for scale in scales:
        side_px = min(template.pixels.shape[:2]) * scale
        reduction = max(1.0, min(side_px / _SEARCH_SIDE_PX, math.sqrt(image[:, :, 0].size / _SEARCH_PIXELS)))
        size = round(image.shape[1] / reduction), round(image.shape[0] / reduction)
        small = image if reduction == 1.0 else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        pattern = template.scaled(scale / reduction)
        if any(a > b for a, b in zip(pattern.pixels.shape[:2], small.shape[:2], strict=True)):
            continue
        scores = _correlate(small, pattern)
        width, height = round(template.pixels.shape[1] * scale), round(template.pixels.shape[0] * scale)
        for x, y in _find_peaks(scores, pattern.pixels.shape, min_score, max_found):
            left, top = round(x * reduction), round(y * reduction)
            box = Box(left, top, left + width, top + height)
            candidates.append(Match(box=box, score=float(scores[y, x]), scale=scale))
    candidates.sort(key=lambda match: -match.score)
    return candidates[: max_found * 2]


def _correlate(image: NDArray[np.uint8], template: _Template) -> NDArray[np.float32]:
    scores = cv2.matchTemplate(image, template.pixels, cv2.TM_CCOEFF_NORMED, mask=template.mask)
    clean: NDArray[np.float32] = np.clip(np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
    return clean


def _find_peaks(
    scores: NDArray[np.float32], shape: tuple[int, ...], min_score: float, max_found: int
) -> list[tuple[int, int]]:
    """Return columns and rows of the local maxima, always including the highest one; best first."""
    reach = max(1, round(min(shape[:2]) / 2)) | 1
    highest = cv2.dilate(scores, np.ones((reach, reach), np.uint8))
    rows, columns = np.nonzero((scores >= highest) & (scores >= min(min_score, float(scores.max()))))
    order = np.argsort(-scores[rows, columns], kind="stable")[:max_found]
    return [(int(columns[index]), int(rows[index])) for index in order]


def _refine(image: NDArray[np.uint8], template: _Template, match: Match, is_fixed: bool) -> Match:
    """Return the best position and size near a candidate, at full size."""
    height, width = image.shape[:2]
    slack = 3 + max(match.box.width, match.box.height) // 8
    window = match.box.padded(slack).clipped(width, height)
    part = image[window.top : window.bottom, window.left : window.right]
    best = Match(box=match.box, score=0.0, scale=match.scale)
    for scale in _fine_scales(match.scale, is_fixed):
        pattern = template.scaled(scale)
        size = pattern.pixels.shape
        if min(size[:2]) < 2 or size[0] > part.shape[0] or size[1] > part.shape[1]:
            continue
        scores = _correlate(part, pattern)
        y, x = (int(index) for index in np.unravel_index(int(scores.argmax()), scores.shape))
        box = Box(x, y, x + size[1], y + size[0]).moved(window.left, window.top)
        score = round(float(scores[y, x]) - _color_difference(image, pattern, box), 4)
        if score > best.score:
            best = Match(box=box, score=score, scale=scale)
    return best


def _fine_scales(scale: float, is_fixed: bool) -> list[float]:
    """Return scales around a scale, the template's own size first, so that it wins if others round to the same."""
    if is_fixed:
        return [scale]
    near = {scale * factor for factor in _FINE_FACTORS}
    return sorted(near | {1.0} if min(near) < 1.0 < max(near) else near, key=lambda factor: abs(factor - 1.0))


def _color_difference(image: NDArray[np.uint8], template: _Template, box: Box) -> float:
    """Return the mean absolute difference as a share of 255."""
    part: NDArray[np.int16] = image[box.top : box.bottom, box.left : box.right].astype(np.int16)
    difference = np.abs(part - template.pixels)
    return float(difference.mean() if template.mask is None else difference[template.mask > 0].mean()) / 255


def _without_overlap(matches: Sequence[Match]) -> list[Match]:
    """Return the matches best first, without those that share much of their area with a better one."""
    kept: list[Match] = []
    for match in sorted(matches, key=lambda match: -match.score):
        if all(
            match.box.intersection(other.box) <= _MAX_OVERLAP * min(match.box.area, other.box.area) for other in kept
        ):
            kept.append(match)
    return kept
