"""Which program attends to which keys: long contexts are cut into pieces, and pieces are handed out longest first.

One program reads its keys alone, so a batch with fewer sequences than multiprocessors leaves most of the chip idle
unless contexts are cut. A cut costs: each partial result, 64 heads x 512 values in fp32, is written and read again, as
many bytes as 228 rows of the cache. So there are just as many pieces as fill the chip once, or twice where that
balances better, and a context that is not cut leaves no partial result. Pieces may be short: 64 keys a program instead
of 256 take 15 us instead of 27 at 1,024 keys, and 20 instead of 29 at 4,096 (one sequence, 64 heads, H200).

Lists are made on the host once a step, from lengths that the host knows anyway, and all layers use them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model_runtime.kernels.launch import LaunchError

GRAIN = 64
"""Pieces begin at multiples of so many keys; blocks of keys in a kernel must divide it."""

LEAST, LEAST_OF_SEVERAL = 1, 2
"""Grains of the shortest piece; of several queries, each of which must see a key of the last piece."""

PARTIAL_COST = 2
"""Grains that could be read instead of writing a partial result and reading it again."""

NUM_PROGRAMS = 132
"""Multiprocessors of an H100 or H200; what is assumed where there is no GPU to ask."""

ITEM_FIELDS, JOIN_FIELDS = 8, 4


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring queries of one sequence, which one program handles, and the keys that the last of them sees.

    Attributes:
        query: The first one's row.
        num_queries: How many; each sees one key less than the next.
        source: Where the keys are: the row of the block table, or the first key's row.
        num_keys: Keys that the last query sees.
    """

    query: int
    num_queries: int
    source: int
    num_keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """Pieces of one step on the device; fixed sizes, and `update`, let a captured graph run many steps.

    Attributes:
        items: (I, 8) int32: query, num_queries, source, first key, key after the last, num_keys, place of the partial
            result or -1 when the piece is the whole, nothing. No queries: nothing to do.
        joins: (J, 4) int32: query, num_queries, first place, number of places; none means a result of zeros.
        block_tables: (S, max_blocks) int32; None where keys lie one after the other.
        queries_per_item: The most queries of one item.
        num_places: Room for partial results.
        num_programs: Multiprocessors that the pieces are made for.
    """

    items: Tensor
    joins: Tensor
    block_tables: Tensor | None
    queries_per_item: int
    num_places: int
    num_programs: int

    def update(self, block_tables: Tensor, seq_lens: Sequence[int]) -> None:
        """Make a plan of `make_plan` with room for many sequences the plan of another step, in the same memory.

        Args:
            block_tables: (S, max_blocks) int32, as wide as the first ones.
            seq_lens: S lengths, no more than there is room for.

        Raises:
            LaunchError: There is no room for so many sequences or blocks.
        """
        own = self.block_tables
        if own is None or len(seq_lens) > len(own) or block_tables.shape != (len(seq_lens), own.shape[1]):
            room = "no block tables" if own is None else tuple(own.shape)
            text = f"{len(seq_lens)} sequences with block tables of shape {tuple(block_tables.shape)}"
            raise LaunchError(f"{text} do not fit a plan with room for {room}; make a larger plan with make_plan")
        spans = decode_spans([*seq_lens, *[0] * (len(own) - len(seq_lens))])
        items, joins = cut(spans, self.num_programs)
        own[: len(seq_lens)].copy_(block_tables, non_blocking=True)
        self.items.copy_(to_rows(items, ITEM_FIELDS, len(self.items), own.device), non_blocking=True)
        self.joins.copy_(to_rows(joins, JOIN_FIELDS, len(self.joins), own.device), non_blocking=True)


def make_plan(
    block_tables: Tensor, seq_lens: Sequence[int], max_seqs: int | None = None, num_programs: int | None = None
) -> AttentionPlan:
    """Cut one decode step.

    Args:
        block_tables: (S, max_blocks) int32 on the device.
        seq_lens: S lengths with the new token.
        max_seqs: Room for so many sequences, for `AttentionPlan.update`; None is a plan for this step only.
        num_programs: Instead of the device's number of multiprocessors.
    """
    device = block_tables.device
    num_programs = num_programs or count_multiprocessors(device)
    if max_seqs is None:
        return _place(cut(decode_spans(seq_lens), num_programs), block_tables, 1, device, num_programs)
    plan = room_for(block_tables, max_seqs, num_programs)
    plan.update(block_tables, seq_lens)
    return plan


