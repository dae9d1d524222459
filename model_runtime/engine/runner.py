"""Computation of one step: input that is the same for every rank, then this rank's part of it: media, model, logits.

Encoded media are cached within the limit: an agent sends the same screenshots step after step.

On a GPU, decode steps run as CUDA graphs: some hundred launches become one. A graph always reads and writes the same
memory. Each captured batch size therefore has tensors that a step's input is copied to; a smaller step is padded with
rows without keys, which write to a block that no sequence uses. Everything that depends on lengths is in the
attention's plan, whose lists are rewritten between replays.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.engine.contract import EngineOptions, WeightUpdate
from model_runtime.engine.scheduler import Chunk
from model_runtime.media import MediaItem
from model_runtime.model.batch import ForwardBatch, StepAttention
from model_runtime.ops.invariant import FixedShapes
from model_runtime.placement import Enter, use_device

if TYPE_CHECKING:
    from model_runtime.model.k25 import K25Model

WARM_UPS = 2
"""Warm-up runs before the capture: they compile kernels and initialize libraries, which must not happen during a
capture.
"""

log = logging.getLogger(__name__)


class Capture(Protocol):
    """Function that captures the work of `compute`."""

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        """Return the result's memory, and a function that recomputes it from the same input memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Captured graph of one batch size.

    Attributes:
        embeds: (B, hidden).
        positions: (B,) int64.
        slot_mapping: (B,) int64.
        decode: Attention plan with capacity for B sequences.
        logits: (B, vocab) fp32.
        replay: Function that computes `logits` from the other tensors.
    """

    embeds: Tensor
    positions: Tensor
    slot_mapping: Tensor
    decode: Any
    logits: Tensor
    replay: Callable[[], None]


class DecodeGraphs:
    """Graphs of one model and its cache.

    Args:
        model: Model with a backend whose plan can be rewritten.
        cache: Result of `K25Model.make_cache`, with one block more than sequences can use.
        options: Sizes of the engine.
        capture: Function that captures a step.
        make_plan: Function from (block_tables, seq_lens, maximum number of sequences) to a plan with
            `update(block_tables, seq_lens)`.
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
        """Return True if all of the batch's sequences decode and a captured size is large enough."""
        return batch.num_decodes == batch.num_tokens <= max(self._captured)

    def run(self, embeds: Tensor, batch: ForwardBatch) -> Tensor:
        """Compute a step: (N, hidden) of N decoding sequences to (N, vocab) fp32, overwritten by the next step."""
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
            plan = StepAttention(rotations=rotations, slot_mapping=slots, num_decodes=size, decode=decode, prefills=())
            return model.logits(model.run_layers(embeds, plan, self._cache))

        logits, replay = capture(compute)
        return Captured(
            embeds=embeds, positions=positions, slot_mapping=slots, decode=decode, logits=logits, replay=replay
        )


def find_sizes(max_num_seqs: int) -> list[int]:
    """Return the batch sizes to capture: powers of two, from 8 on every multiple of eight; the largest is
    `max_num_seqs`.
    """
    sizes = {1, 2, 4, *range(8, max_num_seqs, 8), max_num_seqs}
    return sorted(size for size in sizes if size <= max_num_seqs)


def wants_graphs(model: "K25Model", options: EngineOptions) -> bool:
    """Return True if this model's decode steps can be captured: on a GPU, with an attention plan that can be
    rewritten.
    """
    planner = model.placement.ops.plan_decode.__module__
    return options.has_cuda_graphs and model.device.type == "cuda" and planner.startswith("model_runtime.kernels")


def capture_cuda(model: "K25Model", cache: Tensor, options: EngineOptions) -> DecodeGraphs | None:
    """Capture graphs on the model's GPU; return None, with a logged warning, if that fails."""
    from model_runtime.kernels.mla_schedule import make_plan

    try:
        with torch.cuda.device(model.device), torch.inference_mode():
            return DecodeGraphs(model, cache, options, CudaCapture(), make_plan)
    except RuntimeError as error:  # includes out of memory
        log.warning("decode steps run without CUDA graphs, which could not be captured: %s", error)
        return None


