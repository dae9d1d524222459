"""A brightness or contrast that differs over the whole picture is no difference: it is measured and taken out."""

import numpy as np
from numpy.typing import NDArray

_SAMPLES = 20_000
_TRIALS = 300
_NEAR = 5  # levels
_GAINS = (0.5, 2.0)
_ENOUGH = 0.45  # of the pixels must agree with a tone curve
_BETTER_BY = 0.15
_MIN_SPREAD = 8.0  # levels: in a picture of one colour nothing tells a tone from a change
_MAX_SHIFT = 70.0  # levels at middle grey


def match_tone(
    first: NDArray[np.uint8], second: NDArray[np.uint8], covered: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Both pictures with one gain and offset a channel taken out, found on what most pixels agree on.

    The darker one of the two is made brighter or the other way round, so that what was clipped at 255 is clipped
    in both. Nothing is done where most pixels already agree.

    Args:
        first: (H, W, 3) uint8.
        second: The same size.
        covered: (H, W) uint8, 0 where the second shows nothing.
    """
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, side, _SAMPLES) for side in covered.shape)
    inside = covered[rows, columns] > 0
    if covered.size < 100 or np.count_nonzero(inside) < 100:
        return first, second
    rows, columns = rows[inside], columns[inside]
    before, after = (image[rows, columns].astype(np.float32) for image in (first, second))
    if _share(after - before, 3) > 0.8 or min(before.std(), after.std()) < _MIN_SPREAD:
        return first, second
    curves = [_fit_tone(before[:, channel], after[:, channel], rng) for channel in range(3)]
    gains, offsets = (np.array([curve[part] for curve in curves], np.float32) for part in (0, 1))
    middles = gains * 128 + offsets
    if np.abs(middles - 128).max() > _MAX_SHIFT:
        return first, second
    agreeing = _share(after - np.clip(before * gains + offsets, 0, 255), _NEAR)
    if agreeing < _ENOUGH or agreeing < _share(after - before, _NEAR) + _BETTER_BY:
        return first, second
    if middles.mean() >= 128:
        return _apply(first, gains, offsets), second
    return first, _apply(second, 1 / gains, -offsets / gains)


def _share(errors: NDArray[np.float32], near: float) -> float:
    return float(np.mean(np.abs(errors).max(axis=1) <= near))


def _fit_tone(before: NDArray[np.float32], after: NDArray[np.float32], rng: np.random.Generator) -> tuple[float, float]:
    """Gain and offset that most pixels agree on: a plain offset, or the line through two pixels."""
    trials = rng.integers(0, before.size, (2, _TRIALS))
    (low, high), (low_after, high_after) = before[trials], after[trials]
    apart = np.abs(high - low) > 40
    gains = np.divide(high_after - low_after, high - low, out=np.ones_like(low), where=apart)
    gains = np.where((gains > _GAINS[0]) & (gains < _GAINS[1]), gains, 1.0)
    offsets = low_after - gains * low
    few = rng.integers(0, before.size, 2000)
    errors = np.abs(after[few, None] - np.clip(before[few, None] * gains + offsets, 0, 255))
    best = int(np.argmax((errors <= _NEAR).mean(axis=0)))
    gain, offset = float(gains[best]), float(offsets[best])
    close = (np.abs(after - (before * gain + offset)) <= _NEAR) & (after > 0) & (after < 255)
    if np.count_nonzero(close) > 50 and before[close].std() > 10:
        slope, start = np.polyfit(before[close], after[close], 1)
        return float(slope), float(start)
    return gain, offset


def _apply(image: NDArray[np.uint8], gains: NDArray[np.floating], offsets: NDArray[np.floating]) -> NDArray[np.uint8]:
    levels = np.arange(256, dtype=np.float32)[:, None]
    table = np.clip(np.rint(levels * gains + offsets), 0, 255).astype(np.uint8)
    return np.stack([table[:, channel][image[:, :, channel]] for channel in range(3)], axis=2)
