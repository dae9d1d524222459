"""Parts of a page and their relative positions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from apps.video2web.layout.gradients import Rgb
from apps.video2web.layout.primitives import PLAIN, BoxStyle, Primitive
from visual_tools.box import Box

NodeKind = Literal["column", "row", "grid", "table", "cells", "stack", "text", "image", "rule", "toggle"]

MIN_COLUMN_GAP_PX = 5
SAME_EDGE_PX = 3
_CORE = 0.22
"""Share of their height by which the line boxes of vertical neighbours may overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Part of a page.

    Attributes:
        kind: Arrangement of the children, or kind of leaf.
        box_px: Box on the page.
        children: Children from left to right or top to bottom; row by row for a grid or table.
        look: Visual style.
        lines: Lines of a text.
        is_centered: True if the lines of a text are centred.
        piece: Source piece of an image, a rule or a toggle.
        columns: Left and right edge of each column (grid, table, cells: a table of framed cells).
        rules: Lines between the rows of a table.
        row_fills: Fill of each table row with its first and last pixel row; empty without stripes.
    """

    kind: NodeKind
    box_px: Box
    children: "tuple[Node, ...]" = ()
    look: BoxStyle = PLAIN
    lines: tuple[Primitive, ...] = ()
    is_centered: bool = False
    piece: Primitive | None = None
    columns: tuple[tuple[int, int], ...] = ()
    rules: tuple[Primitive, ...] = ()
    row_fills: tuple[tuple[Rgb | None, int, int], ...] = ()


def union(nodes: Sequence[Node]) -> Box:
    """Return the bounding box of nodes."""
    box = nodes[0].box_px
    for node in nodes[1:]:
        box = box.union(node.box_px)
    return box


def core(node: Node) -> tuple[int, int]:
    """Return the top and bottom of a node without the margins that line boxes of neighbours may overlap."""
    box = node.box_px
    margin = round(_CORE * (box.height / max(len(node.lines), 1))) if node.kind == "text" else min(1, box.height // 4)
    return box.top + margin, max(box.bottom - margin, box.top + margin + 1)


def split(nodes: Sequence[Node], extent: Callable[[Node], tuple[int, int]], min_gap: int) -> list[list[Node]]:
    """Split nodes into groups separated by gaps; `extent` returns the two ends of a node.

    Args:
        nodes: Nodes in any order.
        extent: Extent of a node along the axis.
        min_gap: Minimum width of a gap in pixels; 0: groups may touch.
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
