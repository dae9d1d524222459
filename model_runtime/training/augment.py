"""Random scale and position of an image, with the matrix that moves its coordinates.

Source: Kimi K2.5 report, appendix C.1: augmentation that keeps two-dimensional coordinates right.
"""

import random

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Matrix = NDArray[np.float64]


def augment(image: Image.Image, rng: random.Random, *, min_scale: float = 0.8) -> tuple[Image.Image, Matrix]:
    """Scale an image by a factor from `min_scale` to 1, and place it at random in a black one of the same size.

    Returns:
        The image, and the (3, 3) matrix from old to new coordinates in pixels; the middle of the first pixel is at 0.5.
    """
    scale = rng.uniform(min_scale, 1.0)
    left, top = (rng.uniform(0, (1 - scale) * size) for size in image.size)
    matrix = np.array([[scale, 0, left], [0, scale, top], [0, 0, 1]])
    inverse = np.linalg.inv(matrix)[:2].flatten().tolist()
    return image.transform(image.size, Image.Transform.AFFINE, inverse, Image.Resampling.BILINEAR), matrix


def move_points(matrix: Matrix, points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return (N, 2) points after a transform; a box is two of them."""
    homogeneous = np.concatenate((points, np.ones((len(points), 1))), axis=1) @ matrix.T
    return np.asarray(homogeneous[:, :2] / homogeneous[:, 2:])
