"""Assignment of keys to programs: long contexts are cut into pieces, and the longest pieces start first.

One program reads its keys alone, so a batch with fewer sequences than multiprocessors leaves most of the GPU idle
unless contexts are cut. A cut has a cost: each partial result, 64 heads x 512 values in fp32, is written and read
again, as many bytes as 228 rows of the cache. The number of pieces is therefore just enough to fill the GPU once, or
twice if that balances better, and a context that is not cut has no partial result. Pieces may be short: 64 keys a
program instead of 256 take 15 us instead of 27 at 1,024 keys, and 20 instead of 29 at 4,096 (one sequence, 64 heads,
H200).

The host makes the lists once a step, from lengths that it already has, and all layers use them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model_runtime.kernels.launch import LaunchError

GRAIN = 64
"""Granularity of pieces in keys: pieces start at multiples of it, and a kernel's block of keys must divide it."""

LEAST, LEAST_OF_SEVERAL = 1, 2
"""Minimum length of a piece in grains, for one query and for several, each of which must see a key of the last
piece.
"""

PARTIAL_COST = 2
"""Cost of a partial result: the number of grains that could be read in the time to write it and read it again."""

NUM_PROGRAMS = 132
"""Multiprocessors of an H100 or H200; the default without a GPU."""

ITEM_FIELDS, JOIN_FIELDS = 8, 4


@dataclass(frozen=True, slots=True)
class QuerySpan:
    """Neighbouring queries of one sequence for one program, and the keys that the last of them sees.

    Attributes:
        query: Row of the first query.
        num_queries: Number of queries; each sees one key less than the next.
        source: Location of the keys: the row of the block table, or the first key's row.
        num_keys: Number of keys that the last query sees.
    """

    query: int
    num_queries: int
    source: int
    num_keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSchedule:
    """Pieces of one step on the device; with fixed sizes and `update`, a captured graph can run many steps.

    Attributes:
        items: (I, 8) int32: query, num_queries, source, first key, key after the last, num_keys, place of the partial
            result or -1 if the piece is the whole context, unused. With num_queries 0, an item is skipped.
        joins: (J, 4) int32: query, num_queries, first place, number of places; with no places, the result is zeros.
        block_tables: (S, max_blocks) int32; None if keys are contiguous.
        queries_per_item: Maximum number of queries of one item.
        num_places: Capacity for partial results.
        num_programs: Number of multiprocessors that the pieces are made for.
    """

    items: Tensor
    joins: Tensor
    block_tables: Tensor | None
    queries_per_item: int
    num_places: int
    num_programs: int

    def update(self, block_tables: Tensor, seq_lens: Sequence[int]) -> None:
        """Overwrite this plan with another step, in the same memory. `make_plan` must have been called with `max_seqs`.

        Args:
            block_tables: (S, max_blocks) int32, of the same width as the first ones.
            seq_lens: S lengths, at most `max_seqs`.

        Raises:
            LaunchError: If the number of sequences or blocks does not fit.
        """
        own = self.block_tables
        if own is None or len(seq_lens) > len(own) or block_tables.shape != (len(seq_lens), own.shape[1]):
            room = "no block tables" if own is None else tuple(own.shape)
            text = f"{len(seq_lens)} sequences with block tables of shape {tuple(block_tables.shape)}"
            raise LaunchError(f"{text} do not fit a plan with space for {room}; make a larger plan with make_plan")
        spans = decode_spans([*seq_lens, *[0] * (len(own) - len(seq_lens))])
        items, joins = cut(spans, self.num_programs)
        own[: len(seq_lens)].copy_(block_tables, non_blocking=True)
        self.items.copy_(to_rows(items, ITEM_FIELDS, len(self.items), own.device), non_blocking=True)
        self.joins.copy_(to_rows(joins, JOIN_FIELDS, len(self.joins), own.device), non_blocking=True)


def make_plan(
    block_tables: Tensor, seq_lens: Sequence[int], max_seqs: int | None = None, num_programs: int | None = None
) -> KernelSchedule:
    """Return the plan of one decode step.

    Args:
        block_tables: (S, max_blocks) int32 on the device.
        seq_lens: S lengths including the new token.
        max_seqs: Maximum number of sequences for `KernelSchedule.update`; None for a plan of this step only.
        num_programs: Number of programs; None for the device's number of multiprocessors.
    """
    device = block_tables.device
    num_programs = num_programs or count_multiprocessors(device)
    if max_seqs is None:
        return _place(cut(decode_spans(seq_lens), num_programs), block_tables, 1, device, num_programs)
    plan = room_for(block_tables, max_seqs, num_programs)
    plan.update(block_tables, seq_lens)
    return plan


