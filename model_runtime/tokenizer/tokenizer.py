"""The release's tokenizer, on tiktoken directly.

Going through a converted fast tokenizer shifts the ids of control tokens by one to three: gaps between named slots are
lost on the way.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from model_runtime.require import require
from model_runtime.tokenizer.special import NUM_SLOTS, SpecialTokens

if TYPE_CHECKING:
    import tiktoken

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
"""What the release's tokenizer cuts text into before merging, tried in this order.

Source: `tokenization_kimi.py` of moonshotai/Kimi-K2.5, `pat_str`.
"""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Token ids of text and back.

    Attributes:
        special: Control tokens.
        encoding: tiktoken's engine with the ordinary ranks only.
    """

    special: SpecialTokens
    encoding: "tiktoken.Encoding" = field(repr=False)

    @property
    def vocab_size(self) -> int:
        """Ordinary ranks and control slots."""
        return self.special.first_id + NUM_SLOTS

    def encode(self, text: str) -> list[int]:
        """Ids of untrusted text: whatever it spells, none is a control token."""
        return self.encoding.encode_ordinary(text)

    def token_bytes(self, token_id: int) -> bytes:
        """What one token stands for; a control token stands for its name."""
        if self.special.is_special(token_id):
            return self.special.text_of(token_id).encode()
        return self.encoding.decode_single_token_bytes(token_id)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ids, control tokens by their names; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")


def load_tokenizer(model_dir: Path) -> Tokenizer:
    """Read `tiktoken.model` of a release folder.

    Raises:
        ConfigError: The file is missing or malformed.
    """
    lines = (model_dir / "tiktoken.model").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    tiktoken = require("tiktoken")
    encoding = tiktoken.Encoding("k25", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return Tokenizer(SpecialTokens(len(ranks)), encoding)
