"""Token ids of texts seen before: an agent sends its whole conversation again at every step."""

from array import array
from collections import OrderedDict
from sys import getsizeof
from threading import Lock

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
