"""How much of each of three colours is in a pixel: edges, and lines on edges, to parts of a pixel."""

import numpy as np
from numpy.typing import NDArray

_NOISE = 20.0


def unmix(
    own: NDArray[np.float32], first: NDArray[np.float32], second: NDArray[np.float32], third: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Parts of three colours that together look most like a pixel.

    Where the three lie in one line, or the third is one of the other two, the pixel is taken for a mixture of the
    first two.

    Args:
        own: Colours of the pixels, (N, 3).
        first: One colour, (N, 3) or (3,).
        second: Another one, likewise.
        third: Another one, likewise.

    Returns:
        The parts, (3, N), which add up to 1 and are outside 0 to 1 for colours that are no mixture; and how far the
        mixture is from the pixel, (N,), in levels of 0 to 255.

    Source:
        Least squares for own = first + x (second - first) + y (third - first), with a ridge on y.
    """
    is_two = (first == third).all(axis=-1) | (second == third).all(axis=-1)
    step, turn = second - first, np.where(is_two[..., None], 0, third - first)
    own = own - first
    step_step, step_turn = (step**2).sum(axis=-1) + 1, (step * turn).sum(axis=-1)
    turn_turn = (turn**2).sum(axis=-1) + _NOISE**2
    own_step, own_turn = (own * step).sum(axis=-1), (own * turn).sum(axis=-1)
    scale = step_step * turn_turn - step_turn**2
    x = (turn_turn * own_step - step_turn * own_turn) / scale
    y = (step_step * own_turn - step_turn * own_step) / scale
    beside = np.linalg.norm(own - x[:, None] * step - y[:, None] * turn, axis=-1)
    return np.stack([1 - x - y, x, y]), beside
