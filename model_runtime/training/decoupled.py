"""Decoupled encoder process (DEP): the images of a step are encoded apart from the language model, evenly shared out.

Source: Kimi K2.5 report, section 4.5.1. A step has three phases:

1. Each process encodes a part of the images of all processes without recording operations; all receive all features.
2. The language model runs forward and backward, in as many parts as needed; gradients accumulate at the features.
3. Each process encodes its part again, now with gradients, and continues the backward pass from the features.

The gradients equal the result of a joint backward pass. The encoder runs forward twice, and in return its activations
and the language model's are never in memory together.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.training.updates import find_least_loaded

MAX_CHANGE = 1e-2
"""Maximum difference of recomputed features, over their norm: larger than the rounding of bf16 in another order."""

Image = TypeVar("Image")


def estimate_cost(num_patches: int, width: int) -> int:
    """Return the multiplications of a block of the encoder, over 2 * width: 6 * width a patch, and one a pair.

    Projections of attention take 4 * width^2 multiplications a patch, an MLP of 4 * width another 8 * width^2, scores
    and weighted sums 2 * width a pair.
    """
    return num_patches * (6 * width + num_patches)


class DecoupledEncoder(Generic[Image]):
    """Encoder of the images of a step.

    Args:
        encode: Encoder, from images to a tensor of rows each.
        images: Images of all processes, the same list in each.
        sizes: (rows, columns) of the features of each image.
        costs: Cost of each image, such as `estimate_cost`.
        like: Tensor with the dtype and device of the features.
        comm: Processes that train together.

    Attributes:
        features: Features of each image, leaves that collect the gradients of phase 2.
        imbalance: Highest cost of a process over the mean.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[Image]], Sequence[Tensor]],
        images: Sequence[Image],
        sizes: Sequence[tuple[int, int]],
        costs: Sequence[int],
        like: Tensor,
        comm: Comm | None = None,
    ) -> None:
        self._encode, self._images, self._comm = encode, images, comm or OneRank()
        owners = find_least_loaded(dict(enumerate(costs)), self._comm.size)
        loads = [0] * self._comm.size
        for number, owner in owners.items():
            loads[owner] += costs[number]
        self.imbalance = max(loads) * len(loads) / sum(loads) if any(loads) else 1.0
        self._own = [number for number in range(len(images)) if owners[number] == self._comm.rank]
        with torch.no_grad():
            encoded = self._encode_own()
        parts = [encoded[number] if number in encoded else like.new_zeros(size) for number, size in enumerate(sizes)]
        self.features = [part.requires_grad_() for part in self._add_up(parts)]

    def _encode_own(self) -> dict[int, Tensor]:
        own = [self._images[number] for number in self._own]
        return dict(zip(self._own, self._encode(own), strict=True)) if own else {}

    def _add_up(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums over all processes, in one collective."""
        if not parts:
            return []
        joined = self._comm.all_reduce(torch.cat([part.flatten() for part in parts]))
        flat = torch.split(joined, [part.numel() for part in parts])
        return [values.view(part.shape).clone() for values, part in zip(flat, parts, strict=True)]

    def backward(self) -> None:
        """Encode again and add to the gradients of the encoder's weights: phase 3.

        The gradients at the features are summed over the processes. Each process then adds the part of its own
        images, so the mean over the processes equals the mean of joint backward passes. All processes must call it,
        also if their images were not used.

        Raises:
            RuntimeError: If the features differ from phase 1.
        """
        gradients = self._add_up([torch.zeros_like(rows) if rows.grad is None else rows.grad for rows in self.features])
        outputs = self._encode_own()
        for number, rows in outputs.items():
            before = self.features[number].detach()
            if (rows.detach() - before).norm() > MAX_CHANGE * before.norm():
                raise RuntimeError(f"image {number} was encoded to other features when the encoder ran again")
        trained = {number: rows for number, rows in outputs.items() if rows.requires_grad}
        if trained:
            torch.autograd.backward(list(trained.values()), [gradients[number] for number in trained])
