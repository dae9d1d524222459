"""Reading tensors: views into mapped shards, aliases, threads, files that change."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from model_runtime.checkpoint.names import expected_tensors
from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.checkpoint.tiny import tiny_config
from model_runtime.errors import CheckpointError

GATE = "language_model.model.layers.1.mlp.gate.weight"


def load_all(model_dir: Path) -> dict[str, torch.Tensor]:
    """All tensors as safetensors' own loader reads them."""
    return {name: tensor for path in model_dir.glob("*.safetensors") for name, tensor in load_file(path).items()}


@pytest.mark.parametrize("folder", ["tiny_dir", "int4_dir"])
def test_every_tensor_is_what_safetensors_reads(folder, request):
    model_dir = request.getfixturevalue(folder)
    checkpoint = Checkpoint.open(model_dir)
    peer = load_all(model_dir)
    assert checkpoint.places.keys() == peer.keys()
    assert checkpoint.faults == ()
    for name, tensor in peer.items():
        mine = checkpoint.get(name)
        assert mine.dtype is tensor.dtype
        assert torch.equal(mine, tensor), name


def test_part_of_a_tensor_is_a_view_of_the_same_mapping(tiny_dir):
    checkpoint = Checkpoint.open(tiny_dir)
    whole = checkpoint.get(GATE)
    part = checkpoint.get(GATE, (slice(2, 5), slice(8, 40)))
    assert torch.equal(part, whole[2:5, 8:40])
    assert part.data_ptr() == whole.data_ptr() + (2 * whole.shape[1] + 8) * whole.element_size()


def test_only_what_is_touched_comes_into_memory(tmp_path):
    num_rows, row_bytes = 64, 2**20
    save_file({GATE: torch.ones(num_rows, row_bytes // 4)}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint.open(tmp_path)
    before = psutil.Process().memory_info().rss
    part = checkpoint.get(GATE, (slice(10, 11),)).clone()
    grown = psutil.Process().memory_info().rss - before
    assert part.sum().item() == row_bytes // 4
    assert grown < num_rows * row_bytes // 4


def test_writing_into_a_tensor_leaves_the_file_alone(broken):
    checkpoint = Checkpoint.open(broken)
    before = checkpoint.get(GATE).clone()
    checkpoint.get(GATE).fill_(7)
    assert torch.equal(Checkpoint.open(broken).get(GATE), before)


def test_one_file_without_an_index(tiny_dir, tmp_path):
    tensors = load_all(tiny_dir)
    save_file(tensors, tmp_path / "model.safetensors")
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.places.keys() == expected_tensors(tiny_config()).keys()
    assert torch.equal(checkpoint.get(GATE), tensors[GATE])


def test_names_without_the_inner_model_and_stored_rotary_tables(tiny_dir, tmp_path):
    renamed = {
        name.replace("language_model.model.", "language_model."): each for name, each in load_all(tiny_dir).items()
    }
    renamed["language_model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(renamed, tmp_path / "model.safetensors")
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.places.keys() == expected_tensors(tiny_config()).keys()
    assert checkpoint.has(GATE)
    assert torch.equal(checkpoint.get(GATE), Checkpoint.open(tiny_dir).get(GATE))


def test_many_threads_read_at_once(tiny_dir):
    peer = load_all(tiny_dir)
    checkpoint = Checkpoint.open(tiny_dir)
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda name: torch.equal(checkpoint.get(name).clone(), peer[name]), [*peer] * 4))
    assert all(same)


def test_tensor_that_is_not_there(tiny_dir):
    checkpoint = Checkpoint.open(tiny_dir)
    assert not checkpoint.has("lm_head.weight")
    with pytest.raises(CheckpointError, match=r"no tensor lm_head\.weight in "):
        checkpoint.get("lm_head.weight")


def test_tensor_of_a_missing_shard(broken):
    (broken / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no tensor .*embed_tokens\.weight .*shard model-00001-of-00002"):
        Checkpoint.open(broken).get("language_model.model.embed_tokens.weight")


def test_shard_that_went_away_between_opening_and_reading(broken):
    checkpoint = Checkpoint.open(broken)
    (broken / checkpoint.places[GATE].file_name).unlink()
    with pytest.raises(CheckpointError, match="cannot be opened"):
        checkpoint.get(GATE)


def test_changed_files_are_noticed(broken):
    checkpoint = Checkpoint.open(broken)
    checkpoint.check_unchanged()
    assert checkpoint.fingerprint() == Checkpoint.open(broken).fingerprint()
    shard = broken / "model-00002-of-00002.safetensors"
    os.utime(shard, ns=(1, 1))
    (broken / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError) as caught:
        checkpoint.check_unchanged()
    names = "model-00001-of-00002.safetensors, model-00002-of-00002.safetensors"
    assert str(caught.value) == f"files in {broken} changed since loading: {names}; restart"


def test_folder_without_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"no model\.safetensors\.index\.json and no model\.safetensors in "):
        Checkpoint.open(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}', "\udcff"])
def test_index_that_is_none(tmp_path, content):
    (tmp_path / "model.safetensors.index.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match="cannot be read as an index of shards"):
        Checkpoint.open(tmp_path)


def test_links_to_shards_are_followed(tiny_dir, tmp_path):
    for path in tiny_dir.iterdir():
        (tmp_path / path.name).symlink_to(path)
    assert Checkpoint.open(tmp_path).faults == ()


def test_index_points_out_of_the_folder(broken):
    shutil.move(broken / "model-00002-of-00002.safetensors", broken.parent / "else.safetensors")
    index = broken / "model.safetensors.index.json"
    values = json.loads(index.read_text())
    values["weight_map"] = {
        name: "../else.safetensors" if "00002" in file.split("-of")[0] else file
        for name, file in values["weight_map"].items()
    }
    index.write_text(json.dumps(values))
    assert Checkpoint.open(broken).faults == (
        "model.safetensors.index.json names the shard '../else.safetensors', expected a file in the same folder",
    )
