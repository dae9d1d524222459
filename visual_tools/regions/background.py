"""How far each pixel's colour is from the background's, also where the light is uneven.

The background is a smooth surface of colour: its class is the one that runs along the border, a cubic in x and y is
fitted to it, pixels that do not fit are left out, and again, until objects no longer pull at it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.regions.inputs import Picture
from visual_tools.require import require

_FIT_SIDE_PX = 300
_DEGREES = (0, 1, 2, 2, 3, 3, 3, 3)
_MAX_FIT_PIXELS = 20_000
_OUTLIER = 2.5
"""Times the median distance of background pixels; further ones are no background in the next round."""

_MIN_OUTLIER_DISTANCE = 2.0
_BORDER_WEIGHT = 2 / 3
_BLOCK_PIXELS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundDistance:
    """Distance of each pixel from the background.

    Attributes:
        distance: (H, W) float32, CIE76 colour difference (Euclidean in Lab, 100 is black to white).
        is_lighter: (H, W) bool, where a pixel is lighter than the background there.
        noise: Median distance of background pixels.
    """

    distance: NDArray[np.float32] = field(repr=False)
    is_lighter: NDArray[np.bool_] = field(repr=False)
    noise: float


def otsu_threshold(values: NDArray[np.floating] | NDArray[np.uint8]) -> tuple[float, float]:
    """The threshold that separates values into two classes best, and the variance between the two.

    Source: N. Otsu, A threshold selection method from gray-level histograms, 1979.
    """
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-6:
        return high, 0.0
    counts, edges = np.histogram(values, bins=256, range=(low, high))
    centres = (edges[1:] + edges[:-1]) / 2
    share = np.cumsum(counts) / counts.sum()
    moment = np.cumsum(counts * centres) / counts.sum()
    spread = np.zeros(256)
    inner = (share > 0) & (share < 1)
    spread[inner] = (moment[-1] * share[inner] - moment[inner]) ** 2 / (share[inner] * (1 - share[inner]))
    # Between two far classes every threshold is as good: the middle one is the least sensitive.
    best = np.flatnonzero(spread >= spread.max() * (1 - 1e-9))
    return float(centres[best].mean()), float(spread.max())


def measure_background_distance(picture: Picture) -> BackgroundDistance:
    """Distance of each pixel of a picture, (H, W, 3) uint8 RGB, from its background."""
    coefficients = _fit_background(picture)
    height, width = picture.shape[:2]
    distance = np.empty((height, width), dtype=np.float32)
    is_lighter = np.empty((height, width), dtype=np.bool_)
    rows = max(_BLOCK_PIXELS // width, 1)
    y_powers, x_powers = _powers(height), _powers(width)
    for top in range(0, height, rows):
        lab = to_lab(picture[top : top + rows])
        lab -= np.stack([y_powers[top : top + rows] @ table @ x_powers.T for table in coefficients], axis=-1)
        is_lighter[top : top + rows] = lab[..., 0] > 0
        np.sqrt(np.einsum("hwc,hwc->hw", lab, lab), out=distance[top : top + rows])
    sample = distance[:: max(height // 512, 1), :: max(width // 512, 1)]
    near = sample[sample <= max(otsu_threshold(sample)[0], _MIN_OUTLIER_DISTANCE)]
    return BackgroundDistance(distance=distance, is_lighter=is_lighter, noise=float(np.median(near)))


def to_lab(picture: Picture) -> NDArray[np.float32]:
    """(H, W, 3) float32 CIE Lab of (H, W, 3) uint8 RGB; L from 0 to 100."""
    cv2 = require("cv2", "visual")
    lab: NDArray[np.float32] = cv2.cvtColor(picture.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2LAB)
    return lab


def is_background_high(is_high: NDArray[np.bool_]) -> bool:
    """Which of two classes is the background: the one that has more of the border and of the area."""
    border = np.concatenate((is_high[0], is_high[-1], is_high[:, 0], is_high[:, -1]))
    share = _BORDER_WEIGHT * float(border.mean()) + (1 - _BORDER_WEIGHT) * float(is_high.mean())
    return share > 0.5


def _powers(num: int) -> NDArray[np.float32]:
    """(num, 4) float32: 1, t, t^2, t^3 for t from -1 to 1."""
    return np.vander(np.linspace(-1, 1, num) if num > 1 else np.zeros(1), 4, increasing=True).astype(np.float32)


def _fit_background(picture: Picture) -> NDArray[np.float32]:
    """(3, 4, 4) float32: for L, a and b the factors of y^i x^j."""
    cv2 = require("cv2", "visual")
    height, width = picture.shape[:2]
    scale = min(1.0, _FIT_SIDE_PX / max(height, width))
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    lab = to_lab(cv2.resize(picture, size, interpolation=cv2.INTER_AREA))
    is_background = _first_guess(lab)
    terms = np.einsum("hi,wj->hwij", _powers(size[1]), _powers(size[0])).reshape(size[1], size[0], 16)
    factors = np.zeros((16, 3), dtype=np.float32)
    for degree in _DEGREES:
        used = [i * 4 + j for i in range(4) for j in range(4) if i + j <= degree]
        inside = np.flatnonzero(is_background)
        inside = inside[:: max(len(inside) // _MAX_FIT_PIXELS, 1)]
        factors[:] = 0
        factors[used] = np.linalg.lstsq(terms.reshape(-1, 16)[inside][:, used], lab.reshape(-1, 3)[inside])[0]
        distance = np.linalg.norm(lab - terms @ factors, axis=2)
        reach = max(_OUTLIER * float(np.median(distance[is_background])), _MIN_OUTLIER_DISTANCE)
        is_background = distance <= reach
        if not is_background.any():
            break
    return factors.T.reshape(3, 4, 4)


def _first_guess(lab: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Two classes by the channel that separates best; the background's one."""
    splits = [otsu_threshold(lab[..., channel]) for channel in range(3)]
    best = max(range(3), key=lambda channel: splits[channel][1])
    is_high = np.asarray(lab[..., best] > splits[best][0])
    return is_high if is_background_high(is_high) else ~is_high
