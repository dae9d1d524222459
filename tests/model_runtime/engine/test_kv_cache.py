"""Blocks of the cache: names of equal beginnings, and who uses which."""

import numpy as np
import pytest

from model_runtime.engine.kv_cache import BlockPool, hash_block
from model_runtime.media import MediaItem, MediaSpan


def make_span(offset: int, content: bytes, blocks: int = 2) -> MediaSpan:
    frames = np.zeros((1, 28, 28 * blocks, 3), np.uint8)
    return MediaSpan(offset=offset, item=MediaItem(frames=frames, content_hash=content))


def test_a_hash_covers_everything_before_the_block() -> None:
    first = hash_block(b"", [1, 2], [], 0)
    assert first == hash_block(b"", [1, 2], [], 0)
    assert (
        len({first, hash_block(b"", [1, 3], [], 0), hash_block(first, [1, 2], [], 2), hash_block(b"", [1], [], 0)}) == 4
    )


def test_a_hash_covers_the_pictures_in_the_block_and_where_they_begin() -> None:
    red, blue = make_span(1, b"red"), make_span(1, b"blue")
    one = hash_block(b"", [9, 7, 7, 9], [red], 0)
    assert one == hash_block(b"", [9, 7, 7, 9], [red], 0)
    assert one != hash_block(b"", [9, 7, 7, 9], [blue], 0)
    assert one != hash_block(b"", [9, 7, 7, 9], [], 0)
    assert hash_block(b"", [7, 7], [make_span(0, b"red", 4)], 0) != hash_block(
        b"", [7, 7], [make_span(-2, b"red", 4)], 0
    )


def test_a_hash_leaves_out_pictures_elsewhere() -> None:
    assert hash_block(b"", [9, 8], [make_span(2, b"red")], 0) == hash_block(b"", [9, 8], [], 0)
    assert hash_block(b"", [9, 8], [make_span(0, b"red")], 2) == hash_block(b"", [9, 8], [], 2)


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