class CudaCapture:
    """`Capture` into CUDA graphs that share their memory: only one of them may run at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._make_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        """Capture a computation; see `Capture`."""
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


@dataclass(frozen=True, slots=True)
class MediaRows:
    """Rows `first` to `first + count` of a step, filled with rows `feature` to `feature + count` of a media item's
    features.
    """

    first: int
    content_hash: bytes
    feature: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """A batch on the host; see `model_runtime.model.batch.ForwardBatch` for its fields.

    Attributes:
        drop: Media whose cached features must not be reused.
        encode: Media without cached features.
        placements: Rows that are media.
        logit_rows: Rows whose logits are needed.
    """

    token_ids: list[int]
    positions: list[int]
    slot_mapping: list[int]
    block_tables: list[list[int]]
    cu_seqlens_q: tuple[int, ...]
    seq_lens: tuple[int, ...]
    num_decodes: int
    drop: tuple[bytes, ...]
    encode: tuple[MediaItem, ...]
    placements: tuple[MediaRows, ...]
    logit_rows: list[int]


def make_step_input(
    chunks: Sequence[Chunk], block_size: int, encoded: Container[bytes], drop: tuple[bytes, ...] = ()
) -> StepInput:
    """Concatenate the chunks, single tokens first; `encoded` and `drop` are content hashes of media."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    ends = [0]
    placements: list[MediaRows] = []
    logit_rows: list[int] = []
    missing: dict[bytes, MediaItem] = {}
    for chunk in chunks:
        first = len(token_ids)
        token_ids += chunk.sequence.token_ids[chunk.start : chunk.end]
        positions += range(chunk.start, chunk.end)
        slots += _slots(chunk, block_size)
        placements += _placements(chunk, first)
        missing.update({s.item.content_hash: s.item for s in chunk.media() if s.item.content_hash not in encoded})
        logit_rows += _logit_rows(chunk, first)
        ends.append(len(token_ids))
    return StepInput(
        token_ids=token_ids,
        positions=positions,
        slot_mapping=slots,
        block_tables=[chunk.sequence.block_table for chunk in chunks],
        cu_seqlens_q=tuple(ends),
        seq_lens=tuple(chunk.end for chunk in chunks),
        num_decodes=sum(chunk.num_tokens == 1 for chunk in chunks),
        drop=drop,
        encode=tuple(missing.values()),
        placements=tuple(placements),
        logit_rows=logit_rows,
    )


def separate_tokens(step: StepInput) -> StepInput:
    """Return a step in which each token is a sequence that decodes: its context ends with it."""
    counts = [end - start for start, end in pairwise(step.cu_seqlens_q)]
    return replace(
        step,
        block_tables=[table for table, count in zip(step.block_tables, counts, strict=True) for _ in range(count)],
        cu_seqlens_q=tuple(range(len(step.token_ids) + 1)),
        seq_lens=tuple(position + 1 for position in step.positions),
        num_decodes=len(step.token_ids),
    )


def wants_prompt_rows(chunk: Chunk) -> bool:
    """Return True if log-probabilities of prompt tokens still have to be collected from this chunk."""
    sequence = chunk.sequence
    return sequence.request.params.prompt_logprobs is not None and sequence.num_output == 0


