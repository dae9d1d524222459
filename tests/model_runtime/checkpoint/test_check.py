"""Every way a checkpoint can be wrong, and that all of it is told at once."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model_runtime.checkpoint.reader import INDEX, Checkpoint, check_tensors
from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.config import load_config
from model_runtime.errors import CheckpointError

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
EMBED = "language_model.model.embed_tokens.weight"
BIAS = "language_model.model.layers.1.mlp.gate.e_score_correction_bias"


def fault_of(model_dir: Path) -> str:
    """What `check_tensors` says, without the folder."""
    with pytest.raises(CheckpointError) as caught:
        check_tensors(Checkpoint.open(model_dir), load_config(model_dir))
    start = f"{model_dir} does not fit its config: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def edit_index(model_dir: Path, change: Callable[[dict[str, str]], None]) -> None:
    values = json.loads((model_dir / INDEX).read_text())
    change(values["weight_map"])
    (model_dir / INDEX).write_text(json.dumps(values))


@pytest.mark.parametrize("folder", ["tiny_dir", "int4_dir"])
def test_whole_checkpoint(folder, request):
    model_dir = request.getfixturevalue(folder)
    check_tensors(Checkpoint.open(model_dir), load_config(model_dir))


def test_files_decide_whether_experts_are_packed(int4_dir, tiny_dir):
    check_tensors(Checkpoint.open(int4_dir), load_config(tiny_dir))
    check_tensors(Checkpoint.open(tiny_dir), load_config(int4_dir))


def test_truncated_shard(broken):
    path = broken / SECOND
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 3)
    assert fault_of(broken) == f"{SECOND} is truncated: {size - 3:,} bytes, expected {size:,}"


def test_shard_with_bytes_behind_its_end(broken):
    path = broken / SECOND
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"more")
    assert fault_of(broken) == f"{SECOND} is longer than its head says: {size + 4:,} bytes, expected {size:,}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is corrupt or truncated: its head claims 0 bytes, the file has 0"),
        (b"<html>404</html>", "is corrupt or truncated: its head claims "),
        (struct.pack("<Q", 5) + b"hello", "has a corrupt head: Expecting value"),
        (struct.pack("<Q", 2) + b"[]", "has a corrupt head: "),
        (struct.pack("<Q", 2) + b"\xff\xff", "has a corrupt head: "),
        (struct.pack("<Q", 10) + b'{"a": {}} ', "has a corrupt head: 'dtype'"),
    ],
)
def test_corrupt_head(broken, content, message):
    (broken / SECOND).write_bytes(content)
    assert fault_of(broken).startswith(f"{SECOND} {message}")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [2, 2], "data_offsets": [0, 8]}, "a float32 tensor of shape [2, 2] claims 8 bytes"),
        ({"shape": [2], "data_offsets": [4, 12]}, "bytes 0 to 4 belong to no tensor or two"),
    ],
)
def test_head_that_contradicts_itself(broken, entry, message):
    head = json.dumps({"a": {"dtype": "F32"} | entry}).encode()
    (broken / SECOND).write_bytes(struct.pack("<Q", len(head)) + head + b"\0" * 16)
    assert fault_of(broken) == f"{SECOND} has a corrupt head: {message}"


def test_missing_shard(broken):
    (broken / SECOND).unlink()
    assert fault_of(broken) == f"{SECOND} is missing"


def test_shard_that_is_a_folder(broken):
    (broken / SECOND).unlink()
    (broken / SECOND).mkdir()
    assert fault_of(broken).startswith(f"{SECOND} cannot be read: ")


def test_extra_tensor(broken):
    rewrite(broken / SECOND, lambda tensors: tensors.update({"mm_projector.extra": torch.ones(1)}))
    assert fault_of(broken) == (
        f"{SECOND} holds 1 tensor that {INDEX} does not place there: mm_projector.extra; "
        f"1 tensor not expected: mm_projector.extra in {SECOND}"
    )


def test_missing_tensors_are_told_by_kind(broken):
    names = [f"vision_tower.encoder.blocks.{block}.wqkv.{part}" for block in (0, 1) for part in ("weight", "bias")]

    def drop(tensors: dict[str, torch.Tensor]) -> None:
        for name in names:
            del tensors[name]

    rewrite(broken / SECOND, drop)
    edit_index(broken, drop)
    assert fault_of(broken) == (
        "4 tensors missing: vision_tower.encoder.blocks.0-1.wqkv.weight (2 tensors), "
        "vision_tower.encoder.blocks.0-1.wqkv.bias (2 tensors)"
    )


def test_index_places_a_tensor_where_it_is_not(broken):
    edit_index(broken, lambda weight_map: weight_map.update({EMBED: SECOND}))
    assert fault_of(broken) == (
        f"{FIRST} holds 1 tensor that {INDEX} does not place there: {EMBED}; "
        f"{SECOND} lacks 1 tensor that {INDEX} places there: {EMBED}"
    )


def test_index_points_nowhere(broken):
    edit_index(broken, lambda weight_map: weight_map.update(dict.fromkeys(weight_map, "nowhere.safetensors")))
    assert fault_of(broken) == "nowhere.safetensors is missing"


def test_tensor_in_two_shards(broken):
    tensor = load_file(broken / FIRST)[EMBED]
    rewrite(broken / SECOND, lambda tensors: tensors.update({EMBED.replace("model.model", "model"): tensor}))
    assert "; ".join(fault_of(broken).split("; ")[1:]) == (
        f"{EMBED} is in {FIRST} and, as language_model.embed_tokens.weight, in {SECOND}"
    )


def test_misshapen_tensor(broken):
    rewrite(broken / FIRST, lambda tensors: tensors.update({EMBED: tensors[EMBED][:-1].clone()}))
    assert fault_of(broken) == (
        f"1 tensor of another shape or dtype: {EMBED} in {FIRST} is bfloat16 [1279, 64], expected bfloat16 [1280, 64]"
    )


def test_wrong_dtype(broken):
    rewrite(broken / FIRST, lambda tensors: tensors.update({BIAS: tensors[BIAS].half()}))
    assert fault_of(broken) == (
        f"1 tensor of another shape or dtype: {BIAS} in {FIRST} is float16 [8], expected float32 or bfloat16 [8]"
    )


def test_eight_bit_float_is_named(broken):
    rewrite(broken / FIRST, lambda tensors: tensors.update({EMBED: tensors[EMBED].to(torch.float8_e4m3fn)}))
    assert f"{EMBED} in {FIRST} is float8_e4m3fn [1280, 64], expected bfloat16 or float32 or float16" in fault_of(
        broken
    )


def test_config_of_another_size_gives_one_message_by_kind(tmp_path):
    write_tiny(tmp_path, config=tiny_config(text={"num_hidden_layers": 4}), num_shards=5)
    with pytest.raises(CheckpointError) as caught:
        check_tensors(Checkpoint.open(tmp_path), tiny_config(text={"num_hidden_layers": 5, "n_routed_experts": 4}))
    text = str(caught.value)
    assert len(text) < 2000
    assert "missing: language_model.model.layers.4.input_layernorm.weight" in text
    assert (
        "36 tensors not expected: language_model.model.layers.1-3.mlp.experts.4-7.gate_proj.weight (12 tensors)" in text
    )
    assert "6 tensors of another shape or dtype: language_model.model.layers.1-3.mlp.gate.weight (3 tensors)" in text
    assert "more kinds" in text


def test_all_faults_at_once(broken):
    (broken / SECOND).write_bytes(b"")
    rewrite(
        broken / FIRST,
        lambda tensors: tensors.update({EMBED: tensors[EMBED].t().contiguous(), "more": tensors[BIAS].clone()}),
    )
    faults = fault_of(broken).split("; ")
    assert [fault.split(": ")[0] for fault in faults] == [
        f"{SECOND} is corrupt or truncated",
        f"{FIRST} holds 1 tensor that {INDEX} does not place there",
        "1 tensor not expected",
        "1 tensor of another shape or dtype",
    ]
