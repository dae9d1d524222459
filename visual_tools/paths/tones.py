"""Separate an image of a maze into two tones, light and dark, and what is drawn over them in other colours."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Mazes".
SAMPLES = 200_000
MIN_SPREAD = 12.0
STRONG_COLOUR, WEAK_COLOUR, FADED_SLACK = 50, 22, 10
PAGE_LEVEL = 235.0
SMALL_SIDE_PX = 256
UNEVEN_SHARE = 0.92


@dataclass(frozen=True, slots=True, kw_only=True)
class Tones:
    """Image as two tones.

    Attributes:
        light: bool (H, W), the lighter of the two.
        drawn: bool (H, W), pixels of neither tone: coloured dots and the like.
        faded_light: bool (H, W), where a drawn object fades into the light tone, not into the dark one.
        faded_dark: bool (H, W), where a drawn object fades into the dark tone, not into the light one.
    """

    light: NDArray[np.bool_]
    drawn: NDArray[np.bool_]
    faded_light: NDArray[np.bool_]
    faded_dark: NDArray[np.bool_]

    def free(self, road: Literal["light", "dark"]) -> NDArray[np.bool_]:
        """Return the free pixels if this tone is road: the tone, and drawn objects up to their rims."""
        if road == "light":
            return self.light | self.drawn | self.faded_light
        return ~self.light | self.drawn | self.faded_dark


def separate_tones(image: NDArray[np.uint8]) -> Tones:
    """Split an image along the line in colour space through its two main colours.

    Uneven lighting of a page is divided out first.

    Raises:
        ImageError: If the image has one flat colour.
    """
    axes, center = _color_axes(image)
    low, high = _span(image, axes[0], center)
    scale = 255 / (high - low)
    tone = cv2.transform(image, np.append(axes[0] * scale, -low * scale)[None])
    off = _off_axis(image, axes, center)
    gain = _light_gain(tone) if (axes[0] > 0.3).all() else None
    if gain is not None:
        tone, off = (cv2.multiply(levels, gain, dtype=cv2.CV_8U) for levels in (tone, off))
    threshold, _ = cv2.threshold(tone, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    return _with_drawn(tone, off, tone > threshold)


def _color_axes(image: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the main axis of the colours, from dark to light, the two axes across it, and the mean colour."""
    step = max(1, int(np.sqrt(image.shape[0] * image.shape[1] / SAMPLES)))
    sample = image[::step, ::step].reshape(-1, 3).astype(np.float64)
    center = sample.mean(axis=0)
    spread, axes = np.linalg.eigh(np.cov(sample - center, rowvar=False) if len(sample) > 1 else np.zeros((3, 3)))
    if np.sqrt(spread[-1]) < MIN_SPREAD:
        raise ImageError(
            "the image has (nearly) one flat colour, so there are no walls in it. Expected a maze or a map in two "
            "tones; give a bool mask of the free pixels if you have one"
        )
    axes = axes[:, ::-1].T
    return axes * np.where(axes.sum(axis=1) < 0, -1.0, 1.0)[:, None], center


def _span(image: NDArray[np.uint8], axis: NDArray[np.float64], center: NDArray[np.float64]) -> tuple[float, float]:
    step = max(1, int(np.sqrt(image.shape[0] * image.shape[1] / SAMPLES)))
    low, high = np.percentile(image[::step, ::step].reshape(-1, 3) @ axis, (0.5, 99.5))
    return (float(low), float(high)) if (axis <= 0.3).any() else (0.0, float(high))


def _light_gain(tone: NDArray[np.uint8]) -> NDArray[np.float32] | None:
    """Return the factor per pixel that makes the page equally bright, or None if it is.

    The page's brightness is estimated from the lightest spots around each position.
    """
    height, width = tone.shape
    shrink = max(1, min(height, width) / SMALL_SIDE_PX)
    size = (max(1, round(width / shrink)), max(1, round(height / shrink)))
    small = cv2.dilate(tone, np.ones((3, 3), np.uint8))
    small = cv2.resize(small, size, interpolation=cv2.INTER_AREA)
    window = max(3, min(size) // 8 | 1)
    page = cv2.dilate(small, np.ones((window, window), np.uint8))
    page = cv2.GaussianBlur(page, (0, 0), window / 2)
    page = np.maximum(page, np.percentile(page, 95) / 2)
    if page.min() > UNEVEN_SHARE * page.max():
        return None
    gain: NDArray[np.float32] = PAGE_LEVEL / page.astype(np.float32)
    return cv2.resize(gain, (width, height), interpolation=cv2.INTER_LINEAR)  # type: ignore[no-any-return]


def _off_axis(image: NDArray[np.uint8], axes: NDArray[np.float64], center: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the distance of each pixel's colour from the line between the two tones, to a twelfth: (H, W) uint8."""
    matrix = np.column_stack([axes[1:], 128 - axes[1:] @ center])
    across = cv2.absdiff(cv2.transform(image, matrix), (128, 128, 128, 0))
    first, second = across[..., 0], across[..., 1]
    diagonal = cv2.addWeighted(first, np.sqrt(0.5), second, np.sqrt(0.5), 0)
    distance: NDArray[np.uint8] = np.maximum(np.maximum(first, second), diagonal)
    return distance


def _with_drawn(tone: NDArray[np.uint8], off: NDArray[np.uint8], light: NDArray[np.bool_]) -> Tones:
    """Add the pixels far from the line between the two tones, and the adjacent ones that fade out."""
    drawn = off > STRONG_COLOUR
    window = np.ones((7, 7), np.uint8)
    faded = (off > WEAK_COLOUR) & (cv2.dilate(drawn.view(np.uint8), window) > 0)
    darkest = cv2.erode(np.where(drawn, tone, np.uint8(255)), window)
    lightest = cv2.dilate(np.where(drawn, tone, np.uint8(0)), window)
    return Tones(
        light=light,
        drawn=drawn,
        faded_light=faded & (cv2.add(tone, FADED_SLACK) >= darkest),
        faded_dark=faded & (cv2.subtract(tone, FADED_SLACK) <= lightest),
    )
