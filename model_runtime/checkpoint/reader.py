"""Reader of a safetensors folder: tensors by release name, and a check against config.json.

Opening reads only the heads of the shards. Their errors are kept in `faults`, so that `check_tensors` can report all of
them at once; a tensor of a faulty shard cannot be read.
"""

import json
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.checkpoint.shard import StoredTensor, read_head
from model_runtime.config.types import K25Config, QuantizationConfig
from model_runtime.errors import CheckpointError, require

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
INNER = "language_model.model."
WITHOUT_INNER = tuple(f"language_model.{part}." for part in ("layers", "embed_tokens", "norm"))
IGNORED = ".rotary_emb.inv_freq"
Fingerprint = tuple[tuple[str, int, int], ...]
Head = Mapping[str, StoredTensor]


@dataclass(frozen=True, slots=True)
class TensorLocation:
    """Location of a tensor: its shard, its name there, and its entry in the shard's head."""

    file_name: str
    stored_name: str
    stored: StoredTensor


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A release folder as a `TensorSource`.

    Attributes:
        model_dir: The folder.
        places: Location of each tensor, by release name (aliases resolved).
        lost: Unreadable shards, by the name of each tensor that the index assigns to them.
        faults: Errors of the index and the shards.
        opened_as: `fingerprint()` at the time of opening.
    """

    model_dir: Path
    places: Mapping[str, TensorLocation] = field(repr=False)
    lost: Mapping[str, str] = field(repr=False)
    faults: tuple[str, ...]
    opened_as: Fingerprint = field(repr=False)
    _files: dict[str, object] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, model_dir: Path) -> "Checkpoint":
        """Read the index and the heads of all shards.

        Raises:
            CheckpointError: If the folder has no checkpoint, or its index cannot be read.
        """
        weight_map = _read_index(model_dir)
        names = [SINGLE] if weight_map is None else sorted(set(weight_map.values()))
        opened_as = _find_fingerprint(model_dir, names if weight_map is None else [INDEX, *names])
        faults: list[str] = []
        heads = {name: head for name in names if (head := _read_shard(model_dir, name, faults)) is not None}
        faults += _find_index_faults(weight_map or {}, heads)
        lost = {release_name(name): file for name, file in (weight_map or {}).items() if file not in heads}
        return cls(model_dir, _find_places(heads, faults), lost, tuple(faults), opened_as)

    def has(self, name: str) -> bool:
        """Return True if a tensor of that release name exists (aliases are resolved)."""
        return name in self.places

    def get(self, name: str, index: tuple[slice, ...] = ()) -> Tensor:
        """Return a view of the mapped file on the CPU: the whole tensor, or its part `index`; copy it to keep it.

        Raises:
            CheckpointError: If the tensor does not exist, or its file cannot be opened.
        """
        place = self.places.get(name)
        if place is None:
            file_name = self.lost.get(name)
            origin = f" (its shard {file_name} cannot be read)" if file_name else ""
            raise CheckpointError(f"no tensor {name} in {self.model_dir}{origin}")
        tensor: Tensor = self._open_file(place.file_name).get_tensor(place.stored_name)
        return tensor[index] if index else tensor

    def fingerprint(self) -> Fingerprint:
        """Return name, size in bytes and modification time in ns of each file as it is now; -1 for a missing file."""
        return _find_fingerprint(self.model_dir, [name for name, _, _ in self.opened_as])

    def check_unchanged(self) -> None:
        """Check that the mapped files have not changed since they were opened.

        Raises:
            CheckpointError: If files were replaced, changed or removed; the text names them.
        """
        now = self.fingerprint()
        changed = [was[0] for was, is_now in zip(self.opened_as, now, strict=True) if was != is_now]
        if changed:
            raise CheckpointError(f"files in {self.model_dir} changed since loading: {_first(changed)}; restart")

    def _open_file(self, file_name: str) -> Any:
        with self._lock:
            if file_name not in self._files:
                safetensors = require("safetensors")
                try:
                    self._files[file_name] = safetensors.safe_open(self.model_dir / file_name, framework="pt")
                except (OSError, safetensors.SafetensorError) as error:
                    raise CheckpointError(f"{file_name} in {self.model_dir} cannot be opened: {error}") from error
            return self._files[file_name]


def release_name(stored_name: str) -> str:
    """Return the release's name of a tensor; some re-releases omit the inner `model.`."""
    if stored_name.startswith(WITHOUT_INNER):
        return INNER + stored_name.removeprefix("language_model.")
    return stored_name


