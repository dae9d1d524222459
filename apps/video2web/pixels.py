"""Types of images as arrays."""

import numpy as np
from numpy.typing import NDArray

RgbImage = NDArray[np.uint8]
"""(H, W, 3) uint8 RGB."""

Levels = NDArray[np.uint8]
"""(H, W) uint8: a grey image, differences of two images, or a mask of 0 and 1."""

Mask = NDArray[np.bool_]
"""(H, W) bool."""