def room_for(block_tables: Tensor, max_seqs: int, num_programs: int) -> KernelSchedule:
    """Return an empty plan with capacity for `max_seqs` sequences and for block tables as wide as these."""
    room = find_capacity(max_seqs, num_programs)
    return KernelSchedule(
        items=block_tables.new_zeros(room, ITEM_FIELDS),
        joins=block_tables.new_zeros(max_seqs, JOIN_FIELDS),
        block_tables=block_tables.new_zeros(max_seqs, block_tables.shape[1]),
        queries_per_item=1,
        num_places=room,
        num_programs=num_programs,
    )


def plan_spans(spans: Sequence[QuerySpan], device: torch.device, num_programs: int | None = None) -> KernelSchedule:
    """Return the plan of queries whose keys are contiguous, without block tables."""
    num_programs = num_programs or count_multiprocessors(device)
    most = max((span.num_queries for span in spans), default=1)
    return _place(cut(spans, num_programs), None, most, device, num_programs)


def decode_spans(seq_lens: Sequence[int]) -> list[QuerySpan]:
    """Return one query of each sequence, whose keys are in its row of the block tables."""
    return [QuerySpan(seq, 1, seq, length) for seq, length in enumerate(seq_lens)]


def cut(spans: Sequence[QuerySpan], num_programs: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Cut spans into pieces (items, longest first) and list the results to join (in the order of the spans).

    The last piece has as many grains as any other, but its last grain may have only one key. With pieces of
    LEAST_OF_SEVERAL grains and up to GRAIN queries, each query sees a key of every piece.
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
    """Return the maximum piece length in grains that minimizes the total time.

    Pieces run in waves of `num_programs`, each at worst as long as the longest piece. Candidates are the smallest
    number of waves, one more, and no cut.
    """
    longest = max((least, *grains))
    fewest = max(1, -(-len(grains) // num_programs))
    options = [(fewest * longest, fewest, longest)]
    for waves in (fewest, fewest + 1):
        most = _shortest(grains, range(least, longest), waves * num_programs)
        options.append((waves * (most + PARTIAL_COST * (most < longest)), waves, most))
    return min(options)[2]


def find_capacity(max_seqs: int, num_programs: int) -> int:
    """Return the maximum number of pieces that `cut` makes of `max_seqs` sequences."""
    return (max(1, -(-max_seqs // num_programs)) + 1) * num_programs


def count_multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU; for other devices, `NUM_PROGRAMS`."""
    if device.type != "cuda":
        return NUM_PROGRAMS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def to_rows(rows: Sequence[tuple[int, ...]], width: int, room: int, device: torch.device) -> Tensor:
    """Return rows as (room, width) int32 on the host, padded with zero rows, in pinned memory if `device` is a GPU."""
    padded = [*rows, *[(0,) * width] * (room - len(rows))]
    return torch.tensor(padded, dtype=torch.int32, pin_memory=device.type == "cuda").view(room, width)


def _shortest(grains: Sequence[int], lengths: range, room: int) -> int:
    """Return the smallest of the lengths with at most `room` pieces; the range's end if there is none."""

    def fits(most: int) -> bool:
        return sum(-(-count // most) for count in grains) <= room

    return lengths.start + bisect_left(lengths, True, key=fits)


def _place(
    rows: tuple[list[tuple[int, ...]], list[tuple[int, ...]]],
    block_tables: Tensor | None,
    queries_per_item: int,
    device: torch.device,
    num_programs: int,
) -> KernelSchedule:
    items, joins = rows
    return KernelSchedule(
        items=to_rows(items, ITEM_FIELDS, len(items), device).to(device, non_blocking=True),
        joins=to_rows(joins, JOIN_FIELDS, len(joins), device).to(device, non_blocking=True),
        block_tables=block_tables,
        queries_per_item=queries_per_item,
        num_places=sum(join[3] for join in joins),
        num_programs=num_programs,
    )
