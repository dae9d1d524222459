from pathlib import Path

import pytest
import torch

from model_runtime.model import load_model
from model_runtime.training.batch import Example, forward, make_batch
from model_runtime.training.updates import RouterBalance
from tests.model_runtime.model.drive import make_ids


@pytest.mark.long
def test_busy_experts_lose_bias_until_all_are_about_equally_busy(tiny_dir: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32, kernels="autograd")
    batch = make_batch([Example(trunk=tuple(make_ids(400, seed))) for seed in range(2)], 0)
    balance = RouterBalance(model, speed=0.002)
    for router in balance.routers:
        router.bias[3] += 0.3  # nearly every token's choice
    forward(model, batch)
    assert [int(counts.sum()) for counts in balance.counts] == [1600] * len(balance.routers)
    first = balance.find_imbalance()
    for _ in range(250):
        balance.step()
        forward(model, batch)
    assert first > 2.5
    assert balance.find_imbalance() < 1.4


def test_evaluation_is_not_counted(tiny_dir: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32, kernels="autograd")
    balance = RouterBalance(model)
    batch = make_batch([Example(trunk=(1, 2, 3))], 0)
    forward(model.eval(), batch)
    assert balance.find_imbalance() == 0.0
    forward(model.train(), batch)
    assert balance.find_imbalance() > 0.0
    before = [router.bias.clone() for router in balance.routers]
    balance.step()
    assert balance.find_imbalance() == 0.0
    assert all(not torch.equal(old, router.bias) for old, router in zip(before, balance.routers, strict=True))
    balance.close()
    forward(model, batch)
    assert balance.find_imbalance() == 0.0
