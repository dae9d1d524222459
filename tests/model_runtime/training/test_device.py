"""Training on a GPU: the same losses and weights as on the processor, and, where there is no GPU, nothing of the host
where something of the device belongs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model_runtime.model import load_model
from model_runtime.training.release import release_tensors
from model_runtime.training.trainer import Trainer
from tests.model_runtime.training.test_losses import make_lessons, make_losses
from tests.model_runtime.training.test_trainer import OPTIONS
from tests.model_runtime.training.two_memories import two_memories

NUM_STEPS = 3


def make_trainer(model_dir: Path, device: str = "cpu") -> Trainer:
    torch.manual_seed(0)
    model = load_model(model_dir, device=device, dtype=torch.float32, kernels="autograd")
    losses = make_losses(model)
    losses.heads.to(torch.device(device))
    return Trainer(model, losses, OPTIONS)


@pytest.mark.long
def test_nothing_of_the_host_stands_where_something_of_the_device_belongs(tiny_dir: Path) -> None:
    with two_memories() as memories:
        trainer = make_trainer(tiny_dir)
        assert all(memories.is_there(weight) for weight in trainer.model.parameters())
        lessons = make_lessons(trainer.model.config.media_placeholder_token_id)
        for image_rate in (1.0, 0.0, 0.5):
            report = trainer.step(lessons, image_rate=image_rate)
            assert all(report.losses.values()), report.losses  # each has something to say


@pytest.mark.parametrize(
    "mistake",
    [
        lambda there, here: there + here,
        lambda there, here: there.index_select(0, torch.tensor([1])),
        lambda there, here: here[there.argmax(0, keepdim=True)],
        lambda there, here: torch.cat([there, here]),
        lambda there, here: there.masked_fill(here > 1, 0.0),
    ],
)
def test_what_a_gpu_refuses_is_refused(mistake: Callable[[Tensor, Tensor], Tensor]) -> None:
    here = torch.arange(3.0)
    with two_memories():
        there = here.to(torch.device("cpu"))
        assert float((there[torch.tensor([2])] * 2).sum()) == 4.0
        with pytest.raises(AssertionError, match="of the host beside others of the device"):
            mistake(there, here)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_learns_what_the_processor_learns(tiny_dir: Path, tmp_path: Path) -> None:
    trainers = {device: make_trainer(tiny_dir, device) for device in ("cpu", "cuda")}
    losses = {}
    for device, trainer in trainers.items():
        lessons = make_lessons(trainer.model.config.media_placeholder_token_id)
        losses[device] = [trainer.step(lessons).losses for _ in range(NUM_STEPS)]
    for ours, theirs in zip(losses["cuda"], losses["cpu"], strict=True):
        assert ours == pytest.approx(theirs, rel=2e-3, abs=2e-3)
    trainers["cuda"].save(tmp_path)
    trainers["cpu"].load(tmp_path)  # a state of one device goes on on another
    saved, loaded = (release_tensors(trainers[device].model) for device in ("cuda", "cpu"))
    assert [name for name in saved if not torch.equal(saved[name].cpu(), loaded[name])] == []