def _read_index(model_dir: Path) -> dict[str, str] | None:
    """Return the shard of each tensor, or None if one file holds all."""
    path = model_dir / INDEX
    if not path.exists():
        if (model_dir / SINGLE).exists():
            return None
        raise CheckpointError(f"no {INDEX} and no {SINGLE} in {model_dir}: expected the folder of a release")
    try:
        weight_map = json.loads(path.read_text("utf-8"))["weight_map"]
        return {str(name): str(file_name) for name, file_name in weight_map.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as an index of shards: {error!r}") from error


def _read_shard(model_dir: Path, file_name: str, faults: list[str]) -> Head | None:
    try:
        if Path(file_name).name != file_name:
            raise CheckpointError(f"{INDEX} names the shard {file_name!r}, expected a file in the same folder")
        return read_head(model_dir / file_name)
    except CheckpointError as error:
        faults.append(str(error))
        return None


def _find_index_faults(weight_map: Mapping[str, str], heads: Mapping[str, Head]) -> list[str]:
    """Return the tensors on which index and heads disagree; shards with an unreadable head were already reported."""
    faults = []
    for file_name, head in heads.items() if weight_map else ():
        unlisted = [name for name in head if weight_map.get(name) != file_name]
        if unlisted:
            problem = f"{_count(unlisted)} that {INDEX} does not place there"
            faults.append(f"{file_name} holds {problem}: {_first(unlisted)}")
    absent: dict[str, list[str]] = {}
    for name, file_name in weight_map.items():
        if file_name in heads and name not in heads[file_name]:
            absent.setdefault(file_name, []).append(name)
    for file_name, names in absent.items():
        faults.append(f"{file_name} lacks {_count(names)} that {INDEX} places there: {_first(names)}")
    return faults


def _find_places(heads: Mapping[str, Head], faults: list[str]) -> dict[str, TensorLocation]:
    places: dict[str, TensorLocation] = {}
    for file_name, head in heads.items():
        for stored_name, stored in head.items():
            name = release_name(stored_name)
            if name in places:
                faults.append(f"{name} is in {places[name].file_name} and, as {stored_name}, in {file_name}")
            elif not name.endswith(IGNORED):
                places[name] = TensorLocation(file_name, stored_name, stored)
    return places


def _count(names: list[str]) -> str:
    return "1 tensor" if len(names) == 1 else f"{len(names):,} tensors"


def _first(names: list[str]) -> str:
    return ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")


def _find_fingerprint(model_dir: Path, names: list[str]) -> Fingerprint:
    entries = []
    for name in names:
        try:
            stat = (model_dir / name).stat()
            entries.append((name, stat.st_size, stat.st_mtime_ns))
        except OSError:
            entries.append((name, -1, -1))
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class LoadedTensors:
    """Tensors in memory as a `TensorSource`, by their release names."""

    tensors: Mapping[str, Tensor] = field(repr=False)

    def has(self, name: str) -> bool:
        """Return True if there is a tensor of that name."""
        return name in self.tensors

    def get(self, name: str, index: tuple[slice, ...] = ()) -> Tensor:
        """Return a tensor, or its part `index`; raises KeyError if it does not exist."""
        return self.tensors[name][index] if index else self.tensors[name]


def open_tensors(source: Path | Mapping[str, Tensor], config: K25Config, *, quantized: bool) -> "TensorSource":
    """Return a folder's tensors, or given ones, after checking that all exist in their shapes.

    Raises:
        CheckpointError: If tensors are missing, extra or misshapen, or experts are packed where `quantized` is False or
            not packed where it is True.
    """
    if isinstance(source, Path):
        checkpoint = Checkpoint.open(source)
        check_tensors(checkpoint, config)
        found = is_quantized(checkpoint)
    else:
        found = any(name.endswith(".weight_packed") for name in source)
    if found is not quantized:
        actual, expected = ("packed", "dense") if found else ("dense", "packed")
        raise CheckpointError(f"the new weights have {actual} experts, the loaded model has {expected} ones")
    if isinstance(source, Path):
        return checkpoint
    wrong = []
    for name, info in expected_tensors(config, quantized=quantized).items():
        shape = tuple(source[name].shape) if name in source else None
        if shape != info.shape:
            wrong.append(f"{name} {'is missing' if shape is None else f'has the shape {shape}'}, expected {info.shape}")
    if wrong:
        raise CheckpointError(f"{_count(wrong)} of the new weights do not fit: {'; '.join(wrong[:2])}")
    return LoadedTensors(source)


class TensorSource(Protocol):
    """Tensors by their release name. Copying a tensor reads only the requested part of the mapped file."""

    def has(self, name: str) -> bool:
        """Return True if a tensor of that release name exists (aliases are resolved)."""
        ...

    def get(self, name: str, index: tuple[slice, ...] = ()) -> "Tensor":
        """Return a CPU tensor backed by the mapped file, or its part `index`; copy it to keep it.

        Raises:
            CheckpointError: If the tensor does not exist, or its file is truncated or corrupt.
        """
        ...


def copy_into(target: "Tensor", stored: "Tensor", name: str) -> None:
    """Copy a stored tensor, or this rank's part of it, into a weight.

    Raises:
        CheckpointError: If the shapes differ.
    """
    if target.shape != stored.shape:
        actual, expected = tuple(stored.shape), tuple(target.shape)
        raise CheckpointError(f"{name} has the shape {actual}, expected {expected}: config.json and weights disagree")
    target.copy_(stored)


MAX_KINDS = 5  # kinds of mismatch that one error lists; further ones mostly follow from the first
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def is_quantized(checkpoint: Checkpoint) -> bool:
    """Return True if routed experts are packed to INT4, as found in the files; the config's ignore list is not used."""
    names = (*checkpoint.places, *checkpoint.lost)
    return any(name.endswith(".weight_packed") for name in names)


def check_tensors(checkpoint: Checkpoint, config: K25Config) -> None:
    """Check that all tensors exist with their shape and dtype, and that there are no others.

    Raises:
        CheckpointError: If there are faults of index, shards or tensors; the text has all of them, grouped by kind of
            tensor.
    """
    places, lost = checkpoint.places, checkpoint.lost
    expected = expected_tensors(config, quantized=is_quantized(checkpoint))
    missing = [(name, "") for name in expected if name not in places and name not in lost]
    extra = [(name, "") for name in places if name not in expected]
    wrong = [(name, _difference(places[name], info)) for name, info in expected.items() if name in places]
    lines = list(checkpoint.faults)
    lines += _describe_problem("missing", missing, checkpoint)
    lines += _describe_problem("not expected", extra, checkpoint)
    lines += _describe_problem("of another shape or dtype", [each for each in wrong if each[1]], checkpoint)
    if lines:
        raise CheckpointError(f"{checkpoint.model_dir} does not fit its config: " + "; ".join(lines))


def _difference(place: TensorLocation, info: TensorInfo) -> str:
    """Describe the difference between a stored tensor and the expected one; empty if there is none."""
    stored = place.stored
    if stored.shape == info.shape and stored.dtype in info.dtypes:
        return ""
    dtypes = stored.dtype if stored.dtype in info.dtypes else " or ".join(info.dtypes)
    return f"is {stored.dtype} {list(stored.shape)}, expected {dtypes} {list(info.shape)}"


def _describe_problem(noun: str, names: Iterable[tuple[str, str]], checkpoint: Checkpoint) -> list[str]:
    """Return one sentence on the first few kinds of tensors, grouped by name without numbers and by detail."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, detail in names:
        kinds.setdefault((NUMBER.sub("*", name), detail), []).append(name)
    if not kinds:
        return []
    total = sum(map(len, kinds.values()))
    messages = [_describe(group, detail, checkpoint) for (_, detail), group in list(kinds.items())[:MAX_KINDS]]
    if len(kinds) > MAX_KINDS:
        messages.append(f"and {len(kinds) - MAX_KINDS} more kinds")
    return [f"{total:,} {'tensor' if total == 1 else 'tensors'} {noun}: {', '.join(messages)}"]


def _describe(names: list[str], detail: str, checkpoint: Checkpoint) -> str:
    """Describe tensors with ranges of numbers: `language_model.model.layers.1-60.mlp.gate.weight (60 tensors)`."""
    columns = zip(*(map(int, NUMBER.findall(name)) for name in names), strict=True)
    ranges = iter([_span(list(column)) for column in columns])
    text = NUMBER.sub(lambda _: next(ranges), names[0])
    count = f" ({len(names):,} tensors)" if len(names) > 1 else ""
    files = sorted({checkpoint.places[name].file_name for name in names if name in checkpoint.places})
    more = f" and {len(files) - 1} other files" if len(files) > 1 else ""
    location = f" in {files[0]}{more}" if files else ""
    return text + count + location + (f" {detail}" if detail else "")


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


PARTS = (
    ("routed experts", ".mlp.experts."),
    ("shared experts", ".shared_experts."),
    ("router", ".mlp.gate."),
    ("dense MLP", ".mlp."),
    ("attention", ".self_attn."),
    ("embeddings", ".embed_tokens."),
    ("output head", ".lm_head."),
    ("norms", "language_model."),
)
"""Parts of the language model by a part of their names; the first match counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSummary:
    """Statistics of a checkpoint: parameters and bytes of each part, bytes of each dtype.

    Packed values count as parameters, their scales do not. `group_size` is None if nothing is packed.
    """

    num_params: dict[str, int]
    size_bytes: dict[str, int]
    dtypes: dict[str, int]
    group_size: int | None
    num_tensors: int
    num_shards: int


def summarize(checkpoint: Checkpoint, config: K25Config) -> CheckpointSummary:
    """Return statistics of a checkpoint that fits its config (`check_tensors`)."""
    params: Counter[str] = Counter()
    for name, info in expected_tensors(config, quantized=False).items():
        params[part_of(name)] += math.prod(info.shape)
    sizes: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    for name, place in checkpoint.places.items():
        sizes[part_of(name)] += place.stored.size_bytes
        dtypes[place.stored.dtype] += place.stored.size_bytes
    scheme = config.quantization or QuantizationConfig()
    return CheckpointSummary(
        num_params=dict(params.most_common()),
        size_bytes=dict(sizes),
        dtypes=dict(dtypes.most_common()),
        group_size=scheme.group_size if is_quantized(checkpoint) else None,
        num_tensors=len(checkpoint.places),
        num_shards=len({place.file_name for place in checkpoint.places.values()}),
    )


def part_of(name: str) -> str:
    """Return the part of the model that a tensor belongs to."""
    if not name.startswith("language_model."):
        return "projector" if name.startswith("mm_projector.") else "vision tower"
    return next(part for part, piece in PARTS if piece in name)
