import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model_runtime.errors import CheckpointError
from model_runtime.model import load_model
from model_runtime.training.batch import Example
from model_runtime.training.lessons import Lesson, NumberLabel, WordLabel
from model_runtime.training.loss_weights import LossWeights
from model_runtime.training.losses import AuxiliaryHeads, Losses, NumberTokens, SupervisedHeads
from model_runtime.training.release import release_tensors
from model_runtime.training.trainer import (
    STATE,
    VISION_PREFIXES,
    Trainer,
    TrainingOptions,
    compute_rate,
    is_hidden_matrix,
)
from tests.model_runtime.vision.weights import make_item

OPTIONS = TrainingOptions(num_steps=12, muon_lr=0.02, adam_lr=3e-3, warmup_steps=2, clip_threshold=0.5, clip_every=2)


def make_trainer(model_dir: Path, options: TrainingOptions = OPTIONS) -> Trainer:
    torch.manual_seed(0)
    model = load_model(model_dir, dtype=torch.float32, kernels="autograd")
    losses = Losses(
        model,
        AuxiliaryHeads(model, num_letters=27, word_length=3),
        weights=LossWeights(),
        numbers=NumberTokens(ids=torch.arange(100, 200)),
        supervised=SupervisedHeads(layer=1),
    )
    return Trainer(model, losses, options)


def make_lessons(rng: random.Random, pad: int, count: int = 3) -> list[Lesson]:
    """The image's seed is the number that is to be said, and the word that is asked for."""
    lessons = []
    for _ in range(count):
        kind = rng.randrange(4)
        example = Example(
            trunk=(1, *[pad] * 6, 2),
            branches=((10, 11, 100 + 20 * kind, 12),),
            images=(make_item(1, 4, 6, seed=kind),),
        )
        number = NumberLabel(token_index=2, value=20 * kind + 0.5, look_at=1 + kind)
        lessons.append(
            Lesson(
                example=example,
                first_predicted=(1,),
                numbers=((number,),),
                words=(WordLabel(token_index=2, letters=(kind, kind + 1)),),
            )
        )
    return lessons


def train(trainer: Trainer, rng: random.Random, steps: int) -> list[float]:
    pad = trainer.model.config.media_placeholder_token_id
    return [sum(trainer.step(make_lessons(rng, pad)).losses.values()) for _ in range(steps)]


@pytest.mark.long
def test_it_learns(tiny_dir: Path) -> None:
    options = TrainingOptions(num_steps=40, muon_lr=0.01, adam_lr=2e-3, warmup_steps=3, weight_decay=0.0)
    losses = train(make_trainer(tiny_dir, options), random.Random(0), 40)
    assert sum(losses[-4:]) < 0.6 * sum(losses[:4]), losses


@pytest.mark.long
def test_interrupted_and_resumed_it_ends_with_the_same_bits(tiny_dir: Path, tmp_path: Path) -> None:
    whole, rng = make_trainer(tiny_dir), random.Random(1)
    train(whole, rng, 6)
    first, rng = make_trainer(tiny_dir), random.Random(1)
    train(first, rng, 3)
    first.save(tmp_path)
    second = make_trainer(tiny_dir)
    train(second, random.Random(9), 1)  # what it was before counts for nothing
    second.load(tmp_path)
    train(second, rng, 3)
    ours, theirs = release_tensors(whole.model), release_tensors(second.model)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert (whole.step_number, second.step_number) == (6, 6)


@pytest.mark.parametrize("held", ["row_rate", "filter_rate"])
def test_rows_of_tokens_and_the_patch_embedding_have_rates_of_their_own(tiny_dir: Path, held: str) -> None:
    trainer = make_trainer(tiny_dir, replace(OPTIONS, **{held: 0.0}, weight_decay=0.0))
    model = trainer.model
    assert model.vision is not None
    weights = {
        "row_rate": [model.embedding.weight, model.head.weight],
        "filter_rate": [model.vision.patch_embed.weight],
        "neither": [model.norm.weight, trainer.losses.heads.word.weight, model.vision.patch_embed.bias],
    }
    before = {name: [weight.detach().clone() for weight in of_rate] for name, of_rate in weights.items()}
    train(trainer, random.Random(0), 2)
    for name, of_rate in weights.items():
        moved = {bool((weight != was).any()) for weight, was in zip(of_rate, before[name], strict=True)}
        assert moved == {name != held}, name


def test_every_weight_moves_and_only_by_one_optimizer(tiny_dir: Path) -> None:
    trainer = make_trainer(tiny_dir)
    before = {name: tensor.clone() for name, tensor in release_tensors(trainer.model).items()}
    moved_by_muon = set(trainer._matrices)
    by_adam = {weight.data_ptr() for group in trainer._adam.param_groups for weight in group["params"]}
    assert not by_adam & {matrix.untyped_storage().data_ptr() for matrix in trainer._matrices.values()}
    train(trainer, random.Random(0), 2)
    after = release_tensors(trainer.model)
    unmoved = [name for name in before if torch.equal(before[name], after[name])]
    assert unmoved == []
    assert {name for name in before if before[name].dim() == 2} - moved_by_muon == {
        "language_model.model.embed_tokens.weight",
        "language_model.lm_head.weight",
        "language_model.model.layers.1.mlp.gate.weight",
        "language_model.model.layers.2.mlp.gate.weight",
    }


