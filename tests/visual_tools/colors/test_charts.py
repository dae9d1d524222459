"""Charts by matplotlib, Pillow and OpenCV whose shares are known."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from benchmarks.visual.share_charts import LIMIT, LIMITS, make_chart
from examples.charts import PIE, PIE_COLORS
from visual_tools.colors.measure import color_share
from visual_tools.colors.shares import ColorShares
from visual_tools.colors.words import parse_color, to_lab

SAME_COLOR = 7.0

SAMPLE = [
    ("pie, plain", 0),
    ("pie, plain", 2),
    ("pie, exploded", 0),
    ("pie, exploded", 4),
    ("pie, shadow", 4),
    ("pie, doughnut", 11),
    ("pie, similar colours", 6),
    ("pie, JPEG", 7),
    ("pie, by hand", 0),
    ("pie, by hand", 1),
    ("pie, similar + shadow + exploded + JPEG", 3),
    ("bars", 0),
    ("bars", 5),
    ("bars", 13),
    ("bars, JPEG", 7),
    ("areas", 1),
    ("areas", 14),
    ("areas, JPEG", 2),
    ("flat image", 2),
    # an outline that fills much of a small pie
    ("pie, by hand", 600),
    # writing hides the middle of a thin sector
    ("pie, similar + shadow + exploded + JPEG", 113),
    # slices whose rims also fit a circle on their other side
    ("pie, exploded", 1008),
    # a grid line beside an edge, and one on it
    ("bars", 108),
    ("bars, JPEG", 2018),
    # a grid line cuts strips off thin bars
    ("bars", 2007),
    # writing cuts thin bars in two
    ("bars, JPEG", 0),
    # two bars of almost the same length
    ("bars, JPEG", 1006),
    # the axis under the lowest area; grid lines across edges
    ("areas", 115),
    ("areas", 106),
    # bands of other shades along grid lines
    ("areas, JPEG", 301),
    ("areas, JPEG", 604),
]


def by_color(found: ColorShares, truth: dict[tuple[int, int, int], float]) -> dict[tuple[int, int, int], float]:
    """The shares found, under the true colours; a colour that is none of them keeps its own name."""
    lab = to_lab(np.array(list(truth), np.uint8))
    shares = {}
    for share in found.shares:
        away = np.linalg.norm(lab - to_lab(np.array([share.color_rgb], np.uint8)), axis=1)
        is_known = away.min() < SAME_COLOR
        shares[list(truth)[int(away.argmin())] if is_known else share.color_rgb] = share.share
    return shares


@pytest.mark.slow
@pytest.mark.parametrize(("family", "seed"), SAMPLE)
def test_shares_of_a_chart(family: str, seed: int) -> None:
    chart = make_chart(family, seed)
    found = color_share(chart.image, read_labels=False)
    assert by_color(found, chart.truth) == pytest.approx(chart.truth, abs=LIMITS.get(family, LIMIT)), chart.note
    assert found.kind == family.split(",")[0].replace("areas", "area").replace("flat image", "area")
    assert [share.share for share in found.shares] == sorted((share.share for share in found.shares), reverse=True)
    assert sum(share.share for share in found.shares) == pytest.approx(1)


def test_the_example_with_its_legend() -> None:
    image = np.asarray(Image.open(Path(__file__).parents[3] / "examples" / "pie.png").convert("RGB"))
    found = color_share(image)
    total = sum(PIE.values())
    assert {share.label: share.share for share in found.shares} == pytest.approx(
        {name: value / total for name, value in PIE.items()}, abs=0.003
    )
    assert {share.label: share.color_rgb for share in found.shares} == {
        name: parse_color(color) for name, color in PIE_COLORS.items()
    }
    assert [share.color_name for share in found.shares] == ["blue", "red", "orange", "green", "light blue", "purple"]


@pytest.mark.long
def test_words_beside_the_sectors_are_their_labels() -> None:
    chart = next(
        chart
        for chart in (make_chart("pie, plain", seed) for seed in range(30))
        if chart.is_labelled_beside and len(chart.truth) <= 5
    )
    found = color_share(chart.image)
    assert {share.color_rgb: share.label for share in found.shares} == chart.labels


def test_the_labels_of_swatches_with_thick_outlines() -> None:
    chart = make_chart("pie, plain", 504)
    assert chart.labels
    found = color_share(chart.image)
    assert {share.color_rgb: share.label for share in found.shares} == chart.labels


STYLES = ("gaps", "touching", "outlined", "lying", "lying touching")


def draw_bars(lengths: list[int], style: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Bars of one colour on a grey panel with white grid lines, on a white page."""
    page = Image.new("RGB", (420, 320), "white")
    draw = ImageDraw.Draw(page)
    draw.rectangle((40, 30, 400, 290), fill="#e5e5e5")
    for at in range(60, 290, 46):
        draw.line((40, at, 400, at), fill="white")
    gap = 0 if "touching" in style or style == "outlined" else 14
    outline = "black" if style == "outlined" else None
    for number, length in enumerate(lengths):
        if style.startswith("lying"):
            place = (41, 45 + 46 * number, 40 + length, 45 + 46 * number + 45 - gap)
        else:
            place = (60 + 64 * number, 290 - length, 60 + 64 * number + 63 - gap, 289)
        draw.rectangle(place, fill="#e24a33", outline=outline)
    return np.asarray(page)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("lengths", [[60, 150, 110, 35], [120, 120, 40, 200, 80], [180, 180, 180, 70, 70]])
