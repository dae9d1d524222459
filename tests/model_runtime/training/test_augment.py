import random

import numpy as np
import pytest
from PIL import Image

from model_runtime.training.augment import augment, move_points


@pytest.mark.parametrize("seed", range(8))
def test_points_move_with_the_image(seed: int) -> None:
    """The middle of a bright square is found in the picture where the matrix says, to less than half a pixel."""
    rng = random.Random(seed)
    pixels = np.zeros((120, 200), np.uint8)
    left, top = rng.randrange(10, 180), rng.randrange(10, 100)
    pixels[top : top + 7, left : left + 7] = 255
    moved, matrix = augment(Image.fromarray(pixels), rng)
    brightness = np.asarray(moved, np.float64)
    rows, columns = np.indices(brightness.shape) + 0.5
    found = [(brightness * axis).sum() / brightness.sum() for axis in (columns, rows)]
    expected = move_points(matrix, np.array([[left + 3.5, top + 3.5]]))
    assert np.abs(expected[0] - found).max() < 0.5
    assert np.abs(expected[0] - (left + 3.5, top + 3.5)).max() > 1.0  # it did move
    back = move_points(np.linalg.inv(matrix).astype(np.float64), expected)
    assert back[0] == pytest.approx([left + 3.5, top + 3.5])
    assert moved.size == (200, 120)


def test_the_same_seed_gives_the_same_image() -> None:
    image = Image.effect_noise((50, 40), 90)
    first, second = (augment(image, random.Random(5)) for _ in range(2))
    assert first[0].tobytes() == second[0].tobytes()
    assert (first[1] == second[1]).all()
