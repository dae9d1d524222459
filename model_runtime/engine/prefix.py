"""Names of equal beginnings: one hash for each full block, over everything up to its end.

Placeholder tokens are the same for all media, so a block's hash also covers the content of the media in it and where
in the media it begins. Two prompts share a block exactly when tokens and pictures up to its end are equal.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import pack

from model_runtime.media import MediaSpan


def hash_block(parent: bytes, token_ids: Sequence[int], media: Sequence[MediaSpan], start: int) -> bytes:
    """Hash of the block that holds the tokens from index `start` on.

    Args:
        parent: Hash of the block before it; empty for the first.
        token_ids: The block's tokens.
        media: The sequence's media, in order.
        start: Index of the block's first token in the sequence.
    """
    digest = blake2b(parent, digest_size=16)
    digest.update(pack(f"<{len(token_ids)}i", *token_ids))
    end = start + len(token_ids)
    for span in media:
        if span.offset < end and start < span.end:
            digest.update(pack("<qq", span.offset - start, span.item.num_tokens))
            digest.update(span.item.content_hash)
    return digest.digest()
