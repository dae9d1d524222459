"""Tensors of a release folder, out of memory-mapped safetensors shards.

Opening reads the heads of the shards only. What is wrong with them is kept in `faults`, so that `check_tensors` can
tell all of it at once; a tensor of a faulty shard cannot be had.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from model_runtime.checkpoint.shard import StoredTensor, read_head
from model_runtime.errors import CheckpointError
from model_runtime.require import require

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
INNER = "language_model.model."
WITHOUT_INNER = tuple(f"language_model.{part}." for part in ("layers", "embed_tokens", "norm"))
IGNORED = ".rotary_emb.inv_freq"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: its shard, its name there, and what the shard's head says of it."""

    file_name: str
    stored_name: str
    stored: StoredTensor


@dataclass(slots=True)
class Checkpoint:
    """A release folder as a `TensorSource`.

    Attributes:
        model_dir: The folder.
        places: Where each tensor lies, by release name (aliases resolved).
        faults: What is wrong with the index and the shards.
    """

    model_dir: Path
    places: Mapping[str, Place]
    faults: tuple[str, ...]
    _opened_as: tuple[tuple[str, int, int], ...]
    _files: dict[str, Any] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, model_dir: Path) -> "Checkpoint":
        """Read the index and the heads of all shards.

        Raises:
            CheckpointError: There is no checkpoint in the folder, or its index cannot be read.
        """
        weight_map = _read_index(model_dir)
        faults: list[str] = []
        names = [SINGLE] if weight_map is None else sorted(set(weight_map.values()))
        heads = {name: _read_shard(model_dir / name, faults) for name in names}
        if weight_map is not None:
            faults += _check_index(weight_map, heads)
        return cls(model_dir, _find_places(heads, faults), tuple(faults), _fingerprint(model_dir, names))

    def has(self, name: str) -> bool:
        """Whether a tensor of that release name exists (aliases are resolved)."""
        return name in self.places

    def get(self, name: str, index: tuple[slice, ...] = ()) -> Tensor:
        """A view into the mapped file, on the CPU: the whole tensor, or the part `index` of it; copy it to keep it.

        Raises:
            CheckpointError: There is no such tensor, or its file cannot be opened.
        """
        place = self.places.get(name)
        if place is None:
            what = f"; {len(self.faults)} faults, the first: {self.faults[0]}" if self.faults else ""
            raise CheckpointError(f"no tensor {name} in {self.model_dir}{what}")
        file = self._open_file(place.file_name)
        tensor: Tensor = file.get_tensor(place.stored_name)
        return tensor[index] if index else tensor

    def fingerprint(self) -> tuple[tuple[str, int, int], ...]:
        """Name, size in bytes and time of change in ns of each file as it is now; -1 for a file that is gone."""
        return _fingerprint(self.model_dir, [name for name, _, _ in self._opened_as])

    def check_unchanged(self) -> None:
        """Make sure that the mapped files are still those that were opened.

        Raises:
            CheckpointError: With the names of the files that were replaced, changed or removed.
        """
        now = self.fingerprint()
        changed = [was[0] for was, is_now in zip(self._opened_as, now, strict=True) if was != is_now]
        if changed:
            what = f"{', '.join(changed[:3])}{', ...' if len(changed) > 3 else ''}"
            raise CheckpointError(
                f"{len(changed)} files in {self.model_dir} changed since loading: {what}; start again"
            )

    def _open_file(self, file_name: str) -> Any:
        with self._lock:
            if file_name not in self._files:
                safetensors = require("safetensors")
                try:
                    self._files[file_name] = safetensors.safe_open(self.model_dir / file_name, framework="pt")
                except (OSError, safetensors.SafetensorError) as error:
                    raise CheckpointError(f"{file_name} in {self.model_dir} cannot be opened: {error}") from error
            return self._files[file_name]


def _read_index(model_dir: Path) -> dict[str, str] | None:
    """Shard of each tensor, or None where one file holds all."""
    path = model_dir / INDEX
    if not path.exists():
        if (model_dir / SINGLE).exists():
            return None
        raise CheckpointError(f"no {INDEX} and no {SINGLE} in {model_dir}: expected the folder of a release")
    try:
        weight_map = json.loads(path.read_text("utf-8"))["weight_map"]
        return {str(name): str(file_name) for name, file_name in weight_map.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read as an index of shards: {error!r}") from error


def _read_shard(path: Path, faults: list[str]) -> dict[str, StoredTensor]:
    try:
        return read_head(path)
    except CheckpointError as error:
        faults.append(str(error))
        return {}


def _check_index(weight_map: Mapping[str, str], heads: Mapping[str, Mapping[str, StoredTensor]]) -> list[str]:
    """Tensors that the index and the heads do not agree on; shards without a readable head were told already."""
    faults = []
    for file_name, head in heads.items():
        if not head:
            continue
        unlisted = [name for name in head if weight_map.get(name) != file_name]
        if unlisted:
            faults.append(f"{file_name} holds {len(unlisted)} tensors that {INDEX} does not place there: {unlisted[0]}")
    absent: dict[str, list[str]] = {}
    for name, file_name in weight_map.items():
        if heads[file_name] and name not in heads[file_name]:
            absent.setdefault(file_name, []).append(name)
    faults += [
        f"{file} lacks {len(names)} tensors that {INDEX} places there: {names[0]}" for file, names in absent.items()
    ]
    return faults


def _find_places(heads: Mapping[str, Mapping[str, StoredTensor]], faults: list[str]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for file_name, head in heads.items():
        for stored_name, stored in head.items():
            name = release_name(stored_name)
            if name in places:
                faults.append(f"{name} is in {places[name].file_name} and, as {stored_name}, in {file_name}")
            elif not name.endswith(IGNORED):
                places[name] = Place(file_name, stored_name, stored)
    return places


def release_name(stored_name: str) -> str:
    """The release's name of a tensor; some re-releases drop the inner `model.`."""
    if stored_name.startswith(WITHOUT_INNER):
        return INNER + stored_name.removeprefix("language_model.")
    return stored_name


def _fingerprint(model_dir: Path, names: list[str]) -> tuple[tuple[str, int, int], ...]:
    found = []
    for name in names:
        try:
            stat = (model_dir / name).stat()
            found.append((name, stat.st_size, stat.st_mtime_ns))
        except OSError:
            found.append((name, -1, -1))
    return tuple(found)
