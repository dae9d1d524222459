"""Split an image that contains two images, side by side or one above the other."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.diff.registration import find_transform
from visual_tools.diff.result import Halves, as_rgb
from visual_tools.errors import ImageError
from visual_tools.ink import largest_channel
from visual_tools.packages import cv2

# Heuristics without another source; sensitivity in benchmarks/visual/constants.md.
_MIN_PX = 32
_SMALL_PX = 480
_MIN_SIMILARITY = 0.4
_MIN_AGREEMENT = 0.5
_SCALES = (1.0, 0.94, 1.06, 0.87, 1.15)
_FLAT = 5.0  # levels of standard deviation along a line of one colour
_NEAR = 24  # levels: maximum difference within one colour
_MIDDLE = (0.33, 0.67)
_BARE = 0.995  # minimum share of a line in the sheet's colour
_CAPTION_SHARE = 0.14  # of the height of a half


def split_halves(image: object) -> Halves:
    """Find the two images in one, without separators, margins (also unequal ones) and captions.

    Args:
        image: (H, W, 3) uint8 RGB; grey, RGBA and Pillow images are accepted.

    Raises:
        ImageError: If no two parts of the image are similar.

    Example:
        >>> halves = split_halves(load_image("puzzle.png"))
        >>> halves.layout, halves.first_box, halves.second_box
    """
    rgb = as_rgb(image)
    if min(rgb.shape[:2]) < _MIN_PX:
        raise ImageError(f"the image is {rgb.shape[1]}x{rgb.shape[0]} pixels, too small to hold two; pass two images")
    small = _small_grey(rgb)
    likeness = {"side by side": _likeness(small), "stacked": _likeness(small.T)}
    layouts = [layout for layout, score in likeness.items() if score >= _MIN_SIMILARITY]
    if not layouts:
        raise _no_halves(max(likeness.values()))
    cuts = {layout: _cut(rgb, layout) for layout in layouts}
    agreement, layout = max((_agreement(rgb, *cut), layout) for layout, cut in cuts.items())
    if agreement < _MIN_AGREEMENT:
        raise _no_halves(agreement)
    first_box, second_box = cuts[layout]
    return Halves(
        first=_part(rgb, first_box),
        second=_part(rgb, second_box),
        layout=layout,
        first_box=first_box,
        second_box=second_box,
        similarity=agreement,
    )


def _no_halves(best: float) -> ImageError:
    return ImageError(
        f"no two halves that are alike were found (best correlation {best:.2f}); "
        "pass the two images as first and second"
    )


def _agreement(rgb: NDArray[np.uint8], first_box: Box, second_box: Box) -> float:
    """Return the correlation of the detail of two parts after registration, -1 to 1."""
    parts = [cv2.cvtColor(_part(rgb, box), cv2.COLOR_RGB2GRAY) for box in (first_box, second_box)]
    factor = min(1.0, _SMALL_PX / max(parts[0].shape))
    first, second = (cv2.resize(part, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA) for part in parts)
    return find_transform(first, second)[1]


def _part(image: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    return np.ascontiguousarray(image[box.top : box.bottom, box.left : box.right])


def _small_grey(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    factor = min(1.0, _SMALL_PX / max(rgb.shape[:2]))
    size = max(round(rgb.shape[1] * factor), 8), max(round(rgb.shape[0] * factor), 8)
    grey = cv2.cvtColor(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
    smooth: NDArray[np.float32] = cv2.GaussianBlur(grey, (0, 0), 1.2).astype(np.float32)
    return smooth


def _likeness(grey: NDArray[np.float32]) -> float:
    """Return how well patches of the left half match the right one at about the same height; -1 to 1."""
    height, width = grey.shape
    patch = grey[round(0.2 * height) : round(0.8 * height), round(0.12 * width) : round(0.42 * width)]
    target = grey[round(0.08 * height) : round(0.92 * height), width // 2 :]
    if patch.size == 0 or patch.std() < 1:
        return 0.0
    best = 0.0
    for scale in _SCALES:
        scaled = cv2.resize(patch, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
        if scaled.shape[0] <= target.shape[0] and scaled.shape[1] <= target.shape[1]:
            matches = cv2.matchTemplate(np.ascontiguousarray(target), scaled, cv2.TM_CCOEFF_NORMED)
            best = max(best, float(np.nan_to_num(matches, posinf=0, neginf=0).max()))
    return best


@dataclass(frozen=True, slots=True)
class _Run:
    start: int
    end: int


def _cut(rgb: NDArray[np.uint8], layout: str) -> tuple[Box, Box]:
    """Return the two images of a layout, without margins and captions."""
    if layout == "side by side":
        cut = _parts_beside(rgb)
    else:
        cut = tuple(Box(box.top, box.left, box.bottom, box.right) for box in _parts_beside(rgb.transpose(1, 0, 2)))
    sheet = _sheet_colour(rgb, cut)
    first, second = (_trimmed(rgb, box, sheet) for box in cut)
    return _same_size(first, second)


def _parts_beside(rgb: NDArray[np.uint8]) -> tuple[Box, ...]:
    """Return the parts left and right of the gutter, or of the seam if there is no gutter."""
    height, width = rgb.shape[:2]
    flat, colours = _flat_columns(rgb)
    gutter = _find_gutter(flat, colours)
    if gutter is None:
        outer = np.flatnonzero(~flat)
        left, right = (int(outer[0]), int(outer[-1]) + 1) if outer.size else (0, width)
        seam = _find_seam(rgb, (left + right) // 2)
        gutter = _Run(seam, seam)
    return Box(0, 0, gutter.start, height), Box(gutter.end, 0, width, height)


def _flat_columns(rgb: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which columns are of one colour, and the mean colour of each, (W, 3)."""
    columns = np.ascontiguousarray(rgb.transpose(1, 0, 2))
    both = [cv2.meanStdDev(column[None]) for column in columns]
    return np.array([spread.max() for _, spread in both]) < _FLAT, np.array([mean.ravel() for mean, _ in both])


