"""Separate foreground from background by one of five methods: one bit per pixel.

The background is modelled as a smooth surface of colour. Its class is the one that runs along the border; a cubic in x
and y is fitted to it and outliers are removed, repeatedly, until objects no longer influence the fit.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.inputs import Mask, RgbImage, to_image, to_mask

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_FIT_SIDE_PX = 300
_DEGREES = (0, 1, 2, 2, 3, 3, 3, 3)
_MAX_FIT_PIXELS = 20_000
_OUTLIER = 2.5
"""Multiple of the median distance of background pixels above which a pixel is removed before the next round."""

_MIN_OUTLIER_DISTANCE = 2.0
_BORDER_WEIGHT = 2 / 3
_BLOCK_PIXELS = 2_000_000
Method = Literal["auto", "otsu", "adaptive", "fixed", "color"]
Foreground = Literal["auto", "dark", "light"]
Color = str | tuple[int, int, int]
_MIN_DISTANCE = 4.0
"""Minimum colour difference of an object: about two just noticeable ones (2.3 each)."""
_NOISE_FACTOR = 5.0
_MIN_OTSU_SHARE, _MAX_OTSU_SHARE, _OTSU_SHARE_PER_NOISE = 0.2, 0.7, 0.5
"""Share of Otsu's threshold that is used, lower the less noise the background has.

Pale objects next to strong ones are thus found; each object is then cut at half of its own contrast.
"""
_KIND_SHARE = 0.9
_MIN_NOISE_LEVELS = 4.0
_BLUR_PER_LEVEL = 0.15
_MAX_BLUR_PX = 2.5
_MIN_DENOISE_SIDE_PX = 8
_STRAY_LEVELS = 40
_STRAY_SHARE = 0.004
_ADAPTIVE_BLOCKS = 16
_MIN_ADAPTIVE_PX = 15
_ADAPTIVE_OFFSET = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundDistance:
    """Distance of each pixel from the background.

    Attributes:
        distance: (H, W) float32, CIE76 colour difference (Euclidean in Lab, 100 is black to white).
        is_lighter: (H, W) bool, True where a pixel is lighter than the local background.
        noise: Median distance of background pixels.
    """

    distance: NDArray[np.float32] = field(repr=False)
    is_lighter: NDArray[np.bool_] = field(repr=False)
    noise: float


def otsu_threshold(values: NDArray[np.floating] | NDArray[np.uint8]) -> tuple[float, float]:
    """Return the threshold that best separates values into two classes, and the between-class variance.

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
    # Between two distant classes every threshold scores equally: the middle one is the least sensitive.
    best = np.flatnonzero(spread >= spread.max() * (1 - 1e-9))
    return float(centres[best].mean()), float(spread.max())


