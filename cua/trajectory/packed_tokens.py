"""Token ids and log-probabilities of a reply in a line of JSON: little-endian numbers, deflated, as base64.

A prompt of 10,000 tokens takes some 15 kB that way instead of 60; a next step's prompt begins with the same ids.
"""

import base64
import binascii
import sys
import zlib
from array import array
from typing import Any

from cua.messages import ReplyTokens

MAX_BYTES = 64 * 2**20
"""Of one list, unpacked: eight million ids."""

_KINDS = {"prompt_ids": "q", "ids": "q", "logprobs": "d", "sampled": "b"}


def pack_tokens(tokens: ReplyTokens) -> dict[str, str]:
    """A text for each list."""
    return {name: _pack(kind, getattr(tokens, name)) for name, kind in _KINDS.items()}


def unpack_tokens(packed: Any) -> dict[str, list[Any]]:
    """The lists, as data that is not checked yet.

    Raises:
        ValueError: Something else than `pack_tokens` makes, or absurdly much of it.
    """
    if not isinstance(packed, dict) or not all(isinstance(packed.get(name), str) for name in _KINDS):
        raise ValueError("the tokens of a reply are not what a record holds")
    lists: dict[str, list[Any]] = {name: _unpack(kind, packed[name]) for name, kind in _KINDS.items()}
    lists["sampled"] = [value != 0 for value in lists["sampled"]]
    return lists


def _pack(kind: str, values: tuple[Any, ...]) -> str:
    numbers = array(kind, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes())).decode() if values else ""


def _unpack(kind: str, text: str) -> list[Any]:
    numbers = array(kind)
    if not text:
        return []
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
        if inflate.unconsumed_tail or not inflate.eof:
            raise ValueError(f"the tokens of a reply are cut off, or more than {MAX_BYTES >> 20} MiB")
        numbers.frombytes(data)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the tokens of a reply cannot be unpacked: {error}") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
