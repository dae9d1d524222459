"""Weight updates in addition to AdamW: Muon (orthogonalized momentum), QK-clip, and the balance of experts.

torch's Muon updates whole two-dimensional parameters one by one. Here a matrix is a tensor of the release
(`training.release`): the halves of a joined weight and each of the experts' matrices are updated separately, and all
matrices of one shape are one batched product. On the same matrices both give the same result (tests). Processes that
train together split the iteration: each computes some of the updates, and all receive all of them.

Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (momentum, Newton-Schulz iteration
and its coefficients); Liu et al. 2025, "Muon is scalable for LLM training" (Moonlight), arXiv 2502.16982, equations 3
and 4: decoupled weight decay, and an update scaled to the root mean square of AdamW's, 0.2 * sqrt(max(rows, columns)).

After Muon's step, QK-clip scales down the weights of heads whose attention scores grow too large, and a routing bias
balances the load of experts. Source of QK-clip: Kimi K2 report (arXiv 2507.20534), section 2.1: in MLA, parts of a
query and a key that belong to one head are scaled by the square root of the factor each; the rotary part of the query,
whose key all heads share, by the whole factor. Source of the bias: Wang et al. 2024, "Auxiliary-loss-free load
balancing", arXiv 2408.15664, algorithm 1; DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2: after a step, the bias
of an expert with more tokens than the mean is decreased by a fixed amount, and that of one with fewer is increased by
the same amount.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from model_runtime.model import K25Model
from model_runtime.model.mla import Mla
from model_runtime.model.moe import Moe
from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.training.attention import AttentionInputs, compute_scores
from model_runtime.training.batch import TrainingBatch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # quintic Newton-Schulz iteration of Muon (Jordan, 2024)
NUM_ITERATIONS = 5  # as in Muon's reference implementation
EPS = 1e-7  # keeps the norm of a zero gradient from dividing by zero
RMS = 0.2
"""Root mean square of an update at learning rate 1, typical of AdamW. Source: arXiv 2502.16982, section 2.2."""


Key = TypeVar("Key", int, str)


class Muon:
    """Optimizer that updates matrices in place.

    Args:
        matrices: Matrices by name, each (rows, columns), a view of a weight or a weight.
        lr: Learning rate, on the scale of AdamW's.
        momentum: Nesterov momentum.
        weight_decay: Decoupled weight decay, multiplied by `lr`.
        dtype: Dtype of the iteration. bf16 changes an update by a hundredth of its length, and costs half on some CPUs.
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
        """Update once by gradients under the matrices' names; matrices without a gradient do not change."""
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
            joined = comm.all_reduce(torch.cat([update.flatten() for update in updates]))
            parts = torch.split(joined, [update.numel() for update in updates])
            for name, change in zip(names, parts, strict=True):
                matrix = self._matrices[name]
                step = -self.lr * find_update_scale(matrix.shape)
                matrix.mul_(1 - self.lr * self.weight_decay).add_(change.view_as(matrix), alpha=step)

    def state_dict(self) -> dict[str, object]:
        """Return the averages of the gradients, by name."""
        return {
            name: average
            for shape, names in self._by_shape.items()
            for name, average in zip(names, self._averages[shape], strict=True)
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load the result of `state_dict`.

        Raises:
            KeyError: If a matrix is missing in it.
        """
        for shape, names in self._by_shape.items():
            self._averages[shape] = torch.stack([state[name] for name in names])


def find_update_scale(shape: Sequence[int]) -> float:
    """Return the factor of an orthogonal update with which its root mean square is that of AdamW's updates."""
    return RMS * max(shape) ** 0.5


def share_out(shapes: Mapping[str, Sequence[int]], count: int) -> dict[str, int]:
    """Assign matrices to processes by the cost of their iteration."""
    return find_least_loaded({name: min(shape) ** 2 * max(shape) for name, shape in shapes.items()}, count)


def find_least_loaded(costs: Mapping[Key, int], count: int) -> dict[Key, int]:
    """Assign items to processes by their costs: the most expensive first, each to the process with the least work."""
    loads, owners = [0] * count, {}
    for key in sorted(costs, key=lambda key: (-costs[key], key)):
        owners[key] = min(range(count), key=loads.__getitem__)
        loads[owners[key]] += costs[key]
    return owners


def orthogonalize(matrices: Tensor) -> Tensor:
    """Orthogonalize (count, rows, columns) matrices, U V^T, approximately: singular values from 0.7 to 1.2."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(EPS)
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if is_tall else x


CLIP_THRESHOLD = 100.0
"""Threshold of attention scores. Source: Kimi K2 report, section 2.1: tau."""
MAX_ROWS = 256
"""Maximum number of tokens per step whose scores are computed: enough to detect growing heads, at a low cost."""


@torch.no_grad()
def find_score_maxima(model: K25Model, inputs: AttentionInputs, batch: TrainingBatch) -> list[Tensor]:
    """Return the largest score of each head in the last forward pass, over evenly spaced tokens and all tokens they
    see.

    Args:
        model: One rank of the model.
        inputs: Attention inputs of all layers.
        batch: Batch of the step.

    Returns:
        (heads,) fp32 for each layer, with the softmax's own scale; masked pairs do not count.
    """
    rows = torch.linspace(0, len(batch.token_ids) - 1, min(MAX_ROWS, len(batch.token_ids))).long()
    return [
        compute_scores(layer.attention, inputs.of_layer[number], batch, rows).amax(dim=(0, 2))
        for number, layer in enumerate(model.layers)
    ]


@torch.no_grad()
def clip_heads(mla: Mla, maxima: Tensor, threshold: float = CLIP_THRESHOLD) -> int:
    """Scale down heads of a layer whose largest score, of (heads,), exceeds the threshold; return their number."""
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


SPEED = 0.001  # bias update speed of DeepSeek-V3 (arXiv 2412.19437, section 4.2)


class RouterBalance:
    """Counter of each expert's tokens in forward passes, which adjusts the biases."""

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
        """Adjust the biases by the counts since the last call, and reset the counts."""
        for router, counts in zip(self.routers, self.counts, strict=True):
            router.bias += self.speed * (counts.mean() - counts).sign()
            counts.zero_()

    def find_imbalance(self) -> float:
        """Return the tokens of the busiest expert over the mean, in the worst layer; 1 is even, 0 without counts."""
        return max((float(counts.max() / counts.mean()) for counts in self.counts if counts.any()), default=0.0)

    def close(self) -> None:
        """Stop counting; may be called twice."""
        for hook in self._hooks:
            hook.remove()


@torch.no_grad()
def _count(router: Moe, x: Tensor, counts: Tensor) -> None:
    if router.training:
        counts += torch.bincount(router.choose(x)[1].flatten(), minlength=len(counts))
