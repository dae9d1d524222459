"""The model on a GPU beside the model on the CPU, which is checked against transformers elsewhere."""

import os
from pathlib import Path

import pytest
import torch

from model_runtime.model import K25Model, load_model
from tests.model_runtime.engine.real import assert_same, greedy, make_prompt, run, start
from tests.model_runtime.model.drive import Drive, difference, make_ids, run_whole
from tests.model_runtime.vision.weights import make_item

DEVICE = "cuda"
IDS = make_ids(60)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use"),
    pytest.mark.skipif(os.environ["TRITON_INTERPRET"] == "1", reason="kernels are interpreted: set TRITON_INTERPRET=0"),
]


def test_fp32(tiny: K25Model, tiny_dir: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32, device=DEVICE)
    assert difference(run_whole(model, IDS).cpu(), run_whole(tiny, IDS)) <= 1e-4


def test_bfloat16(tiny: K25Model, tiny_dir: Path) -> None:
    """Beside torch's operators on the same GPU: a rounding that changes an expert is off as a whole, in both alike."""
    exact = run_whole(tiny, IDS)
    ours, theirs = (load_model(tiny_dir, device=DEVICE, kernels=kernels) for kernels in ("triton", "torch"))
    here, there = ((run_whole(model, IDS).cpu() - exact).abs().mean() for model in (ours, theirs))
    assert 0 < here <= 1.2 * there


def test_packed_experts(int4_dir: Path) -> None:
    ours, reference = (load_model(int4_dir, dtype=torch.float32, device=device) for device in (DEVICE, "cpu"))
    assert difference(run_whole(ours, IDS).cpu(), run_whole(reference, IDS)) <= 1e-4


def test_chunks_and_tokens_one_by_one(tiny_dir: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32, device=DEVICE)
    for size in (1, 7, 20):
        drive = Drive(model)
        parts = [drive.step({"one": IDS[start : start + size]})["one"] for start in range(0, len(IDS), size)]
        assert difference(torch.cat(parts).cpu(), run_whole(model, IDS).cpu()) <= 1e-4


def test_pictures(tiny: K25Model, tiny_dir: Path) -> None:
    items = [make_item(1, 4, 6, seed=1), make_item(3, 8, 4, seed=2)]
    model = load_model(tiny_dir, dtype=torch.float32, device=DEVICE)
    for ours, reference in zip(model.encode_media(items), tiny.encode_media(items), strict=True):
        assert difference(ours.cpu(), reference) <= 1e-4


async def test_the_engine(tiny_dir: Path) -> None:
    results = []
    for device in ("cpu", DEVICE):
        engine = start(tiny_dir, device=device)
        prompts = [make_prompt(engine.tokenizer, "hello"), make_prompt(engine.tokenizer, "a longer text " * 8)]
        results.append(await run(engine, [greedy(str(i), prompt) for i, prompt in enumerate(prompts)]))
        await engine.close()
    assert_same(results[1], results[0], within=1e-4)
