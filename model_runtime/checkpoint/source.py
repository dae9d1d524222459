"""Where the model's layers get their weights from, and the one way from there to where they stay."""

from typing import TYPE_CHECKING, Protocol

from model_runtime.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor


class TensorSource(Protocol):
    """Tensors by their release name. The mapped file is read when a tensor is copied, and only the part asked for."""

    def has(self, name: str) -> bool:
        """Whether a tensor of that release name exists (aliases are resolved)."""
        ...

    def get(self, name: str, index: tuple[slice, ...] = ()) -> "Tensor":
        """A CPU tensor backed by the mapped file, or the part `index` of it; copy it to keep it.

        Raises:
            CheckpointError: There is no such tensor, or its file is truncated or corrupt.
        """
        ...


def copy_into(target: "Tensor", stored: "Tensor", name: str) -> None:
    """Copy a stored tensor, or this rank's part of it, over a weight.

    Raises:
        CheckpointError: The shapes differ.
    """
    if target.shape != stored.shape:
        found, expected = tuple(stored.shape), tuple(target.shape)
        raise CheckpointError(f"{name} has the shape {found}, expected {expected}: config.json and weights disagree")
    target.copy_(stored)
