"""Hashes of blocks."""

import numpy as np

from model_runtime.engine.prefix import hash_block
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
