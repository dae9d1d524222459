"""Score of a page against its reference: one number and its parts.

`static = kept x mean(block match, text, position, color, visual)`: the first four are D2C-4 (`visual_tools.pages`), the
fifth is the visual similarity without weights; `kept` is the share of what a reader sees (`losses`). A part with
nothing to compare counts 0. With a recording, `score = 0.8 x static + 0.2 x interactions`; without one,
`score = static`. The score of a site is the mean over the pages of its reference; a missing page counts 0.

If the reference is HTML, the text of both pages comes from their elements. If it is an image, the text of both is read
from their images, and text read from our page counts only if its elements contain and paint that text: words that are
part of a picture are not text, whatever text an element places over them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.video2web.ink_attribution import find_text_ink
from apps.video2web.layout.reading import PageText, read_page, read_page_text
from apps.video2web.losses import LostContent, PageWord, SeenPage, find_losses, words_of_lines
from apps.video2web.pixels import Mask, RgbImage
from apps.video2web.render import PageBox, Rendering
from apps.video2web.replay import Replay, score_replays
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import TextLine
from visual_tools.pages.similarity import VisualSimilarity, visual_similarity
from visual_tools.pages.text_blocks import BlockScores, TextBlock, match_blocks, read_blocks

INTERACTIONS_SHARE = 0.2  # weight of the interactions in the score; documented in docs/web.md, "The score"
PARTS = ("block_match", "text", "position", "color", "visual", "kept", "layout")
TEXT_PARTS = PARTS[:4]
"""Parts of the score of a page, named as in `PageScore.to_json`."""

# These limits decide whether text on our page is real text or part of a picture. Higher values reject more text that
# the OCR misread or cropped, lower ones accept text placed over a picture of it. They are checked by the pages of
# tests/apps/video2web/test_score.py (a page whose image is its background scores below 0.25).
_MIN_COVERED = 0.5  # share of the smaller box that two boxes must share to be at the same position
_MIN_WRITTEN = 0.6  # share of a line's characters that the page's elements must contain
_MIN_RUN = 3  # characters; shorter common runs occur by chance
_MIN_HEIGHT = 0.3  # share of a read line that ink must cover in height: boxes of small text are higher
_MIN_TEXTURE = 0.01  # share of edge pixels around a block below which there is no picture to read; saves OCR time
_AROUND_PX, _READ_PX = 24, 120  # search distance around a block, and margin that is read with it for context
_MIN_SAME = 0.8  # like _MIN_WRITTEN, for words near the block instead of at its position: stricter, as they may differ

_MIN_LINE_PX = 32  # straight edges of this length are borders and not strokes of letters
_MIN_THICK_PX = 8.0  # thickness to which a line is widened for its IoU, so that a shift of a pixel still overlaps


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Reference of a page.

    Attributes:
        name: Name of the page.
        image: (H, W, 3) uint8 RGB.
        blocks: Text blocks.
        boxes: Visible elements other than text; None if the reference is an image.
        read: Text read from the image; None if the reference is HTML.
        words: Words, including those that could not be read.
    """

    name: str
    image: RgbImage
    blocks: tuple[TextBlock, ...]
    boxes: tuple[PageBox, ...] | None = None
    read: PageText | None = field(default=None, repr=False)
    words: tuple[PageWord, ...] = field(default=(), repr=False)

    @property
    def is_html(self) -> bool:
        """True if the elements of the reference are known."""
        return self.boxes is not None

    @property
    def seen(self) -> SeenPage:
        """Contents to compare with those of our page."""
        return SeenPage(image=self.image, words=self.words, lines=self.read.lines if self.read else ())


def read_reference(image: RgbImage, name: str = "reference") -> Reference:
    """Make a reference from an image (H, W, 3), whose text is read."""
    read = read_page_text(image)
    unread = [PageWord(text="", box_px=box) for box in read.unread]
    words = (*words_of_lines(read.lines), *unread)
    return Reference(name=name, image=image, blocks=read_blocks(image, read.lines), read=read, words=words)


