"""Tokenizer that reads `tiktoken.model` directly.

A converted fast tokenizer would shift the ids of control tokens by one to three, as it loses gaps between named slots.

`tiktoken.model` has one token per line: its bytes in base64, a space, its rank. Texts that are too long for the regular
expression engine are cut as in the release's tokenizer. An agent sends its whole conversation again at every step, so
ids are cached.
"""

import base64
import binascii
import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import getsizeof
from threading import Lock
from typing import TYPE_CHECKING

from model_runtime.cancellation import check_cancelled
from model_runtime.errors import ConfigError, InvalidRequestError, require
from model_runtime.tokenizer.special import SpecialTokens, read_special

if TYPE_CHECKING:
    import tiktoken


def read_ranks(path: Path) -> dict[bytes, int]:
    """Read the ordinary tokens and their ids.

    Returns:
        Ranks by the bytes of each token, in the order of ranks, which run from 0 without gaps.

    Raises:
        ConfigError: If the file is missing or malformed, or a token or rank is duplicated or missing.
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
            raise ConfigError(f"{path}:{number}: {token!r} with rank {rank} occurs twice, or its rank does")
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
"""Maximum length of a run of characters that are all spaces, or all not.

Source: `tokenization_kimi.py` of moonshotai/Kimi-K2.5, `encode`; github.com/openai/tiktoken/issues/195.
"""

_LONG_RUN = re.compile(rf"(?<!\S)\S{{{MAX_RUN_CHARS + 1},}}|(?<!\s)\s{{{MAX_RUN_CHARS + 1},}}")


def split_text(text: str) -> Iterator[str]:
    """Split a text into parts, in order; nearly always only one."""
    if len(text) <= MAX_RUN_CHARS:
        yield text
        return
    for start in range(0, len(text), MAX_CHARS):
        yield from _split_runs(text[start : start + MAX_CHARS])


def _split_runs(text: str) -> Iterator[str]:
    """Yield cuts every `MAX_RUN_CHARS` inside longer runs of spaces or of other characters."""
    last = 0
    for run in _LONG_RUN.finditer(text):
        for cut in range(run.start() + MAX_RUN_CHARS, run.end(), MAX_RUN_CHARS):
            yield text[last:cut]
            last = cut
    yield text[last:]


MAX_BYTES = 64 * 2**20
"""Size limit: about 80 conversations of 100 steps."""


class TextCache:
    """LRU cache of texts and their ids; thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._lock = Lock()
        self._ids: OrderedDict[str, array[int]] = OrderedDict()

    def get(self, text: str) -> list[int] | None:
        """Return the ids of a text, or None if it is not cached."""
        with self._lock:
            if (ids := self._ids.get(text)) is not None:
                self._ids.move_to_end(text)
        return None if ids is None else ids.tolist()

    def put(self, text: str, token_ids: list[int]) -> None:
        """Cache the ids of a text, unless it is larger than a quarter of the cache."""
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


