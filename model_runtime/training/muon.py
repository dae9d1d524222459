"""Muon: momentum whose matrices are made orthogonal before they are applied, equal shapes at once.

torch has a Muon of its own, which takes whole two-dimensional parameters one by one. Here a matrix is a tensor of the
release (`training.release`): the halves of a joined weight and each of the experts' matrices are updates of their own,
and all matrices of one shape are one batched product. On the same matrices both give the same (tests). Processes that
train together share the iteration out among them: each makes some of the updates, and all get all of them.

Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (momentum, Newton-Schulz iteration
and its coefficients); Liu et al. 2025, "Muon is scalable for LLM training" (Moonlight), arXiv 2502.16982, equations 3
and 4: decoupled weight decay, and an update scaled to the root mean square of AdamW's, 0.2 * sqrt(max(rows, columns)).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from model_runtime.parallel.comm import Comm, OneRank

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NUM_ITERATIONS = 5
EPS = 1e-7
RMS = 0.2
"""Root mean square of an update at learning rate 1, as AdamW's usually is. Source: arXiv 2502.16982, section 2.2."""


class Muon:
    """Updates matrices in place.

    Args:
        matrices: By name, each (rows, columns), a view of a weight or a weight.
        lr: Learning rate, on the scale of AdamW's.
        momentum: Nesterov's.
        weight_decay: Decoupled, times `lr`.
        dtype: Of the iteration. bf16 moves an update by a hundredth of its length, and costs half on some processors.
    """

    def __init__(
        self,
        matrices: Mapping[str, Tensor],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.lr, self.momentum, self.weight_decay, self.dtype = lr, momentum, weight_decay, dtype
        self._matrices = dict(matrices)
        self._averages: dict[tuple[int, int], Tensor] = {}
        by_shape: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for name, matrix in self._matrices.items():
            rows, columns = matrix.shape
            by_shape[rows, columns].append(name)
        self._by_shape = dict(by_shape)
        for shape, names in self._by_shape.items():
            self._averages[shape] = torch.zeros(len(names), *shape, device=self._matrices[names[0]].device)

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], comm: Comm | None = None) -> None:
        """One update.

        Args:
            gradients: By the matrices' names; those that have none stay as they are.
            comm: The processes that have the same matrices and the same gradients.
        """
        comm = comm or OneRank()
        shapes = {name: matrix.shape for name, matrix in self._matrices.items() if name in gradients}
        owners = share_out(shapes, comm.size)
        names: list[str] = []
        updates: list[Tensor] = []
        for shape, of_shape in self._by_shape.items():
            places = [place for place, name in enumerate(of_shape) if name in gradients]
            if not places:
                continue
            present, averages = [of_shape[place] for place in places], self._averages[shape]
            own = [place for place, name in enumerate(present) if owners[name] == comm.rank]
            ahead = []
            for place, name in zip(places, present, strict=True):  # views: an index would copy them
                gradient = gradients[name].float()
                average = averages[place].lerp_(gradient, 1 - self.momentum)
                ahead.append(gradient.lerp(average, self.momentum).to(self.dtype))
            made_here = iter(orthogonalize(torch.stack([ahead[place] for place in own])).float() if own else ())
            names += present
            updates += [next(made_here) if place in own else averages.new_zeros(shape) for place in range(len(present))]
        if updates:
            made = comm.all_reduce(torch.cat([update.flatten() for update in updates]))
            parts = torch.split(made, [update.numel() for update in updates])
            for name, change in zip(names, parts, strict=True):
                matrix = self._matrices[name]
                scale = RMS * max(matrix.shape) ** 0.5
                matrix.mul_(1 - self.lr * self.weight_decay).add_(change.view_as(matrix), alpha=-self.lr * scale)

    def state_dict(self) -> dict[str, Any]:
        """The averages of the gradients, by name."""
        return {
            name: average
            for shape, names in self._by_shape.items()
            for name, average in zip(names, self._averages[shape], strict=True)
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take what `state_dict` gave.

        Raises:
            KeyError: A matrix is not in it.
        """
        for shape, names in self._by_shape.items():
            self._averages[shape] = torch.stack([state[name] for name in names])


def share_out(shapes: Mapping[str, Sequence[int]], count: int) -> dict[str, int]:
    """Which of some processes iterates which matrix: the costliest first, each to who has least to do."""
    costs = {name: min(shape) ** 2 * max(shape) for name, shape in shapes.items()}
    loads, owners = [0] * count, {}
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        owners[name] = min(range(count), key=loads.__getitem__)
        loads[owners[name]] += costs[name]
    return owners


def orthogonalize(matrices: Tensor) -> Tensor:
    """Bring the singular values of each matrix near to 1.

    Args:
        matrices: (count, rows, columns).

    Returns:
        (count, rows, columns) in their dtype: U V^T of each, roughly: singular values come to lie between about 0.7
        and 1.2.
    """
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(EPS)
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if is_tall else x