def rendered_reference(rendering: Rendering, name: str = "reference") -> Reference:
    """Make a reference from a rendered HTML page."""
    words = tuple(word for word in rendering.words if word.is_word)
    return Reference(name=name, image=rendering.image, blocks=own_blocks(rendering), boxes=rendering.boxes, words=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageScore:
    """Score of a page, each part in [0, 1].

    Attributes:
        blocks: The four parts of D2C-4 and the matched blocks.
        visual: Similarity of the images.
        losses: What a reader of our page would miss.
        layout: IoU of the boxes with the reference's boxes; None if the reference is an image.
        problem: Reason why the page could not be scored; then all parts are 0.
        page_blocks: Text blocks found on our page.
    """

    blocks: BlockScores
    visual: VisualSimilarity
    losses: LostContent
    layout: float | None = None
    problem: str = ""
    page_blocks: tuple[TextBlock, ...] = field(default=(), repr=False)

    @property
    def is_text_compared(self) -> bool:
        """True if one of the pages has text."""
        return bool(self.blocks.pairs or any(self.blocks.unmatched))

    @property
    def static(self) -> float:
        """Mean of block match, text, position, colour and visual similarity, times the share kept."""
        texts = 4 * self.blocks.d2c4 if self.is_text_compared else 0.0
        return (self.losses.kept or 0.0) * (texts + self.visual.score) / 5

    def to_json(self) -> dict[str, Any]:
        """Return all parts by name."""
        parts: dict[str, Any] = {
            "score": self.static,
            "block_match": self.blocks.block_match,
            "text": self.blocks.text,
            "position": self.blocks.position,
            "color": self.blocks.color,
            "visual": self.visual.score,
            "kept": self.losses.kept,
            "d2c4": self.blocks.d2c4,
            "structure": self.visual.structure,
            "edges": self.visual.edges,
            "colors": self.visual.colors,
            "layout": self.layout,
        }
        if not self.is_text_compared:
            parts |= dict.fromkeys((*TEXT_PARTS, "d2c4"))
        rounded = {name: None if value is None else round(value, 4) for name, value in parts.items()}
        return rounded | ({"problem": self.problem} if self.problem else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteScore:
    """Score of a site against its reference.

    Attributes:
        pages: Scores of the pages.
        replays: Results of the recorded interactions; empty without a recording.
    """

    pages: tuple[PageScore, ...]
    replays: tuple[Replay, ...] = ()

    @property
    def interactions(self) -> float | None:
        """Mean score of the recorded interactions; None without a recording."""
        return score_replays(self.replays)

    @property
    def losses(self) -> str:
        """What a reader would miss, in a few words; "" without any."""
        states = [
            f"after {each.interaction.name}: {each.losses.summary()}" for each in self.replays if each.losses.summary()
        ]
        return "; ".join([*filter(None, (page.losses.summary() for page in self.pages)), *states])

    def missing(self) -> list[str]:
        """Return as text the missing interactions, and what a reader would miss in the states after the others."""
        absent = [f"interaction: {each.interaction.name}: {each.why}" for each in self.replays if not each.is_present]
        lost = [(each.interaction.name, each.losses.details()) for each in self.replays]
        return absent + [f"interaction: after {name}: {details}" for name, details in lost if details]

    @property
    def score(self) -> float:
        """Overall score."""
        static = sum(page.static for page in self.pages) / len(self.pages)
        if self.interactions is None:
            return static
        return (1 - INTERACTIONS_SHARE) * static + INTERACTIONS_SHARE * self.interactions

    def to_json(self) -> dict[str, Any]:
        """Return the score and its parts."""
        shown = None if self.interactions is None else round(self.interactions, 4)
        return {
            "score": round(self.score, 4),
            "interactions": shown,
            "replays": [
                {
                    "name": each.interaction.name,
                    "is_there": each.is_present,
                    "why": each.why,
                    "lost": each.losses.details(),
                    "score": round(each.score, 3),
                    "duration_s": [each.interaction.duration_s, each.duration_s],
                    "easing": [each.interaction.easing, each.easing],
                }
                for each in self.replays
            ],
            "pages": [page.to_json() for page in self.pages],
        }


def score_page(reference: Reference, ours: Rendering) -> PageScore:
    """Compare a page with its reference.

    Args:
        reference: Expected page.
        ours: Our page, rendered with its blocks.
    """
    own, read = own_blocks(ours), None
    if reference.is_html:
        page_blocks, words = own, _words_of(own, ours)
    else:
        read = read_page_text(ours.image)
        lines = list(_written_lines(ours, read.lines, own))
        page_blocks = tuple(block for line, _ in lines for block in read_blocks(ours.image, [line]))
        words = [word for line, text in lines for word in words_of_lines([line]) if _is_said(word.text, text)]
        words += [word for word in _words_of(own, ours) if not word.is_readable]
    read_lines = read.lines if read else ()
    seen = SeenPage(
        image=ours.image,
        words=words,
        lines=read_lines,
        ink=[word.box_px for word in (*ours.words, *words_of_lines(read_lines)) if word.is_word],
        controls=[_box_px(box) for box in ours.boxes if box.kind == "field"],
    )
    return PageScore(
        blocks=match_blocks(reference.blocks, page_blocks),
        visual=visual_similarity(reference.image, ours.image),
        losses=find_losses(reference.seen, seen),
        layout=None if reference.boxes is None else match_boxes(reference.boxes, ours.boxes),
        page_blocks=page_blocks,
    )


def _words_of(blocks: Sequence[TextBlock], page: Rendering) -> list[PageWord]:
    """Return the words of some of a page's blocks."""
    kept = {id(block) for block in blocks}
    return [word for word in page.words if id(page.blocks[word.block]) in kept]


def _box_px(box: PageBox) -> Box:
    return Box(round(box.left), round(box.top), round(box.left + box.width), round(box.top + box.height))


def no_page(reference: Reference, problem: str) -> PageScore:
    """Return the score of a page that cannot be shown."""
    lost = tuple(block.text for block in reference.blocks)
    return PageScore(
        blocks=BlockScores(block_match=0, text=0, position=0, color=0, num_matched=0, unmatched=(lost, ())),
        visual=VisualSimilarity(structure=0, edges=0, colors=0),
        losses=LostContent(words=reference.words, kept=0.0),
        layout=None if reference.boxes is None else 0.0,
        problem=problem,
    )


def own_blocks(page: Rendering) -> tuple[TextBlock, ...]:
    """Return the blocks of a page except those over a picture of the same words."""
    cv2 = require("cv2", "visual")
    edges = cv2.Canny(cv2.cvtColor(page.bare, cv2.COLOR_RGB2GRAY), 60, 150)
    for shape in ((1, _MIN_LINE_PX), (_MIN_LINE_PX, 1)):  # borders
        edges &= ~cv2.morphologyEx(edges, cv2.MORPH_OPEN, np.ones(shape, np.uint8))
    height = len(edges)
    doubtful = [block for block in page.blocks if _has_texture(edges > 0, block)]
    if not doubtful:
        return page.blocks
    top = max(round(min(block.top for block in doubtful) * height) - _READ_PX, 0)
    bottom = min(round(max(block.top + block.height for block in doubtful) * height) + _READ_PX, height)
    part = page.bare[top:bottom]
    lines = [
        replace(line, top=(line.top * len(part) + top) / height, height=line.height * len(part) / height)
        for line in read_blocks(part, read_page(part))
    ]
    doubled = {id(block) for block in doubtful if _is_in_image(block, lines, page.image.shape)}
    return tuple(block for block in page.blocks if id(block) not in doubled)


def _has_texture(edges: Mask, block: TextBlock) -> bool:
    height, width = edges.shape
    left, top, right, bottom = _around(block, edges.shape)
    part = edges[round(top * height) : round(bottom * height), round(left * width) : round(right * width)]
    return part.size > 0 and float(part.mean()) >= _MIN_TEXTURE


def _around(block: TextBlock, shape: tuple[int, ...]) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of the area around a block, as shares of the page."""
    height, width = shape[:2]
    across, along = _AROUND_PX / width, _AROUND_PX / height
    right, bottom = block.left + block.width + across, block.top + block.height + along
    return max(block.left - across, 0), max(block.top - along, 0), min(right, 1), min(bottom, 1)


def _is_in_image(block: TextBlock, lines: Sequence[TextBlock], shape: tuple[int, ...]) -> bool:
    """Return whether the lines read from a page without its text contain the text of a block there."""
    left, top, right, bottom = _around(block, shape)
    around = left, top, right - left, bottom - top
    under = [
        line
        for line in lines
        if _common_area(block.box, line.box) >= _MIN_COVERED * max(min(block.area, line.area), 1e-9)
    ]
    near = [line for line in lines if _common_area(around, line.box) > 0]
    return (
        _share_said(block.text, " ".join(line.text for line in under)) >= _MIN_WRITTEN
        or _share_said(block.text, " ".join(line.text for line in near)) >= _MIN_SAME
    )


def _share_said(text: str, other: str) -> float:
    """Return the share of a text that occurs in another one, in runs of some characters; spaces are ignored."""
    chars, other_chars = "".join(text.split()), "".join(other.split())
    runs = SequenceMatcher(None, chars, other_chars, autojunk=False).get_matching_blocks()
    known = sum(run.size for run in runs if run.size >= min(_MIN_RUN, len(chars)))
    return known / max(len(chars), 1)


def _written_lines(
    page: Rendering, lines: Sequence[TextLine], own: Sequence[TextBlock]
) -> Iterator[tuple[TextLine, str]]:
    """Yield the lines read from the image of a page that its elements contain, with the text of these elements."""
    changed = find_text_ink(page.image, page.bare)
    for line in sorted(lines, key=lambda line: (line.box_px.top, line.box_px.left)):
        for block in read_blocks(page.image, [line]):
            text = _text_written(block, page, own) if _is_inked(block, changed) else ""
            if _share_said(block.text, text) >= _MIN_WRITTEN:
                yield line, text


def _text_written(line: TextBlock, page: Rendering, own: Sequence[TextBlock]) -> str:
    """Return the text of the elements at the position of a line: of a field, or of the blocks that it overlaps."""
    height, width = page.image.shape[:2]
    for box in page.boxes:
        if box.kind == "field" and _is_said(line.text, box.text.lower()):
            edges = (box.left / width, box.top / height, box.width / width, box.height / height)
            if _common_area(line.box, edges) >= _MIN_COVERED * max(line.area, 1e-9):
                return box.text.lower()
    return "".join(block.text for block in own if _common_area(line.box, block.box) > 0)


def _is_said(text: str, other: str) -> bool:
    return _share_said(text, other) >= _MIN_WRITTEN


def _is_inked(line: TextBlock, changed: Mask) -> bool:
    """Return whether hiding the text changes the page over most of a line's width and enough of its height."""
    height, width = changed.shape
    rows = slice(round(line.top * height), round((line.top + line.height) * height) + 1)
    part = changed[rows, round(line.left * width) : round((line.left + line.width) * width) + 1]
    if not part.any():
        return False
    across, along = (np.flatnonzero(part.any(axis=axis)) for axis in (0, 1))
    is_wide = np.ptp(across) + 1 >= _MIN_COVERED * part.shape[1]
    return bool(is_wide and np.ptp(along) + 1 >= _MIN_HEIGHT * part.shape[0])


def _common_area(box: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> float:
    width = min(box[0] + box[2], other[0] + other[2]) - max(box[0], other[0])
    height = min(box[1] + box[3], other[1] + other[3]) - max(box[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def match_boxes(reference: Sequence[PageBox], page: Sequence[PageBox]) -> float:
    """Return how well two sets of boxes coincide: by IoU, matched one to one within a kind for the largest sum.

    Adjoining boxes of one style without a line between them are one box, since the boundary is invisible:
    a striped row is the same whether its row or its cells are painted.

    Returns:
        Twice the sum of the IoU over the number of all boxes.
    """
    first, second = join_boxes(reference), join_boxes(page)
    if not first and not second:
        return 1.0
    if not first or not second:
        return 0.0
    overlaps = _overlaps(_edges(first), _edges(second))
    kinds = np.array([box.kind for box in first])[:, None] == np.array([box.kind for box in second])[None, :]
    overlaps = np.where(kinds, overlaps, 0.0)
    optimize = require("scipy.optimize", "visual")
    rows, columns = optimize.linear_sum_assignment(-overlaps)
    return float(2 * overlaps[rows, columns].sum() / (len(first) + len(second)))


def join_boxes(boxes: Sequence[PageBox]) -> tuple[PageBox, ...]:
    """Join boxes that look like one: first horizontally, then vertically."""
    joined = list(boxes)
    for is_across in (True, False):
        joined = _join_along(joined, is_across)
    return tuple(joined)


def _join_along(boxes: Sequence[PageBox], is_across: bool) -> list[PageBox]:
    ordered = sorted(boxes, key=lambda box: (box.left, box.top) if is_across else (box.top, box.left))
    kept: list[PageBox] = []
    open_ends: dict[tuple[str, str, int, int], int] = {}
    for box in ordered:
        sides = (box.look.split("|") + [""] * 5)[:5]
        between = (sides[2], sides[4]) if is_across else (sides[1], sides[3])
        start, size = (box.top, box.height) if is_across else (box.left, box.width)
        key = box.kind, box.look, round(start), round(size)
        if box.kind not in ("box", "rule") or not box.look or any(between):
            kept.append(box)
            continue
        before = kept[open_ends[key]] if key in open_ends else None
        if before is not None and _do_adjoin(before, box, is_across):
            kept[open_ends[key]] = _joined(before, box)
        else:
            open_ends[key] = len(kept)
            kept.append(box)
    return kept


def _do_adjoin(box: PageBox, other: PageBox, is_across: bool) -> bool:
    gap = other.left - box.left - box.width if is_across else other.top - box.top - box.height
    return abs(gap) <= 1


def _joined(box: PageBox, other: PageBox) -> PageBox:
    left, top = min(box.left, other.left), min(box.top, other.top)
    right, bottom = (
        max(box.left + box.width, other.left + other.width),
        max(box.top + box.height, other.top + other.height),
    )
    return replace(box, left=left, top=top, width=right - left, height=bottom - top)


def _edges(boxes: Sequence[PageBox]) -> NDArray[np.float64]:
    """Return left, top, right, bottom (N, 4); lines are widened so that a shift of a pixel still overlaps."""
    edges = []
    for box in boxes:
        more = [max(_MIN_THICK_PX - side, 0) / 2 if box.kind == "rule" else 0.0 for side in (box.width, box.height)]
        right, bottom = box.left + box.width + more[0], box.top + box.height + more[1]
        edges.append([box.left - more[0], box.top - more[1], right, bottom])
    return np.array(edges, np.float64)


def _overlaps(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the IoU of each pair of boxes, (N, M), from edges (N, 4) and (M, 4)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    areas = [(edges[:, 2:] - edges[:, :2]).prod(axis=1) for edges in (first, second)]
    overlaps: NDArray[np.float64] = common / np.maximum(areas[0][:, None] + areas[1][None, :] - common, 1e-9)
    return overlaps