def _slots(chunk: Chunk, block_size: int) -> Iterable[int]:
    table = chunk.sequence.block_table
    return (table[k // block_size] * block_size + k % block_size for k in range(chunk.start, chunk.end))


def _placements(chunk: Chunk, first: int) -> Iterable[MediaRows]:
    for span in chunk.media():
        start, end = max(span.offset, chunk.start), min(span.end, chunk.end)
        yield MediaRows(first + start - chunk.start, span.item.content_hash, start - span.offset, end - start)


def _logit_rows(chunk: Chunk, first: int) -> Iterable[int]:
    if wants_prompt_rows(chunk):
        return range(first, first + chunk.num_tokens)
    return [first + chunk.num_tokens - 1] if chunk.is_last else []


class ModelRunner(Protocol):
    """Interface for computing steps."""

    @property
    def encoded(self) -> frozenset[bytes]:
        """Content hashes of media with cached features."""
        ...

    @property
    def can_go_on_after_fault(self) -> bool:
        """True if it can compute the next step after one that ran out of memory."""
        ...

    def run(self, step: StepInput) -> "Tensor":
        """Compute a step.

        Returns:
            (len(step.logit_rows), vocab) fp32 logits.

        Raises:
            EngineDead: If a rank has exited.
        """
        ...

    def update(self, update: WeightUpdate) -> None:
        """Replace the weights; encoded media are forgotten.

        Raises:
            CheckpointError: If they do not fit; the old ones stay in use.
            EngineDead: If they were replaced in part.
        """
        ...

    def close(self) -> None:
        """Free all resources; may be called twice."""
        ...


class FeatureCache:
    """LRU cache of features by content hash. All ranks hold the same entries in the same order."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._features: OrderedDict[bytes, Tensor] = OrderedDict()

    @property
    def keys(self) -> frozenset[bytes]:
        """Content hashes in the cache."""
        return frozenset(self._features)

    def get(self, content_hash: bytes) -> "Tensor":
        """Return (num_tokens, hidden) features; raises KeyError if they are not cached."""
        self._features.move_to_end(content_hash)
        return self._features[content_hash]

    def add(self, content_hash: bytes, features: "Tensor") -> None:
        """Add features, even beyond the limit; `trim` is called after they were used."""
        self._features[content_hash] = features
        self.size_bytes += features.numel() * features.element_size()

    def drop(self, content_hash: bytes) -> None:
        """Remove features, if they are cached."""
        dropped = self._features.pop(content_hash, None)
        if dropped is not None:
            self.size_bytes -= dropped.numel() * dropped.element_size()

    def clear(self) -> None:
        """Remove all features: they are of weights that are no longer used."""
        self._features.clear()
        self.size_bytes = 0

    def trim(self) -> None:
        """Remove the least recently used features until the limit is met."""
        while self.size_bytes > self.max_bytes:
            self.drop(next(iter(self._features)))


class Runner:
    """A model with its latent cache and its encoded media."""

    def __init__(self, model: "K25Model", options: EngineOptions, *, enter: Enter = use_device) -> None:
        self.model = model
        self.options = options
        self._enter = enter
        has_graphs = wants_graphs(model, options)
        with enter(model.device):
            blocks = options.num_blocks + has_graphs  # one block that no sequence uses
            self.cache = model.make_cache(blocks, options.block_size)
            self.graphs = capture_cuda(model, self.cache, options) if has_graphs else None
        self.features = FeatureCache(options.feature_cache_bytes)

    @property
    def encoded(self) -> frozenset[bytes]:
        """Content hashes of media with cached features."""
        return self.features.keys

    @property
    def can_go_on_after_fault(self) -> bool:
        """Always True: a step writes only rows of its own sequences, which are rewritten or dropped."""
        return True

    def update(self, update: WeightUpdate) -> None:
        """Replace the weights in place; graphs, which read the same memory, stay. See `ModelRunner.update`."""
        with self._enter(self.model.device):
            self.model.update(update.source)
        self.features.clear()

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""

    @torch.inference_mode()
    def run(self, step: StepInput) -> Tensor:
        """Compute a step and write its latents: (len(step.logit_rows), vocab) fp32 logits."""
        with self._enter(self.model.device):
            return self._compute(step, self.model.device)

    def _compute(self, step: StepInput, device: torch.device) -> Tensor:
        self._encode(step)
        if not self.options.is_batch_invariant:
            return self._run_model(step, device)
        with FixedShapes():
            return self._run_model(separate_tokens(step), device)

    def _run_model(self, step: StepInput, device: torch.device) -> Tensor:
        embeds = self.model.embed(torch.tensor(step.token_ids, device=device))  # (N, hidden)
        for place in step.placements:
            features = self.features.get(place.content_hash)[place.feature : place.feature + place.count]
            embeds[place.first : place.first + place.count] = features
        self.features.trim()
        batch = self._make_batch(step, device)
        rows = torch.tensor(step.logit_rows, dtype=torch.int64, device=device)
        if self.graphs is not None and self.graphs.fits(batch):
            return self.graphs.run(embeds, batch).index_select(0, rows)
        hidden = self.model.forward(embeds, batch, self.cache)  # (N, hidden)
        return self.model.logits(hidden.index_select(0, rows))

    def _encode(self, step: StepInput) -> None:
        for content_hash in step.drop:
            self.features.drop(content_hash)
        groups = [(item,) for item in step.encode] if self.options.is_batch_invariant else [step.encode]
        for items in filter(None, groups):
            for item, features in zip(items, self.model.encode_media(items), strict=True):
                self.features.add(item.content_hash, features)

    def _make_batch(self, step: StepInput, device: torch.device) -> ForwardBatch:
        width = max(map(len, step.block_tables))
        tables = [table + [0] * (width - len(table)) for table in step.block_tables]
        return ForwardBatch(
            positions=torch.tensor(step.positions, dtype=torch.int64, device=device),
            slot_mapping=torch.tensor(step.slot_mapping, dtype=torch.int64, device=device),
            block_tables=torch.tensor(tables, dtype=torch.int32, device=device),
            cu_seqlens_q=step.cu_seqlens_q,
            seq_lens=step.seq_lens,
            num_decodes=step.num_decodes,
            block_size=self.options.block_size,
        )
