import numpy as np
import pytest

from apps.video2web.layout.markup import write_markup
from apps.video2web.layout.primitives import find_pieces
from apps.video2web.layout.tree import build_tree


@pytest.mark.parametrize("shape", [(1, 1, 3), (40, 300, 3), (3, 2000, 3)])
def test_nothing_on_a_page_and_tiny_images(shape: tuple[int, int, int]) -> None:
    image = np.full(shape, 250, np.uint8)
    markup = write_markup(build_tree(find_pieces(image)), image)
    assert "<body>" in markup.html
    assert markup.images == {}
