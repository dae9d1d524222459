"""`tiktoken.model`: one token on a line, its bytes in base64, a space, its rank."""

import base64
import binascii
from pathlib import Path

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
