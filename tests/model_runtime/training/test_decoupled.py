from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from model_runtime.model import load_model
from model_runtime.parallel.comm import close_group, open_group
from model_runtime.training.batch import Example, forward, make_batch
from model_runtime.training.decoupled import DecoupledEncoder, estimate_cost
from model_runtime.training.trainer import average_gradients
from model_runtime.training.updates import find_least_loaded
from tests.model_runtime.model.drive import make_ids
from tests.model_runtime.vision.weights import make_item

ROWS = (5, 2, 9, 1)
USES = ((0, 2), (2, 3, 0), (3,))  # images of each micro-batch: two are used twice, one is not
COSTS = [estimate_cost(rows, 6) for rows in ROWS]
LIKE = torch.empty(0, dtype=torch.float64)
SIZES = [(rows, 4) for rows in ROWS]


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 6), nn.GELU(), nn.Linear(6, 4)).double()
        self.backbone = nn.Linear(4, 1).double()
        self.num_calls = 0

    def encode(self, images: Sequence[Tensor]) -> list[Tensor]:
        self.num_calls += 1
        return [self.layers(image) for image in images]

    def find_loss(self, features: Sequence[Tensor], images: Sequence[int]) -> Tensor:
        rows = torch.cat([features[number] for number in images])
        loss: Tensor = self.backbone(rows).sin().square().sum()
        return loss


def make_images() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, 3, generator=generator, dtype=torch.float64) for rows in ROWS]


def gradients_of(model: nn.Module) -> list[Tensor | None]:
    return [weight.grad for weight in model.parameters()]


def find_joint_gradients(uses: Sequence[Sequence[int]]) -> list[Tensor | None]:
    model = Encoder()
    features = model.encode(make_images())
    torch.stack([model.find_loss(features, images) for images in uses]).sum().backward()  # type: ignore[no-untyped-call]
    return gradients_of(model)


def run_decoupled(model: Encoder, uses: Sequence[Sequence[int]], encoder: DecoupledEncoder[Tensor]) -> None:
    for images in uses:
        model.find_loss(encoder.features, images).backward()  # type: ignore[no-untyped-call]
    encoder.backward()


def test_gradients_equal_those_of_the_joint_pass() -> None:
    model = Encoder()
    encoder = DecoupledEncoder(model.encode, make_images(), SIZES, COSTS, LIKE)
    run_decoupled(model, USES, encoder)
    torch.testing.assert_close(gradients_of(model), find_joint_gradients(USES), rtol=0, atol=1e-12)
    assert model.num_calls == 2
    assert encoder.features[1].grad is None  # the image that is not used
    assert encoder.imbalance == 1.0


def test_frozen_encoder_gets_no_gradients() -> None:
    model = Encoder()
    model.layers.requires_grad_(False)
    run_decoupled(model, USES, DecoupledEncoder(model.encode, make_images(), SIZES, COSTS, LIKE))
    assert [weight.grad is None for weight in model.parameters()] == [True] * 4 + [False] * 2


def test_other_features_in_the_second_pass_are_an_error() -> None:
    model = Encoder()
    encoder = DecoupledEncoder(model.encode, make_images(), SIZES, COSTS, LIKE)
    with torch.no_grad():
        list(model.layers.parameters())[-1].add_(1.0)
    with pytest.raises(RuntimeError, match="image 0 was encoded to other features"):
        encoder.backward()


def test_step_without_images() -> None:
    encoder = DecoupledEncoder(Encoder().encode, list[Tensor](), [], [], LIKE)
    encoder.backward()
    assert encoder.features == []


def test_vision_tower_and_language_model(tiny_dir: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()
    placeholder = model.config.media_placeholder_token_id
    examples = [
        Example(trunk=(*make_ids(3), *[placeholder] * image.num_tokens, *make_ids(4, 2)), images=(image,))
        for image in (make_item(1, 4, 6), make_item(1, 8, 4, seed=1))
    ]
    batch = make_batch(examples, placeholder)

    def run(encoded: Sequence[Tensor] | None) -> None:
        forward(model, batch, encoded=encoded).hidden.sin().sum().backward()  # type: ignore[no-untyped-call]

    run(None)
    expected = [gradient.clone() for gradient in gradients_of(model) if gradient is not None]
    model.zero_grad(set_to_none=True)
    sizes = [(image.num_tokens, model.config.text.hidden_size) for image in batch.images]
    costs = [estimate_cost(image.num_patches, model.config.vision.hidden_size) for image in batch.images]
    encoder = DecoupledEncoder(model.encode_media, batch.images, sizes, costs, model.embedding.weight)
    run(encoder.features)
    encoder.backward()
    found = [gradient for gradient in gradients_of(model) if gradient is not None]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_load_is_balanced_by_cost() -> None:
    costs = [estimate_cost(patches, 1152) for patches in (4096, 256, 256, 1024, 1024, 2048, 512, 64)]
    owners = find_least_loaded(dict(enumerate(costs)), 2)
    loads = [sum(cost for number, cost in enumerate(costs) if owners[number] == rank) for rank in range(2)]
    assert owners[0] != owners[5]
    assert costs[0] / costs[3] == pytest.approx(4 * 11008 / 7936)  # more than 4: pairs of patches count
    assert max(loads) / sum(loads) == pytest.approx(costs[0] / sum(costs), abs=0.1)


class Second:
    """The second of two processes, whose partner has added nothing yet."""

    rank, size = 1, 2

    def all_reduce(self, tensor: Tensor) -> Tensor:
        return tensor

    def all_gather(self, tensor: Tensor, dim: int = -1) -> Tensor:
        raise NotImplementedError


def test_process_without_images_has_features_of_the_same_type() -> None:
    model = Encoder()
    encoder = DecoupledEncoder(model.encode, make_images()[:1], SIZES[:1], COSTS[:1], LIKE, Second())
    encoder.backward()
    assert (encoder.features[0].dtype, encoder.features[0].shape) == (torch.float64, (5, 4))
    assert (model.num_calls, encoder.imbalance) == (0, 2.0)


def learn(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    comm = open_group(rank, 2, f"file://{folder}/meeting")
    model = Encoder()
    encoder = DecoupledEncoder(model.encode, make_images(), SIZES, COSTS, LIKE, comm)
    run_decoupled(model, USES[:2] if rank == 0 else USES[2:], encoder)
    average_gradients(list(model.parameters()), comm)
    close_group()
    torch.save(
        {"gradients": gradients_of(model), "own": encoder._own, "imbalance": encoder.imbalance}, folder / f"{rank}.pt"
    )


@pytest.mark.long
def test_two_processes_encode_half_each_and_have_the_joint_gradients(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(learn, (tmp_path,), nprocs=2)
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    assert [each["own"] for each in found] == [[2], [0, 1, 3]]
    assert found[0]["imbalance"] == max(COSTS[2], sum(COSTS) - COSTS[2]) * 2 / sum(COSTS)
    expected = [None if gradient is None else gradient / 2 for gradient in find_joint_gradients(USES)]
    for each in found:
        torch.testing.assert_close(each["gradients"], expected, rtol=0, atol=1e-12)
