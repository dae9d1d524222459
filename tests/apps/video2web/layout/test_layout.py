"""The rules that make a page from an image, on real pages rendered by a real browser."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.layout.markup import Markup, write_markup
from apps.video2web.layout.primitives import find_pieces
from apps.video2web.layout.reading import read_page
from apps.video2web.layout.tree import build_tree
from apps.video2web.render import Renderer, Rendering, SiteFiles, SitePages, open_page
from apps.video2web.score import read_reference, rendered_reference, score_page
from apps.video2web.site_files import write_site
from visual_tools.box import Box
from visual_tools.ocr import TextLine
from visual_tools.pages.similarity import visual_similarity
from visual_tools.pages.text_blocks import match_blocks

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGE = """<!doctype html><style>body{margin:0;font-family:sans-serif;color:#222}
header{background:#234;color:#fff;padding:16px 32px;display:flex;justify-content:space-between}
nav a{color:#cde;margin-left:24px} .cards{display:grid;grid-template-columns:repeat(3,1fr);gap:24px;padding:32px}
.card{border:1px solid #ddd;border-radius:8px;padding:20px}
button{background:#2563eb;color:#fff;border:0;border-radius:6px;padding:10px 18px;font-size:16px}
input{border:1px solid #999;border-radius:4px;height:36px;width:260px}
td{padding:8px 40px 8px 0} .art{width:120px;height:80px;margin:32px;
background:repeating-linear-gradient(45deg,#c33 0 9px,#36c 9px 18px)}</style>
<header><b>Fern Company</b><nav><a>Home</a><a>Plants</a><a>Contact</a></nav></header>
<section style="padding:32px"><h1>Plants that like your flat</h1>
<p style="max-width:600px">We grow two hundred kinds of house plants and send them in a box that keeps them warm.
If one dies within a year, you get another one.</p><button>Shop plants</button><p><input></p></section>
<div class=cards><div class=card><h3>Monstera</h3><p>Likes light from the side and a drink every week.</p></div>
<div class=card><h3>Fern</h3><p>Likes the bathroom. Never let it dry out.</p></div>
<div class=card><h3>Cactus</h3><p>Likes to be forgotten on a sunny sill.</p></div></div>
<div class=art></div><table style="margin:0 32px"><tr><th align=left>Plant<th align=left>Price<th align=left>Stock
<tr><td>Monstera<td>24 EUR<td>12 left<tr><td>Cactus<td>8 EUR<td>40 left<tr><td>Fern<td>11 EUR<td>7 left</table>"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def copied(renderer: Renderer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rendering, Markup, Rendering]:
    reference = await renderer.render(SitePages({"index.html": PAGE}))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    folder: Path = tmp_path_factory.mktemp("site")
    write_site(markup.files(), folder)
    return reference, markup, await renderer.render(SiteFiles(folder))


@pytest.mark.long
async def test_the_copy_reads_and_looks_the_same(copied: tuple[Rendering, Markup, Rendering]) -> None:
    reference, _, ours = copied
    scores = match_blocks(reference.blocks, ours.blocks)
    assert scores.block_match > 0.9
    assert scores.text > 0.97
    assert scores.position > 0.98
    assert scores.color > 0.95
    assert visual_similarity(reference.image, ours.image).score > 0.9
    assert ours.problems == ()
    assert ours.overflow_px == 0


@pytest.mark.long
async def test_elements_are_what_they_are_for(copied: tuple[Rendering, Markup, Rendering]) -> None:
    html = copied[1].html
    assert "<header" in html
    assert html.count("<h1") == 1
    assert '<button type="button"' in html
    assert html.count('<a href="#"') >= 3
    assert html.count('<input type="text"') == 1
    assert html.count("<img ") == 1
    assert html.count("<tr") == 4
    assert "position: absolute" not in copied[1].css


@pytest.mark.long
async def test_frames_that_touch_are_the_cells_of_a_table(renderer: Renderer) -> None:
    rows = "".join(f"<tr><td>Row {number}<td>{number * 12} EUR<td>Porto" for number in range(1, 5))
    html = f"""<style>body{{margin:24px;font-family:sans-serif}} table{{border-collapse:collapse}}
    td,th{{border:1px solid #bbb;padding:9px 16px}}</style><table><tr><th>Name<th>Price<th>Place{rows}</table>"""
    reference = await renderer.render(SitePages({"index.html": html}), (800, 400))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    assert (markup.html.count("<tr"), markup.html.count("<td"), markup.html.count("<th ")) == (5, 12, 3)
    ours = await renderer.render(SitePages({**markup.files()}), (800, 400))
    assert visual_similarity(reference.image, ours.image).score > 0.9


@pytest.mark.long
async def test_a_paragraph_flows_and_a_list_does_not(renderer: Renderer) -> None:
    html = """<body style="margin:32px;font:16px/1.5 sans-serif"><p style="width:420px">The quiet garden keeps the
    harbour and the patient lantern follows the small window of the northern cottage.</p>
    <p style="margin:0">Tea</p><p style="margin:0">Bread and butter</p><p style="margin:0">Salt</p>"""
    reference = await renderer.render(SitePages({"index.html": html}), (800, 400))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    assert markup.html.count("<p") == 4
    assert "<br>" not in markup.html


@pytest.mark.long
async def test_a_tall_page_is_read_whole(renderer: Renderer) -> None:
    lines = "".join(f"<p>Line number {number} of the list</p>" for number in range(1, 81))
    reference = await renderer.render(SitePages({"index.html": f"<body>{lines}"}), (500, 400))
    assert len(reference.image) > 2 * 1600 * 0.8
    read = [line.text for line in read_page(reference.image)]
    assert len(read) == 80
    assert read[-1] == "Line number 80 of the list"


TABLES = {
    "ruled": "td,th{border-bottom:1px solid #bbb}",
    "striped": "tr:nth-child(odd) td,tr:nth-child(odd) th{background:#eef}",
    "striped rows": "tr:nth-child(even){background:#eef}",
    "with a painted head": "th{background:#234;color:#fff}td{border-bottom:1px solid #ccc}",
    "framed": "td,th{border:1px solid #bbb}",
}


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
async def test_rows_and_columns_are_a_table(renderer: Renderer, name: str) -> None:
    rows = "".join(f"<tr><td>Row {n}<td>Oslo {n}<td>{17 * n} EUR" for n in range(1, 6))
    html = (
        "<!doctype html><style>body{margin:30px;font:16px sans-serif;color:#222}table{width:600px;border-spacing:0;"
        f"border-collapse:collapse}}td,th{{padding:10px 12px;text-align:left}}{TABLES[name]}</style>"
        f"<h1>Places of the north</h1><p>All of them were seen.</p><table><tr><th>Name<th>Place<th>Sum{rows}</table>"
    )
    reference = await renderer.render(SitePages({"index.html": html}), (800, 480))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    assert markup.html.count("<tr") == 6
    assert markup.html.count("<th") == 3
    assert "<nav" not in markup.html
    ours = await renderer.render(SitePages(markup.files()), (800, 480))
    score = score_page(rendered_reference(reference), ours)
    assert score.layout is not None and score.layout > 0.8
    assert score.static > 0.95


@pytest.mark.long
async def test_a_line_at_the_left_is_a_border(renderer: Renderer) -> None:
    html = (
        "<!doctype html><body style='margin:30px;font:18px serif'><p>Somebody said:</p><blockquote style='margin:0;"
        "padding:10px 20px;border-left:5px solid #a33'>The quiet harbour keeps the lantern.</blockquote>"
    )
    reference = await renderer.render(SitePages({"index.html": html}), (640, 300))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    assert "<blockquote" in markup.html and "border-left: 5px solid #aa3333" in markup.css
    ours = await renderer.render(SitePages(markup.files()), (640, 300))
    assert (score_page(rendered_reference(reference), ours).layout or 0) > 0.6


DOCS = """<!doctype html><meta charset=utf-8><style>body{margin:0;font:15px/1.6 'DejaVu Sans',sans-serif;color:#222}
header{background:#24292f;color:#fff;padding:12px 24px}.wrap{display:grid;grid-template-columns:220px 1fr}
.side{background:#f6f8fa;padding:20px;min-height:640px}.side a{display:block;color:#06c}article{padding:20px 40px}
code,pre{font:13px/1.5 'DejaVu Sans Mono',monospace}code{background:#eff1f3;padding:2px 5px;border-radius:4px}
pre{background:#0d1117;color:#c9d1d9;padding:16px;border-radius:6px}</style><header>Kestrel documentation</header>
<div class=wrap><div class=side><b>Guide</b><a>Install</a><a>First query</a><a>Pagination</a></div><article>
<h1>Pagination</h1><p>The <code>Cursor</code> walks over results. Call <code>client.list()</code> and wait.</p>
<pre>for item in client.list():
    print(item.id)</pre><ul><li>between one and ten<li>an opaque string<li>ascending order</ul></article></div>"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def docs(renderer: Renderer) -> tuple[Rendering, Markup]:
    reference = await renderer.render(SitePages({"index.html": DOCS}), (1100, 700))
    return reference, write_markup(build_tree(find_pieces(reference.image)), reference.image)


@pytest.mark.long
async def test_a_page_of_documentation_has_its_elements(docs: tuple[Rendering, Markup]) -> None:
    html = docs[1].html
    assert "<main" in html and "<header" in html and "<nav" in html
    assert html.count('<a href="#"') == 3
    assert html.count("<li ") == 3 and html.count("<ul") == 1
    assert "<code" in html and ">client.list()</code>" in html and ">Cursor</code>" in html
    assert "<pre" in html and "for item in client.list():\n    print(item.id)</code></pre>" in html
    assert "<button" not in html and "<input" not in html


@pytest.mark.long
async def test_words_in_boxes_within_a_line_are_visible(renderer: Renderer, docs: tuple[Rendering, Markup]) -> None:
    reference, markup = docs
    ours = await renderer.render(SitePages(markup.files()), (1100, 700))
    score = score_page(read_reference(reference.image), ours)
    assert score.losses.summary() == ""
    assert score.static > 0.95


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 700])
async def test_a_narrow_window_does_not_scroll_sideways(
    renderer: Renderer, docs: tuple[Rendering, Markup], copied: tuple[Rendering, Markup, Rendering], width: int
) -> None:
    for markup in (docs[1], copied[1]):
        narrow = await renderer.render(SitePages(markup.files()), (width, 844))
        wide = await renderer.render(SitePages(markup.files()), (1280, 844))
        assert narrow.overflow_px == 0
        shown = {word.text for word in narrow.words}
        assert {word.text for word in wide.words} - shown == set()
        assert all(word.box_px.right <= width for word in narrow.words)


@pytest.mark.long
async def test_ticks_of_a_table_are_kept(renderer: Renderer) -> None:
    rows = "".join(f"<tr><td>Feature {n}<td>{'✓' if n % 2 else '10'}<td>✓<td>{n} left" for n in range(1, 6))
    html = (
        "<!doctype html><meta charset=utf-8><style>body{margin:30px;font:16px 'DejaVu Sans'}td{padding:8px 60px 8px 0;"
        f"border-bottom:1px solid #ccc}}</style><table style='border-spacing:0'>{rows}</table>"
    )
    reference = await renderer.render(SitePages({"index.html": html}), (800, 360))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    assert (markup.html.count("<tr"), markup.html.count("<img")) == (5, 8)
    ours = await renderer.render(SitePages(markup.files()), (800, 360))
    assert score_page(rendered_reference(reference), ours).losses.summary() == ""


@pytest.mark.long
async def test_a_sentence_with_code_is_no_menu(renderer: Renderer) -> None:
    html = (
        "<!doctype html><style>body{margin:30px;font:16px 'DejaVu Sans'}code{font:14px 'DejaVu Sans Mono';"
        "background:#eee;padding:2px 6px;margin:0 12px}</style><p>Call <code>list()</code> and walk over "
        "<code>items</code> then close <code>client</code> again</p>"
    )
    reference = await renderer.render(SitePages({"index.html": html}), (900, 120))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    assert "<nav" not in markup.html and markup.html.count("<code") == 3


@pytest.mark.long
@pytest.mark.parametrize("style", ["font-size:56px", "font:700 56px sans-serif;color:#06c", "font-size:28px"])
@pytest.mark.parametrize("char", "图园国")
async def test_a_lone_character_is_one_piece(renderer: Renderer, char: str, style: str) -> None:
    html = f"<!doctype html><meta charset=utf-8><body style='margin:40px'><p style='{style}'>{char}</p>Other words"
    page = await renderer.render(SitePages({"index.html": html}), (400, 220))
    pieces = find_pieces(page.image)
    assert pieces.frames == ()
    (glyph,) = [leaf for leaf in pieces.leaves if leaf.text != "Other words"]
    assert glyph.kind == "image" or glyph.text == char


MIXED = (
    "<!doctype html><style>body{margin:30px;font:16px 'DejaVu Sans',sans-serif;color:#222}a{color:#06c}"
    "i{font-style:normal;color:#c22}</style><p>Read the <a>garden guide</a> before spring.</p>"
    "<p><b>Price:</b> twelve euro a month</p><p>Orders <i>closed</i> until <b>Monday</b> evening.</p>"
    "<p>Nothing is different in this line.</p>"
)


@pytest.mark.long
async def test_words_of_a_line_keep_their_colour_and_weight(renderer: Renderer) -> None:
    reference = await renderer.render(SitePages({"index.html": MIXED}), (640, 260))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    lines = [line.strip() for line in markup.html.split("\n") if "<p" in line]
    spans = [re.findall(r'<span class="(ink[^"]*)">([^<]*)</span>', line) for line in lines]
    assert [[text for _, text in line] for line in spans] == [["garden guide"], ["Price:"], ["closed", "Monday"], []]
    styles = dict(re.findall(r"^\.(ink\S*) \{ (.*) \}$", markup.css, re.MULTILINE))
    looks = [styles[name] for line in spans for name, _ in line]
    assert looks[1] == looks[3] == "font-weight: 700;"
    for look, color in ((looks[0], (0x00, 0x66, 0xCC)), (looks[2], (0xCC, 0x22, 0x22))):
        (level,) = re.findall(r"^color: #(\w{6});$", look)
        assert tuple(bytes.fromhex(level)) == pytest.approx(color, abs=8)
    ours = await renderer.render(SitePages(markup.files()), (640, 260))
    score = score_page(rendered_reference(reference), ours)
    assert score.blocks.position > 0.99 and score.static > 0.95


CUTS = {"right": (190, 54, 420, 300), "left": (4, 20, 64, 300), "below": (10, 72, 400, 300)}


@pytest.mark.parametrize("side", CUTS)
async def test_a_line_cut_by_a_frame_has_the_colour_of_its_own_letters(side: str) -> None:
    page = Image.new("RGB", (480, 320), (127, 127, 127))
    paint, face = ImageDraw.Draw(page), ImageFont.truetype("DejaVuSans.ttf", 16)
    text = "Everything can be"
    left, top, right, bottom = map(round, paint.textbbox((50, 60), text, face))
    paint.text((50, 60), text, (17, 17, 17), face)
    paint.rounded_rectangle(CUTS[side], 12, "white")
    step = (right - left) / len(text)
    chars = tuple((left + at * step, left + (at + 1) * step) for at in range(len(text)))
    line = TextLine(text=text, box_px=Box(left, top, right, bottom), confidence=0.99, char_x_px=chars)
    (piece,) = (leaf for leaf in find_pieces(np.asarray(page), [line]).leaves if leaf.kind == "text")
    assert max(piece.rgb) < 60
    assert all(run.rgb is None for run in piece.runs)


SHOP = (
    "<!doctype html><meta charset=utf-8><style>body{margin:0;font:16px 'DejaVu Sans',sans-serif;color:#222}"
    ".row{display:flex;gap:60px;padding:30px}.row div{display:flex;gap:10px;align-items:center}"
    "table{margin:0 30px;border-spacing:0}td{padding:10px 0;border-bottom:1px solid #ccc;width:280px}</style>"
    "<div class=row>{icons}</div><table>{rows}</table>"
)
STAR = (
    "<svg width=24 height=24 viewBox='0 0 22 22'><path d='M11 1l3 7 7 1-5 5 1 7-6-3-6 3 1-7-5-5 7-1z' fill='#a3c'/>"
    "</svg>"
)
NARROW_JS = """() => {
  const box = (element) => element.getBoundingClientRect();
  const words = (element) => { const range = document.createRange(); range.selectNodeContents(element);
    return range.getBoundingClientRect(); };
  return {
    stretched: [...document.images].map(
      (each) => [each.naturalWidth / each.naturalHeight, box(each).width / box(each).height]),
    gaps: [...document.querySelectorAll('tr')].flatMap((row) => [...row.cells].slice(1).map(
      (cell, at) => words(cell).left - words(row.cells[at]).right)),
    icons: [...document.querySelectorAll('img')].map((each) => [box(each).left, box(each).top, box(each).bottom]),
    labels: [...document.querySelectorAll("a, p, span")].map((each) => [words(each).left, words(each).top]),
  };
}"""


@pytest.mark.long
async def test_a_narrow_window_keeps_pictures_columns_and_labels(renderer: Renderer) -> None:
    icons = "".join(f"<div>{STAR}<span>{name}</span></div>" for name in ("Quick delivery", "Warm boxes", "Two years"))
    rows = "".join(f"<tr><td>Feature {n}<td>✓<td>{n} left in stock<td>Porto" for n in range(1, 5))
    html = SHOP.replace("{icons}", icons).replace("{rows}", rows)
    reference = await renderer.render(SitePages({"index.html": html}), (1280, 400))
    markup = write_markup(build_tree(find_pieces(reference.image)), reference.image)
    async with renderer.context(SitePages(markup.files()), (390, 844)) as context:
        found = await (await open_page(context)).look(NARROW_JS)
    assert len(found["stretched"]) == 7
    assert all(shown == pytest.approx(own, rel=0.1) for own, shown in found["stretched"]), found["stretched"]
    assert min(found["gaps"]) >= 8, found["gaps"]
    for left, top, bottom in found["icons"][:3]:
        assert any(x > left and top - 4 <= y <= bottom for x, y in found["labels"]), found


@pytest.mark.long
@pytest.mark.parametrize("sign", "✗✘✕✓")
async def test_crosses_and_ticks_are_pictures_and_letters_are_not(renderer: Renderer, sign: str) -> None:
    html = (
        "<!doctype html><meta charset=utf-8><style>body{margin:30px;font:16px 'DejaVu Sans'}p{margin:0 0 24px}</style>"
        f"<p>{sign}</p><p>X</p><p><i style='font-style:normal;color:#c22'>{sign}</i> &nbsp;Phone support</p>"
        f"<p>{sign} Email support</p><p>X marks the spot</p><p>V for victory</p>"
    )
    page = await renderer.render(SitePages({"index.html": html}), (500, 300))
    pieces = find_pieces(page.image)
    texts = [leaf.text for leaf in sorted(pieces.leaves, key=lambda leaf: leaf.box_px.top) if leaf.kind == "text"]
    assert [re.sub("^[✓×] ", "", text) for text in texts] == [  # these two are read as what they are
        "X", "Phone support", "Email support", "X marks the spot", "V for victory",
    ]  # fmt: skip
    ours = await renderer.render(SitePages(write_markup(build_tree(pieces), page.image).files()), (500, 300))
    assert score_page(read_reference(page.image), ours).losses.summary() == ""


RADII = {
    "filled": ("background:#25c", 8), "pill": ("background:#25c", 18), "bordered": ("border:1px solid #ccc", 8),
    "pale beside white": ("background:#f6f8fa", 0), "square": ("background:#25c;border:2px solid #111", 0),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", RADII)
async def test_corners_are_as_round_as_they_look(renderer: Renderer, name: str) -> None:
    look, radius = RADII[name]
    html = f"<!doctype html><body><div style='margin:40px;width:120px;height:36px;border-radius:{radius}px;{look}'>"
    page = await renderer.render(SitePages({"index.html": html}), (400, 200))
    (frame,) = find_pieces(page.image).frames
    assert abs(frame.look.radius_px - radius) <= 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        ("<input type=checkbox checked>", "toggle"),
        ("<input type=checkbox>", "toggle"),
        ("<input type=checkbox checked style='width:13px;height:13px'>", "toggle"),
        ("<svg width=18 height=18><rect width=18 height=18 rx=4 fill='#36c'/><path d='M4 4h10v3H4zM4 10h6v4H4z' "
         "fill='#fff'/></svg>", "image"),
        ("<svg width=18 height=18><circle cx=9 cy=9 r=8 fill='none' stroke='#333' stroke-width=2 /><path d='M9 4v6h4' "
         "fill='none' stroke='#333' stroke-width=2 /></svg>", "image"),
    ],
)  # fmt: skip
async def test_an_icon_is_not_a_control(renderer: Renderer, mark: str, kind: str) -> None:
    html = (
        "<!doctype html><style>body{margin:40px;font:16px 'DejaVu Sans'}p{display:flex;gap:10px;align-items:center}"
        f"input{{width:16px;height:16px;margin:0}}</style><p>{mark} Keep me informed</p><p>Other words</p>"
    )
    page = await renderer.render(SitePages({"index.html": html}), (500, 200))
    assert [leaf.kind for leaf in find_pieces(page.image).leaves if leaf.kind != "text"] == [kind]


_DROP = [(14, 3), *((14 + 7 * math.sin(turn / 4), 17 - 7 * math.cos(turn / 4)) for turn in range(4, 22)), (14, 3)]
_MAP = [(4, 7), (11, 5), (17, 7), (24, 5), (24, 21), (17, 23), (11, 21), (4, 23), (4, 7)]


@pytest.mark.long
async def test_an_icon_is_not_the_only_character_of_a_line() -> None:
    page = Image.new("RGB", (400, 240), "white")
    paint, font = ImageDraw.Draw(page), ImageFont.truetype("DejaVuSans.ttf", 16)
    for number, (icon, text) in enumerate(((_DROP, "Water at the hut"), (_MAP, "Paper works offline"))):
        large = Image.new("RGB", (112, 112), "white")
        ImageDraw.Draw(large).line([(4 * x, 4 * y) for x, y in icon], (32, 80, 60), 8, "curve")
        page.paste(large.resize((28, 28), Image.Resampling.LANCZOS), (20, 20 + 100 * number))
        paint.text((20, 60 + 100 * number), text, (20, 20, 30), font)
        paint.text((300, 28 + 100 * number), "5X"[number], (20, 20, 30), font)
    pieces = find_pieces(np.asarray(page))
    texts = sorted(leaf.text for leaf in pieces.leaves if leaf.kind == "text")
    assert texts == ["5", "Paper works offline", "Water at the hut", "X"]
    icons = [leaf.box_px for leaf in pieces.leaves if leaf.kind == "image"]
    for drawn in (Box(26, 23, 42, 44), Box(24, 124, 44, 143)):
        assert any(box.contains(drawn, slack_px=2) for box in icons)


async def test_the_colour_of_a_page_is_that_of_its_edge_where_cards_cover_most_of_it() -> None:
    page, card = (249, 251, 246), (229, 237, 223)
    image = np.full((600, 500, 3), page, np.uint8)
    for top in range(60, 540, 130):
        image[top : top + 120, 30:450] = card
    image[:40] = (32, 75, 53)  # a header, and a scroll bar
    image[:, 485:] = (252, 252, 252)
    image[100:300, 488:497] = (139, 139, 139)
    image[580:, 30:450] = card  # a recording ends in the middle of a card
    pieces = find_pieces(image, [])
    assert pieces.background == page
    assert [frame.look.fill for frame in pieces.frames if frame.box_px.area > 40_000] == [card] * 4
