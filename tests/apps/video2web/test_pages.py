import pytest

from benchmarks.web_pages import KINDS, make_page


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_drawn_from_its_seed(kind: str) -> None:
    page = make_page(kind, 3)
    assert page == make_page(kind, 3)
    assert page.html != make_page(kind, 4).html
    assert page.name == f"{kind}-3"
    assert "http" not in page.html
    assert page.viewport_px[0] == (390 if kind == "phone" else 1280)
