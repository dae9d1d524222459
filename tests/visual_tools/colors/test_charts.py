"""Charts by matplotlib, Pillow and OpenCV whose shares are known."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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
