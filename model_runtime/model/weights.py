"""Where the weights of a module come from."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model_runtime.checkpoint.source import TensorSource, copy_into
from model_runtime.placement import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The tensors under one prefix. Reading copies this rank's part from the file to where it stays."""

    source: TensorSource
    placement: Placement
    prefix: str = ""

    def under(self, name: str) -> "Weights":
        """The tensors of a part, for example `self_attn`."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        return self.source.has(self.prefix + name)

    def read(
        self, name: str, shape: tuple[int, ...], index: tuple[slice, ...] = (), *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """A tensor, or the part `index` of it, on the device.

        Args:
            name: Name after the prefix.
            shape: What the part must measure.
            index: Which part.
            dtype: Of the result; None is the model's.

        Raises:
            CheckpointError: It is missing or has another shape.
        """
        out = torch.empty(shape, dtype=dtype or self.placement.dtype, device=self.placement.device)
        self.read_into(out, name, index)
        return out

    def read_into(self, out: Tensor, name: str, index: tuple[slice, ...] = ()) -> None:
        """As `read`, to the place `out` of exactly the part's shape.

        Raises:
            CheckpointError: It is missing or has another shape.
        """
        copy_into(out, self.source.get(self.prefix + name, index), self.prefix + name)

    def read_joined(
        self, names: tuple[str, ...], heights: tuple[int, ...], width: int, rows: slice | None = None
    ) -> Tensor:
        """Matrices of equal width under each other, so that one matmul does for all.

        Args:
            names: Names after the prefix.
            heights: Rows of each in the result.
            width: Columns.
            rows: Which rows of each; None is all.

        Returns:
            (sum of heights, width).
        """
        out = torch.empty(sum(heights), width, dtype=self.placement.dtype, device=self.placement.device)
        for name, part in zip(names, out.split_with_sizes(heights), strict=True):
            self.read_into(part, name, () if rows is None else (rows,))
        return out
