"""How contexts are cut into pieces."""

import random
from itertools import chain

import pytest
import torch

from model_runtime.kernels.launch import LaunchError
from model_runtime.kernels.mla_schedule import (
    GRAIN,
    LEAST,
    NUM_PROGRAMS,
    QuerySpan,
    count_multiprocessors,
    cut,
    decode_spans,
    find_capacity,
    find_piece,
    make_plan,
    plan_spans,
)

TABLES = torch.arange(12, dtype=torch.int32).view(3, 4)


def test_every_key_is_in_one_piece() -> None:
    draw = random.Random(0)
    for _ in range(200):
        lens = [int(2 ** draw.uniform(0, 18)) for _ in range(draw.choice([1, 2, 7, 32, 131, 140, 300]))]
        items, joins = cut(decode_spans(lens), NUM_PROGRAMS)
        assert len(items) <= find_capacity(len(lens), NUM_PROGRAMS)
        lengths = [item[4] - item[3] for item in items]
        assert lengths == sorted(lengths, reverse=True)
        places = {join[0]: list(range(join[2], join[2] + join[3])) for join in joins}
        for seq, length in enumerate(lens):
            own = sorted(item[3:7] for item in items if item[0] == seq)
            assert own[0][0] == 0
            assert own[-1][1] == length
            assert [piece[1] for piece in own[:-1]] == [piece[0] for piece in own[1:]]
            assert all(first % GRAIN == 0 and first < last and end == length for first, last, end, _ in own)
            assert [piece[3] for piece in own] == places.get(seq, [-1])
        assert sorted(chain(*places.values())) == list(range(sum(join[3] for join in joins)))


@pytest.mark.parametrize(
    ("lens", "pieces"),
    [
        ([1], [1]),
        ([128], [1]),  # two results to be joined cost more than two grains one after the other
        ([257], [5]),
        ([1024], [16]),
        ([262_144], [128]),  # 4096 grains in 132 equal parts are 32 each
        ([16_384] * 32, [4] * 32),  # one each would leave 100 of 132 multiprocessors idle
        ([16_384] * 132, [1] * 132),
        ([2000] * 120, [1] * 120),
        ([65_536, 512, 512, 512], [128, 1, 1, 1]),
    ],
    ids=lambda value: str(value)[:24],
)
def test_as_many_pieces_as_fill_the_chip(lens: list[int], pieces: list[int]) -> None:
    items, _ = cut(decode_spans(lens), NUM_PROGRAMS)
    assert [sum(item[0] == seq for item in items) for seq in range(len(lens))] == pieces


@pytest.mark.parametrize("num_queries", [2, 8, GRAIN])
def test_each_of_several_queries_sees_a_key_of_the_last_piece(num_queries: int) -> None:
    for num_keys in range(num_queries, 40 * GRAIN, 7):
        items, _ = cut([QuerySpan(0, num_queries, 0, num_keys)], NUM_PROGRAMS)
        first_query_sees = num_keys - num_queries + 1
        assert all(item[3] < first_query_sees for item in items)


def test_a_second_wave_is_cut_finer_only_where_that_helps() -> None:
    assert find_piece([100] * 70, 132) < 100  # 70 whole ones: half of the chip is idle
    assert find_piece([100] * 132, 132) == 100
    assert find_piece([LEAST] * 500, 132) == LEAST


def test_pieces_are_equally_long_but_for_a_grain() -> None:
    items, _ = cut(decode_spans([100_000]), NUM_PROGRAMS)
    lengths = [item[4] - item[3] for item in items[:-1]]
    assert max(lengths) - min(lengths) <= GRAIN


def test_an_empty_sequence_has_a_join_of_nothing() -> None:
    items, joins = cut(decode_spans([0, 5]), NUM_PROGRAMS)
    assert [item[0] for item in items] == [1]
    assert joins == [(0, 1, 0, 0)]


def test_a_plan_for_one_step() -> None:
    plan = make_plan(TABLES, [4, 300, 9], num_programs=4)
    assert plan.block_tables is TABLES
    assert plan.items.dtype == plan.joins.dtype == torch.int32
    assert (plan.items.shape, plan.joins.tolist(), plan.num_places) == ((4, 8), [[1, 1, 0, 2]], 2)


def test_a_plan_without_block_tables() -> None:
    plan = plan_spans([QuerySpan(0, 3, 0, 10), QuerySpan(3, 2, 10, 400)], torch.device("cpu"), 1)
    assert plan.block_tables is None
    assert plan.queries_per_item == 3
    assert plan.items.tolist() == [[3, 2, 10, 0, 400, 400, -1, 0], [0, 3, 0, 0, 10, 10, -1, 0]]


def test_no_spans_no_items() -> None:
    plan = plan_spans([], torch.device("cpu"), 1)
    assert (plan.items.shape, plan.joins.shape) == ((0, 8), (0, 4))


def test_a_plan_that_lasts_is_rewritten_in_place() -> None:
    plan = make_plan(TABLES, [4, 300, 9], max_seqs=5, num_programs=4)
    items, joins = plan.items, plan.joins
    assert (items.shape, joins.shape, plan.num_places) == ((12, 8), (5, 4), 12)
    plan.update(TABLES[1:2] + 100, [7])
    assert plan.items is items
    assert items.tolist() == [[0, 1, 0, 0, 7, 7, -1, 0], *[[0] * 8] * 11]
    assert joins.tolist() == [[seq, 1, 0, 0] for seq in range(1, 5)] + [[0] * 4]
    assert plan.block_tables is not None
    assert plan.block_tables[0].tolist() == [104, 105, 106, 107]


@pytest.mark.parametrize(("rows", "columns"), [(6, 4), (2, 3)])
def test_no_room(rows: int, columns: int) -> None:
    plan = make_plan(TABLES, [4, 300, 9], max_seqs=5)
    tables = torch.zeros(rows, columns, dtype=torch.int32)
    with pytest.raises(LaunchError, match=rf"{rows} sequences .* space for \(5, 4\); make a larger plan"):
        plan.update(tables, [1] * rows)
    with pytest.raises(LaunchError, match="space for no block tables"):
        plan_spans([], torch.device("cpu")).update(tables, [1] * rows)


def test_without_a_gpu_it_is_an_h200() -> None:
    assert count_multiprocessors(torch.device("cpu")) == NUM_PROGRAMS == 132
