"""One step's work as plain numbers, what every rank needs to compute the same thing; and the contract of executors."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from model_runtime.engine.scheduler import Chunk
from model_runtime.media import MediaItem

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class MediaRows:
    """Rows `first` to `first + count` of a step are rows `feature` to `feature + count` of a media item's features."""

    first: int
    content_hash: bytes
    feature: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """A batch on the host; see `model_runtime.model.batch.ForwardBatch` for the meaning of its fields.

    Attributes:
        drop: Media whose features are not to be used again.
        encode: Media whose features are not at hand yet.
        placements: Which rows are media.
        logit_rows: Rows whose logits are wanted.
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
    """Lay the chunks end to end.

    Args:
        chunks: Single tokens first.
        block_size: Tokens in a block of the cache.
        encoded: Content hashes of media whose features are at hand.
        drop: Content hashes of media to forget before anything else.
    """
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


def wants_prompt_rows(chunk: Chunk) -> bool:
    """Whether log-probabilities of the prompt's own tokens are still to be collected from this chunk."""
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


class Executor(Protocol):
    """Computes steps, one after another."""

    @property
    def encoded(self) -> frozenset[bytes]:
        """Content hashes of media whose features are at hand."""
        ...

    @property
    def can_go_on_after_fault(self) -> bool:
        """Whether a step that ran out of memory leaves it able to compute the next."""
        ...

    def run(self, step: StepInput) -> "Tensor":
        """Compute a step.

        Returns:
            (len(step.logit_rows), vocab) fp32 logits.

        Raises:
            EngineDead: A rank has ended.
        """
        ...

    def close(self) -> None:
        """Free everything; may be called twice."""
        ...
