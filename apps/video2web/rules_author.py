"""Author without a model: a page from its image by rules, then corrections of its texts by comparison."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from apps.video2web.layout.markup import write_markup
from apps.video2web.layout.primitives import PagePieces, Primitive, find_pieces
from apps.video2web.layout.tree import build_tree
from apps.video2web.pixels import RgbImage
from apps.video2web.rounds import BuildRequest, Proposal, Round
from apps.video2web.rules_interactions import attach, write_interactions
from visual_tools.box import Box
from visual_tools.pages.text_blocks import TextBlock

_MAX_STRETCH = 0.3
_MAX_COVERED = 0.2  # share of a lost mark that a word may cover if the mark is embedded
_HEIGHT_CSS = "\nbody {{\n  box-sizing: border-box;\n  min-height: {height}px;\n}}\n"
_STEPS = ("sizes", "places", "colours")
"""Kinds of corrections, one per round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextCorrection:
    """Correction of a text: offset in pixels, factor of its font size, offset of its colour in levels."""

    right_px: float = 0.0
    down_px: float = 0.0
    scale: float = 1.0
    color: tuple[float, float, float] = (0.0, 0.0, 0.0)


class LiteralAuthor:
    """Writes a page from its image by rules, then corrects it.

    Each round embeds the marks and pictures that a reader would miss as pictures, and corrects one of size, position
    and colour of the texts.
    """

    name = "literal"

    def __init__(self) -> None:
        self._pieces: dict[int, PagePieces] = {}
        self._further: tuple[dict[str, bytes], dict[str, str]] | None = None

    async def draft(self, request: BuildRequest) -> Proposal:
        """Write the page as parsed by the rules."""
        files = await asyncio.to_thread(self._files, request, {}, {})
        return Proposal(files=files, summary="written by rules from the image")

    async def revise(self, request: BuildRequest, best: Round, last: Round, folder: Path) -> Proposal:
        """Embed what is lost, and correct the texts that differ, one kind of correction per round."""
        memory = dict(best.proposal.memory)
        done = int(last.proposal.memory.get("step", 0))
        kind = _STEPS[done % len(_STEPS)]
        corrections = await asyncio.to_thread(self._find_corrections, request, best, kind, memory.get("mends", {}))
        count = sum(len(page) for page in corrections.values())
        embedded = {str(page): list(boxes) for page, boxes in memory.get("embedded", {}).items()}
        for page, score in enumerate(best.score.pages):
            lost = (*score.losses.marks, *score.losses.images, *score.losses.controls)
            embedded[str(page)] = [*embedded.get(str(page), []), *(list(astuple(box)) for box in lost)]
        files = await asyncio.to_thread(self._files, request, corrections, embedded, is_full=True)
        summary = f"height of the page and {kind} of texts fitted by rules ({count} corrections in all)"
        if num_embedded := sum(map(len, embedded.values())):
            summary += f"; {num_embedded} lost marks and pictures embedded"
        return Proposal(
            files=files, summary=summary, memory={"step": done + 1, "mends": corrections, "embedded": embedded}
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _pieces_of(self, request: BuildRequest, page: int) -> PagePieces:
        if page not in self._pieces:
            reference = request.pages[page]
            self._pieces[page] = find_pieces(reference.image, reference.read.lines if reference.read else None)
        return self._pieces[page]

    def _files(
        self,
        request: BuildRequest,
        corrections: Mapping[str, Mapping[str, Any]],
        embedded: Mapping[str, Sequence[Sequence[int]]],
        *,
        is_full: bool = False,
    ) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for page, reference in enumerate(request.pages):
            pieces = _correct_primitives(self._pieces_of(request, page), corrections.get(str(page), {}))
            pieces = _embed(pieces, [Box(*sides) for sides in embedded.get(str(page), ())])
            markup = write_markup(build_tree(pieces), reference.image)
            if is_full:
                height = _HEIGHT_CSS.format(height=reference.image.shape[0])
                markup = replace(markup, css=markup.css + height)
            files |= markup.files(f"page-{page + 1}" if page else "")
        if self._further is None:
            self._further = write_interactions(request.interactions, request.names, _write_page)
        further, sections = self._further
        files |= {name: attach(files[name], section) for name, section in sections.items()}
        return files | further

    def _find_corrections(
        self, request: BuildRequest, best: Round, kind: str, known: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Return the corrections by page and piece number: the best round's plus new ones."""
        corrections: dict[str, dict[str, Any]] = {
            str(page): dict(known.get(str(page), {})) for page in range(len(request.pages))
        }
        for page, (reference, score) in enumerate(zip(request.pages, best.score.pages, strict=True)):
            rendering = best.renderings[page]
            if rendering is None:
                continue
            pieces = self._pieces_of(request, page)
            sizes = _size(reference.image), _size(rendering.image)
            for number, piece in enumerate(pieces.leaves):
                pair = _pair_of(piece, score.blocks.pairs, sizes[0]) if piece.kind == "text" else None
                if pair is None:
                    continue
                old = _read_correction(corrections[str(page)].get(str(number)))
                new = _correction(kind, *pair, sizes)
                if new != _TextCorrection():
                    corrections[str(page)][str(number)] = _added(old, new)
        return corrections


def _write_page(image: RgbImage, name: str) -> dict[str, bytes]:
    return write_markup(build_tree(find_pieces(image)), image).files(name)


def _correct_primitives(pieces: PagePieces, corrections: Mapping[str, Any]) -> PagePieces:
    leaves = list(pieces.leaves)
    for number, value in corrections.items():
        leaves[int(number)] = _correct_primitive(leaves[int(number)], _read_correction(value))
    return replace(pieces, leaves=tuple(leaves))


def _embed(pieces: PagePieces, boxes: Sequence[Box]) -> PagePieces:
    """Put pictures in place of everything within some boxes; boxes that overlap words are left out."""
    words = [leaf.box_px for leaf in pieces.leaves if leaf.kind == "text" and len(leaf.text) > 1]
    used = [box for box in boxes if not any(word.intersection(box) > _MAX_COVERED * box.area for word in words)]

    def is_replaced(piece: Primitive) -> bool:
        return any(box.intersection(piece.box_px) > (1 - _MAX_COVERED) * piece.box_px.area for box in used)

    return replace(
        pieces,
        frames=tuple(frame for frame in pieces.frames if not is_replaced(frame)),
        leaves=(
            *(leaf for leaf in pieces.leaves if not is_replaced(leaf)),
            *(Primitive(kind="image", box_px=box) for box in used),
        ),
    )


def _correct_primitive(piece: Primitive, correction: _TextCorrection) -> Primitive:
    box, font = piece.box_px, piece.font
    left, top = round(box.left + correction.right_px), round(box.top + correction.down_px)
    width, height = max(round(box.width * correction.scale), 1), max(round(box.height * correction.scale), 1)
    top += (box.height - height) // 2
    moved = Box(max(left, 0), max(top, 0), max(left, 0) + width, max(top, 0) + height)
    red, green, blue = (
        min(max(round(level + off), 0), 255) for level, off in zip(piece.rgb, correction.color, strict=True)
    )
    fitted = replace(font, size_px=round(font.size_px * correction.scale, 1)) if font is not None else None
    return replace(piece, box_px=moved, font=fitted, rgb=(red, green, blue))


def _size(image: RgbImage) -> tuple[int, int]:
    return image.shape[1], image.shape[0]


def _pair_of(
    piece: Primitive, pairs: Sequence[tuple[TextBlock, TextBlock]], size_px: tuple[int, int]
) -> tuple[TextBlock, TextBlock] | None:
    """Return the matched blocks in which a piece is the only text."""
    x, y = piece.box_px.center
    for theirs, page in pairs:
        is_here = (
            0 <= x / size_px[0] - theirs.left <= theirs.width and 0 <= y / size_px[1] - theirs.top <= theirs.height
        )
        if is_here and len(theirs.text) <= len(piece.text) + 2:
            return theirs, page
    return None


def _correction(
    kind: str, theirs: TextBlock, page: TextBlock, sizes: tuple[tuple[int, int], tuple[int, int]]
) -> _TextCorrection:
    (width, height), (our_width, our_height) = sizes
    match kind:
        case "sizes":
            scale = theirs.width * width / max(page.width * our_width, 1)
            is_off = 0.01 < abs(scale - 1) < _MAX_STRETCH and theirs.text == page.text
            return _TextCorrection(scale=scale) if is_off else _TextCorrection()
        case "places":
            right = theirs.left * width - page.left * our_width
            down = (theirs.top + theirs.height / 2) * height - (page.top + page.height / 2) * our_height
            return (
                _TextCorrection(right_px=right, down_px=down) if max(abs(right), abs(down)) >= 1 else _TextCorrection()
            )
        case _:
            red, green, blue = (color - ours for color, ours in zip(theirs.rgb, page.rgb, strict=True))
            return (
                _TextCorrection(color=(red, green, blue))
                if max(map(abs, (red, green, blue))) >= 2
                else _TextCorrection()
            )


def _read_correction(value: Any) -> _TextCorrection:
    if value is None:
        return _TextCorrection()
    right, down, scale, red, green, blue = (float(number) for number in value)
    return _TextCorrection(right_px=right, down_px=down, scale=scale, color=(red, green, blue))


def _added(old: _TextCorrection, new: _TextCorrection) -> list[float]:
    colors = [old_color + ours for old_color, ours in zip(old.color, new.color, strict=True)]
    values = [old.right_px + new.right_px, old.down_px + new.down_px, old.scale * new.scale, *colors]
    return [round(value, 3) for value in values]