def test_what_images_pass_through_learns_at_its_own_rate(tiny_dir: Path) -> None:
    """Not at all at 0, where gradients do not even reach it; half as far at a half."""
    moved = {}
    for rate in (0.0, 0.5, 1.0):
        trainer = make_trainer(tiny_dir)
        before = {name: tensor.clone() for name, tensor in release_tensors(trainer.model).items()}
        trainer.step(make_lessons(random.Random(0), trainer.model.config.media_placeholder_token_id), image_rate=rate)
        after = release_tensors(trainer.model)
        moved[rate] = {name: (after[name] - before[name]).norm().item() for name in before}
    of_images = {name for name in moved[1.0] if name.startswith(VISION_PREFIXES)}
    assert of_images and not any(moved[0.0][name] for name in of_images)
    for name in set(moved[1.0]) - of_images:
        assert moved[0.5][name] == pytest.approx(moved[1.0][name], rel=1e-4), name
    for name in of_images:
        assert moved[0.5][name] == pytest.approx(0.5 * moved[1.0][name], rel=1e-3), name


def test_a_step_may_have_a_rate_of_its_own(tiny_dir: Path) -> None:
    """Which takes the place of the schedule's."""
    moved = []
    for rate in (None, 0.05, 0.1):
        trainer = make_trainer(tiny_dir)
        before = trainer.model.head.weight.clone()
        report = trainer.step(
            make_lessons(random.Random(0), trainer.model.config.media_placeholder_token_id), rate=rate
        )
        assert report.rate == (compute_rate(0, trainer.options) if rate is None else rate)
        moved.append((trainer.model.head.weight - before).norm().item())
    assert moved[2] == pytest.approx(2 * moved[1], rel=1e-2)


def test_images_can_be_learnt_without_the_language_model(tiny_dir: Path) -> None:
    """Then what it is taught changes nothing for them: their weights come out as without those losses."""
    seen = LossWeights.only("word")
    moved = {}
    for name, share, weights in (
        ("alone", 0.0, seen),
        ("beside it", 0.0, replace(seen, token=1.0, number=1.0, attention=1.0)),
        ("through it", 1.0, replace(seen, token=1.0, number=1.0, attention=1.0)),
    ):
        trainer = make_trainer(tiny_dir, replace(OPTIONS, image_gradient=share, max_grad_norm=1e9))
        trainer.losses.weights = weights
        trainer.step(make_lessons(random.Random(0), trainer.model.config.media_placeholder_token_id))
        tensors = release_tensors(trainer.model)
        moved[name] = {one: tensor.clone() for one, tensor in tensors.items() if one.startswith(VISION_PREFIXES)}
    alone, beside, through = moved.values()
    assert [name for name in alone if not torch.equal(alone[name], beside[name])] == []
    assert [name for name in alone if not torch.equal(alone[name], through[name])]


def test_scores_are_held_below_the_threshold(tiny_dir: Path) -> None:
    trainer = make_trainer(tiny_dir)
    pad = trainer.model.config.media_placeholder_token_id
    reports = [trainer.step(make_lessons(random.Random(0), pad)) for _ in range(3)]
    assert reports[0].num_clipped > 0
    assert reports[1].num_clipped == 0  # no step to look


def test_what_was_saved_has_to_fit(tiny_dir: Path, tmp_path: Path) -> None:
    trainer = make_trainer(tiny_dir)
    with pytest.raises(CheckpointError, match="nothing was saved there"):
        trainer.load(tmp_path)
    trainer.save(tmp_path)
    with pytest.raises(CheckpointError, match="other options"):
        make_trainer(tiny_dir, TrainingOptions(num_steps=13)).load(tmp_path)
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:999])
    with pytest.raises(CheckpointError, match="cannot be read"):
        trainer.load(tmp_path)


def test_the_rate_rises_stays_and_falls() -> None:
    options = TrainingOptions(num_steps=100, warmup_steps=10, decay_share=0.4, final_share=0.02)
    rates = [compute_rate(step, options) for step in range(100)]
    assert rates[:2] == [0.1, 0.2]
    assert rates[9:61] == [1.0] * 52
    assert rates[80] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(0.025)
    assert compute_rate(500, options) == pytest.approx(0.02)


def test_what_is_a_hidden_matrix() -> None:
    matrix = torch.zeros(2, 2)
    assert is_hidden_matrix("language_model.model.layers.1.mlp.gate_proj.weight", matrix)
    assert is_hidden_matrix("vision_tower.encoder.blocks.0.wqkv.weight", matrix)
    assert not is_hidden_matrix("language_model.model.layers.1.mlp.gate.weight", matrix)
    assert not is_hidden_matrix("language_model.model.norm.weight", torch.zeros(2))
