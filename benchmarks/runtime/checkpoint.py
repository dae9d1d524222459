"""How long reading a checkpoint takes: INT4 of one expert projection of the release, and the heads of many shards.

    python benchmarks/runtime/checkpoint.py [--rounds 9]

Beside ours, in the same run on one thread: compressed-tensors packing, unpacking and decompressing the same projection
(2048 x 7168), and safetensors opening the same shards and asking for name, shape and dtype of each tensor. Processor
time, ours and the peer's in turn.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors import safe_open

from model_runtime.checkpoint.int4 import dequantize, pack, quantize, unpack
from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.checkpoint.tiny import tiny_config, write_tiny

SHAPE = (2048, 7168)
ARGS = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)
Pair = tuple[Callable[[], object], Callable[[], object]]


def make_int4_pairs() -> dict[str, Pair]:
    """Ours and compressed-tensors', checked to give the same before anything is timed."""
    q, scale = quantize(torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)).bfloat16())
    packed = pack(q)
    state = {"weight_packed": packed, "weight_scale": scale, "weight_shape": torch.tensor(SHAPE)}
    scheme = QuantizationScheme(targets=["Linear"], weights=ARGS)
    compressor = BaseCompressor.get_value_from_registry("pack-quantized")
    assert torch.equal(packed, pack_to_int32(q, 4))
    assert torch.equal(unpack(packed), unpack_from_int32(packed, 4, torch.Size(SHAPE)))
    assert torch.equal(dequantize(packed, scale), compressor.decompress(dict(state), scheme)["weight"])
    return {
        "pack": (lambda: pack(q), lambda: pack_to_int32(q, 4)),
        "unpack": (lambda: unpack(packed), lambda: unpack_from_int32(packed, 4, torch.Size(SHAPE))),
        "dequantize to bf16": (
            lambda: dequantize(packed, scale),
            lambda: compressor.decompress(dict(state), scheme),
        ),
    }


def read_heads_with_safetensors(model_dir: Path) -> dict[str, tuple[list[int], str]]:
    """Name, shape and dtype of every tensor, asked of safetensors one by one."""
    found = {}
    for path in model_dir.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a dict
                part = file.get_slice(name)
                found[name] = (part.get_shape(), part.get_dtype())
    return found


def cpu_s(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    started = time.process_time()
    call()
    return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model_dir = Path(folder)
        text = {"num_hidden_layers": 31, "n_routed_experts": 96, "hidden_size": 32, "intermediate_size": 32}
        write_tiny(model_dir, quantized=True, config=tiny_config(text=text), num_shards=16)
        num_tensors = len(Checkpoint.open(model_dir).places)
        assert num_tensors == len(read_heads_with_safetensors(model_dir))
        pairs = make_int4_pairs()
        pairs[f"heads of {num_tensors:,} tensors"] = (
            lambda: Checkpoint.open(model_dir),
            lambda: read_heads_with_safetensors(model_dir),
        )
        for name, (ours, peer) in pairs.items():
            times = [(cpu_s(ours), cpu_s(peer)) for _ in range(rounds + 1)][1:]
            mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"{name:28} ours {mine * 1e3:8.1f} ms   peer {theirs * 1e3:8.1f} ms   peer/ours {theirs / mine:5.2f}")


if __name__ == "__main__":
    main()
