"""Updates of weights that AdamW does not make: Muon, momentum whose matrices are made orthogonal before it is applied.

torch has a Muon of its own, which takes whole two-dimensional parameters one by one. Here a matrix is a tensor of the
release (`training.release`): the halves of a joined weight and each of the experts' matrices are updates of their own,
and all matrices of one shape are one batched product. On the same matrices both give the same (tests). Processes that
train together share the iteration out among them: each makes some of the updates, and all get all of them.

Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (momentum, Newton-Schulz iteration
and its coefficients); Liu et al. 2025, "Muon is scalable for LLM training" (Moonlight), arXiv 2502.16982, equations 3
and 4: decoupled weight decay, and an update scaled to the root mean square of AdamW's, 0.2 * sqrt(max(rows, columns)).

After Muon's step, QK-clip scales down the weights of heads whose attention scores grow too large, and a bias on their
choice keeps experts equally busy. Source of QK-clip: Kimi K2 report (arXiv 2507.20534), section 2.1: in MLA, parts
of a query and a key that belong to one head alone take the square root of the factor each; the rotary part of the
query, whose key all heads share, takes all of it. Source of the bias: Wang et al. 2024, "Auxiliary-loss-free load
balancing", arXiv 2408.15664, algorithm 1; DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2: after a step, the bias
of an expert that had more tokens than the mean falls by a fixed amount, and that of one that had fewer rises by as
much.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from model_runtime.model import K25Model
from model_runtime.model.mla import Mla
from model_runtime.model.moe import Moe
from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.training.attention import AttentionInputs, find_scores
from model_runtime.training.batch import TrainingBatch

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
        """Update once by gradients under the matrices' names; matrices without one stay as they are."""
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
    """Bring the singular values of each of (count, rows, columns) matrices near to 1: U V^T, roughly, 0.7 to 1.2."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(EPS)
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if is_tall else x


THRESHOLD = 100.0
"""Source: Kimi K2 report, section 2.1: tau."""
MAX_ROWS = 256
"""Tokens of a step whose scores are formed: enough to see a head that grows, and little beside the step itself."""


@torch.no_grad()
def find_score_maxima(model: K25Model, inputs: AttentionInputs, batch: TrainingBatch) -> list[Tensor]:
    """The largest score of each head in the last forward pass, over some evenly spaced tokens and all that they see.

    Args:
        model: One rank.
        inputs: Of all layers.
        batch: The step.

    Returns:
        For each layer (heads,) fp32, with the softmax's own scale; masked pairs do not count.
    """
    rows = torch.linspace(0, len(batch.token_ids) - 1, min(MAX_ROWS, len(batch.token_ids))).long()
    return [
        find_scores(layer.attention, inputs.of_layer[number], batch, rows).amax(dim=(0, 2))
        for number, layer in enumerate(model.layers)
    ]


@torch.no_grad()
def clip_heads(mla: Mla, maxima: Tensor, threshold: float = THRESHOLD) -> int:
    """Scale heads of a layer whose largest score, of (heads,), is above the threshold down to it; their number."""
    nope = mla.text.qk_nope_head_dim
    too_large = maxima > threshold
    if not too_large.any():
        return 0
    factor = torch.where(too_large, threshold / maxima, 1.0).to(mla.q_b.dtype)[:, None, None]
    queries = mla.q_b.data.view(mla.num_heads, mla.text.qk_head_dim, -1)
    queries[:, :nope] *= factor.sqrt()
    queries[:, nope:] *= factor
    mla.kv_b.data[:, :nope] *= factor.sqrt()
    return int(too_large.sum())


SPEED = 0.001


class RouterBalance:
    """Counts the tokens of each expert during forward passes, and moves the biases."""

    def __init__(self, model: K25Model, speed: float = SPEED) -> None:
        self.speed = speed
        self.routers = [layer.mlp for layer in model.layers if isinstance(layer.mlp, Moe)]
        self.counts = [torch.zeros(len(router.bias), device=router.bias.device) for router in self.routers]
        self._hooks = [
            router.register_forward_pre_hook(lambda module, inputs, counts=counts: _count(module, inputs[0], counts))
            for router, counts in zip(self.routers, self.counts, strict=True)
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Move the biases by what was counted since the last time, and count anew."""
        for router, counts in zip(self.routers, self.counts, strict=True):
            router.bias += self.speed * (counts.mean() - counts).sign()
            counts.zero_()

    def find_imbalance(self) -> float:
        """Tokens of the busiest expert over the mean, in the worst layer; 1 is even, 0 where none were counted."""
        return max((float(counts.max() / counts.mean()) for counts in self.counts if counts.any()), default=0.0)

    def close(self) -> None:
        """Count nothing more; may be called twice."""
        for hook in self._hooks:
            hook.remove()


@torch.no_grad()
def _count(router: Moe, x: Tensor, counts: Tensor) -> None:
    if router.training:
        counts += torch.bincount(router.choose(x)[1].flatten(), minlength=len(counts))
