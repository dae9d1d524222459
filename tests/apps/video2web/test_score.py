"""Scores of pages: what is alike is worth 1, what only looks alike is not."""

import io

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from PIL import Image

from apps.video2web.compare import difference_image, find_differences, side_by_side, worst_regions
from apps.video2web.render import PageBox, Renderer, Rendering, SitePages
from apps.video2web.score import (
    Reference,
    match_boxes,
    no_page,
    own_blocks,
    read_reference,
    rendered_reference,
    score_page,
)
from visual_tools.box import Box

pytestmark = pytest.mark.asyncio(loop_scope="session")
SIZE = (640, 400)
STYLE = """<style>body{margin:0;font:16px sans-serif;color:#222}header{background:#234;color:#fff;padding:12px}
h1{margin:20px}p{margin:20px;width:400px}.box{margin:20px;width:200px;height:60px;background:#c33}</style>"""
PAGE = f"""<!doctype html>{STYLE}<header>Fern and Company</header><h1>Plants for your flat</h1>
<p>We grow two hundred kinds of house plants and send them in a box.</p>
<input placeholder="Your city" style="margin:20px"><div class=box></div>"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def original(renderer: Renderer) -> Rendering:
    return await renderer.render(SitePages({"index.html": PAGE}), SIZE)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reference(original: Rendering) -> Reference:
    return read_reference(original.image, "page.png")


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.long
async def test_the_original_is_worth_one(original: Rendering, reference: Reference) -> None:
    score = score_page(reference, original)
    assert score.static == pytest.approx(1.0, abs=1e-6)
    assert {block.text for block in score.page_blocks} == {block.text for block in reference.blocks}
    by_elements = score_page(rendered_reference(original), original)
    assert by_elements.static == pytest.approx(1.0, abs=1e-6)
    assert by_elements.layout == pytest.approx(1.0)
    assert find_differences(reference, original, score).lines() == ["page.png: no difference is found"]


@pytest.mark.parametrize(
    "cheat",
    [
        "<style>body{margin:0;background:url(page.png)}</style>",
        "<style>body{margin:0}img{display:block}</style><img src=page.png alt='Fern and Company Plants for your flat'>",
        "<style>body{margin:0;background:url(page.png)}p{margin:0}</style><p>x</p><p style='margin-top:330px'>y</p>",
        "<style>body{margin:0}input{border:0;width:640px;height:400px;background:url(page.png)}</style><input>",
    ],
)
@pytest.mark.long
async def test_the_image_itself_as_the_page_does_not_win(
    renderer: Renderer, original: Rendering, reference: Reference, cheat: str
) -> None:
    pages = SitePages({"index.html": f"<!doctype html>{cheat}", "page.png": _png(original.image)})
    page = await renderer.render(pages, SIZE)
    for known in (reference, rendered_reference(original)):
        score = score_page(known, page)
        assert score.visual.score > 0.95
        assert score.static < 0.25


_SPELLED = (
    "<style>body{margin:0;font:16px sans-serif;background:url(page.png);height:400px}header{padding:12px}"
    "h1{margin:20px}p{margin:20px;width:400px}"
)
_WORDS = (
    "</style><header>Fern and Company</header><h1>Plants for your flat</h1>"
    "<p>We grow two hundred kinds of house plants and send them in a box.</p>"
)
_OVER = "<img src=page.png style='position:absolute;left:0;top:0'>"
_NODE_VALUE = (
    "Object.defineProperty(Node.prototype, 'nodeValue', {get() { return 'we grow two hundred kinds of house plants' }})"
)
OVER_THE_IMAGE = {
    "transparent": f"{_SPELLED}body{{color:transparent}}{_WORDS}",
    "filled with nothing": f"{_SPELLED}body{{color:#222;-webkit-text-fill-color:transparent}}{_WORDS}",
    "nearly transparent": f"{_SPELLED}body{{color:rgb(0 0 0 / 4%)}}{_WORDS}",
    "opacity": f"{_SPELLED}header,h1,p{{opacity:0}}{_WORDS}",
    "opacity of all": f"<style>html{{background:url(page.png)}}{_SPELLED[7:]}body{{background:none;opacity:0}}{_WORDS}",
    "covered": f"{_SPELLED}{_WORDS}{_OVER}",
    "clipped": f"{_SPELLED}header,h1,p{{clip-path:inset(50%)}}{_WORDS}",
    "tiny": f"{_SPELLED}header,h1,p{{font-size:1px}}{_WORDS}",
    "small, on its own words": f"{_SPELLED}header,h1,p{{font-size:7px;color:#222;padding-top:4px}}{_WORDS}",
    "once more in its colour": f"{_SPELLED}body{{color:#222}}header{{color:#fff}}{_WORDS}",
    "filtered": f"{_SPELLED}header,h1,p{{filter:opacity(0)}}{_WORDS}",
    "shown when painted": f"{_SPELLED}body{{color:transparent}}body:has([style]){{background:#fff}}{_WORDS}",
    "shown by a script": f"{_SPELLED}body{{color:transparent}}{_WORDS}<script>new MutationObserver(() => "
    "{document.body.style.background = '#fff'}).observe(document, {attributes: true, subtree: true, childList: true});"
    "setTimeout(() => {document.body.style.cssText = 'background:#fff;color:#222'}, 3000)</script>",
    "a script that lies": "<style>body{margin:0;background:url(page.png);height:400px}p{margin:380px 0 0 2px}</style>"
    f"<p>..</p><script>{_NODE_VALUE}</script>",
    "fields": f"{_SPELLED}input{{position:absolute;left:20px;width:400px;height:40px;border:0;background:none;"
    "color:transparent;font-size:16px}</style><input style='top:0' value='Fern and Company'>"
    "<input style='top:60px' value='Plants for your flat'>",
}


@pytest.mark.parametrize("name", OVER_THE_IMAGE)
@pytest.mark.long
async def test_words_that_nobody_sees_over_the_image_do_not_count(
    renderer: Renderer, original: Rendering, reference: Reference, name: str
) -> None:
    html = f"<!doctype html>{OVER_THE_IMAGE[name]}"
    page = await renderer.render(SitePages({"index.html": html, "page.png": _png(original.image)}), SIZE)
    for known in (reference, rendered_reference(original)):
        score = score_page(known, page)
        assert score.static < 0.35, (known.is_html, score.page_blocks)


@pytest.mark.long
async def test_words_on_a_picture_without_words_count(renderer: Renderer) -> None:
    rng = np.random.default_rng(1)
    photo = np.kron(rng.integers(40, 110, (20, 32, 3)), np.ones((20, 20, 1))).astype(np.uint8)
    html = "<!doctype html><style>body{margin:0;background:url(photo.png);color:#fff;font:bold 32px sans-serif}</style>"
    site = SitePages({"index.html": f"{html}<p>Plants for your flat</p>", "photo.png": _png(photo)})
    page = await renderer.render(site, SIZE)
    assert [block.text for block in own_blocks(page)] == ["plants for your flat"]
    assert score_page(read_reference(page.image), page).static > 0.99


@pytest.mark.long
async def test_less_alike_is_worth_less(renderer: Renderer, reference: Reference) -> None:
    async def score_of(html: str) -> float:
        page = await renderer.render(SitePages({"index.html": html}), SIZE)
        return score_page(reference, page).static

    moved = await score_of(PAGE.replace("<h1>", "<h1 style='margin-left:90px'>"))
    shuffled = await score_of(PAGE.replace("<header>", "<header style='position:absolute;bottom:0'>"))
    empty = await score_of("<!doctype html>")
    assert 1 > moved > shuffled > empty
    assert empty < 0.2


@pytest.mark.long
async def test_what_differs_is_told_with_its_place(renderer: Renderer, reference: Reference) -> None:
    html = PAGE.replace("Fern and Company", "").replace("<h1>", "<h1 style='margin-left:60px;color:#2563eb'>")
    html = html.replace("<div class=box>", "<div class=box style='background:#3c3'>")
    page = await renderer.render(SitePages({"index.html": html.replace("in a box", "in a bag")}), SIZE)
    score = score_page(reference, page)
    found = find_differences(reference, page, score)
    told = "\n".join(found.lines())
    assert [text for text, _, _ in found.missing] == ["fern and company"]
    assert found.missing[0][1] == pytest.approx(12, abs=4)
    move = next(move for move in found.moved if "plants for" in move.text)
    assert move.right_px == pytest.approx(40, abs=2)
    assert "px too far right" in told
    assert "should read 'we grow two hundred kinds of house plants and send" in told or "in a box" in told
    heading = next(color for color in found.recolored if "plants for" in color.text)
    assert max(abs(a - b) for a, b in zip(heading.actual, (0x25, 0x63, 0xEB), strict=True)) < 24
    assert found.regions
    assert score.static < 0.95


async def test_images_of_differences() -> None:
    reference = np.full((300, 640, 3), 255, np.uint8)
    ours = reference.copy()
    ours[200:230, 400:470] = (10, 20, 30)
    (region,) = worst_regions(reference, ours)
    assert region.contains(Box(400, 200, 470, 230))
    assert region.width <= 112
    assert side_by_side(reference, ours[:220], region).shape == (region.height, 2 * region.width + 8, 3)
    shown = difference_image(reference, ours[:280])
    assert shown.shape == (300, 640, 3)
    assert tuple(shown[210, 420]) == (214, 32, 48)
    assert shown[290, 10, 0] > shown[290, 10, 1] + 80
    assert worst_regions(reference, reference) == ()


async def test_boxes_count_by_their_overlap() -> None:
    one = PageBox(kind="box", left=0, top=0, width=100, height=100)
    half = PageBox(kind="box", left=50, top=0, width=100, height=100)
    assert match_boxes([one], [one]) == 1
    assert match_boxes([one], [half]) == pytest.approx(1 / 3)
    assert match_boxes([one], [one, half]) == pytest.approx(2 / 3)
    assert match_boxes([one], [PageBox(kind="image", left=0, top=0, width=100, height=100)]) == 0
    assert match_boxes([], []) == 1
    assert match_boxes([], [one]) == 0


@pytest.mark.long
async def test_a_page_that_cannot_be_shown_is_worth_nothing(reference: Reference) -> None:
    score = no_page(reference, "it is gone")
    assert score.static == 0
    assert score.to_json()["problem"] == "it is gone"


@pytest.mark.long
async def test_cells_whose_borders_have_the_colour_of_their_text_are_text(renderer: Renderer) -> None:
    rows = "".join(f"<tr><td>Row {n}<td>{17 * n}" for n in range(1, 5))
    html = f"<!doctype html><style>td{{border:1px solid;width:120px}}</style><table>{rows}</table>"
    page = await renderer.render(SitePages({"index.html": html}), SIZE)
    assert [block.text for block in page.blocks] == [text for n in range(1, 5) for text in (f"row {n}", str(17 * n))]
