from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.visual_tools.regions.scenes import load_sample, make_scene
from visual_tools import ImageError, binarize
from visual_tools.regions.binary import Binary


def square(back: Any, front: Any, height: int = 60, width: int = 80) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    image = np.full((height, width, 3), back, np.uint8)
    mask = np.zeros((height, width), dtype=bool)
    mask[20:40, 30:60] = True
    image[mask] = front
    return image, mask


@pytest.mark.parametrize(
    ("back", "front", "kind"),
    [
        (255, 0, "dark"),
        (0, 255, "light"),
        (120, 160, "light"),
        ((200, 40, 40), (40, 160, 40), "light"),
        (250, (255, 225, 230), "dark"),
    ],
)
def test_what_differs_from_the_background_is_found(back: Any, front: Any, kind: str) -> None:
    image, mask = square(back, front)
    found = binarize(image)
    assert np.array_equal(found.mask, mask)
    assert (found.method, found.foreground, found.share) == ("background", kind, 0.125)


def test_only_the_darker_or_only_the_lighter() -> None:
    image, dark = square(128, 20)
    image[2:10, 2:10] = 250
    light = np.zeros_like(dark)
    light[2:10, 2:10] = True
    assert np.array_equal(binarize(image).mask, dark | light)
    assert np.array_equal(binarize(image, foreground="dark").mask, dark)
    assert np.array_equal(binarize(image, foreground="light").mask, light)


def test_a_gradient_is_no_foreground() -> None:
    image = np.repeat(np.linspace(30, 220, 200, dtype=np.uint8)[None, :, None], 100, axis=0).repeat(3, axis=2)
    assert not binarize(image).mask.any()
    image[40:60, 90:110] = 255
    mask = np.zeros((100, 200), dtype=bool)
    mask[40:60, 90:110] = True
    assert np.array_equal(binarize(image).mask, mask)


def test_uneven_light_and_noise_move_no_edge_far() -> None:
    even, dim = (make_scene("circles", 3, light=light, noise=noise) for light, noise in ((0, 0), (0.6, 8)))
    assert even.shapes == dim.shapes
    true = sum(shape.area for shape in even.shapes) / even.image[..., 0].size
    assert binarize(even.image).share == pytest.approx(true, rel=0.01)
    assert binarize(dim.image).share == pytest.approx(true, rel=0.05)


def test_the_other_methods() -> None:
    image, mask = square(200, 90)
    assert np.array_equal(binarize(image, method="otsu").mask, mask)
    assert np.array_equal(binarize(image, method="fixed", threshold=150).mask, mask)
    assert np.array_equal(binarize(image, method="fixed", threshold=150, foreground="light").mask, ~mask)
    assert binarize(image, method="fixed", threshold=150).threshold == 150
    assert binarize(image, method="adaptive").mask[20:40, 30:60].any(axis=0).all()


def test_adaptive_reads_a_page_in_bad_light() -> None:
    page = load_sample("page")
    found = binarize(page, method="adaptive")
    assert found.foreground == "dark"
    assert 0.03 < found.share < 0.15
    thirds = [float(found.mask[:, start : start + 128].mean()) for start in (0, 128, 256)]
    assert max(thirds) < 2.5 * min(thirds)


@pytest.mark.parametrize("color", ["red", "#ff0000", (255, 0, 0), "crimson"])
def test_a_colour(color: Any) -> None:
    image, mask = square(255, (235, 10, 10))
    image[:8] = (10, 10, 235)
    found = binarize(image, color=color, tolerance=30)
    assert np.array_equal(found.mask, mask)
    assert (found.method, found.foreground) == ("color", "dark")


def test_masks_grey_and_transparent_pictures_are_taken() -> None:
    image, mask = square(255, 0)
    assert np.array_equal(binarize(mask).mask, mask)
    assert np.array_equal(binarize(mask.astype(np.uint8) * 255).mask, mask)
    grey = image[..., 0].copy()
    grey[0, 0] = 254  # a third value: no mask
    assert np.array_equal(binarize(grey).mask, mask)
    transparent = np.dstack([np.zeros((60, 80, 3), np.uint8), mask.astype(np.uint8) * 255])
    assert np.array_equal(binarize(transparent).mask, mask)


def test_files_and_float_pictures_are_taken(tmp_path: Path) -> None:
    image, mask = square(255, 0)
    Image.fromarray(image).save(tmp_path / "a.png")
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(image), image / 255):
        assert np.array_equal(binarize(source).mask, mask)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 50, 3), (50, 1, 3), (2, 3, 3)])
def test_tiny_and_even_pictures_have_no_foreground(shape: tuple[int, int, int]) -> None:
    for value in (0, 77, 255):
        assert binarize(np.full(shape, value, np.uint8)).share == 0


@pytest.mark.parametrize(
    ("image", "options", "text"),
    [
        (np.zeros((0, 5, 3), np.uint8), {}, "shape (0, 5, 3)"),
        (np.zeros((5, 5, 2), np.uint8), {}, "shape (5, 5, 2)"),
        (np.full((5, 5, 3), 9.5), {}, "expected 0 to 1"),
        ([[1, 2]], {}, "expected a path"),
        (np.zeros((5, 5, 3), np.uint8), {"method": "fixed"}, "threshold="),
        (np.zeros((5, 5, 3), np.uint8), {"method": "color"}, "color="),
        (np.zeros((5, 5, 3), np.uint8), {"method": "osu"}, "'osu'"),
        (np.zeros((5, 5, 3), np.uint8), {"foreground": "black"}, "'black'"),
        (np.zeros((5, 5, 3), np.uint8), {"color": "redd"}, "'redd'"),
        (np.zeros((5, 5, 3), np.uint8), {"color": (1, 2)}, "three numbers"),
    ],
)
def test_wrong_input_says_what_to_do(image: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ImageError) as caught:
        binarize(image, **options)
    assert text in str(caught.value)


def test_the_result_reads_well() -> None:
    image, _ = square(255, 0)
    found = binarize(image)
    assert repr(found) == (f"Binary(method='background', threshold={found.threshold}, foreground='dark', share=0.125)")
    assert isinstance(found, Binary)
