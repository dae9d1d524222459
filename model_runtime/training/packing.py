"""Loader of packed token sequences from several sources, mixed by share of tokens, that resumes at any batch.

Source: Kimi K2.5 report, appendix C.1 (shuffling, blending and packing during loading; deterministic resumption). The
next sequence is of the source that is furthest behind its share of tokens. Each epoch of a source has an order of its
own, given by the seed. Sequences fill a row one after the other; one that does not fit begins the next row.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np


class LoaderState(TypedDict):
    """State of a loader, as JSON values: sequences and tokens drawn of each source, and the sequence that waits."""

    drawn: dict[str, int]
    tokens: dict[str, int]
    waiting: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class PackedRow:
    """Sequences one after the other; positions begin at 0 in each, and none attends to another."""

    ids: tuple[int, ...]
    lengths: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class PackingLoader:
    """Endless iterator of batches.

    Attributes:
        sources: Token sequences by name of the source; they must not change between a stop and a resumption.
        shares: Share of tokens of each source; above 0, in any unit.
        row_tokens: Maximum number of tokens of a row.
        batch_rows: Rows of a batch.
        seed: Seed of the orders.

    Raises:
        ValueError: If sources and shares have different names, a source is empty, or a share is not above 0.
    """

    sources: Mapping[str, Sequence[Sequence[int]]]
    shares: Mapping[str, float]
    row_tokens: int
    batch_rows: int
    seed: int
    _state: LoaderState = field(init=False)
    _orders: dict[str, tuple[int, list[int]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.sources) != set(self.shares):
            raise ValueError(f"sources {sorted(self.sources)}, but shares of {sorted(self.shares)}")
        for name, source in self.sources.items():
            if not source or not self.shares[name] > 0:
                raise ValueError(f"the source {name!r} has {len(source)} sequences and the share {self.shares[name]}")
        self._state = {
            "drawn": dict.fromkeys(self.sources, 0),
            "tokens": dict.fromkeys(self.sources, 0),
            "waiting": None,
        }

    def __iter__(self) -> Iterator[tuple[PackedRow, ...]]:
        return self

    def __next__(self) -> tuple[PackedRow, ...]:
        """Return the next batch.

        Raises:
            ValueError: If a sequence is empty or longer than a row.
        """
        return tuple(self._fill_row() for _ in range(self.batch_rows))

    def state_dict(self) -> LoaderState:
        """Return the state before the next batch."""
        return deepcopy(self._state)

    def load_state_dict(self, state: LoaderState) -> None:
        """Continue from the result of `state_dict`, also after it was written to JSON.

        Raises:
            ValueError: If it is of other sources.
        """
        if set(state["drawn"]) != set(self.sources):
            raise ValueError(f"the state is of the sources {sorted(state['drawn'])}, not {sorted(self.sources)}")
        self._state = deepcopy(state)

    def _fill_row(self) -> PackedRow:
        ids: list[int] = []
        lengths: list[int] = []
        while True:
            name, index = self._state["waiting"] or self._choose()
            sequence = self.sources[name][index]
            if not 0 < len(sequence) <= self.row_tokens:
                raise ValueError(f"sequence {index} of {name!r} has {len(sequence)} tokens, a row {self.row_tokens}")
            if len(ids) + len(sequence) > self.row_tokens:
                self._state["waiting"] = (name, index)
                return PackedRow(tuple(ids), tuple(lengths))
            self._state["waiting"] = None
            ids += sequence
            lengths.append(len(sequence))

    def _choose(self) -> tuple[str, int]:
        drawn, tokens = self._state["drawn"], self._state["tokens"]
        name = min(self.sources, key=lambda name: (tokens[name] / self.shares[name], name))
        epoch, place = divmod(drawn[name], len(self.sources[name]))
        index = self._find_order(name, epoch)[place]
        drawn[name] += 1
        tokens[name] += len(self.sources[name][index])
        return name, index

    def _find_order(self, name: str, epoch: int) -> list[int]:
        """Return the order of an epoch, which depends on nothing but seed, source and epoch."""
        if name not in self._orders or self._orders[name][0] != epoch:
            random = np.random.default_rng([self.seed, epoch, *name.encode()])
            self._orders[name] = (epoch, random.permutation(len(self.sources[name])).tolist())
        return self._orders[name][1]