def measure_background_distance(image: RgbImage) -> BackgroundDistance:
    """Measure the distance of each pixel of an image, (H, W, 3) uint8 RGB, from its background."""
    coefficients = _fit_background(image)
    height, width = image.shape[:2]
    distance = np.empty((height, width), dtype=np.float32)
    is_lighter = np.empty((height, width), dtype=np.bool_)
    rows = max(_BLOCK_PIXELS // width, 1)
    y_powers, x_powers = _powers(height), _powers(width)
    for top in range(0, height, rows):
        lab = to_lab(image[top : top + rows])
        lab -= np.stack([y_powers[top : top + rows] @ table @ x_powers.T for table in coefficients], axis=-1)
        is_lighter[top : top + rows] = lab[..., 0] > 0
        np.sqrt(np.einsum("hwc,hwc->hw", lab, lab), out=distance[top : top + rows])
    sample = distance[:: max(height // 512, 1), :: max(width // 512, 1)]
    near = sample[sample <= max(otsu_threshold(sample)[0], _MIN_OUTLIER_DISTANCE)]
    return BackgroundDistance(distance=distance, is_lighter=is_lighter, noise=float(np.median(near)))


def to_lab(image: RgbImage) -> NDArray[np.float32]:
    """Convert (H, W, 3) uint8 RGB to (H, W, 3) float32 CIE Lab; L from 0 to 100."""
    lab: NDArray[np.float32] = cv2.cvtColor(image.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2LAB)
    return lab


def is_background_high(is_high: NDArray[np.bool_]) -> bool:
    """Return True if the high class is the background: the class with more of the border and of the area."""
    border = np.concatenate((is_high[0], is_high[-1], is_high[:, 0], is_high[:, -1]))
    share = _BORDER_WEIGHT * float(border.mean()) + (1 - _BORDER_WEIGHT) * float(is_high.mean())
    return share > 0.5


def _powers(num: int) -> NDArray[np.float32]:
    """Return 1, t, t^2, t^3 for t from -1 to 1: (num, 4) float32."""
    return np.vander(np.linspace(-1, 1, num) if num > 1 else np.zeros(1), 4, increasing=True).astype(np.float32)


def _fit_background(image: RgbImage) -> NDArray[np.float32]:
    """Fit the background; return the factors of y^i x^j for L, a and b: (3, 4, 4) float32."""
    height, width = image.shape[:2]
    scale = min(1.0, _FIT_SIDE_PX / max(height, width))
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    lab = to_lab(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
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
    """Split the pixels into two classes by the channel that separates best; return the background class."""
    splits = [otsu_threshold(lab[..., channel]) for channel in range(3)]
    best = max(range(3), key=lambda channel: splits[channel][1])
    is_high = np.asarray(lab[..., best] > splits[best][0])
    return is_high if is_background_high(is_high) else ~is_high


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Binarized image.

    Attributes:
        mask: (H, W) bool, True is foreground.
        method: "background" (used by "auto"), "otsu", "adaptive", "fixed", "color", or "mask" for a given mask.
        threshold: Colour difference (CIE76) for "background" and "color", distance from the local mean for "adaptive",
            otherwise a grey level from 0 to 255.
        foreground: "dark" or "light" if the foreground is darker or lighter than the background.
        share: Share of the image that is foreground, 0 to 1.
    """

    mask: Mask = field(repr=False)
    method: str
    threshold: float
    foreground: Literal["dark", "light"]
    share: float


def binarize(
    image: ImageSource,
    *,
    method: Method = "auto",
    threshold: float | None = None,
    color: Color | None = None,
    tolerance: float = 20.0,
    foreground: Foreground = "auto",
) -> Binary:
    """Separate foreground from background.

    Args:
        image: Anything `load_image` takes, such as a file; a mask (H, W) bool is returned unchanged.
        method: "auto" finds the background's colour, also under uneven light, and selects what differs from it, darker,
            lighter or of another colour. "otsu" uses one grey level for the whole image; "adaptive" compares with the
            surroundings (for thin objects such as writing); "fixed" uses `threshold`; "color" selects what looks like
            `color`.
        threshold: Grey level from 0 to 255 for "fixed"; for "auto" a colour difference that overrides the automatic
            one.
        color: RGB, "#rrggbb" or a CSS name. If given alone, the method is "color".
        tolerance: Largest colour difference for "color" (CIE76; 2 is barely visible, 100 is black to white).
        foreground: "dark" or "light" to keep only what is darker or lighter than the background.

    Raises:
        ImageError: If there is no image, the method is unknown, or an argument that the method needs is missing.

    Example:
        >>> page = np.full((100, 100, 3), 255, np.uint8)
        >>> page[20:30, 20:70] = 0
        >>> binarize(page).share
        0.05
    """
    if color is not None and method == "auto":
        method = "color"
    if foreground not in ("auto", "dark", "light"):
        raise ImageError(f"found foreground={foreground!r}, expected 'auto', 'dark' or 'light'")
    mask = to_mask(image)
    if mask is not None and method == "auto":
        return _make(mask, "mask", 0.5, "light")
    pixels = to_image(image)
    match method:
        case "auto":
            return _by_background(pixels, threshold, foreground)
        case "otsu":
            return _by_level(pixels, "otsu", None, foreground)
        case "fixed":
            if threshold is None:
                raise ImageError("method 'fixed' needs threshold=, a grey level from 0 to 255")
            return _by_level(pixels, "fixed", threshold, foreground)
        case "adaptive":
            return _by_surroundings(pixels, threshold, foreground)
        case "color":
            if color is None:
                raise ImageError("method 'color' needs color=, for example color='red' or color=(200, 30, 30)")
            return _by_color(pixels, color, tolerance)
    raise ImageError(f"found method={method!r}, expected 'auto', 'otsu', 'adaptive', 'fixed' or 'color'")


def parse_color(color: Color) -> tuple[int, int, int]:
    """Parse a colour: CSS name, "#rrggbb" or three numbers.

    Raises:
        ImageError: If it is none of these.
    """
    if isinstance(color, str):
        from PIL import ImageColor

        try:
            red, green, blue = ImageColor.getrgb(color)[:3]
        except ValueError as error:
            raise ImageError(f"found colour {color!r}, expected a CSS name such as 'red', or '#rrggbb'") from error
        return red, green, blue
    values = tuple(int(value) for value in color)
    if len(values) != 3 or not all(0 <= value <= 255 for value in values):
        raise ImageError(f"found colour {color!r}, expected three numbers from 0 to 255")
    return values[0], values[1], values[2]


def denoise(image: RgbImage) -> RgbImage:
    """Smooth a noisy image as little as necessary; a clean one is returned unchanged."""
    if min(image.shape[:2]) < _MIN_DENOISE_SIDE_PX:
        return image
    green = np.ascontiguousarray(image[:2048, :2048, 1])
    stray = _share_of_stray_pixels(green)
    if stray > _STRAY_SHARE:
        image = cv2.medianBlur(np.ascontiguousarray(image), 3 if stray < 10 * _STRAY_SHARE else 5)
        green = np.ascontiguousarray(image[:2048, :2048, 1])
    noise = 1.4826 * float(np.median(cv2.absdiff(green, cv2.medianBlur(green, 3))))
    if noise < _MIN_NOISE_LEVELS:
        return image
    smooth: RgbImage = cv2.GaussianBlur(image, (0, 0), min(noise * _BLUR_PER_LEVEL, _MAX_BLUR_PX))
    return smooth


def _share_of_stray_pixels(grey: NDArray[np.uint8]) -> float:
    """Return the share of pixels far above or below all eight neighbours, as in salt-and-pepper noise."""
    around = np.ones((3, 3), dtype=np.uint8)
    around[1, 1] = 0
    above = cv2.subtract(grey, cv2.dilate(grey, around))
    below = cv2.subtract(cv2.erode(grey, around), grey)
    return float(np.count_nonzero(cv2.max(above, below) > _STRAY_LEVELS)) / grey.size


def _make(mask: Mask, method: str, threshold: float, foreground: Literal["dark", "light"]) -> Binary:
    return Binary(
        mask=mask, method=method, threshold=threshold, foreground=foreground, share=round(float(mask.mean()), 6)
    )


def _by_background(image: RgbImage, threshold: float | None, foreground: Foreground) -> Binary:
    background = measure_background_distance(denoise(image))
    distance = background.distance
    if foreground != "auto":
        distance = np.where(background.is_lighter == (foreground == "light"), distance, np.float32(0))
    if threshold is None:
        height, width = distance.shape
        sample = distance[:: max(height // 1024, 1), :: max(width // 1024, 1)]
        middle = otsu_threshold(np.minimum(sample, np.percentile(sample, 99)))[0]
        share = min(_MIN_OTSU_SHARE + _OTSU_SHARE_PER_NOISE * background.noise, _MAX_OTSU_SHARE)
        threshold = max(share * middle, _NOISE_FACTOR * background.noise, _MIN_DISTANCE)
        mask = _cut_at_half_contrast(distance, np.asarray(distance > threshold))
        mask = _without_dark_corners(mask, background.is_lighter)
    else:
        mask = np.asarray(distance > threshold)
    is_light = bool(np.count_nonzero(background.is_lighter & mask) * 2 >= np.count_nonzero(mask))
    return _make(mask, "background", round(float(threshold), 2), "light" if is_light else "dark")


def _cut_at_half_contrast(distance: NDArray[np.float32], mask: Mask) -> Mask:
    """Cut each region at half of its own mean distance, the true position of a blurred edge.

    This removes faint rims and shadows.
    """
    num, labels = cv2.connectedComponents(mask.view(np.uint8), connectivity=8)
    if num == 1:
        return mask
    inside, values = labels[mask], distance[mask]
    sums = np.bincount(inside, weights=values, minlength=num)
    # Each pixel is weighted by its own distance, so that rims hardly lower the mean.
    means = np.bincount(inside, weights=values * values, minlength=num) / np.maximum(sums, 1e-6)
    return np.asarray(mask & (distance > (means / 2).astype(np.float32)[labels]))


def _without_dark_corners(mask: Mask, is_lighter: NDArray[np.bool_]) -> Mask:
    """Remove what touches the border and is dark where nearly everything is light, or the reverse.

    Such regions are the edge of a photo.
    """
    num_light, num_all = int(np.count_nonzero(mask & is_lighter)), int(np.count_nonzero(mask))
    if not num_all or 1 - _KIND_SHARE < num_light / num_all < _KIND_SHARE:
        return mask
    odd = mask & (is_lighter != (num_light > num_all / 2))
    num, labels = cv2.connectedComponents(odd.view(np.uint8), connectivity=8)
    at_border = np.zeros(num, dtype=bool)
    at_border[np.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1]))] = True
    at_border[0] = False
    return np.asarray(mask & ~at_border[labels])


def _to_grey(image: RgbImage) -> NDArray[np.uint8]:
    grey: NDArray[np.uint8] = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    return grey


def _by_level(image: RgbImage, method: str, threshold: float | None, foreground: Foreground) -> Binary:
    grey = _to_grey(image)
    if threshold is None:
        threshold = otsu_threshold(grey)[0]
    is_light = np.asarray(grey > threshold)
    if foreground == "auto":
        foreground = "dark" if is_background_high(is_light) else "light"
    mask = is_light if foreground == "light" else ~is_light
    return _make(mask, method, round(float(threshold), 2), foreground)


def _by_surroundings(image: RgbImage, threshold: float | None, foreground: Foreground) -> Binary:
    grey = _to_grey(image)
    sigma = max(min(grey.shape) / _ADAPTIVE_BLOCKS, _MIN_ADAPTIVE_PX) / 3
    offset = _ADAPTIVE_OFFSET if threshold is None else threshold
    above = grey.astype(np.int16) - cv2.GaussianBlur(grey, (0, 0), sigma)
    if foreground == "auto":  # strokes differ more from the mean than the paper around them
        foreground = "light" if above.max(initial=0) > -above.min(initial=0) else "dark"
    mask = above > offset if foreground == "light" else above < -offset
    return _make(np.asarray(mask), "adaptive", float(offset), foreground)


def _by_color(image: RgbImage, color: Color, tolerance: float) -> Binary:
    wanted = to_lab(np.array([[parse_color(color)]], dtype=np.uint8))[0, 0]
    mask = np.empty(image.shape[:2], dtype=np.bool_)
    light_inside = light_outside = 0.0
    rows = max(2_000_000 // image.shape[1], 1)
    for top in range(0, image.shape[0], rows):
        lab = to_lab(image[top : top + rows])
        hit = np.linalg.norm(lab - wanted, axis=2) <= tolerance
        mask[top : top + rows] = hit
        light_inside += float(lab[..., 0][hit].sum())
        light_outside += float(lab[..., 0][~hit].sum())
    inside = int(np.count_nonzero(mask))
    is_light = light_inside / max(inside, 1) > light_outside / max(mask.size - inside, 1)
    return _make(mask, "color", float(tolerance), "light" if is_light else "dark")
