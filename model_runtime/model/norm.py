"""RMSNorm with its weight."""

from torch import Tensor

from model_runtime.model.weights import Weights


class RmsNorm:
    """Source: Zhang and Sennrich 2019, arXiv 1910.07467; every rank holds it whole."""

    def __init__(self, size: int, eps: float, weights: Weights) -> None:
        self.weight = weights.read("weight", (size,))
        self.eps = eps
        self._rms_norm, self._add_rms_norm = weights.placement.ops.rms_norm, weights.placement.ops.add_rms_norm

    def __call__(self, x: Tensor) -> Tensor:
        """(N, size) -> (N, size)."""
        return self._rms_norm(x, self.weight, self.eps)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """(N, size), (N, size) -> the norm of their sum, and the sum."""
        return self._add_rms_norm(x, residual, self.weight, self.eps)
