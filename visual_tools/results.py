"""Results that list things: they may be indexed, sliced and looped over."""

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar, overload

Item = TypeVar("Item")


class ResultSequence(Generic[Item]):
    """Behaves as the tuple that one of its attributes holds; `_items` names it."""

    __slots__ = ()
    _items: ClassVar[str]

    def __len__(self) -> int:
        return len(getattr(self, self._items))

    def __iter__(self) -> Iterator[Item]:
        return iter(getattr(self, self._items))

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        found: Item | tuple[Item, ...] = getattr(self, self._items)[index]
        return found
