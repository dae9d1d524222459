"""What a reader would miss costs: words that are covered, marks, pictures, and controls that nobody drew."""

import io
from dataclasses import replace

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.compare import find_differences
from apps.video2web.layout.markup import write_markup
from apps.video2web.layout.primitives import find_pieces
from apps.video2web.layout.tree import build_tree
from apps.video2web.losses import PageWord, SeenPage, find_losses, find_marks, is_shown, words_of_lines
from apps.video2web.render import Renderer, Rendering, SitePages
from apps.video2web.score import Reference, read_reference, rendered_reference, score_page
from visual_tools.box import Box
from visual_tools.ocr import TextLine

pytestmark = pytest.mark.asyncio(loop_scope="session")
SIZE = (800, 560)
ICON = (
    "<svg width=22 height=22 viewBox='0 0 22 22' style='vertical-align:middle'><path d='M11 1l3 7 7 1-5 5 1 7-6-3-6 "
    "3 1-7-5-5 7-1z' fill='#a3c'/></svg>"
)
PICTURE = (
    "<svg width=320 height=120 style='display:block;margin:20px 0'><rect width=320 height=120 fill='#9bd'/>"
    "<path d='M0 120L90 30 150 90 220 20 320 120z' fill='#353'/><circle cx=270 cy=28 r=16 fill='#fd3'/></svg>"
)
PAGE = f"""<!doctype html><meta charset=utf-8><style>body{{margin:24px;font:16px 'DejaVu Sans',sans-serif;color:#222}}
td{{padding:6px 24px 6px 0}}i{{font-style:normal;color:#0a8f4d}}code{{background:#eee;padding:2px 5px}}</style>
<h1>Plans for the harbour</h1><p>Call <code>client.list()</code> and walk over the results of the query.</p>
<p class=icon>{ICON} Safe and quick delivery</p>{PICTURE}
<table><tr><td>Tide alerts<td><i>✓</i><td><i>✓</i><tr><td>Crew accounts<td>5<td>50<tr><td>Phone support<td>
<td><i>✓</i></table>"""
COVERED = PAGE.replace(
    "<code>client.list()</code>",
    "<code style='position:relative'>client.list()<b style='position:absolute;inset:0;background:#eee'></b></code>",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def original(renderer: Renderer) -> Rendering:
    return await renderer.render(SitePages({"index.html": PAGE}), SIZE)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def references(original: Rendering) -> tuple[Reference, Reference]:
    return read_reference(original.image, "page.png"), rendered_reference(original, "page.html")


@pytest.mark.long
async def test_nothing_is_lost_on_the_page_itself(original: Rendering, references: tuple[Reference, Reference]) -> None:
    for reference in references:
        score = score_page(reference, original)
        assert (score.losses.kept, score.losses.summary()) == (1, "")
        assert score.static == pytest.approx(1, abs=1e-6)


LOST = {
    "ticks": (PAGE.replace("✓", "&nbsp;"), "marks", 3, 0.95),
    "a covered word": (COVERED, "words", 1, 0.98),
    "a picture as a rectangle": (
        PAGE.replace(PICTURE, "<div style='width:320px;height:120px;margin:20px 0;background:#9bd'></div>"),
        "images", 1, 0.85,
    ),
    "an icon as a checkbox": (
        PAGE.replace(ICON, "<input type=checkbox checked style='width:22px;height:22px;margin:0 0 -6px'>"),
        "controls", 1, 0.98,
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", LOST)
async def test_what_a_reader_would_miss_costs_and_is_told(
    renderer: Renderer, references: tuple[Reference, Reference], name: str
) -> None:
    html, kind, count, most = LOST[name]
    ours = await renderer.render(SitePages({"index.html": html}), SIZE)
    for reference in references:
        score = score_page(reference, ours)
        assert len(getattr(score.losses, kind)) == count, (reference.is_html, score.losses)
        assert score.static < most
        assert score.losses.summary()
        told = find_differences(reference, ours, score).lines()
        assert any(line.startswith(("lost: ", "invented: the control")) for line in told)


@pytest.mark.long
async def test_only_the_visible_words_of_an_element_are_its_text(renderer: Renderer) -> None:
    page = await renderer.render(SitePages({"index.html": COVERED}), SIZE)
    assert "call" in {word.text for word in page.words}
    assert "client.list()" not in " ".join(block.text for block in page.blocks)
    html = "<!doctype html><p style='width:400px;position:relative'>seen words <i></i>hidden ones"
    cover = "<b style='position:absolute;left:86px;top:0;width:300px;height:30px;background:#fff'></b>"
    page = await renderer.render(SitePages({"index.html": html + cover}), SIZE)
    assert [block.text for block in page.blocks] == ["seen words"]


@pytest.mark.long
async def test_noise_and_an_empty_page_are_not_worth_one(renderer: Renderer) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (300, 400, 3)).astype(np.uint8)
    site = {"index.html": "<!doctype html><body style='margin:0'><img src=a.png style='display:block'>"}
    for image in (noise, np.full((300, 400, 3), 250, np.uint8)):
        ours = await renderer.render(SitePages({**site, "a.png": _png(image)}), (400, 300))
        score = score_page(read_reference(image), ours)
        assert score.to_json()["text"] is None and score.to_json()["block_match"] is None
        assert score.static <= 0.2


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


async def test_words_that_ocr_splits_or_misreads_are_not_lost() -> None:
    page = np.full((40, 400, 3), 255, np.uint8)

    def losses_of(theirs: str, ours: str) -> tuple[list[str], tuple[str, ...]]:
        words = [
            [PageWord(text=text, box_px=Box(40 * at, 10, 40 * at + 30, 24)) for at, text in enumerate(line.split())]
            for line in (theirs, ours)
        ]
        found = find_losses(*(SeenPage(image=page, words=each) for each in words))
        return [word.text for word in found.words], found.invented_words

    assert losses_of("import client", "importclient") == ([], ())
    assert losses_of("importclient now", "import client now") == ([], ())
    assert losses_of("the harbour, today", "the harbor today") == ([], ())
    assert losses_of("costs 29 euro", "costs 20 euro") == (["29"], ("20",))
    assert losses_of("one two two", "one two") == (["two"], ())


async def test_marks_are_found_and_frames_are_not() -> None:
    page = np.full((200, 300, 3), 255, np.uint8)
    page[20:60, 20:200] = (30, 60, 90)  # a frame
    page[100:102, 20:280] = 0  # a rule
    page[130:138, 30:38] = 0  # a bullet
    page[160:170, 100:140] = 0  # a word
    assert [box.padded(2).contains(Box(30, 130, 38, 138)) for box in find_marks(page, [Box(98, 158, 142, 172)])] == [
        True
    ]
    bare = page.copy()
    bare[130:138, 30:38] = 255
    assert not is_shown(page, Box(30, 130, 38, 138), bare)
    assert is_shown(page, Box(30, 130, 38, 138), np.roll(page, 6, axis=1))


def _draw_line(text: str, *, font: str = "DejaVuSans.ttf", off_px: int = 0) -> SeenPage:
    """A line of words 90 px apart, whose ends are read `off_px` too far left; `*` is a triangle that is not read."""
    page = Image.new("RGB", (640, 60), "white")
    paint, face = ImageDraw.Draw(page), ImageFont.truetype(font, 18)
    chars: list[tuple[float, float]] = []
    for x, word in zip(range(20, 640, 90), text.split(), strict=False):
        if word == "*":
            paint.polygon([(x, 36), (x + 7, 22), (x + 14, 36)], (160, 40, 160))
            continue
        paint.text((x, 20), word, (20, 20, 30), face)
        step = (paint.textlength(word, face) - off_px) / len(word)
        chars += [(chars[-1][1], x)] if chars else []
        chars += [(x + at * step, x + (at + 1) * step) for at in range(len(word))]
    read, end = " ".join(text.replace("*", "").split()), round(chars[-1][1]) + off_px
    line = TextLine(text=read, box_px=Box(20, 22, end, 42), confidence=0.99, char_x_px=tuple(chars))
    return SeenPage(image=np.asarray(page), words=words_of_lines([line]), lines=[line])


async def test_the_rest_of_a_letter_beside_its_word_is_not_a_mark() -> None:
    text = "Mill Lane Write moves six days"
    theirs, ours = (_draw_line(text, font=font, off_px=9) for font in ("DejaVuSans.ttf", "DejaVuSerif-Bold.ttf"))
    for page, other in ((theirs, ours), (ours, theirs)):
        rests = find_marks(page.image, [word.box_px for word in page.words])
        assert not all(is_shown(page.image, rest, other.image) for rest in rests)
    found = find_losses(theirs, ours)
    assert (found.marks, found.invented_marks, found.kept) == ((), (), 1)
    line = replace(ours.lines[0], text=text.replace("Mill", "Bill"))
    assert find_losses(theirs, replace(ours, lines=[line])).marks != ()


async def test_an_icon_within_a_line_is_a_mark() -> None:
    theirs, ours = _draw_line("Press * to go on"), _draw_line("Press to go on")
    without = theirs.image.copy()
    without[:, 100:190] = 255
    (mark,) = find_losses(theirs, replace(theirs, image=without)).marks
    assert mark.padded(3).contains(Box(110, 22, 124, 36))
    assert find_losses(theirs, theirs).marks == ()
    assert len(find_losses(theirs, ours).marks) == 1


@pytest.mark.parametrize("side", [16, 20, 28, 40])
async def test_an_outline_without_its_inside_is_not_the_same_mark(side: int) -> None:
    outline = np.full((80, 120, 3), 255, np.uint8)
    outline[20 : 20 + side, 30 : 30 + side] = 80
    outline[22 : 18 + side, 32 : 28 + side] = 255
    filled = outline.copy()
    down, right = 20 + side // 3, 30 + side // 3
    filled[down : down + side // 3 + 1, right : right + side // 3 + 1] = 80
    (box,) = find_marks(filled, ())
    assert is_shown(filled, box, np.roll(filled, 3, axis=1))
    assert not is_shown(filled, box, outline)


@pytest.mark.long
async def test_words_in_other_elements_and_colours_belong_to_their_owner(renderer: Renderer) -> None:
    html = (
        "<!doctype html><p>Call <code style='color:#36c'>list()</code> now<pre>for <span style='color:#c33'>item"
        "</span> in all</pre>"
    )
    page = await renderer.render(SitePages({"index.html": html}), SIZE)
    assert [word.text for word in page.words] == ["call", "list()", "now", "for", "in", "all", "item"]


SCRIPTS = {
    "ar": "نبيع أكثر من مئتي نوع من النباتات المنزلية ونرسلها في صندوق دافئ",
    "he": "אנחנו מגדלים מאתיים סוגים של צמחי בית ושולחים אותם בקופסה חמה",
}


@pytest.mark.long
@pytest.mark.parametrize("language", SCRIPTS)
async def test_text_that_cannot_be_read_is_kept_as_pictures_and_counts_as_lost(
    renderer: Renderer, language: str
) -> None:
    style = "<style>body{margin:30px;font:20px 'DejaVu Sans'}</style>"
    html = (
        f"<!doctype html><meta charset=utf-8>{style}<p dir=rtl>{SCRIPTS[language]}</p><p>iPhone 15 and more words</p>"
    )
    original = await renderer.render(SitePages({"index.html": html}), (900, 160))
    reference = read_reference(original.image)
    pieces = find_pieces(original.image, reference.read.lines if reference.read else ())
    assert {leaf.kind for leaf in pieces.leaves} == {"text", "image"}
    assert " ".join(leaf.text for leaf in pieces.leaves if leaf.kind == "text") == "iPhone 15 and more words"
    ours = await renderer.render(SitePages(write_markup(build_tree(pieces), original.image).files()), (900, 160))
    score = score_page(reference, ours)
    assert len(SCRIPTS[language].split()) - 3 <= score.losses.num_unread <= len(SCRIPTS[language].split()) + 3
    assert score.static < 0.7
    assert "words could not be read" in find_differences(reference, ours, score).lines()[0]
    assert score_page(reference, original).losses.num_unread == 0


@pytest.mark.long
async def test_chinese_stays_text(renderer: Renderer) -> None:
    html = "<!doctype html><meta charset=utf-8><body style='font-size:20px'><p>我们种植两百多种室内植物</p>"
    original = await renderer.render(SitePages({"index.html": html}), (600, 100))
    pieces = find_pieces(original.image)
    assert [leaf.text for leaf in pieces.leaves] == ["我们种植两百多种室内植物"]
    ours = await renderer.render(SitePages(write_markup(build_tree(pieces), original.image).files()), (600, 100))
    assert score_page(rendered_reference(original), ours).losses.kept == 1