class TokenBudget:
    """Remaining token budget of one prompt.

    A text has at least as many tokens as its bytes divided by the length of the longest token, so that a far too long
    text is rejected without tokenization, and others as soon as they have too many tokens.

    Args:
        most: Maximum tokens of the whole prompt.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def foresee(self, num_bytes: int, max_token_bytes: int) -> None:
        """Check a text's size before tokenization.

        Raises:
            RequestError: If the text must have too many tokens.
        """
        if num_bytes > self._left * max_token_bytes:
            raise self._error()

    def spend(self, num_tokens: int) -> None:
        """Subtract tokens.

        Raises:
            RequestError: If there are not enough left.
        """
        self._left -= num_tokens
        if self._left < 0:
            raise self._error()

    def _error(self) -> InvalidRequestError:
        text = f"the prompt has more than {self._most} tokens, which is all that is taken"
        return InvalidRequestError(
            f"{text}. Send less history or fewer images", param="messages", code="context_length_exceeded"
        )


_HAN, _MARK_OR_OTHER = r"\p{Han}", r"\p{Lm}\p{Lo}\p{M}"
_UPPER, _LOWER = (rf"[\p{{{kinds}}}{_MARK_OR_OTHER}&&[^{_HAN}]]" for kinds in (r"Lu}\p{Lt", "Ll"))
_LEAD, _CONTRACTION = r"[^\r\n\p{L}\p{N}]?", r"(?i:'(?:s|t|re|ve|m|ll|d))?"
PATTERN = "|".join(
    (
        rf"{_HAN}+",
        rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""Pattern by which the release's tokenizer splits text before merging; alternatives are tried in this order.

Source: `tokenization_kimi.py` of moonshotai/Kimi-K2.5, `pat_str`.
"""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Conversion of text to token ids and back."""

    special: SpecialTokens
    tokens: tuple[bytes, ...] = field(repr=False)
    encoding: "tiktoken.Encoding" = field(repr=False)
    max_token_bytes: int = field(init=False)
    _seen: TextCache = field(default_factory=TextCache, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_token_bytes", max(map(len, self.tokens[: self.special.first_id]), default=1))

    @property
    def vocab_size(self) -> int:
        """Number of ordinary ranks and control slots."""
        return len(self.tokens)

    def encode(self, text: str, budget: TokenBudget | None = None) -> list[int]:
        """Return ids of untrusted text, which never include a control token.

        Lone surrogates become U+FFFD. Results are cached. Long texts check for cancellation between their parts
        (`model_runtime.cancellation`).

        Raises:
            RequestError: If the budget has not enough tokens left.
        """
        if budget is not None:
            budget.foresee(len(text), self.max_token_bytes)  # not shorter in bytes
        if (known := self._seen.get(text)) is not None:
            if budget is not None:
                budget.spend(len(known))
            return known
        ids: list[int] = []
        for part in split_text(text):
            check_cancelled()
            encoded = self.encoding.encode_ordinary(part)
            if budget is not None:
                budget.spend(len(encoded))
            ids += encoded
        self._seen.put(text, ids)
        return ids

    def encode_with_special(self, text: str, budget: TokenBudget | None = None) -> list[int]:
        """Return ids of trusted text: names of control tokens in it become control tokens.

        Raises:
            RequestError: If the budget has not enough tokens left.
        """
        ids = self.special.ids
        if budget is not None:
            budget.foresee(len(text), max(self.max_token_bytes, *map(len, ids)))
        names = re.compile("(" + "|".join(map(re.escape, ids)) + ")")
        encoded: list[int] = []
        for part in names.split(text):
            if part not in ids:
                encoded += self.encode(part, budget)
                continue
            encoded.append(ids[part])
            if budget is not None:
                budget.spend(1)
        return encoded

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one token; for a control token, those of its name.

        Raises:
            RequestError: If the token does not exist.
        """
        if not 0 <= token_id < len(self.tokens):
            raise InvalidRequestError(f"there is no token {token_id}: ids go from 0 to {len(self.tokens) - 1}")
        return self.tokens[token_id]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids, with control tokens by their names; invalid UTF-8 becomes U+FFFD.

        Raises:
            RequestError: If the token does not exist.
        """
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")


def load_tokenizer(model_dir: Path) -> Tokenizer:
    """Read `tiktoken.model`, and optionally `tokenizer_config.json`, of a release folder.

    Raises:
        ConfigError: If a file is missing or malformed, or the ids of control tokens are not those of the release.
    """
    ranks = read_ranks(model_dir / "tiktoken.model")
    special = read_special(model_dir / "tokenizer_config.json", len(ranks))
    tiktoken = require("tiktoken")
    encoding = tiktoken.Encoding("k25", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return Tokenizer(special, (*ranks, *(text.encode() for text in special.ids)), encoding)
