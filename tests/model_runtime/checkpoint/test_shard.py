"""Heads of shards: those of safetensors' own writer, and damaged ones."""

import json
import math
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from model_runtime.checkpoint.shard import DTYPES, StoredTensor, read_head
from model_runtime.errors import CheckpointError
from tests.fuzz.settings import fuzzed

TORCH_DTYPES = [getattr(torch, name) for name, _ in DTYPES.values()]
JSON = st.recursive(
    st.none() | st.integers(-2, 40) | st.floats(0, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*DTYPES, "F4", "", 3, None]),
        "shape": st.lists(st.integers(-1, 5), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(-1, 40), min_size=2, max_size=2) | JSON,
    },
)


def write_head(path: Path, head: bytes, data: bytes = b"") -> Path:
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)
    return path


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_reads_what_safetensors_writes(tmp_path, dtype):
    tensors = {"a": torch.zeros(3, 5).to(dtype), "b": torch.zeros(()).to(dtype), "c": torch.zeros(0, 4).to(dtype)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    name = str(dtype).removeprefix("torch.")
    assert read_head(tmp_path / "x.safetensors") == {
        key: StoredTensor(name, tuple(each.shape), each.nbytes) for key, each in tensors.items()
    }


def test_unknown_dtype_keeps_its_name(tmp_path):
    head = json.dumps({"a": {"dtype": "F4_NEW", "shape": [3], "data_offsets": [0, 2]}}).encode()
    tensors = read_head(write_head(tmp_path / "x.safetensors", head, b"12"))
    assert tensors == {"a": StoredTensor("F4_NEW", (3,), 2)}


@fuzzed
@given(entries=st.dictionaries(st.text(max_size=2), ENTRIES | JSON, max_size=3), data=st.binary(max_size=40))
def test_any_head_is_read_or_refused(tmp_path_factory, entries, data):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    write_head(path, json.dumps(entries).encode(), data)
    try:
        tensors = read_head(path)
    except CheckpointError as error:
        assert str(error).startswith("any.safetensors ")
    else:
        assert sum(tensor.size_bytes for tensor in tensors.values()) == len(data)
        assert all(math.prod(tensor.shape) >= 0 for tensor in tensors.values())


@fuzzed
@given(content=st.binary(max_size=50))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes.safetensors"
    path.write_bytes(content)
    try:
        assert read_head(path) == {}, "no head with a tensor fits into 50 bytes"
    except CheckpointError as error:
        assert str(error).startswith("bytes.safetensors ")


@pytest.mark.parametrize("head", [b"[" * 100_000, b"9" * 10_000, b'{"a": ' * 50_000])
def test_heads_made_to_choke_a_parser(tmp_path, head):
    with pytest.raises(CheckpointError, match="has a corrupt head"):
        read_head(write_head(tmp_path / "x.safetensors", head))
