"""Streaming writer of safetensors shards and their index, without holding a model in memory."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from model_runtime.checkpoint.reader import INDEX
from model_runtime.checkpoint.shard import DTYPES, LENGTH_BYTES

CODE_OF = {name: (code, item_bytes) for code, (name, item_bytes) in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor to be written; its dtype is named as in torch."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Size in a file, in bytes."""
        return math.prod(self.shape) * CODE_OF[self.dtype][1]


def write_shards(
    model_dir: Path, plan: Mapping[str, TensorSpec], tensors: Iterable[tuple[str, Tensor]], num_shards: int
) -> None:
    """Write `model-0000i-of-0000n.safetensors` and the index.

    Args:
        model_dir: An existing folder.
        plan: All tensors that will be written.
        tensors: Name and tensor, in any order.
        num_shards: Number of files of similar size; fewer if there are fewer tensors.
    """
    shards = _split(plan, num_shards)
    names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    with ExitStack() as stack:
        place: dict[str, tuple[IO[bytes], int]] = {}
        for file_name, shard in zip(names, shards, strict=True):
            file = stack.enter_context((model_dir / file_name).open("wb"))
            place.update({name: (file, start) for name, start in _write_head(file, plan, shard)})
        for name, tensor in tensors:
            target, start = place.pop(name)
            target.seek(start)
            _write_tensor(target, tensor)
        if place:
            raise ValueError(f"{len(place)} planned tensors were not supplied; first: {next(iter(place))}")
    weight_map = {name: file_name for file_name, shard in zip(names, shards, strict=True) for name in shard}
    total = sum(planned.size_bytes for planned in plan.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (model_dir / INDEX).write_text(json.dumps(index, indent=2) + "\n", "utf-8")


def write_shard(path: Path, plan: Mapping[str, TensorSpec], tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write one safetensors file, replacing an existing one; tensors may be in any order, one at a time in memory."""
    with path.open("wb") as file:
        starts = dict(_write_head(file, plan, list(plan)))
        for name, tensor in tensors:
            file.seek(starts.pop(name))
            _write_tensor(file, tensor)
    if starts:
        raise ValueError(f"{len(starts)} planned tensors were not supplied; first: {next(iter(starts))}")


def _write_tensor(file: IO[bytes], tensor: Tensor) -> None:
    tensor.contiguous().flatten().view(torch.uint8).numpy().tofile(file)


def _split(plan: Mapping[str, TensorSpec], num_shards: int) -> list[list[str]]:
    """Return the names in each shard, consecutive in the plan."""
    per_shard = sum(planned.size_bytes for planned in plan.values()) / num_shards
    shards: list[list[str]] = [[]]
    filled = 0
    for name, planned in plan.items():
        if filled >= per_shard * len(shards) and len(shards) < num_shards:
            shards.append([])
        shards[-1].append(name)
        filled += planned.size_bytes
    return shards


def _write_head(file: IO[bytes], plan: Mapping[str, TensorSpec], names: list[str]) -> Iterator[tuple[str, int]]:
    """Write a shard's head; return names and positions in the file. Wide dtypes come first, so that tensors are
    aligned.
    """
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    starts: dict[str, int] = {}
    end = 0
    for name in sorted(names, key=lambda name: -CODE_OF[plan[name].dtype][1]):
        planned = plan[name]
        starts[name], end = end, end + planned.size_bytes
        code = CODE_OF[planned.dtype][0]
        entries[name] = {"dtype": code, "shape": planned.shape, "data_offsets": [starts[name], end]}
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % LENGTH_BYTES)
    file.write(len(head).to_bytes(LENGTH_BYTES, "little") + head)
    file.truncate(LENGTH_BYTES + len(head) + end)
    first = LENGTH_BYTES + len(head)
    return ((name, first + start) for name, start in starts.items())
