import numpy as np
import pytest

from visual_tools.errors import ImageError
from visual_tools.pages.similarity import visual_similarity


def _page(shift: int = 0, color: tuple[int, int, int] = (30, 60, 160)) -> np.ndarray:
    page = np.full((480, 640, 3), 250, np.uint8)
    page[:60] = color
    page[120 + shift : 220 + shift, 60:260] = (220, 230, 240)
    page[120 + shift : 220 + shift, 320:560] = (240, 220, 200)
    return page


def test_the_same_page_is_alike_at_any_scale() -> None:
    page = _page()
    assert visual_similarity(page, page).score == pytest.approx(1.0)
    twice = np.repeat(np.repeat(page, 2, axis=0), 2, axis=1)
    assert visual_similarity(page, twice).score > 0.97


def test_parts_name_what_differs() -> None:
    shifted = visual_similarity(_page(), _page(shift=40))
    recoloured = visual_similarity(_page(), _page(color=(160, 60, 30)))
    blank = visual_similarity(_page(), np.full((480, 640, 3), 255, np.uint8))
    assert shifted.edges < 0.75 < shifted.colors
    assert recoloured.colors < 0.95 < recoloured.edges
    assert blank.edges == 0.0
    assert blank.score < min(shifted.score, recoloured.score)


def test_a_page_that_is_too_short_loses_its_missing_part() -> None:
    page = _page()
    half = visual_similarity(np.concatenate([page, page]), page)
    assert half.score < 0.5
    assert half.score == visual_similarity(page, np.concatenate([page, page])).score


def test_no_image_is_refused() -> None:
    with pytest.raises(ImageError):
        visual_similarity(np.zeros((0, 4, 3), np.uint8), _page())