def test_bars_of_one_colour_are_told_apart(lengths: list[int], style: str) -> None:
    found = color_share(draw_bars(lengths, style), read_labels=False)
    assert (found.kind, len(found.shares)) == ("bars", 1)
    pieces = sorted(
        found.shares[0].pieces, key=lambda piece: piece.box_px.top if "lying" in style else piece.box_px.left
    )
    assert [piece.share for piece in pieces] == pytest.approx([length / sum(lengths) for length in lengths], abs=0.008)


def test_touching_bars_of_uneven_whole_widths_end_at_their_steps() -> None:
    page = np.full((320, 420, 3), 255, np.uint8)
    lengths, edges = [79, 197, 47, 144, 230], [50, 116, 181, 248, 312, 379]  # bars of 65.8 px, drawn on whole pixels
    for length, left, right in zip(lengths, edges, edges[1:], strict=False):
        page[290 - length : 290, left:right] = (226, 74, 51)
    found = color_share(page, read_labels=False)
    pieces = sorted(found.shares[0].pieces, key=lambda piece: piece.box_px.left)
    assert [piece.share for piece in pieces] == pytest.approx([length / sum(lengths) for length in lengths], abs=0.008)
    assert found.method.endswith("touch, so that equal neighbours may count as one")


@pytest.mark.long
def test_bars_that_are_read_as_a_line_of_text_are_measured() -> None:
    page = np.full((400, 640, 3), 255, np.uint8)
    lengths = [78, 196, 46, 143, 293]  # read as "-JI"
    for number, length in enumerate(lengths):
        page[356 - length : 356, 103 + 94 * number : 178 + 94 * number] = (68, 119, 170)
    pieces = sorted(color_share(page).shares[0].pieces, key=lambda piece: piece.box_px.left)
    assert [piece.share for piece in pieces] == pytest.approx([length / sum(lengths) for length in lengths], abs=0.008)


def test_a_slope_of_one_colour_is_no_row_of_bars() -> None:
    page = Image.new("RGB", (420, 320), "white")
    ImageDraw.Draw(page).polygon([(40, 290), (40, 200), (200, 60), (380, 150), (380, 290)], fill="#e24a33")
    assert color_share(np.asarray(page), read_labels=False).kind == "area"
