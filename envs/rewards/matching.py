"""F1 of predictions and truths under optimal soft matching."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def match_f1(similarity: NDArray[np.float64]) -> float:
    """Return 2 * sum(matched similarities) / (P + G) for the matching with the highest sum.

    Copies of a right prediction lower the score, because each truth is matched once.

    Args:
        similarity: Values in [0, 1], [P, G]: predictions by truths.

    Returns:
        Score in [0, 1]; 1 if there are neither predictions nor truths, 0 if one of both is missing.
    """
    from scipy.optimize import linear_sum_assignment

    num_predictions, num_truths = similarity.shape
    if num_predictions + num_truths == 0:
        return 1.0
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(2 * similarity[rows, columns].sum() / (num_predictions + num_truths))


def keep_labels(
    similarity: NDArray[np.float64], predictions: Sequence[str], truths: Sequence[str]
) -> NDArray[np.float64]:
    """Return similarities, [P, G], that are 0 where the labels differ."""
    same = np.array([[label == other for other in truths] for label in predictions], bool)
    return np.where(same.reshape(similarity.shape), similarity, 0.0)
