"""Encoded media, kept while there is room: an agent sends the same screenshots step after step."""

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class FeatureCache:
    """Features by content hash, the longest unused dropped first. All ranks hold the same ones in the same order."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._features: OrderedDict[bytes, Tensor] = OrderedDict()

    @property
    def keys(self) -> frozenset[bytes]:
        """Content hashes at hand."""
        return frozenset(self._features)

    def get(self, content_hash: bytes) -> "Tensor":
        """(num_tokens, hidden) features; KeyError when they are not at hand."""
        self._features.move_to_end(content_hash)
        return self._features[content_hash]

    def add(self, content_hash: bytes, features: "Tensor") -> None:
        """Keep features, for now even beyond the limit: `trim` comes after they were used."""
        self._features[content_hash] = features
        self.size_bytes += features.numel() * features.element_size()

    def drop(self, content_hash: bytes) -> None:
        """Forget features, if they are at hand."""
        dropped = self._features.pop(content_hash, None)
        if dropped is not None:
            self.size_bytes -= dropped.numel() * dropped.element_size()

    def trim(self) -> None:
        """Drop the longest unused ones until the limit holds."""
        while self.size_bytes > self.max_bytes:
            self.drop(next(iter(self._features)))
