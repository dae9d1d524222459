"""Compare a checkpoint with what its config asks for: heads only, everything wrong in one message."""

import re
from collections.abc import Iterable, Mapping

from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.checkpoint.reader import Checkpoint, Place
from model_runtime.config.types import K25Config
from model_runtime.errors import CheckpointError

MAX_LINES = 5
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def is_quantized(checkpoint: Checkpoint) -> bool:
    """Whether routed experts are packed to INT4; the files decide, not the config's list of what is left out."""
    return any(name.endswith(".weight_packed") for name in checkpoint.places)


def check_tensors(checkpoint: Checkpoint, config: K25Config) -> None:
    """Make sure that every tensor is there in its shape and dtype, and none besides.

    Raises:
        CheckpointError: With all faults of index, shards and tensors; tensors of the same kind are told together.
    """
    expected = expected_tensors(config, quantized=is_quantized(checkpoint))
    places = checkpoint.places
    missing = [name for name in expected if name not in places]
    extra = [name for name in places if name not in expected]
    wrong = [name for name in expected if name in places and not _is_fit(places[name], expected[name])]
    lines = [*checkpoint.faults]
    lines += _tell("missing", missing, {})
    lines += _tell("not expected", extra, {name: f"in {places[name].file_name}" for name in extra})
    lines += _tell("wrong", wrong, {name: _difference(places[name], expected[name]) for name in wrong})
    if lines:
        raise CheckpointError(f"{checkpoint.model_dir} does not fit its config: " + "; ".join(lines))


def _is_fit(place: Place, info: TensorInfo) -> bool:
    return place.stored.shape == info.shape and place.stored.dtype in info.dtypes


def _difference(place: Place, info: TensorInfo) -> str:
    stored = place.stored
    found = f"{stored.dtype} {list(stored.shape)} in {place.file_name}"
    return f"{found}, expected {' or '.join(info.dtypes)} {list(info.shape)}"


def _tell(what: str, names: Iterable[str], details: Mapping[str, str]) -> list[str]:
    """One line for each kind of tensor, the first few kinds: `12 tensors missing: layers.{1-2}.mlp... (12)`."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        groups.setdefault((NUMBER.sub("*", name), details.get(name, "")), []).append(name)
    if not groups:
        return []
    total = sum(map(len, groups.values()))
    told = [_describe(group, detail) for (_, detail), group in list(groups.items())[:MAX_LINES]]
    more = f", and {len(groups) - MAX_LINES} more kinds" if len(groups) > MAX_LINES else ""
    return [f"{total:,} {'tensor' if total == 1 else 'tensors'} {what}: {', '.join(told)}{more}"]


def _describe(names: list[str], detail: str) -> str:
    """`language_model.model.layers.1-60.mlp.gate.weight (60 tensors)`: the ranges of the numbers in the names."""
    columns = zip(*(map(int, NUMBER.findall(name)) for name in names), strict=True)
    ranges = iter([_span(list(column)) for column in columns])
    text = NUMBER.sub(lambda _: next(ranges), names[0])
    count = f" ({len(names):,} tensors)" if len(names) > 1 else ""
    return f"{text}{count}{' is ' + detail if detail else ''}"


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"
