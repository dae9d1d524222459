import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tables import table
from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.pages.text_blocks import MAX_BLOCKS, TextBlock, make_block, match_blocks, read_blocks

PUBLISHED = json.loads(Path(__file__).with_name("design2code.json").read_text())["cases"]


def _blocks(rows: list[list]) -> list[TextBlock]:
    return [
        TextBlock(text=text, left=left, top=top, width=width, height=height, rgb=(red, green, blue))
        for text, left, top, width, height, red, green, blue in rows
    ]


def _block(text: str, left: float = 0.1, top: float = 0.1) -> TextBlock:
    return TextBlock(text=text, left=left, top=top, width=0.2, height=0.05, rgb=(0, 0, 0))


@table("case", PUBLISHED)
@pytest.mark.long
def test_agrees_with_the_published_code(case: dict) -> None:
    scores = match_blocks(_blocks(case["reference"]), _blocks(case["page"]))
    found = [scores.block_match, scores.text, scores.position, scores.color, scores.num_matched]
    # the last digits of colours differ: the published code rounds the matrix of sRGB
    assert found == pytest.approx(case["published"] or [0, 0, 0, 0, 0], abs=3e-4)


def test_equal_pages_score_one_and_an_empty_page_nothing() -> None:
    blocks = _blocks(PUBLISHED[1]["reference"])
    same = match_blocks(blocks, blocks)
    assert (same.d2c4, same.unmatched) == (pytest.approx(1.0), ((), ()))
    empty = match_blocks(blocks, [])
    assert (empty.d2c4, empty.unmatched[0]) == (0.0, tuple(block.text for block in blocks))
    assert match_blocks([], []).d2c4 == 1.0
    assert match_blocks([], blocks).d2c4 == 0.0


def test_a_line_that_was_split_is_joined_again() -> None:
    reference = [_block("release notes for september", 0.1, 0.1), _block("contact", 0.1, 0.8)]
    page = [_block("release notes", 0.1, 0.1), _block("for september", 0.3, 0.1), _block("contact", 0.1, 0.8)]
    scores = match_blocks(reference, page)
    assert (scores.text, scores.num_matched) == (1.0, 2)


def test_moved_and_recoloured_blocks_lose_that_part_alone() -> None:
    reference = [_block("send the order", 0.1, 0.1)]
    moved = match_blocks(reference, [_block("send the order", 0.35, 0.2)])
    assert moved.position == pytest.approx(0.75)
    assert (moved.text, moved.color, moved.block_match) == (1.0, 1.0, 1.0)
    white = match_blocks(reference, [replace(reference[0], rgb=(255, 255, 255))])
    assert white.color == pytest.approx(0.0, abs=1e-3)
    assert white.position == 1.0


def test_many_blocks_are_bounded() -> None:
    many = [_block(f"row number {index} of the list", 0.1, index / 2000) for index in range(MAX_BLOCKS * 2)]
    assert match_blocks(many, many[:3]).num_matched == 3


def test_blocks_of_an_image_are_its_lines() -> None:
    canvas = Canvas(400, 120)
    canvas.text(20, 20, "Total price", size=20, colour="#c80000")
    canvas.text(20, 70, "Shipping", size=20)
    blocks = read_blocks(canvas.array)
    assert [block.text for block in blocks] == ["total price", "shipping"]
    assert blocks[0].left == pytest.approx(0.05, abs=0.02)
    assert blocks[0].rgb[0] > 150 > 60 > blocks[0].rgb[1]
    assert read_blocks(np.full((50, 50, 3), 255, np.uint8)) == ()


def test_an_empty_box_is_refused() -> None:
    with pytest.raises(ImageError, match="empty box"):
        make_block("x", Box(4, 4, 4, 9), np.zeros((20, 20, 3), np.uint8))
