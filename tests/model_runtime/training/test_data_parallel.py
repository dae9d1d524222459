"""Two processes that learn from lessons of their own keep the same weights."""

import random
from pathlib import Path

import pytest
import torch

from model_runtime.parallel.comm import close_group, open_group
from model_runtime.training.release import release_tensors
from model_runtime.training.trainer import average_gradients
from tests.model_runtime.training.test_trainer import make_trainer, train


def learn(rank: int, tiny_dir: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    comm = open_group(rank, 2, f"file://{folder}/meeting")
    shared, mine, idle = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    shared.grad = torch.tensor([1.0, 2.0]) * (rank + 1)
    mine.grad = torch.tensor([4.0, 6.0]) if rank else None
    average_gradients([shared, mine, idle], comm)
    trainer = make_trainer(tiny_dir)
    trainer.comm = comm
    losses = train(trainer, random.Random(rank), 3)
    close_group()
    torch.save(
        {
            "gradients": [shared.grad, mine.grad],
            "is_idle": idle.grad is None,
            "weights": release_tensors(trainer.model),
            "losses": losses,
        },
        folder / f"{rank}.pt",
    )


@pytest.fixture(scope="module")
def both(tiny_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(learn, (tiny_dir, folder), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.long
def test_gradients_are_averaged_and_none_is_zero_beside_another(both: list[dict[str, object]]) -> None:
    for found in both:
        assert torch.equal(torch.stack(found["gradients"]), torch.tensor([[1.5, 3.0], [2.0, 3.0]]))  # type: ignore[call-overload]
        assert found["is_idle"]


@pytest.mark.long
def test_weights_stay_the_same_and_are_not_those_of_one(both: list[dict[str, object]], tiny_dir: Path) -> None:
    first, second = (dict(found["weights"]) for found in both)  # type: ignore[call-overload]
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert both[0]["losses"] == both[1]["losses"]
    alone = make_trainer(tiny_dir)
    train(alone, random.Random(0), 3)
    same = [name for name, weight in release_tensors(alone.model).items() if torch.equal(weight, first[name])]
    assert same == []
