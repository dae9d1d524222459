from importlib.resources import files

import pytest

from apps.video2web import suite
from benchmarks.web_pages import KINDS, make_page


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_drawn_from_its_seed(kind: str) -> None:
    page = make_page(kind, 3)
    assert page == make_page(kind, 3)
    assert page.html != make_page(kind, 4).html
    assert page.name == f"{kind}-3"
    assert "http" not in page.html
    assert page.viewport_px[0] == (390 if kind == "phone" else 1280)


def test_the_pages_of_the_suite_are_as_they_are_drawn() -> None:
    assert set(suite.KINDS) <= set(KINDS)
    for page in (make_page(kind, seed) for kind in suite.KINDS for seed in suite.DRAWN_SEEDS):
        assert files("apps.video2web").joinpath("data", "pages", f"{page.name}.html").read_text("utf-8") == page.html