def room_for(block_tables: Tensor, max_seqs: int, num_programs: int) -> AttentionPlan:
    """A plan without pieces, with room for those of `max_seqs` sequences and for block tables as wide as these."""
    room = find_capacity(max_seqs, num_programs)
    return AttentionPlan(
        items=block_tables.new_zeros(room, ITEM_FIELDS),
        joins=block_tables.new_zeros(max_seqs, JOIN_FIELDS),
        block_tables=block_tables.new_zeros(max_seqs, block_tables.shape[1]),
        queries_per_item=1,
        num_places=room,
        num_programs=num_programs,
    )


def plan_spans(spans: Sequence[Span], device: torch.device, num_programs: int | None = None) -> AttentionPlan:
    """Cut queries whose keys lie one after the other, without block tables."""
    num_programs = num_programs or count_multiprocessors(device)
    most = max((span.num_queries for span in spans), default=1)
    return _place(cut(spans, num_programs), None, most, device, num_programs)


def decode_spans(seq_lens: Sequence[int]) -> list[Span]:
    """One query of each sequence, whose keys are in its row of the block tables."""
    return [Span(seq, 1, seq, length) for seq, length in enumerate(seq_lens)]


def cut(spans: Sequence[Span], num_programs: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Pieces, the longest first, and what has to be put together again, in the order of the spans.

    The last piece has as many grains as any, the last of which may be one key. With pieces of LEAST_OF_SEVERAL grains
    and up to GRAIN queries each query sees a key of every piece.
    """
    least = LEAST if all(span.num_queries == 1 for span in spans) else LEAST_OF_SEVERAL
    most = find_piece([-(-span.num_keys // GRAIN) for span in spans], num_programs, least)
    items: list[tuple[int, ...]] = []
    joins: list[tuple[int, ...]] = []
    place = 0
    for span in spans:
        grains = -(-span.num_keys // GRAIN)
        pieces = -(-grains // most)
        for piece in range(pieces):
            first, last = (min(GRAIN * (grains * k // pieces), span.num_keys) for k in (piece, piece + 1))
            at = -1 if pieces == 1 else place + piece
            items.append((span.query, span.num_queries, span.source, first, last, span.num_keys, at, 0))
        if pieces != 1:
            joins.append((span.query, span.num_queries, place, pieces))
            place += pieces
    items.sort(key=lambda item: item[3] - item[4])
    return items, joins


def find_piece(grains: Sequence[int], num_programs: int, least: int = LEAST) -> int:
    """Grains of the longest piece, so that all are done soonest.

    Pieces run in waves of `num_programs`, each at worst as long as the longest piece; tried are the fewest waves, one
    more, and no cut.
    """
    longest = max((least, *grains))
    fewest = max(1, -(-len(grains) // num_programs))
    options = [(fewest * longest, fewest, longest)]
    for waves in (fewest, fewest + 1):
        most = _shortest(grains, range(least, longest), waves * num_programs)
        options.append((waves * (most + PARTIAL_COST * (most < longest)), waves, most))
    return min(options)[2]


def find_capacity(max_seqs: int, num_programs: int) -> int:
    """The most pieces that `cut` makes of so many sequences."""
    return (max(1, -(-max_seqs // num_programs)) + 1) * num_programs


def count_multiprocessors(device: torch.device) -> int:
    """Of a GPU; for anything else, those of an H200."""
    if device.type != "cuda":
        return NUM_PROGRAMS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def to_rows(rows: Sequence[tuple[int, ...]], width: int, room: int, device: torch.device) -> Tensor:
    """(room, width) int32 on the host, zeros behind the rows, in memory that `device` can copy from by itself."""
    padded = [*rows, *[(0,) * width] * (room - len(rows))]
    return torch.tensor(padded, dtype=torch.int32, pin_memory=device.type == "cuda").view(room, width)


def _shortest(grains: Sequence[int], lengths: range, room: int) -> int:
    """The least of the lengths for which there are no more than `room` pieces, or the one behind the last."""

    def fits(most: int) -> bool:
        return sum(-(-count // most) for count in grains) <= room

    return lengths.start + bisect_left(lengths, True, key=fits)


def _place(
    rows: tuple[list[tuple[int, ...]], list[tuple[int, ...]]],
    block_tables: Tensor | None,
    queries_per_item: int,
    device: torch.device,
    num_programs: int,
) -> AttentionPlan:
    items, joins = rows
    return AttentionPlan(
        items=to_rows(items, ITEM_FIELDS, len(items), device).to(device, non_blocking=True),
        joins=to_rows(joins, JOIN_FIELDS, len(joins), device).to(device, non_blocking=True),
        block_tables=block_tables,
        queries_per_item=queries_per_item,
        num_places=sum(join[3] for join in joins),
        num_programs=num_programs,
    )
