"""Training steps: forward, losses, gradients, both optimizers, QK-clip and expert balance; with checkpoints.

A step on the same CPU, from the same state and lessons, gives bit-identical weights, so a resumed run has the same
result as an uninterrupted one. On a GPU, the order of sums may vary.

Source: Kimi K2 report (arXiv 2507.20534), section 2.1 (MuonClip) and 2.5 (warm-up, constant rate, decay, weight decay
0.1); gradient clipping: Pascanu et al. 2013, arXiv 1211.5063, algorithm 1.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model_runtime.errors import CheckpointError
from model_runtime.model import K25Model
from model_runtime.parallel.comm import Comm, OneRank
from model_runtime.training.attention import AttentionInputs
from model_runtime.training.batch import TrainingBatch, forward, forward_vision, make_batch
from model_runtime.training.lessons import Lesson, make_targets
from model_runtime.training.losses import Losses
from model_runtime.training.release import release_tensors
from model_runtime.training.updates import CLIP_THRESHOLD, Muon, RouterBalance, clip_heads, find_score_maxima

STATE = "training.pt"
VISION_PREFIXES = ("vision_tower.", "mm_projector.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """Options of a training.

    Attributes:
        num_steps: Steps of the whole schedule.
        muon_lr: Peak learning rate of the hidden matrices, on the scale of AdamW's.
        adam_lr: Peak learning rate of all other weights.
        row_rate: Rate of the tokens' rows in the embedding and the output layer, as a share of `adam_lr`. Each step
            changes all rows of the output layer, whether their tokens occur or not: at a high rate, rare tokens are
            forgotten.
        filter_rate: Rate of the patch embedding, as a share of `adam_lr`. Its values are a tenth of others in size, and
            noise in them affects the whole input.
        warmup_steps: Steps in which the rates rise from 0.
        decay_share: Share of the schedule, at its end, in which the rates fall to `final_share` of their peak.
        final_share: Final rates as a share of the peak.
        momentum: Momentum of Muon.
        adam_betas: Betas of AdamW.
        weight_decay: Weight decay of both optimizers.
        max_grad_norm: Maximum norm of all gradients together.
        clip_threshold: Maximum attention score; 0 disables QK-clip.
        clip_every: Interval of QK-clip in steps.
        balance_speed: Step size of the routers' biases.
        image_gradient: Share of the language model's gradients that is passed to the image rows. At 0, the vision tower
            and the projector learn only from losses on their own output.
        in_bf16: True to compute the vision tower's matrix products and Muon's iteration in bf16; weights, the sum over
            the tower's blocks and losses stay in fp32. `is_bf16_faster` measures whether it is faster. The language
            model's products have many different small shapes, each of which would need a new kernel.
    """

    num_steps: int
    muon_lr: float = 0.02
    adam_lr: float = 2e-3
    row_rate: float = 1.0
    filter_rate: float = 1.0
    warmup_steps: int = 10
    decay_share: float = 0.4
    final_share: float = 0.02
    momentum: float = 0.95
    adam_betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.1
    max_grad_norm: float = 1.0
    clip_threshold: float = CLIP_THRESHOLD
    clip_every: int = 10
    balance_speed: float = 0.001
    image_gradient: float = 1.0
    in_bf16: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """Report of one step: losses before it, the gradients' norm before clipping, the rate as a share of the peak.

    `imbalance` is the number of tokens of the busiest expert over the mean; `num_clipped` counts attention
    heads whose scores were scaled.
    """

    losses: dict[str, float]
    grad_norm: float
    rate: float
    num_clipped: int
    imbalance: float
    num_tokens: int


class Trainer:
    """Trainer of a model.

    Args:
        model: Model in fp32, made with the differentiable operators (`autograd`).
        losses: Its losses, with the auxiliary heads, on the model's device.
        options: Options of the training.
        prefix: Token ids that every lesson begins with, such as a system prompt.
        comm: Processes that train together: each has the same weights and its own lessons, and gradients are averaged
            over them.
    """

    def __init__(
        self,
        model: K25Model,
        losses: Losses,
        options: TrainingOptions,
        *,
        prefix: Sequence[int] = (),
        comm: Comm | None = None,
    ) -> None:
        self.model, self.losses, self.options = model.requires_grad_().train(), losses, options
        self.prefix, self.comm = tuple(prefix), comm or OneRank()
        self.step_number = 0
        self._balance = RouterBalance(model, options.balance_speed)
        self._inputs = AttentionInputs(model) if options.clip_threshold else None
        self._matrices = {
            name: tensor for name, tensor in release_tensors(model).items() if is_hidden_matrix(name, tensor)
        }
        self._muons = {
            is_vision: Muon(
                {
                    name: matrix
                    for name, matrix in self._matrices.items()
                    if name.startswith(VISION_PREFIXES) is is_vision
                },
                lr=options.muon_lr,
                momentum=options.momentum,
                weight_decay=options.weight_decay,
                dtype=torch.bfloat16 if options.in_bf16 else torch.float32,
            )
            for is_vision in (True, False)
        }
        vision_weights, text_weights, embedding_weights, patch_weights = self._find_rest()
        groups = (vision_weights, [*text_weights, *losses.heads.parameters()], embedding_weights, patch_weights)
        self._adam = torch.optim.AdamW(
            [{"params": weights} for weights in groups],
            lr=options.adam_lr,
            betas=options.adam_betas,
            weight_decay=options.weight_decay,
        )

    def _find_rest(self) -> tuple[list[Tensor], ...]:
        """Return weights without hidden matrices: of the vision part, others, tokens' rows, and the patch embedding."""
        assert self.model.vision is not None
        pointers = {matrix.untyped_storage().data_ptr() for matrix in self._matrices.values()}
        embedding_weights: list[Tensor] = [self.model.embedding.weight, self.model.head.weight]
        patch_weights: list[Tensor] = [self.model.vision.patch_embed.weight]
        pointers |= {weight.untyped_storage().data_ptr() for weight in (*embedding_weights, *patch_weights)}
        rest = [weight for weight in self.model.parameters() if weight.untyped_storage().data_ptr() not in pointers]
        vision_ids = {id(weight) for weight in self.model.vision.parameters()}
        return (
            [weight for weight in rest if id(weight) in vision_ids],
            [weight for weight in rest if id(weight) not in vision_ids],
            embedding_weights,
            patch_weights,
        )

    def step(
        self,
        lessons: Sequence[Lesson],
        *,
        has_prefix: bool = True,
        image_rate: float = 1.0,
        rate: float | None = None,
        heads_only: bool = False,
    ) -> StepReport:
        """Train on some lessons.

        Args:
            lessons: Lessons, at least one.
            has_prefix: True if they begin with the prefix; a step without it costs less.
            image_rate: Rate of the vision tower and the projector, as a share of the others' learning rates; at 0 they
                do not change, and a step costs less.
            rate: Share of the peak learning rates; None for the schedule's.
            heads_only: True to train the auxiliary heads alone: those of an exported model have to be trained again.
        """
        self.model.requires_grad_(not heads_only)
        rate = compute_rate(self.step_number, self.options) if rate is None else rate
        with _deterministic() if self.model.device.type == "cpu" else nullcontext():
            return self._step(lessons, self.prefix if has_prefix else (), image_rate, rate)

    def _step(self, lessons: Sequence[Lesson], prefix: Sequence[int], image_rate: float, rate: float) -> StepReport:
        batch = make_batch([lesson.example for lesson in lessons], self.model.config.media_placeholder_token_id, prefix)
        vision_only = self.losses.weights.needs_vision_only
        bf16 = self.options.in_bf16
        activations = (
            forward_vision(self.model, batch, bf16=bf16)
            if vision_only
            else forward(
                self.model,
                batch,
                trains_images=image_rate > 0,
                image_gradient=self.options.image_gradient,
                bf16=bf16,
            )
        )
        losses = self.losses(activations, batch, make_targets(lessons, batch))
        self.model.zero_grad(set_to_none=True)
        self.losses.heads.zero_grad(set_to_none=True)
        self.losses.total(losses).backward()  # type: ignore[no-untyped-call]
        weights = [*self.model.parameters(), *self.losses.heads.parameters()]
        average_gradients(weights, self.comm)
        norm = torch.nn.utils.clip_grad_norm_(weights, self.options.max_grad_norm)
        heads_only = not self.model.head.weight.requires_grad
        self._update(rate, image_rate, vision_only=vision_only, heads_only=heads_only)
        imbalance, num_clipped = (1.0, 0) if vision_only or heads_only else self._clip_and_balance(batch)
        self.step_number += 1
        return StepReport(
            losses=self._average_losses(losses),
            grad_norm=float(norm),
            rate=rate,
            num_clipped=num_clipped,
            imbalance=imbalance,
            num_tokens=len(batch.token_ids),
        )

    def _average_losses(self, losses: Mapping[str, Tensor]) -> dict[str, float]:
        values = torch.stack([loss.detach().float().cpu() for loss in losses.values()])
        return dict(zip(losses, (self.comm.all_reduce(values) / self.comm.size).tolist(), strict=True))

    def _clip_and_balance(self, batch: TrainingBatch) -> tuple[float, int]:
        """Clip attention and balance experts; return the imbalance before, and the number of clipped heads."""
        for counts in self._balance.counts:
            self.comm.all_reduce(counts)
        imbalance, num_clipped = self._balance.find_imbalance(), self._clip(batch)
        self._balance.step()
        return imbalance, num_clipped

    def _update(self, rate: float, image_rate: float, *, vision_only: bool, heads_only: bool) -> None:
        vision_rate, text_rate = rate * image_rate, rate
        embedding_rate, patch_rate = rate * self.options.row_rate, vision_rate * self.options.filter_rate
        rates = (vision_rate, text_rate, embedding_rate, patch_rate)  # in the order of `_find_rest`
        for group, group_rate in zip(self._adam.param_groups, rates, strict=True):
            group["lr"] = group_rate * self.options.adam_lr
        self._adam.step()
        if heads_only:
            return  # weights without a gradient stay as they are
        gradients = release_tensors(self.model, _gradient_of)
        for is_vision, muon in self._muons.items():
            muon_rate = vision_rate if is_vision else text_rate
            if muon_rate and (is_vision or not vision_only):
                muon.lr = muon_rate * self.options.muon_lr
                of_these = {
                    name: gradient
                    for name, gradient in gradients.items()
                    if name.startswith(VISION_PREFIXES) is is_vision
                }
                muon.step(of_these, self.comm)

    def _clip(self, batch: TrainingBatch) -> int:
        if self._inputs is None or self.step_number % self.options.clip_every:
            return 0
        maxima = find_score_maxima(self.model, self._inputs, batch)
        return sum(
            clip_heads(
                layer.attention, self.comm.all_gather(of_layer[None], dim=0).amax(dim=0), self.options.clip_threshold
            )
            for layer, of_layer in zip(self.model.layers, maxima, strict=True)
        )

    def save(self, folder: Path) -> None:
        """Save the training state except the lessons; a crash leaves either the old or the new file."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step_number,
            "options": json.dumps(asdict(self.options)),
            "model": {name: tensor.clone() for name, tensor in release_tensors(self.model).items()},
            "biases": [router.bias for router in self._balance.routers],
            "heads": self.losses.heads.state_dict(),
            "muon": {name: average for muon in self._muons.values() for name, average in muon.state_dict().items()},
            "adam": self._adam.state_dict(),
            "torch_rng": torch.get_rng_state(),
        }
        part = folder / f"{STATE}.part"
        torch.save(state, part)
        part.replace(folder / STATE)

    def load(self, folder: Path) -> None:
        """Load the state written by `save`, including `step_number`.

        Raises:
            CheckpointError: If there is none, or it is of another model or another schedule.
        """
        state = _read_state(folder, self.model.device)
        if json.loads(state["options"]) != json.loads(json.dumps(asdict(self.options))):
            raise CheckpointError(f"{folder / STATE} was saved with other options: {state['options']}")
        _copy_weights(state["model"], release_tensors(self.model), folder)
        for router, bias in zip(self._balance.routers, state["biases"], strict=True):
            router.bias.copy_(bias)
        self.losses.heads.load_state_dict(state["heads"])
        for muon in self._muons.values():
            muon.load_state_dict(state["muon"])
        self._adam.load_state_dict(state["adam"])
        torch.set_rng_state(state["torch_rng"].cpu())
        self.step_number = state["step"]


def read_options(folder: Path) -> dict[str, object]:
    """Return the training options of a state written by `Trainer.save`, by name.

    Raises:
        CheckpointError: If there is no readable state.
    """
    return dict(json.loads(_read_state(folder, torch.device("cpu"))["options"]))


def _read_state(folder: Path, device: torch.device) -> dict[str, Any]:
    try:
        return dict(torch.load(folder / STATE, weights_only=True, map_location=device))
    except FileNotFoundError:
        raise CheckpointError(f"no {STATE} in {folder}: nothing was saved there") from None
    except Exception as error:  # unpickling a damaged file may raise any exception
        raise CheckpointError(f"{folder / STATE} cannot be read: {error}") from error


def average_gradients(weights: Sequence[Tensor], comm: Comm) -> None:
    """Replace gradients by their means over the processes; a missing gradient counts as zero if another process has
    one.
    """
    if comm.size == 1:
        return
    has_any = comm.all_reduce(torch.tensor([float(weight.grad is not None) for weight in weights]))
    trained = [weight for weight, count in zip(weights, has_any.tolist(), strict=True) if count]
    gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in trained]
    means = comm.all_reduce(torch.cat([gradient.flatten() for gradient in gradients])) / comm.size
    for weight, mean in zip(trained, torch.split(means, [weight.numel() for weight in trained]), strict=True):
        weight.grad = mean.view_as(weight)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Make sums deterministic: otherwise gradients of repeated rows are added in the order of threads."""
    before = torch.are_deterministic_algorithms_enabled()
    settings: Any = torch.utils.deterministic
    fills = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = False  # saves a twentieth of a step; uninitialized memory is not read
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        settings.fill_uninitialized_memory = fills


