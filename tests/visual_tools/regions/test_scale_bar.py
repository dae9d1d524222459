from pathlib import Path

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools import Box, ImageError, find_scale_bar, measure_objects

FONT = str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"))


def micrograph(text: str, *, light: bool = True, ticks: bool = False, noise: float = 0.0) -> NDArray[np.uint8]:
    picture = Image.new("RGB", (640, 480), (70, 75, 80) if light else (225, 222, 215))
    draw = ImageDraw.Draw(picture)
    ink = "white" if light else "black"
    for x, y in ((120, 100), (300, 160), (500, 220)):
        draw.ellipse((x - 30, y - 30, x + 30, y + 30), fill=(190, 200, 170) if light else (90, 60, 60))
    if ticks:
        draw.line((430, 440, 590, 440), fill=ink, width=2)
        for x in (430, 590):
            draw.line((x, 430, x, 450), fill=ink, width=2)
    else:
        draw.rectangle((430, 436, 589, 443), fill=ink)
    draw.text((510, 426), text, fill=ink, font=ImageFont.truetype(FONT, 20), anchor="mb")
    grained = np.asarray(picture) + np.random.default_rng(1).normal(0, noise, (480, 640, 3))
    return np.clip(grained, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("50 µm", 50, "µm"), ("200 nm", 200, "nm"), ("1 mm", 1, "mm"), ("0.5 cm", 0.5, "cm"), ("20 um", 20, "µm")],
)
@pytest.mark.parametrize("light", [True, False])
def test_the_bar_and_what_it_stands_for(text: str, value: float, unit: str, light: bool) -> None:
    found = find_scale_bar(micrograph(text, light=light, noise=5))
    assert (found.length_px, found.value, found.unit) == (160, value, unit)
    assert found.bar_px == Box(430, 436, 590, 444)


def test_with_ticks_from_middle_to_middle() -> None:
    assert find_scale_bar(micrograph("2 cm", ticks=True, light=False)).length_px == pytest.approx(160, abs=1)


def test_objects_in_units_without_the_bar_itself() -> None:
    image = micrograph("50 µm")
    found = measure_objects(image, scale_bar=find_scale_bar(image))
    assert (len(found), found.unit) == (3, "µm")
    assert [one.equivalent_diameter for one in found] == pytest.approx([61 * 50 / 160] * 3, rel=0.02)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ImageError, match="found no text such as"):
        find_scale_bar(np.full((200, 300, 3), 90, np.uint8))
    image = micrograph("50 µm")
    image[434:446] = image[0, 0]
    with pytest.raises(ImageError, match="50 µm, but no bar near it"):
        find_scale_bar(image)
