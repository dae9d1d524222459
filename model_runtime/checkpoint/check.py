"""Compare a checkpoint with what its config asks for, and sum up what it holds: heads only, all faults at once."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.checkpoint.reader import Checkpoint, Place
from model_runtime.config.types import K25Config, QuantizationConfig
from model_runtime.errors import CheckpointError

MAX_KINDS = 5
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def is_quantized(checkpoint: Checkpoint) -> bool:
    """Whether routed experts are packed to INT4; the files decide, not the config's list of what is left out."""
    names = (*checkpoint.places, *checkpoint.lost)
    return any(name.endswith(".weight_packed") for name in names)


def check_tensors(checkpoint: Checkpoint, config: K25Config) -> None:
    """Make sure that every tensor is there in its shape and dtype, and none besides.

    Raises:
        CheckpointError: With all faults of index, shards and tensors; tensors of the same kind are told together.
    """
    places, lost = checkpoint.places, checkpoint.lost
    expected = expected_tensors(config, quantized=is_quantized(checkpoint))
    missing = [(name, "") for name in expected if name not in places and name not in lost]
    extra = [(name, "") for name in places if name not in expected]
    wrong = [(name, _difference(places[name], info)) for name, info in expected.items() if name in places]
    lines = list(checkpoint.faults)
    lines += _tell("missing", missing, checkpoint)
    lines += _tell("not expected", extra, checkpoint)
    lines += _tell("of another shape or dtype", [each for each in wrong if each[1]], checkpoint)
    if lines:
        raise CheckpointError(f"{checkpoint.model_dir} does not fit its config: " + "; ".join(lines))


def _difference(place: Place, info: TensorInfo) -> str:
    """How a stored tensor differs from what was expected; empty if it fits."""
    stored = place.stored
    if stored.shape == info.shape and stored.dtype in info.dtypes:
        return ""
    dtypes = stored.dtype if stored.dtype in info.dtypes else " or ".join(info.dtypes)
    return f"is {stored.dtype} {list(stored.shape)}, expected {dtypes} {list(info.shape)}"


def _tell(what: str, names: Iterable[tuple[str, str]], checkpoint: Checkpoint) -> list[str]:
    """One sentence for the first few kinds of tensors: equal but for the numbers in the name, equal in detail."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, detail in names:
        kinds.setdefault((NUMBER.sub("*", name), detail), []).append(name)
    if not kinds:
        return []
    total = sum(map(len, kinds.values()))
    told = [_describe(group, detail, checkpoint) for (_, detail), group in list(kinds.items())[:MAX_KINDS]]
    if len(kinds) > MAX_KINDS:
        told.append(f"and {len(kinds) - MAX_KINDS} more kinds")
    return [f"{total:,} {'tensor' if total == 1 else 'tensors'} {what}: {', '.join(told)}"]


def _describe(names: list[str], detail: str, checkpoint: Checkpoint) -> str:
    """`language_model.model.layers.1-60.mlp.gate.weight (60 tensors)`: the ranges of the numbers in the names."""
    columns = zip(*(map(int, NUMBER.findall(name)) for name in names), strict=True)
    ranges = iter([_span(list(column)) for column in columns])
    text = NUMBER.sub(lambda _: next(ranges), names[0])
    count = f" ({len(names):,} tensors)" if len(names) > 1 else ""
    files = sorted({checkpoint.places[name].file_name for name in names if name in checkpoint.places})
    more = f" and {len(files) - 1} other files" if len(files) > 1 else ""
    where = f" in {files[0]}{more}" if files else ""
    return text + count + where + (f" {detail}" if detail else "")


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
"""Parts of the language model by what their names contain; the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A checkpoint in numbers.

    Attributes:
        num_params: Parameters of each part; packed values count as parameters, their scales do not.
        size_bytes: Bytes of each part in the files.
        dtypes: Bytes of each dtype in the files.
        group_size: Of packed experts; None where nothing is packed.
        num_tensors: Tensors in the files.
        num_shards: Files with tensors.
    """

    num_params: dict[str, int]
    size_bytes: dict[str, int]
    dtypes: dict[str, int]
    group_size: int | None
    num_tensors: int
    num_shards: int


def summarize(checkpoint: Checkpoint, config: K25Config) -> Summary:
    """Count what a checkpoint holds that fits its config (`check_tensors`)."""
    params: Counter[str] = Counter()
    for name, info in expected_tensors(config, quantized=False).items():
        params[part_of(name)] += math.prod(info.shape)
    sizes: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    for name, place in checkpoint.places.items():
        sizes[part_of(name)] += place.stored.size_bytes
        dtypes[place.stored.dtype] += place.stored.size_bytes
    scheme = config.quantization or QuantizationConfig()
    return Summary(
        num_params=dict(params.most_common()),
        size_bytes=dict(sizes),
        dtypes=dict(dtypes.most_common()),
        group_size=scheme.group_size if is_quantized(checkpoint) else None,
        num_tensors=len(checkpoint.places),
        num_shards=len({place.file_name for place in checkpoint.places.values()}),
    )


def part_of(name: str) -> str:
    """The part of the model that a tensor belongs to."""
    if not name.startswith("language_model."):
        return "projector" if name.startswith("mm_projector.") else "vision tower"
    return next(part for part, piece in PARTS if piece in name)