def is_hidden_matrix(name: str, tensor: Tensor) -> bool:
    """Return True if Muon updates a tensor: two-dimensional, and not an input or output of words, pixels or positions.

    Source: Kimi K2 report, section 2.1; arXiv 2502.16982, section 2.2. The routers' gates are updated by AdamW, too.
    """
    others = ("embed_tokens.weight", "lm_head.weight", "mlp.gate.weight", "patch_embed.")
    return tensor.dim() == 2 and not any(other in name for other in others)


def compute_rate(step: int, options: TrainingOptions) -> float:
    """Return the share of the peak learning rates at a step: linear warm-up, constant, linear decay."""
    decay_steps = options.decay_share * options.num_steps
    left = max(options.num_steps - step, 0) / decay_steps if decay_steps else 1.0
    return min(1.0, (step + 1) / max(options.warmup_steps, 1)) * min(1.0, max(left, options.final_share))


def _gradient_of(weight: torch.nn.Parameter) -> Tensor:
    """Return the gradient; zeros if there is none, as for an expert without tokens."""
    return torch.zeros_like(weight.data) if weight.grad is None else weight.grad


def _copy_weights(stored: Mapping[str, Tensor], weights: Mapping[str, Tensor], folder: Path) -> None:
    if {name: tensor.shape for name, tensor in stored.items()} != {
        name: tensor.shape for name, tensor in weights.items()
    }:
        raise CheckpointError(f"{folder / STATE} holds another model: its tensors have other names or shapes")
    for name, tensor in weights.items():
        tensor.copy_(stored[name])
