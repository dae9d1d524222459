"""Decode steps as CUDA graphs: some hundred launches a step become one.

A graph always reads and writes the same memory. So each batch size that is captured has tensors that a step's numbers
are copied to; a step with fewer sequences is filled up with rows of no keys, which write to a block that no sequence
has. Everything that depends on lengths is in the attention's plan, whose lists are rewritten between replays.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.engine.contract import EngineOptions
from model_runtime.model.batch import AttentionPlan, ForwardBatch

if TYPE_CHECKING:
    from model_runtime.model.k25 import K25Model

WARM_UPS = 2
"""Runs before the capture: kernels are compiled and libraries set up, which a capture may not see."""

log = logging.getLogger(__name__)


class Capture(Protocol):
    """Records what `compute` starts."""

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        """The result's memory, and a function that computes it again from the same inputs' memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One batch size.

    Attributes:
        embeds: (B, hidden).
        positions: (B,) int64.
        slot_mapping: (B,) int64.
        decode: The attention's plan, with room for B sequences.
        logits: (B, vocab) fp32.
        replay: Computes `logits` from the others.
    """

    embeds: Tensor
    positions: Tensor
    slot_mapping: Tensor
    decode: Any
    logits: Tensor
    replay: Callable[[], None]


class DecodeGraphs:
    """The graphs of one model and its cache.

    Args:
        model: Of the backend whose plan can be rewritten.
        cache: Of `K25Model.make_cache`, with one block more than sequences are given.
        options: Sizes of the engine.
        capture: How steps are recorded.
        make_plan: (block_tables, seq_lens, room for sequences) to a plan with `update(block_tables, seq_lens)`.
    """

    def __init__(
        self,
        model: "K25Model",
        cache: Tensor,
        options: EngineOptions,
        capture: Capture,
        make_plan: Callable[[Tensor, list[int], int], Any],
    ) -> None:
        self._model, self._cache, self._make_plan = model, cache, make_plan
        self._spare_slot = options.num_blocks * options.block_size
        longest = options.max_model_len or model.config.text.max_position_embeddings
        self._num_columns = min(options.num_blocks, -(-longest // options.block_size))
        self._captured = {size: self._make(size, capture) for size in find_sizes(options.max_num_seqs)}

    def fits(self, batch: ForwardBatch) -> bool:
        """Whether all of the batch's sequences decode, and are no more than were captured."""
        return batch.num_decodes == batch.num_tokens <= max(self._captured)

    def run(self, embeds: Tensor, batch: ForwardBatch) -> Tensor:
        """Compute a step.

        Args:
            embeds: (N, hidden).
            batch: N sequences that decode.

        Returns:
            (N, vocab) fp32, overwritten by the next step.
        """
        count = batch.num_tokens
        graph = self._captured[min(size for size in self._captured if size >= count)]
        graph.embeds[:count].copy_(embeds)
        graph.positions[:count].copy_(batch.positions)
        graph.slot_mapping[:count].copy_(batch.slot_mapping)
        graph.slot_mapping[count:].fill_(self._spare_slot)
        tables = batch.block_tables[:, : self._num_columns]
        graph.decode.update(F.pad(tables, (0, self._num_columns - tables.shape[1])), batch.seq_lens)
        graph.replay()
        return graph.logits[:count]

    def _make(self, size: int, capture: Capture) -> Captured:
        model, device = self._model, self._model.device
        tables = torch.zeros(1, self._num_columns, dtype=torch.int32, device=device)
        embeds = torch.zeros(size, model.config.text.hidden_size, dtype=model.dtype, device=device)
        positions = torch.zeros(size, dtype=torch.int64, device=device)
        slots = torch.full((size,), self._spare_slot, device=device)
        decode = self._make_plan(tables, [0], size)

        def compute() -> Tensor:
            rotations = model.rope(positions)
            plan = AttentionPlan(rotations=rotations, slot_mapping=slots, num_decodes=size, decode=decode, prefills=())
            return model.logits(model.run_layers(embeds, plan, self._cache))

        logits, replay = capture(compute)
        return Captured(
            embeds=embeds, positions=positions, slot_mapping=slots, decode=decode, logits=logits, replay=replay
        )


def find_sizes(max_num_seqs: int) -> list[int]:
    """Batch sizes worth a graph: powers of two, from 8 on every eighth; the largest is `max_num_seqs`."""
    sizes = {1, 2, 4, *range(8, max_num_seqs, 8), max_num_seqs}
    return sorted(size for size in sizes if size <= max_num_seqs)


def wants_graphs(model: "K25Model", options: EngineOptions) -> bool:
    """Whether this model's decode steps can be captured: a GPU, and attention whose plan can be rewritten."""
    planner = model.placement.ops.plan_decode.__module__
    return options.has_cuda_graphs and model.device.type == "cuda" and planner.startswith("model_runtime.kernels")


def capture_cuda(model: "K25Model", cache: Tensor, options: EngineOptions) -> DecodeGraphs | None:
    """Graphs on the model's GPU; None, with a warning in the log, where they cannot be made."""
    from model_runtime.kernels.mla_schedule import make_plan

    try:
        with torch.cuda.device(model.device), torch.inference_mode():
            return DecodeGraphs(model, cache, options, CudaCapture(), make_plan)
    except RuntimeError as error:  # out of memory is one, too
        log.warning("decode steps run without CUDA graphs, which could not be captured: %s", error)
        return None


class CudaCapture:
    """Records into CUDA graphs that share their memory: only one of them runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._make_stream: Callable[[], Any] = torch.cuda.Stream

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        """See `Capture`."""
        side = self._make_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                compute()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            result = compute()
        return result, graph.replay
