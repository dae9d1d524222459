"""The model in fp32 beside the same in float64, written down a second time."""

from pathlib import Path

import pytest
import torch

from model_runtime.model import load_model
from tests.model_runtime.model.drive import Drive, difference, make_ids, run_whole
from tests.model_runtime.model.oracle import Oracle

IDS = make_ids(60)


@pytest.mark.parametrize("form", ["tiny_dir", "int4_dir"])
def test_logits_are_those_of_float64(form: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(form)
    exact = Oracle(folder)(IDS)
    model = load_model(folder, dtype=torch.float32)
    assert exact.std() > 0.3
    assert difference(run_whole(model, IDS), exact) <= 2e-5
    drive = Drive(model)  # in pieces, then token by token: plain and absorbed attention over the cache
    pieces = [IDS[:40], *([token_id] for token_id in IDS[40:])]
    assert difference(torch.cat([drive.step({"one": ids})["one"] for ids in pieces]), exact) <= 2e-5
