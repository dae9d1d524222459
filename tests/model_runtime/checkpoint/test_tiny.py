"""Tiny checkpoints: whole folders that the runtime and its peers read alike."""

import base64
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model_runtime.checkpoint.int4 import dequantize, pack, quantize
from model_runtime.checkpoint.names import expected_tensors
from model_runtime.checkpoint.reader import Checkpoint, check_tensors
from model_runtime.checkpoint.tiny import tiny_config, tiny_ranks, write_tiny
from model_runtime.config import QuantizationConfig, load_config
from model_runtime.errors import ConfigError

FILES = {
    "config.json",
    "generation_config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "preprocessor_config.json",
    "tiktoken.model",
    "tokenizer_config.json",
}
EXPERT = "language_model.model.layers.2.mlp.experts.7.down_proj.weight"


def digest_of(model_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in model_dir.iterdir()}


def num_params(**changes: object) -> int:
    names = expected_tensors(tiny_config(**changes), quantized=False)  # type: ignore[arg-type]
    return sum(math.prod(info.shape) for info in names.values())


def test_whole_folder_reads_back(tmp_path):
    config = write_tiny(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    read = load_config(tmp_path)
    assert replace(read, extra=config.extra) == config == tiny_config()
    assert 300_000 < num_params() < 600_000


def test_same_seed_same_files(tmp_path, tiny_dir):
    write_tiny(tmp_path / "same")
    write_tiny(tmp_path / "other", seed=1)
    assert digest_of(tmp_path / "same") == digest_of(tiny_dir)
    different = {
        name for name, content in digest_of(tmp_path / "other").items() if content != digest_of(tiny_dir)[name]
    }
    assert different == {name for name in FILES if name.endswith(".safetensors")}


def test_packed_experts_are_the_plain_ones_rounded(tiny_dir, int4_dir):
    plain, packed = Checkpoint.open(tiny_dir), Checkpoint.open(int4_dir)
    q, scale = quantize(plain.get(EXPERT), 32)
    assert torch.equal(packed.get(EXPERT + "_packed"), pack(q))
    assert torch.equal(packed.get(EXPERT + "_scale"), scale)
    assert packed.get(EXPERT + "_shape").tolist() == [64, 32]
    again = dequantize(packed.get(EXPERT + "_packed"), packed.get(EXPERT + "_scale"))
    assert (again - plain.get(EXPERT)).float().std() < 0.15 * plain.get(EXPERT).float().std()
    for name in set(plain.places) & set(packed.places):
        assert torch.equal(plain.get(name), packed.get(name))


@pytest.mark.parametrize("num_shards", [1, 3, 1000])
def test_any_number_of_shards(tmp_path, num_shards, tiny_dir):
    config = write_tiny(tmp_path, num_shards=num_shards)
    checkpoint = Checkpoint.open(tmp_path)
    check_tensors(checkpoint, config)
    assert len(list(tmp_path.glob("*.safetensors"))) == min(num_shards, len(expected_tensors(config)))
    peer = Checkpoint.open(tiny_dir)
    assert all(torch.equal(checkpoint.get(name), peer.get(name)) for name in peer.places)


def test_other_shapes_and_dtypes(tmp_path):
    config = tiny_config(
        text={"num_hidden_layers": 2, "hidden_size": 96, "n_group": 2, "topk_group": 1, "vocab_size": 900},
        vision={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
        dtype="float32",
    )
    ids = {"bos_token_id": 644, "eos_token_id": 645, "pad_token_id": 899}
    config = replace(
        config,
        text=replace(config.text, **ids),
        media_placeholder_token_id=665,
        quantization=QuantizationConfig(group_size=16),
    )
    assert write_tiny(tmp_path, config=config) == config
    check_tensors(Checkpoint.open(tmp_path), load_config(tmp_path))
    assert Checkpoint.open(tmp_path).get(EXPERT.replace(".2.", ".1.") + "_scale").dtype is torch.float32
    assert len((tmp_path / "tiktoken.model").read_bytes().splitlines()) == 644


def test_sizes_that_contradict_each_other(tmp_path):
    config = tiny_config(text={"moe_intermediate_size": 40})
    with pytest.raises(
        ConfigError, match=r"moe_intermediate_size is 40, expected a multiple of the INT4 group_size \(32\)"
    ):
        write_tiny(tmp_path / "no", quantized=True, config=config)
    assert not (tmp_path / "no").exists()


def test_vocabulary_is_a_real_one():
    import tiktoken

    lines = [line.split() for line in tiny_ranks(1024).splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    assert list(ranks.values()) == list(range(1024))
    assert [*ranks][:256] == [bytes([value]) for value in range(256)]
    encoding = tiktoken.Encoding("tiny", pat_str=r" ?\S+|\s+", mergeable_ranks=ranks, special_tokens={})
    text = "The agent opens the browser. 今天天气很好 🙂"
    ids = encoding.encode_ordinary(text)
    assert encoding.decode(ids) == text
    assert len(ids) < 0.6 * len(text.encode())
    for token, rank in ranks.items():
        if rank >= 256:
            parts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
            assert any(ranks.get(a, 1024) < rank and ranks.get(b, 1024) < rank for a, b in parts), token


def test_vocabulary_of_the_releases_size():
    lines = tiny_ranks(163_584).splitlines()
    assert (len(lines), len(set(lines))) == (163_584, 163_584)
    assert lines[:1024] == tiny_ranks(1024).splitlines()
    with pytest.raises(ValueError, match="255 ranks, expected 256"):
        tiny_ranks(255)


def test_control_tokens_are_named_in_their_slots(tiny_dir):
    from model_runtime.tokenizer.special import SLOT_OF

    added = json.loads((tiny_dir / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    assert {token["content"]: int(token_id) - 1024 for token_id, token in added.items()} == SLOT_OF
    generation = json.loads((tiny_dir / "generation_config.json").read_text())
    assert generation["eos_token_id"] == 1026


@pytest.mark.parametrize("folder", ["tiny_dir", "int4_dir"])
def test_transformers_loads_all_of_it(folder, request):
    from transformers import Kimi_K25ForConditionalGeneration

    model, report = Kimi_K25ForConditionalGeneration.from_pretrained(
        request.getfixturevalue(folder), dtype=torch.float32, output_loading_info=True
    )
    assert {name: set(found) for name, found in report.items() if found} == {}
    ids = torch.arange(40).unsqueeze(0) * 20
    with torch.no_grad():
        logits = model(input_ids=ids).logits.float()
    assert 0.7 < logits.std().item() < 1.5
    router = model.model.language_model.layers[1].mlp.gate.weight
    assert torch.pdist(router.float()).min() > 0.5
