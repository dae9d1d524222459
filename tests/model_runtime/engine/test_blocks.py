"""The pool of cache blocks."""

import pytest

from model_runtime.engine.blocks import BlockPool


def test_blocks_are_taken_used_and_given_back() -> None:
    pool = BlockPool(3)
    taken = [pool.take() for _ in range(3)]
    assert sorted(taken) == [0, 1, 2]
    assert pool.num_free == 0
    with pytest.raises(IndexError):
        pool.take()
    pool.release(taken)
    assert pool.num_free == 3


def test_a_published_block_is_found_until_it_is_taken_for_something_else() -> None:
    pool = BlockPool(2)
    block = pool.take()
    pool.publish(block, b"a")
    pool.release([block])
    assert pool.find(b"a") == block
    assert pool.take() != block  # the one without content goes first
    assert pool.find(b"a") == block
    assert pool.take() == block
    assert pool.find(b"a") is None


def test_a_block_without_content_is_taken_before_all_that_are_remembered() -> None:
    pool = BlockPool(3)
    known, other, blank = pool.take(), pool.take(), pool.take()
    pool.publish(known, b"a")
    pool.publish(other, b"b")
    for block in (known, other, blank):  # the blank one comes back last
        pool.release([block])
    assert [pool.take() for _ in range(3)] == [blank, known, other]


def test_a_shared_block_is_free_when_its_last_user_left() -> None:
    pool = BlockPool(1)
    block = pool.take()
    pool.publish(block, b"a")
    pool.share(block)
    pool.release([block])
    assert (pool.num_free, pool.is_free(block)) == (0, False)
    pool.release([block])
    assert (pool.num_free, pool.is_free(block)) == (1, True)
    assert pool.share(block) == block
    assert pool.num_free == 0


def test_the_end_of_a_sequence_is_forgotten_before_its_beginning() -> None:
    pool = BlockPool(3)
    table = [pool.take() for _ in range(3)]
    for block, name in zip(table, (b"a", b"b", b"c"), strict=True):
        pool.publish(block, name)
    pool.release(table)
    pool.take()
    assert [pool.find(name) is not None for name in (b"a", b"b", b"c")] == [True, True, False]


def test_of_two_equal_blocks_the_first_stays_known() -> None:
    pool = BlockPool(2)
    first, second = pool.take(), pool.take()
    pool.publish(first, b"a")
    pool.publish(second, b"a")
    assert pool.find(b"a") == first
    pool.forget([second])
    assert pool.find(b"a") == first
    pool.forget([first])
    assert pool.find(b"a") is None
