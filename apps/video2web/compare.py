"""Differences between a page and its reference: as text for a model, and as images."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from apps.video2web.losses import READABLE, LostContent
from apps.video2web.pixels import Levels, RgbImage
from apps.video2web.render import Rendering
from apps.video2web.score import PageScore, Reference
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.pages.text_blocks import color_distance

MAX_LISTED = 12
"""Maximum number of findings listed per kind; the largest ones first."""

NUM_REGIONS = 3  # images of regions per round: bounds the tokens
_MIN_MOVE_PX, _MIN_COLOR, _MIN_SIZE = 3.0, 6.0, 0.12  # smaller differences of place, colour and size cannot be seen
_CELL_PX = 16
_DIFFERENT = 24  # levels; smaller differences are anti-aliasing
_MAX_REGION_PX = (640, 360)
_GAP_PX = 8  # between two images of the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedText:
    """Text at another position, in pixels of the page."""

    text: str
    expected_px: tuple[int, int]
    right_px: int
    down_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoloredText:
    """Text of another colour, 0 to 255."""

    text: str
    expected: tuple[int, int, int]
    actual: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizedText:
    """Text of another width, caused by its font, its size or its line breaks."""

    text: str
    expected_px: tuple[int, int]
    found_px: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDifferences:
    """Differences of one page.

    Attributes:
        page: Name of the page.
        size_px: Width and height of the reference, then of our page.
        missing: Texts of the reference that our page lacks, with their left and upper edge.
        extra: Texts that the reference does not have.
        misread: Texts that differ: expected and actual.
        moved: Texts at another position, the farthest ones first.
        recolored: Texts of another colour, the worst first.
        resized: Texts of another size.
        regions: Boxes where the images differ most, the worst first.
        problems: Errors reported by the browser.
        overflow_px: Pixels by which the page is wider than its viewport.
        losses: What a reader of our page would miss.
    """

    page: str
    size_px: tuple[tuple[int, int], tuple[int, int]]
    missing: tuple[tuple[str, int, int], ...] = ()
    extra: tuple[str, ...] = ()
    misread: tuple[tuple[str, str], ...] = ()
    moved: tuple[MovedText, ...] = ()
    recolored: tuple[RecoloredText, ...] = ()
    resized: tuple[ResizedText, ...] = ()
    regions: tuple[Box, ...] = ()
    problems: tuple[str, ...] = ()
    overflow_px: int = 0
    losses: LostContent = field(default_factory=LostContent)

    def lines(self) -> list[str]:
        """Return all differences as text, one finding per line."""
        return list(_described(self)) or [f"{self.page}: no difference is found"]


def find_differences(reference: Reference, ours: Rendering, score: PageScore) -> PageDifferences:
    """Find the differences between a page and its reference.

    Args:
        reference: The page as it should be.
        ours: The page as it is.
        score: Score of our page.
    """
    height, width = reference.image.shape[:2]
    our_height, our_width = ours.image.shape[:2]
    moved, recolored, resized, misread = [], [], [], []
    colors_of = [[block.rgb for block in blocks] for blocks in zip(*score.blocks.pairs, strict=True)]
    distances = color_distance(*colors_of) if colors_of else ()
    for (theirs, page), distance in zip(score.blocks.pairs, distances, strict=True):
        left, top = theirs.left * width, theirs.top * height
        right, down = page.left * our_width - left, page.top * our_height - top
        if max(abs(right), abs(down)) >= _MIN_MOVE_PX:
            at = round(left), round(top)
            moved.append(MovedText(text=theirs.text, expected_px=at, right_px=round(right), down_px=round(down)))
        if distance >= _MIN_COLOR:
            colors = [(round(red), round(green), round(blue)) for red, green, blue in (theirs.rgb, page.rgb)]
            recolored.append((distance, RecoloredText(text=theirs.text, expected=colors[0], actual=colors[1])))
        sizes = [(theirs.width * width, theirs.height * height), (page.width * our_width, page.height * our_height)]
        if abs(sizes[1][0] / max(sizes[0][0], 1) - 1) >= _MIN_SIZE:
            whole = [(round(size[0]), round(size[1])) for size in sizes]
            resized.append(ResizedText(text=theirs.text, expected_px=whole[0], found_px=whole[1]))
        if "".join(theirs.text.split()) != "".join(page.text.split()):
            misread.append((theirs.text, page.text))
    moved.sort(key=lambda move: -max(abs(move.right_px), abs(move.down_px)))
    recolored.sort(key=lambda item: -item[0])
    return PageDifferences(
        page=reference.name,
        size_px=((width, height), (our_width, our_height)),
        missing=tuple(_missing(reference, score)),
        extra=score.blocks.unmatched[1],
        misread=tuple(misread),
        moved=tuple(moved),
        recolored=tuple(item for _, item in recolored),
        resized=tuple(resized),
        regions=worst_regions(reference.image, ours.image),
        problems=ours.problems,
        overflow_px=ours.overflow_px,
        losses=score.losses,
    )


def _missing(reference: Reference, score: PageScore) -> Iterator[tuple[str, int, int]]:
    height, width = reference.image.shape[:2]
    for text in score.blocks.unmatched[0]:
        match = next((block for block in reference.blocks if text.startswith(block.text)), None)
        yield text, round(match.left * width) if match else 0, round(match.top * height) if match else 0


def _described(differences: PageDifferences) -> Iterator[str]:
    (width, height), (our_width, our_height) = differences.size_px
    if our_width != width or abs(our_height - height) > 2:
        yield f"size: the page is {our_width}x{our_height} px, expected {width}x{height}"
    if differences.overflow_px:
        yield f"overflow: the page is {differences.overflow_px} px wider than its window"
    yield from _losses(differences.losses)
    for text, left, top in differences.missing[:MAX_LISTED]:
        yield f"missing: the text {_shown(text)} at ({left}, {top})"
    for text in differences.extra[:MAX_LISTED]:
        yield f"extra: the text {_shown(text)} is not in the reference"
    for expected, text in differences.misread[:MAX_LISTED]:
        yield f"text: {_shown(text)} should read {_shown(expected)}"
    for move in differences.moved[:MAX_LISTED]:
        yield f"moved: {_shown(move.text)} belongs at {move.expected_px}; it is {_shift(move)}"
    for size in differences.resized[:MAX_LISTED]:
        is_now, wanted = size.found_px, size.expected_px
        yield f"size: {_shown(size.text)} is {is_now[0]}x{is_now[1]} px, expected {wanted[0]}x{wanted[1]}"
    for color in differences.recolored[:MAX_LISTED]:
        yield f"colour: {_shown(color.text)} is {_hex(color.actual)}, expected {_hex(color.expected)}"
    for number, box in enumerate(differences.regions, 1):
        yield f"region {number}: {_place(box)} looks different"
    for problem in differences.problems[:MAX_LISTED]:
        yield f"browser: {problem}"
    lists = (
        differences.missing,
        differences.extra,
        differences.misread,
        differences.moved,
        differences.resized,
        differences.recolored,
        differences.problems,
        [word for word in differences.losses.words if word.text],
        differences.losses.images,
        differences.losses.marks,
        differences.losses.controls,
    )
    left = sum(max(0, len(items) - MAX_LISTED) for items in lists)
    if left:
        yield f"... and {left} more"


def _losses(losses: LostContent) -> Iterator[str]:
    """Yield what a reader would miss, the largest first within a kind."""
    if losses.num_unread:
        yield f"lost: {losses.num_unread} words could not be read ({READABLE}); they are kept as pictures"
    for word in [word for word in losses.words if word.text][:MAX_LISTED]:
        yield f"lost: the word {_shown(word.text)} at ({word.box_px.left}, {word.box_px.top}) is not visible as text"
    for name, boxes in (("picture", losses.images), ("mark (tick, icon, bullet)", losses.marks)):
        for box in sorted(boxes, key=lambda box: -box.area)[:MAX_LISTED]:
            yield f"lost: the {name} at {_place(box)} is missing or looks different"
    for box in losses.controls[:MAX_LISTED]:
        yield f"invented: the control at {_place(box)} is not in the reference"


def _place(box: Box) -> str:
    return f"x {box.left} to {box.right}, y {box.top} to {box.bottom}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _shift(move: MovedText) -> str:
    across = f"{abs(move.right_px)} px too far {'right' if move.right_px > 0 else 'left'}" if move.right_px else ""
    along = f"{abs(move.down_px)} px too {'low' if move.down_px > 0 else 'high'}" if move.down_px else ""
    return " and ".join(part for part in (across, along) if part)


def _hex(color: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


# ------------------------------------------------------------------ images


def difference_map(reference: RgbImage, ours: RgbImage) -> Levels:
    """Return the difference of each pixel, (H, W) uint8; pixels that only one of the images has count 255."""
    height, width = (
        max(size, other_size) for size, other_size in zip(reference.shape[:2], ours.shape[:2], strict=True)
    )
    off = np.full((height, width), 255, np.uint8)
    rows, columns = (
        min(size, other_size) for size, other_size in zip(reference.shape[:2], ours.shape[:2], strict=True)
    )
    first, second = (image[:rows, :columns].astype(np.int16) for image in (reference, ours))
    off[:rows, :columns] = np.abs(first - second).max(axis=2)
    return off


def worst_regions(reference: RgbImage, ours: RgbImage) -> tuple[Box, ...]:
    """Return the boxes with the most differing pixels; none is much larger than a fraction of a screen."""
    cv2 = require("cv2", "visual")
    off = (difference_map(reference, ours) > _DIFFERENT).astype(np.float32)
    height, width = off.shape
    off = np.pad(off, ((0, -height % _CELL_PX), (0, -width % _CELL_PX)))
    size = off.shape[1] // _CELL_PX, off.shape[0] // _CELL_PX
    cells = cv2.resize(off, size, interpolation=cv2.INTER_AREA)
    reach = min(_MAX_REGION_PX[0] // _CELL_PX, size[0]), min(_MAX_REGION_PX[1] // _CELL_PX, size[1])
    regions = []
    for _ in range(NUM_REGIONS):
        sums = cv2.boxFilter(cells, -1, reach, normalize=False, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
        sums = sums[: size[1] - reach[1] + 1, : size[0] - reach[0] + 1]
        row, column = np.unravel_index(int(sums.argmax()), sums.shape)
        if sums[row, column] < 0.5:
            break
        window = cells[row : row + reach[1], column : column + reach[0]]
        rows, columns = np.nonzero(window > 0.02)
        left, top = (int(column) + int(columns.min())) * _CELL_PX, (int(row) + int(rows.min())) * _CELL_PX
        right, bottom = (int(column) + int(columns.max()) + 1) * _CELL_PX, (int(row) + int(rows.max()) + 1) * _CELL_PX
        regions.append(Box(left, top, min(right, width), min(bottom, height)))
        window[:] = 0
    return tuple(regions)


def side_by_side(reference: RgbImage, ours: RgbImage, box: Box) -> RgbImage:
    """Return a part of both images side by side: reference, grey gap, ours; (H, W, 3) uint8."""
    parts = [_cut(image, box) for image in (reference, ours)]
    gap = np.full((box.height, _GAP_PX, 3), 128, np.uint8)
    return np.concatenate([parts[0], gap, parts[1]], axis=1)


def _cut(image: RgbImage, box: Box) -> RgbImage:
    part = image[box.slices]
    missing = box.height - part.shape[0], box.width - part.shape[1]
    return np.pad(part, ((0, missing[0]), (0, missing[1]), (0, 0)), constant_values=200)


def difference_image(reference: RgbImage, ours: RgbImage) -> RgbImage:
    """Return the reference in pale grey, with differing pixels in red; (H, W, 3) uint8."""
    off = difference_map(reference, ours).astype(np.float32)[:, :, None] / 255
    height, width = off.shape[:2]
    grey = np.full((height, width), 255, np.float32)
    grey[: reference.shape[0], : reference.shape[1]] = reference.mean(axis=2)
    pale = np.repeat((190 + grey * 0.25)[:, :, None], 3, axis=2)
    strength = np.clip(off * 3, 0, 1)
    red = np.array([214, 32, 48], np.float32)
    mixed: RgbImage = np.clip(pale * (1 - strength) + red * strength, 0, 255).astype(np.uint8)
    return mixed