def _find_gutter(flat: NDArray[np.bool_], colours: NDArray[np.float64]) -> _Run | None:
    """Return the widest run of columns of one colour near the middle, including a thin line within it."""
    width = flat.size
    low, high = (round(share * width) for share in _MIDDLE)
    near = colours[low:high][flat[low:high]]
    if not near.size:
        return None
    shades, counts = np.unique(np.rint(near / 8), axis=0, return_counts=True)
    paper = flat & (np.abs(colours - shades[counts.argmax()] * 8).max(axis=1) <= 10)
    bridged = paper.copy()
    for run in _runs(~paper):
        if run.start > 0 and run.end < width and run.end - run.start <= max(3, width // 90):
            bridged[run.start : run.end] = True
    runs = _runs(bridged)
    inner = [run for run in runs if run.end > low and run.start < high and run.start > 0 and run.end < width]
    best = max(inner, key=lambda run: run.end - run.start, default=None)
    ends = [run.end - run.start for run in runs if run.start == 0 or run.end == width]
    if best is not None and len(ends) == 1 and abs(best.end - best.start - ends[0]) <= 2 < ends[0]:
        return None  # both images end alike, in sky or ground of one colour
    return best


def _runs(mask: NDArray[np.bool_]) -> list[_Run]:
    steps = np.diff(np.concatenate(([0], mask.astype(np.int8), [0])))
    pairs = zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True)
    return [_Run(int(start), int(end)) for start, end in pairs]


def _find_seam(rgb: NDArray[np.uint8], middle: int) -> int:
    """Return the column near the middle at which nearly every row jumps, otherwise the middle."""
    reach = max(2, rgb.shape[1] // 25)
    start = max(middle - reach, 1)
    window = rgb[:, start - 1 : middle + reach].astype(np.int16)
    jumps = largest_channel(np.abs(np.diff(window, axis=1)))
    jumping = (jumps > 12).mean(axis=0)
    best = int(np.argmax(jumping))
    return start + best if jumping[best] > 0.5 and jumping[best] > 2 * np.median(jumping) else middle


def _sheet_colour(rgb: NDArray[np.uint8], cut: tuple[Box, ...]) -> NDArray[np.float64] | None:
    """Return the sheet's colour: of two outer edges, of the gutter, or of one edge that is white."""
    lines = [line for line in (rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]) if line.std(axis=0).max() < _FLAT]
    colours = [_median_colour(line) for line in lines]
    for at, colour in enumerate(colours):
        if any(np.abs(colour - other).max() <= _NEAR for other in colours[at + 1 :]):
            return colour
    first, second = cut
    beside = first.bottom == second.bottom
    gutter = rgb[:, first.right : second.left] if beside else rgb[first.bottom : second.top]
    if gutter.size:
        return _median_colour(gutter.reshape(-1, 3))
    return next((colour for colour in colours if colour.min() >= 255 - _NEAR), None)


def _median_colour(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.asarray(np.median(pixels, axis=0), np.float64)


def _trimmed(rgb: NDArray[np.uint8], box: Box, sheet: NDArray[np.float64] | None) -> Box:
    """Return `box` without margins of the sheet's colour, and without a caption above or below."""
    if sheet is None:
        return box
    paper = largest_channel(np.abs(_part(rgb, box).astype(np.int16) - sheet)) <= _NEAR
    left, right = _inner(paper, 0)
    top, bottom = _inner(paper[:, left:right].T, round(_CAPTION_SHARE * box.height))
    return Box(box.left + left, box.top + top, box.left + right, box.top + bottom)


def _inner(paper: NDArray[np.bool_], caption_px: int) -> tuple[int, int]:
    """Return first and end column of the image, given which pixels have the sheet's colour."""
    shares = paper.mean(axis=0)
    ends = max(2, paper.shape[0] // 60)
    spans = ~paper[:ends].all(axis=0) & ~paper[-ends:].all(axis=0)  # an image reaches both ends, a caption does not
    full = spans | (shares < 0.5)
    start = _skip(shares > _BARE, full, caption_px)
    end = shares.size - _skip(shares[::-1] > _BARE, full[::-1], caption_px)
    return (start, end) if end - start >= _MIN_PX // 2 else (0, shares.size)


def _skip(bare: NDArray[np.bool_], full: NDArray[np.bool_], caption_px: int) -> int:
    """Return the number of lines to remove: bare ones, and a caption up to the first full line of the image."""
    start = _first_true(~bare)
    edge = _first_true(full)
    is_caption = start < edge < full.size and edge - start <= caption_px and bare[max(edge - 3, 0) : edge].any()
    return edge if is_caption else start


def _first_true(flags: NDArray[np.bool_]) -> int:
    positions = np.flatnonzero(flags)
    return int(positions[0]) if positions.size else int(flags.size)


def _same_size(first: Box, second: Box) -> tuple[Box, Box]:
    """Make boxes equal in size if they differ by only a pixel or two."""
    width, height = min(first.width, second.width), min(first.height, second.height)
    slack = max(abs(first.width - second.width), abs(first.height - second.height))
    if slack > 3:
        return first, second
    return (
        Box(first.left, first.top, first.left + width, first.top + height),
        Box(second.left, second.top, second.left + width, second.top + height),
    )
