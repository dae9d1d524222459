"""The parts of a page and where they stand to each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from apps.video2web.layout.pieces import PLAIN, Look, Piece
from apps.video2web.layout.shades import Rgb
from visual_tools.box import Box

NodeKind = Literal["column", "row", "grid", "table", "cells", "stack", "text", "image", "rule", "toggle"]

MIN_COLUMN_GAP_PX = 5
SAME_EDGE_PX = 3
_CORE = 0.22
"""Line boxes of neighbours may overlap by this share of their height and are still above each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a page.

    Attributes:
        kind: How its children stand, or which leaf it is.
        box_px: On the page.
        children: Left to right or top to bottom; of a grid or a table row by row.
        look: How it is painted.
        lines: Lines of a text.
        is_centered: Whether the lines of a text stand centred.
        piece: What an image, a rule or a toggle was found as.
        columns: Left and right of each column (grid, table, cells: a table of framed cells).
        rules: Lines between the rows of a table.
        row_fills: What a table's rows are painted with, from which row of pixels to which; empty without stripes.
    """

    kind: NodeKind
    box_px: Box
    children: "tuple[Node, ...]" = ()
    look: Look = PLAIN
    lines: tuple[Piece, ...] = ()
    is_centered: bool = False
    piece: Piece | None = None
    columns: tuple[tuple[int, int], ...] = ()
    rules: tuple[Piece, ...] = ()
    row_fills: tuple[tuple[Rgb | None, int, int], ...] = ()


def union(nodes: Sequence[Node]) -> Box:
    """The box around nodes."""
    box = nodes[0].box_px
    for node in nodes[1:]:
        box = box.union(node.box_px)
    return box


def core(node: Node) -> tuple[int, int]:
    """Top and bottom of a node without what its line boxes may share with those above and below."""
    box = node.box_px
    margin = round(_CORE * (box.height / max(len(node.lines), 1))) if node.kind == "text" else min(1, box.height // 4)
    return box.top + margin, max(box.bottom - margin, box.top + margin + 1)


def split(nodes: Sequence[Node], extent: Callable[[Node], tuple[int, int]], min_gap: int) -> list[list[Node]]:
    """Nodes in groups between which there is a gap; `extent` gives the ends of each.

    Args:
        nodes: In any order.
        extent: From where to where each reaches.
        min_gap: So wide at least, pixels; 0: they touch at most.
    """
    groups: list[list[Node]] = []
    end = 0
    for node in sorted(nodes, key=lambda node: (extent(node), node.box_px)):
        first, last = extent(node)
        if groups and first < end + min_gap:
            groups[-1].append(node)
            end = max(end, last)
        else:
            groups.append([node])
            end = last
    return groups
