"""What lies around tiktoken's byte-pair encoding: the file of ranks, cuts of long texts, ids of texts seen before.

`tiktoken.model` has one token on a line: its bytes in base64, a space, its rank. Texts that are too long for the
regular expression engine are cut where the release's tokenizer cuts them. An agent sends its whole conversation again
at every step, so ids are kept.
"""

import base64
import binascii
import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from sys import getsizeof
from threading import Lock

from model_runtime.errors import ConfigError


def read_ranks(path: Path) -> dict[bytes, int]:
    """Ordinary tokens and their ids.

    Returns:
        Bytes of each token to its rank, in the order of ranks, which run from 0 without gaps.

    Raises:
        ConfigError: The file is missing or malformed, a token or rank stands twice or is missing.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; the tokenizer's ranks are needed") from error
    ranks: dict[bytes, int] = {}
    lines_of: dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        token, rank = _parse_line(line, f"{path}:{number}")
        if rank in lines_of or token in ranks:
            raise ConfigError(f"{path}:{number}: {token!r} with rank {rank} stands twice, or its rank does")
        ranks[token], lines_of[rank] = rank, number
    _check_complete(ranks, path)
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def _parse_line(line: bytes, place: str) -> tuple[bytes, int]:
    try:
        token, rank = line.split()
        return base64.b64decode(token, validate=True), int(rank)
    except (ValueError, binascii.Error) as error:
        shown = line[:60].decode("ascii", "replace")
        raise ConfigError(f"{place}: expected a token in base64, a space and its rank, found {shown!r}") from error


def _check_complete(ranks: dict[bytes, int], path: Path) -> None:
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ConfigError(f"{path}: no token for {len(missing)} single bytes, the first is 0x{missing[0]:02x}")
    last = max(ranks.values())
    if last >= len(ranks) or min(ranks.values()) < 0:
        gap = next(rank for rank in range(len(ranks)) if rank not in set(ranks.values()))
        raise ConfigError(
            f"{path}: {len(ranks)} tokens, but ranks go up to {last} and {gap} is missing; is it cut off?"
        )


MAX_CHARS = 400_000
MAX_RUN_CHARS = 25_000
"""Characters that are all spaces, or all not.

Source: `tokenization_kimi.py` of moonshotai/Kimi-K2.5, `encode`; github.com/openai/tiktoken/issues/195.
"""

_LONG_RUN = re.compile(rf"(?<!\S)\S{{{MAX_RUN_CHARS + 1},}}|(?<!\s)\s{{{MAX_RUN_CHARS + 1},}}")


def split_text(text: str) -> Iterator[str]:
    """Parts of a text, in order; nearly always the text itself."""
    if len(text) <= MAX_RUN_CHARS:
        yield text
        return
    for start in range(0, len(text), MAX_CHARS):
        yield from _split_runs(text[start : start + MAX_CHARS])


def _split_runs(text: str) -> Iterator[str]:
    """Cuts every `MAX_RUN_CHARS` inside longer runs of spaces or of other characters."""
    last = 0
    for run in _LONG_RUN.finditer(text):
        for cut in range(run.start() + MAX_RUN_CHARS, run.end(), MAX_RUN_CHARS):
            yield text[last:cut]
            last = cut
    yield text[last:]


MAX_BYTES = 64 * 2**20
"""About 80 conversations of 100 steps."""


class TextCache:
    """Texts and their ids, those not used for longest dropped first; safe among threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._lock = Lock()
        self._ids: OrderedDict[str, array[int]] = OrderedDict()

    def get(self, text: str) -> list[int] | None:
        """Ids of a text, or None where it is not known."""
        with self._lock:
            if (ids := self._ids.get(text)) is not None:
                self._ids.move_to_end(text)
        return None if ids is None else ids.tolist()

    def put(self, text: str, token_ids: list[int]) -> None:
        """Keep the ids of a text; one that would push out a quarter of the others is left out."""
        ids = array("I", token_ids)
        size = _size(text, ids)
        if size > self._max_bytes // 4:
            return
        with self._lock:
            if text in self._ids:
                return
            self._ids[text] = ids
            self._num_bytes += size
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= _size(*self._ids.popitem(last=False))


def _size(text: str, ids: "array[int]") -> int:
    return getsizeof(text) + getsizeof(ids)
