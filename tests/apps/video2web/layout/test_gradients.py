"""Gradients behind text and cards: found as what they are, painted again by a real browser."""

from pathlib import Path

import numpy as np
import pytest

from apps.video2web.layout.gradients import Gradient, find_gradient
from apps.video2web.layout.markup import write_markup
from apps.video2web.layout.primitives import find_pieces
from apps.video2web.layout.tree import build_tree
from apps.video2web.render import Renderer, SiteFiles, SitePages
from apps.video2web.site_files import write_site
from visual_tools.box import Box
from visual_tools.pages.similarity import visual_similarity
from visual_tools.pages.text_blocks import match_blocks

pytestmark = pytest.mark.asyncio(loop_scope="session")
HEAD = "<!doctype html><style>body{margin:0;font-family:sans-serif}"
LOGIN = (
    HEAD
    + """ body{background:linear-gradient(180deg,#4e73df 10%,#224abe)} html{height:100%}
.card{margin:60px auto;width:560px;padding:48px;background:#fff;box-shadow:0 16px 48px rgba(0,0,0,.18)}
button{background:#c33;color:#fff;border:0;padding:12px 40px;font-size:16px}</style>
<div class=card><h1>Welcome back</h1><p>Sign in to see your orders and your plants.</p><button>Sign in</button></div>"""
)


def _paint_page(gradient: str) -> SitePages:
    return SitePages({"index.html": f"{HEAD} html{{height:100%;background:{gradient}}}</style>"})


@pytest.mark.parametrize(
    ("gradient", "expected"),
    [
        ("linear-gradient(180deg, #4e73df, #224abe)", Gradient((78, 115, 223), (34, 74, 190), 180)),
        ("linear-gradient(to right, #ff8800, #2040ff)", Gradient((255, 136, 0), (32, 64, 255), 90)),
        ("linear-gradient(135deg, #102030, #80c0ff)", Gradient((16, 32, 48), (128, 192, 255), 135)),
        ("linear-gradient(to top, #ffffff, #3060a0)", Gradient((48, 96, 160), (255, 255, 255), 180)),
    ],
)
@pytest.mark.long
async def test_a_gradient_is_named_as_css_paints_it(renderer: Renderer, gradient: str, expected: Gradient) -> None:
    image = (await renderer.render(_paint_page(gradient))).image
    found = find_gradient(image, Box(0, 0, image.shape[1], image.shape[0]))
    assert found is not None
    assert found.angle_deg == expected.angle_deg
    for color, wanted in ((found.start, expected.start), (found.end, expected.end)):
        assert max(abs(a - b) for a, b in zip(color, wanted, strict=True)) <= 2


@pytest.mark.long
async def test_cards_and_text_on_a_gradient_are_no_image(renderer: Renderer, tmp_path: Path) -> None:
    reference = await renderer.render(SitePages({"index.html": LOGIN}))
    pieces = find_pieces(reference.image)
    assert pieces.gradient is not None
    assert [piece.kind for piece in pieces.leaves if piece.kind == "image"] == []
    markup = write_markup(build_tree(pieces), reference.image)
    write_site(markup.files(), tmp_path)
    ours = await renderer.render(SiteFiles(tmp_path))
    scores = match_blocks(reference.blocks, ours.blocks)
    assert min(scores.block_match, scores.text) > 0.95
    assert visual_similarity(reference.image, ours.image).score > 0.9
    assert ours.image.shape == reference.image.shape


@pytest.mark.parametrize("kind", ["flat", "noise", "two halves"])
async def test_what_does_not_change_evenly_is_no_gradient(kind: str) -> None:
    image = np.full((200, 300, 3), 240, np.uint8)
    if kind == "noise":
        image = np.random.default_rng(0).integers(0, 256, image.shape).astype(np.uint8)
    elif kind == "two halves":
        image[:, 150:] = 40
    assert find_gradient(image, Box(0, 0, 300, 200)) is None


@pytest.mark.long
async def test_a_part_of_two_pixels_is_no_gradient() -> None:
    assert find_gradient(np.zeros((1, 2, 3), np.uint8), Box(0, 0, 2, 1)) is None
