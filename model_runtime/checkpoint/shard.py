"""Head of one safetensors file: names, shapes, dtypes and positions of its tensors, without reading the tensors.

Source: safetensors format: length of the head (8 bytes, little-endian), the head as JSON, then the tensors, no gaps.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_runtime.errors import CheckpointError

DTYPES = {
    "BF16": ("bfloat16", 2),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "I32": ("int32", 4),
    "I64": ("int64", 8),
    "I8": ("int8", 1),
    "U8": ("uint8", 1),
    "F64": ("float64", 8),
    "I16": ("int16", 2),
    "BOOL": ("bool", 1),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
}
LENGTH_BYTES = 8  # little-endian length of the head: the safetensors format
MAX_HEAD_BYTES = 100_000_000  # the safetensors library has the same limit


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file; its dtype is named as in torch."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def read_head(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of one safetensors file.

    Raises:
        CheckpointError: If the file is missing, its head is corrupt, or its length differs from the head.
    """
    try:
        file_bytes = path.stat().st_size
        with path.open("rb") as file:
            head_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if not 2 <= head_bytes <= min(MAX_HEAD_BYTES, max(file_bytes - LENGTH_BYTES, 0)):
                problem = f"its head claims {head_bytes:,} bytes, the file has {file_bytes:,}"
                raise CheckpointError(f"{path.name} is corrupt or truncated: {problem}")
            head = file.read(head_bytes)
    except FileNotFoundError:
        raise CheckpointError(f"{path.name} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror}") from error
    tensors, data_bytes = _parse_head(path.name, head)
    expected_bytes = LENGTH_BYTES + head_bytes + data_bytes
    if file_bytes != expected_bytes:
        how = "truncated" if file_bytes < expected_bytes else "longer than its head says"
        raise CheckpointError(f"{path.name} is {how}: {file_bytes:,} bytes, expected {expected_bytes:,}")
    return tensors


def _parse_head(file_name: str, head: bytes) -> tuple[dict[str, StoredTensor], int]:
    """Return the tensors, and their total size in bytes."""
    try:
        entries = json.loads(head)
        entries.pop("__metadata__", None)
        tensors = {name: _parse_entry(entry) for name, entry in entries.items()}
        end = _find_end([tuple(entry["data_offsets"]) for entry in entries.values()])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file_name} has a corrupt head: {error or type(error).__name__}") from error
    return tensors, end


def _parse_entry(entry: Mapping[str, Any]) -> StoredTensor:
    dtype, item_bytes = DTYPES.get(entry["dtype"], (str(entry["dtype"]), None))
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
        raise ValueError(f"a tensor of shape {list(shape)} at bytes {begin} to {end}")
    if item_bytes is not None and end - begin != math.prod(shape) * item_bytes:
        raise ValueError(f"a {dtype} tensor of shape {list(shape)} claims {end - begin:,} bytes")
    return StoredTensor(dtype, shape, end - begin)


def _find_end(spans: list[tuple[int, int]]) -> int:
    """Return the end of the last tensor, after checking that every byte before it belongs to exactly one tensor."""
    reached = 0
    for begin, end in sorted(spans):
        if begin != reached or end < begin:
            raise ValueError(f"bytes {reached:,} to {begin:,} belong to no tensor or two")
        reached = end
    return reached
