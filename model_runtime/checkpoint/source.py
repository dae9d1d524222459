"""Where the model's layers get their weights from."""

from typing import TYPE_CHECKING, Protocol

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
