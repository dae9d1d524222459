"""Base class of results that contain a list of items."""

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar, overload

Item = TypeVar("Item")


class ResultSequence(Generic[Item]):
    """Result that behaves as the tuple in one of its attributes; `_items` names the attribute."""

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
        item: Item | tuple[Item, ...] = getattr(self, self._items)[index]
        return item
