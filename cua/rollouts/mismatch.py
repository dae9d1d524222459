"""Differences between the log-probabilities of rollout engine and trainer for the same tokens."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cua.rollouts.samples import SampleError

MAX_K3 = 5e-3
"""k3 above which a run with the same weights should stop. Dense models in bf16 stay below 1e-3; mixtures of experts
whose routes are not replayed reach 1e-2 and more."""
MIN_IMAGE_EFFECT = 1e-4
"""Mean change of a log-probability by black images below which images do not reach the trainer."""
_MAX_LOG_RATIO = 20.0  # of verl; exp of it is still finite in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMismatch:
    """Estimates over the trained tokens; d = log-probability of the trainer - log-probability of the rollout.

    Attributes:
        num_tokens: Number of trained tokens.
        k1: Mean of -d, an unbiased estimate of the KL divergence.
        k3: Mean of exp(d) - 1 - d, which is never negative.
        sequence_ratio: exp of the sum of d.
        abs_p99: 99th percentile of abs(d).
        abs_max: Maximum of abs(d).
        share_below: Share of tokens with d below the lower bound; their gradient is zero in equation 1 of the report.
        share_above: Share of tokens with d above the upper bound.
    """

    num_tokens: int
    k1: float
    k3: float
    sequence_ratio: float
    abs_p99: float
    abs_max: float
    share_below: float
    share_above: float


def measure_mismatch(
    rollout: NDArray[np.floating],
    trainer: NDArray[np.floating],
    mask: NDArray[np.bool_],
    *,
    log_bounds: tuple[float, float] = (-0.6931, 0.6931),
) -> PolicyMismatch:
    """Compare two log-probabilities of each token.

    Args:
        rollout: Log-probabilities of the rollout, [T].
        trainer: Log-probabilities of the trainer, [T].
        mask: True for trained tokens, [T].
        log_bounds: Bounds of d; default: a ratio of 1/2 and 2. The report does not publish its own.

    Raises:
        SampleError: If the shapes differ, no token is trained, or a log-probability is not finite.
    """
    if not rollout.shape == trainer.shape == mask.shape:
        raise SampleError(f"log-probabilities of {rollout.shape} and {trainer.shape}, a mask of {mask.shape}")
    difference = (trainer.astype(np.float64) - rollout.astype(np.float64))[mask]
    if not len(difference) or not np.isfinite(difference).all():
        raise SampleError("no token is trained, or a log-probability is not finite")
    clipped = np.clip(difference, -_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    low, high = log_bounds
    return PolicyMismatch(
        num_tokens=len(difference),
        k1=float(-difference.mean()),
        k3=float((np.exp(clipped) - 1.0 - clipped).mean()),
        sequence_ratio=float(np.exp(np.clip(difference.sum(), -_MAX_LOG_RATIO, _MAX_LOG_RATIO))),
        abs_p99=float(np.percentile(np.abs(difference), 99)),
        abs_max=float(np.abs(difference).max()),
        share_below=float((difference < low).mean()),
        share_above=float((difference > high).mean()),
    )


def measure_image_effect(shown: NDArray[np.floating], black: NDArray[np.floating]) -> float:
    """Return the mean absolute change of the trainer's log-probabilities by black images.

    A trainer that gets no images, or always the same, learns with a loss that looks normal.

    Args:
        shown: Log-probabilities of trained tokens with the images of their samples, [N].
        black: The same with black images of the same sizes, [N].

    Raises:
        SampleError: If the shapes differ, or no token is trained.
    """
    if shown.shape != black.shape or not len(shown):
        raise SampleError(f"log-probabilities of {shown.shape} and {black.shape}")
    return float(np.abs(shown.astype(np.float64) - black.astype(np.float64)).mean())
