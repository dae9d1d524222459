"""Prepared experts on disk: read again, made again where they are broken or another checkpoint's, never half there."""

import logging
from pathlib import Path

import pytest
import torch

from model_runtime.checkpoint.prepared import PreparedFiles, open_prepared
from model_runtime.ops import DenseExperts
from model_runtime.parallel.comm import OneRank

NAME = "language_model.model.layers.1.mlp.experts."
CHECKPOINT = (("model.safetensors", 100, 5),)


def make() -> DenseExperts:
    return DenseExperts(gate_up=torch.randn(3, 4, 8).bfloat16(), down=torch.randn(3, 8, 2))


def never() -> DenseExperts:
    raise AssertionError("made again")


def open_files(root: Path, rank: int = 0, checkpoint: tuple[tuple[str, int, int], ...] = CHECKPOINT) -> PreparedFiles:
    return open_prepared(root, checkpoint, OneRank(rank=rank, size=2), torch.device("cpu"))


def is_same(a: DenseExperts, b: DenseExperts) -> bool:
    return torch.equal(a.gate_up, b.gate_up) and torch.equal(a.down, b.down)


def test_the_second_start_reads(tmp_path: Path) -> None:
    made = open_files(tmp_path).get_or_make(NAME, make)
    found = open_files(tmp_path).get_or_make(NAME, never)
    assert type(found) is DenseExperts
    assert (found.gate_up.dtype, found.down.dtype) == (torch.bfloat16, torch.float32)
    assert is_same(found, made)
    assert not list(tmp_path.rglob("*.part"))


def test_other_ranks_modules_and_checkpoints_have_files_of_their_own(tmp_path: Path) -> None:
    made = open_files(tmp_path).get_or_make(NAME, make)
    others = [
        open_files(tmp_path, rank=1).get_or_make(NAME, make),
        open_files(tmp_path).get_or_make(NAME.replace("1", "2"), make),
        open_files(tmp_path, checkpoint=(("model.safetensors", 100, 6),)).get_or_make(NAME, make),
    ]
    assert not any(is_same(made, other) for other in others)
    assert is_same(made, open_files(tmp_path).get_or_make(NAME, never))


@pytest.mark.parametrize("damage", ["truncated", "no file", "another program's", "a class that is gone", "no field"])
def test_a_broken_file_is_made_again(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    open_files(tmp_path).get_or_make(NAME, make)
    [data], [kind] = tmp_path.rglob("*.safetensors"), tmp_path.rglob("*.json")
    match damage:
        case "truncated":
            data.write_bytes(data.read_bytes()[:-3])
        case "no file":
            data.unlink()
        case "another program's":
            kind.write_text("os:system")
        case "a class that is gone":
            kind.write_text("model_runtime.ops.registry:SparseExperts")
        case "no field":
            kind.write_text("model_runtime.kernels.repack:HalfSplitExperts")
    with caplog.at_level(logging.WARNING):
        again = open_files(tmp_path).get_or_make(NAME, make)
    assert "is made again" in caplog.text
    assert is_same(again, open_files(tmp_path).get_or_make(NAME, never))


def test_a_folder_that_cannot_be_written_costs_only_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        made = open_files(tmp_path / "file").get_or_make(NAME, make)
    assert made.gate_up.shape == (3, 4, 8)
    assert "cannot be kept, the next start makes it again" in caplog.text
