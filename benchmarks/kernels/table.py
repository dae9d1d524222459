"""The table of tiles as the tuner handles it: tried for a while, and written back line by line."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from model_runtime.kernels import tiles

Line = Mapping[str, Any]
"""A line as JSON has it, so that it is known which numbers a kernel uses."""

Key = tuple[str, int | None]


def key_of(line: Line) -> Key:
    """What tells a line from the others: the kernel and the most tokens it is for."""
    return line["kernel"], line["max_tokens"]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All lines.

    Raises:
        ConfigError: It is no table of tiles.
    """
    tiles.read_table(path)
    lines: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return lines


def replace_lines(lines: Sequence[Line], changed: Sequence[Line]) -> list[Line]:
    """The lines with those of the same key replaced."""
    new = {key_of(line): line for line in changed}
    return [new.get(key_of(line), line) for line in lines]


def write_lines(path: Path, changed: Sequence[Line]) -> None:
    """Put lines into the table as it now is; readers see the old table or the new one."""
    lines = replace_lines(read_lines(path), changed)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(as_text(lines))
        Path(part).chmod(path.stat().st_mode)
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def as_text(lines: Sequence[Line]) -> str:
    """One line of text for each."""
    return "[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n"


@contextmanager
def use_lines(changed: Sequence[Line]) -> Iterator[None]:
    """Within the block, kernels find these lines in place of the table's."""
    before = tiles.TABLE
    with tempfile.TemporaryDirectory(prefix="k25-tiles-") as folder:
        tried = Path(folder) / before.name
        tried.write_text(as_text(replace_lines(read_lines(before), changed)), "utf-8")
        _switch(tried)
        try:
            yield
        finally:
            _switch(before)


def use_table(path: Path) -> None:
    """From now on, kernels find their tiles in this file, and the tuner writes to it.

    Raises:
        ConfigError: It is no table of tiles.
    """
    tiles.read_table(path)
    _switch(path)


def _switch(path: Path) -> None:
    tiles.TABLE = path
    tiles.lines_of.cache_clear()


@contextmanager
def watch_lines() -> Iterator[set[Key]]:
    """The keys of all lines that `find_tile` takes within the block."""
    taken: set[Key] = set()
    lines_of = tiles.lines_of

    def watched(kernel: str) -> tuple[Any, ...]:
        return tuple(_Watched(line, taken) for line in lines_of(kernel))

    tiles.lines_of = watched  # type: ignore[assignment]
    try:
        yield taken
    finally:
        tiles.lines_of = lines_of


class _Watched:
    """A line of the table that notes that its tile was asked for."""

    def __init__(self, line: tiles.TileLine, taken: set[Key]) -> None:
        self.max_tokens = line.max_tokens
        self._line, self._taken = line, taken

    @property
    def tile(self) -> tiles.Tile:
        """The line's own."""
        self._taken.add((self._line.kernel, self._line.max_tokens))
        return self._line.tile
