"""Tile sizes of kernels: a shipped table, and rules for sizes outside of it.

`tiles.json` has a line for each kernel and range of tokens. `measured` has the machine, versions and commit at which a
line was found to be the fastest; null means that it has not been measured and rests on the floors and on the compiler's
output. `make tune` rewrites the table on a GPU.
"""

import json
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from model_runtime.errors import ConfigError

TABLE = Path(__file__).with_name("tiles.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Tile of one program.

    Attributes:
        block_m: Rows (tokens).
        block_n: Columns (outputs).
        block_k: Step along the sum.
        num_warps: Warps of 32 threads.
        num_stages: Depth of the pipeline of loads.
        split_k: Programs that share one sum.
    """

    block_m: int = 16
    block_n: int = 64
    block_k: int = 64
    num_warps: int = 4
    num_stages: int = 3
    split_k: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLine:
    """One line of the table.

    Attributes:
        kernel: Kernel name, for example `moe_int4.gate_up`.
        max_tokens: Maximum number of tokens; the line with the smallest sufficient maximum is used. None for any
            number.
        tile: Tile to use.
        measured: Machine, versions, commit, microseconds; None if not measured.
    """

    kernel: str
    max_tokens: int | None
    tile: Tile
    measured: dict[str, object] | None = None


def find_tile(kernel: str, num_tokens: int) -> Tile:
    """Return the table's tile for this number of tokens.

    Raises:
        ConfigError: If the table has no line for it.
    """
    for line in lines_of(kernel):
        if line.max_tokens is None or num_tokens <= line.max_tokens:
            return line.tile
    raise ConfigError(f"{TABLE.name} has no line for {kernel} with {num_tokens} tokens; add one, or run: make tune")


def fit(tile: Tile, *, n: int, k: int) -> Tile:
    """Return a tile that is not wider than a small problem: blocks shrink to the next power of two, but not below
    16.
    """
    return replace(tile, block_n=min(tile.block_n, next_power(n)), block_k=min(tile.block_k, next_power(k)))


def next_power(size: int, least: int = 16) -> int:
    """Return the smallest power of two that is at least `size` and `least`."""
    return max(least, 1 << max(size - 1, 0).bit_length())


@cache
def lines_of(kernel: str) -> tuple[TileLine, ...]:
    """Return the table's lines for a kernel, sorted by number of tokens."""
    lines = [line for line in read_table(TABLE) if line.kernel == kernel]
    return tuple(sorted(lines, key=lambda line: float("inf") if line.max_tokens is None else line.max_tokens))


def read_table(path: Path) -> list[TileLine]:
    """Read all lines of a table.

    Raises:
        ConfigError: If it cannot be read or a line is malformed.
    """
    known = {field.name for field in fields(Tile)}
    try:
        rows = json.loads(path.read_text("utf-8"))
        return [
            TileLine(
                kernel=row["kernel"],
                max_tokens=row["max_tokens"],
                tile=Tile(**{name: int(row[name]) for name in row if name in known}),
                measured=row["measured"],
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a table of tiles: {error!r}; it is written by: make tune") from error
