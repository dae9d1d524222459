import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model_runtime.model import K25Model, load_model
from model_runtime.training import losses as losses_module
from model_runtime.training.attention import compute_scores
from model_runtime.training.batch import Example, forward, make_batch
from model_runtime.training.lessons import (
    IGNORED,
    AttentionTarget,
    Lesson,
    NumberLabel,
    PatchAttentionTarget,
    PatchLetters,
    RequestPart,
    WordLabel,
    make_targets,
)
from model_runtime.training.loss_weights import LossWeights
from model_runtime.training.losses import (
    AuxiliaryHeads,
    Losses,
    NumberTokens,
    SupervisedHeads,
)
from model_runtime.training.places import find_places, make_soft_targets
from tests.model_runtime.vision.weights import make_item

IMAGE = make_item(1, 4, 6, seed=1)  # 24 patches, 6 tokens


@pytest.fixture
def model(tiny_dir: Path) -> K25Model:
    torch.manual_seed(0)
    return load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()


def make_lessons(pad: int) -> list[Lesson]:
    classes, orders = torch.full((24, 2), IGNORED), torch.full((24, 2), IGNORED)
    classes[7, 1], orders[7, 1] = 3, 4
    first = Lesson(
        example=Example(trunk=(1, *[pad] * 6, 2), branches=((10, 11, 12, 13), (20, 21, 22)), images=(IMAGE,)),
        first_predicted=(2, 1),
        numbers=((NumberLabel(token_index=3, value=40.2, look_at=4),), ()),
        choices=((2,), ()),
        copies=((), (1, 2)),
        attention_targets=((), (AttentionTarget(token_index=2, target_index=9, head=2),)),
        name_words=((WordLabel(token_index=1, letters=(5, 6, 7)), WordLabel(token_index=2, letters=(6, 5))), ()),
        query_words=((WordLabel(token_index=2, letters=(5, 6, 7)),), (WordLabel(token_index=0, letters=(8,)),)),
        query_targets=((), (AttentionTarget(token_index=2, target_index=8, head=0),)),
        request_parts=(
            (RequestPart(token_index=1, number=0), RequestPart(token_index=3, number=2)),
            (RequestPart(token_index=0, number=1),),
        ),
        letters=PatchLetters(classes=classes, orders=orders),
        words=(
            WordLabel(token_index=4, letters=(5, 6), click_point=(0.25, 0.5), is_on=True),
            WordLabel(token_index=1, letters=(7,), click_point=(0.75, 0.1), is_away=True),
        ),
        letter_targets=(PatchAttentionTarget(patch_index=8, target_index=9, head=1),),
        click_targets=(PatchAttentionTarget(patch_index=14, target_index=2, head=0),),
        state_targets=(PatchAttentionTarget(patch_index=15, target_index=6, head=1),),
    )
    return [first, Lesson(example=Example(trunk=(3, 4), branches=((5, 6),)), first_predicted=(1,), numbers=((),))]


def make_pointing_lessons(pad: int) -> list[Lesson]:
    """The same, the first of which says both numbers of a point."""
    lessons = make_lessons(pad)
    numbers = (
        NumberLabel(token_index=2, value=40.2, look_at=4),
        NumberLabel(token_index=3, value=7.0, look_at=5, axis=1),
    )
    lessons[0] = replace(lessons[0], numbers=(numbers, ()))
    return lessons


def make_losses(model: K25Model, weights: LossWeights | None = None) -> Losses:
    return Losses(
        model,
        AuxiliaryHeads(model, num_letters=27, word_length=4, patch_parts=2),
        weights=weights or LossWeights(),
        numbers=NumberTokens(ids=torch.arange(100, 200), width=2.0),
        supervised=SupervisedHeads(layer=1, heads=(2, 0, 1), sharpness=2.0),
    )


def test_labels_become_rows_of_the_batch(model: K25Model) -> None:
    lessons = make_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    targets = make_targets(lessons, batch)
    # trunks take the rows 0 to 9, branches 10 to 13, 14 to 16, 17 to 18
    assert batch.branches == ((slice(10, 14), slice(14, 17)), (slice(17, 19),))
    assert targets.rows.tolist() == [11, 14, 15, 17]
    assert targets.tokens.tolist() == [12, 21, 22, 6]
    assert (targets.number_rows.tolist(), targets.attention_rows.tolist(), targets.attention_targets.tolist()) == (
        *([12], [12, 15]),
        [4, 9],
    )
    assert targets.attention_heads.tolist() == [0, 2]
    assert targets.attention_numbers.isnan().tolist() == [False, True]
    assert (targets.choice_rows.tolist(), targets.copy_rows.tolist()) == ([11], [14, 15])
    assert targets.word_rows.tolist() == [4, 1]
    assert targets.words.tolist() == [[5, 6], [7, IGNORED]]
    assert (targets.name_rows.tolist(), targets.name_words.tolist()) == ([11, 12], [[5, 6, 7], [6, 5, IGNORED]])
    assert (targets.query_word_rows.tolist(), targets.query_words.tolist()) == (
        [12, 14],
        [[5, 6, 7], [8, IGNORED, IGNORED]],
    )
    assert (targets.query_rows.tolist(), targets.query_targets.tolist()) == ([15], [8])
    assert (targets.part_rows.tolist(), targets.request_parts.tolist()) == ([11, 13, 14], [0, 2, 1])
    assert targets.letters.classes.flatten().tolist() == [IGNORED] * 15 + [3] + [IGNORED] * 32
    assert targets.letters.orders.flatten().tolist() == [IGNORED] * 15 + [4] + [IGNORED] * 32
    assert targets.states.tolist() == [1, IGNORED]
    assert (targets.letter_targets.tolist(), targets.click_targets.tolist()) == ([[8, 9, 1]], [[14, 2, 0]])
    assert targets.state_targets.tolist() == [[15, 6, 1]]


def test_places_are_shares_of_the_image_in_raster_order() -> None:
    places = find_places((1, 4, 6))
    assert places.shape == (6, 2)
    assert torch.allclose(places[:, 0], torch.tensor([1, 3, 5, 1, 3, 5]) / 6)
    assert torch.allclose(places[:, 1], torch.tensor([1, 1, 1, 3, 3, 3]) / 4)


def test_a_head_that_knows_places_loses_less(model: K25Model) -> None:
    """The loss falls from that of a guess when the row says where it lies."""
    lessons = make_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses, targets = make_losses(model), make_targets(lessons, batch)
    rows = torch.zeros(6, model.config.text.hidden_size)
    rows[:, :6] = torch.eye(6)
    seen = replace(forward(model, batch), images=(rows,))
    given = losses._inputs.of_layer
    inside = torch.zeros_like(given[1].x)
    inside[batch.image_rows] = rows
    given[1] = replace(given[1], x=inside)
    torch.nn.init.zeros_(losses.heads.place.weight)
    torch.nn.init.zeros_(losses.heads.place.bias)
    blind = losses._place_loss(seen, batch, targets)
    assert blind.item() == pytest.approx(math.log(32))
    bells = make_soft_targets((find_places((1, 4, 6)) * 32 - 0.5).flatten(), 32, 1.0).clamp(min=1e-9)
    with torch.no_grad():
        losses.heads.place.weight[:, :6] = bells.log().view(6, 64).T
    assert losses._place_loss(seen, batch, targets).item() == pytest.approx(
        math.log(math.sqrt(2 * math.pi * math.e)), abs=0.05
    )


def test_where_the_target_lies_is_read_behind_the_layer_that_looks(model: K25Model) -> None:
    """Along the axis of the number alone, from the rows of the next layer."""
    lessons = make_pointing_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses, targets = make_losses(model), make_targets(lessons, batch)
    seen = forward(model, batch)
    scores = losses.heads.aim(losses._inputs.of_layer[2].x[targets.attention_rows[:2]]).view(2, 2, 32).log_softmax(-1)
    bells = make_soft_targets(torch.tensor([0.402, 0.07]) * 32 - 0.5, 32, 1.0)
    expected = -(bells[0] * scores[0, 0]).sum() / 2 - (bells[1] * scores[1, 1]).sum() / 2
    assert losses._target_loss(seen, batch, targets).item() == pytest.approx(expected.item(), rel=1e-5)


def test_padding_does_not_count_as_a_place(model: K25Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the width is a screenshot: what lay in the middle of that half lies in the middle."""
    lessons = make_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses = make_losses(model)
    seen = forward(model, batch)
    asked: list[torch.Tensor] = []
    monkeypatch.setattr(losses_module, "compare_places", lambda scores, wanted: asked.append(wanted[:6]))
    losses._place_loss(seen, batch, make_targets(lessons, batch))
    losses._place_loss(seen, batch, make_targets([replace(lessons[0], shown=((0.5, 1.0),)), lessons[1]], batch))
    whole, half = asked
    assert torch.allclose(half, whole * torch.tensor([2.0, 1.0]))
    with pytest.raises(ValueError, match="`shown` has 2 entries, expected one for each of 1 images"):
        make_targets([replace(lessons[0], shown=((0.5, 1.0),) * 2), lessons[1]], batch)


def test_the_name_is_read_where_the_taught_head_looks_from(model: K25Model) -> None:
    lessons = make_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses, targets = make_losses(model), make_targets(lessons, batch)
    losses._name_loss(forward(model, batch), batch, targets).backward()
    moved = {name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert any(name.startswith("layers.0.") for name in moved)
    assert not any(name.startswith("layers.1.attention") for name in moved)  # nothing behind where it is read
    torch.nn.init.zeros_(losses.heads.word.weight)
    torch.nn.init.zeros_(losses.heads.word.bias)
    assert losses._name_loss(forward(model, batch), batch, targets).item() == pytest.approx(math.log(27))


@pytest.mark.parametrize("limit", [1000, 40], ids=["one pass", "several passes"])
def test_letters_of_images_of_several_sizes_are_those_of_each_alone(model: K25Model, limit: int) -> None:
    """The tower takes images by their size: labels are in the order of the lessons all the same."""
    assert model.vision is not None
    model.vision.max_patches_per_pass = limit
    images = [make_item(1, *size, seed=seed) for seed, size in enumerate([(6, 6), (4, 6), (8, 4), (2, 2), (4, 6)])]
    losses = make_losses(model)
    model.encode_media(images)
    together = losses.read_letters(images)
    alone = []
    for image in images:
        model.encode_media([image])
        alone.append(losses.read_letters([image]))
    assert (together - torch.cat(alone)).abs().max() <= 1e-5


def test_each_part_is_what_it_says(model: K25Model) -> None:
    """By hand, from the rows of a forward pass."""
    pad = model.config.media_placeholder_token_id
    lessons, losses = make_lessons(pad), make_losses(model)
    batch = make_batch([lesson.example for lesson in lessons], pad)
    targets = make_targets(lessons, batch)
    seen = forward(model, batch)
    parts = {name: part.item() for name, part in losses(seen, batch, targets).items()}
    logs = model.logits(seen.hidden).log_softmax(-1)
    assert parts["token"] == pytest.approx(
        -(logs[11, 12] + logs[14, 21] + logs[15, 22] + logs[17, 6]).item() / 4, rel=1e-5
    )
    assert parts["choice"] == pytest.approx(-logs[11, 12].item(), rel=1e-5)
    assert parts["copy"] == pytest.approx(-(logs[14, 21] + logs[15, 22]).item() / 2, rel=1e-5)
    bell = make_soft_targets(torch.tensor([40.2]), 100, 2.0)[0]
    assert parts["number"] == pytest.approx(-(bell * logs[12, 100:200]).sum().item(), rel=1e-5)
    read = losses.read_letters([IMAGE])[7, 1].log_softmax(-1)[3]
    assert parts["letter"] == pytest.approx(-read.item(), rel=1e-5)
    rows = torch.stack(
        [seen.images[0][3], losses._inputs.of_layer[1].x[4], seen.images[0][0], losses._inputs.of_layer[1].x[1]]
    )
    bells = make_soft_targets(torch.tensor([0.25, 0.5, 0.25, 0.5, 0.75, 0.1, 0.75, 0.1]) * 32 - 0.5, 32, 1.0)
    aims = losses.heads.aim(rows).view(8, 32).log_softmax(-1)  # a label counts as much as all names that are clicked
    assert parts["click_point"] == pytest.approx(-(bells * aims).sum().item() / 8, rel=1e-5)
    order = losses.heads.order(losses._patches.find_middle([IMAGE])[7])[5:].log_softmax(-1)[4]
    assert parts["order"] == pytest.approx(-order.item(), rel=1e-5)
    (share,) = losses._patches.compute_log_shares(
        [IMAGE], targets.letter_targets, block=losses._patches.letter_block
    ).tolist()
    assert parts["read_word_attn"] == pytest.approx(-share, rel=1e-5)
    (share,) = losses._patches.compute_log_shares(
        [IMAGE], targets.click_targets, block=losses._patches.target_block
    ).tolist()
    assert parts["target_attn"] == pytest.approx(-share, rel=1e-5)
    (share,) = losses._patches.compute_log_shares(
        [IMAGE], targets.state_targets, block=losses._patches.target_block
    ).tolist()
    assert parts["state_attn"] == pytest.approx(-share, rel=1e-5)
    state = losses.heads.state(seen.images[0][3]).log_softmax(-1)[1]
    assert parts["state"] == pytest.approx(-state.item(), rel=1e-5)
    words = losses.heads.word(seen.images[0][[3, 0]]).view(2, 4, 27).log_softmax(-1)
    expected = -(words[0, 0, 5] + words[0, 1, 6] + words[1, 0, 7]).item() / 3
    assert parts["word"] == pytest.approx(expected, rel=1e-5)
    rows_of_tokens = (seen.images[0], losses._inputs.of_layer[1].x[1:7])
    matches = [losses.heads.match(rows, (6,), torch.tensor([3, 0]), targets.words).item() for rows in rows_of_tokens]
    assert parts["match"] == pytest.approx(sum(matches) / 2, rel=1e-5)
    scores = losses.heads.query(seen.hidden[12]) @ losses.heads.key(seen.hidden[1:7]).T / 8
    assert parts["pointer"] == pytest.approx(-scores.log_softmax(-1)[3].item(), rel=1e-5)
    of_parts = losses.heads.part(losses._inputs.of_layer[0].x[[11, 13, 14]]).log_softmax(-1)
    assert parts["part_id"] == pytest.approx(-(of_parts[0, 0] + of_parts[1, 2] + of_parts[2, 1]).item() / 3, rel=1e-5)
    scores = compute_scores(model.layers[0].attention, losses._inputs.of_layer[0], batch, torch.tensor([15]))
    assert parts["name_query_attn"] == pytest.approx(-scores[0, :2].log_softmax(-1)[:, 8].mean().item(), rel=1e-5)
    scores = compute_scores(model.layers[0].attention, losses._inputs.of_layer[0], batch, torch.tensor([12]))
    assert parts["char_position_attn"] == pytest.approx(
        -scores[0, 0].log_softmax(-1)[9].item(), rel=1e-5
    )  # one token back
    assert 0 < parts["attention"] < 20
    assert losses.total({name: torch.tensor(value) for name, value in parts.items()}).item() == pytest.approx(
        sum(parts.values())
    )


@pytest.mark.long
def test_every_part_teaches(model: K25Model) -> None:
    """A few steps down its own gradient make each part smaller."""
    pad = model.config.media_placeholder_token_id
    lessons = make_lessons(pad)
    batch = make_batch([lesson.example for lesson in lessons], pad)
    targets = make_targets(lessons, batch)
    for name in LossWeights.__dataclass_fields__:
        losses = make_losses(model, LossWeights.only(name))
        weights = [*model.parameters(), *losses.heads.parameters()]
        optimizer = torch.optim.Adam(weights, lr=3e-3)
        history = []
        for _ in range(6):
            parts = losses(forward(model, batch), batch, targets)
            assert list(parts) == [name]
            history.append(parts[name].item())
            optimizer.zero_grad()
            losses.total(parts).backward()
            optimizer.step()
        losses.close()
        assert history[-1] < 0.9 * history[0], (name, history)


def test_a_batch_without_labels_costs_nothing(model: K25Model) -> None:
    lessons = [Lesson(example=Example(trunk=(3, 4)))]
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    parts = make_losses(model)(forward(model, batch), batch, make_targets(lessons, batch))
    assert {name: part.item() for name, part in parts.items()} == dict.fromkeys(parts, 0.0)


def test_bells() -> None:
    bells = make_soft_targets(torch.tensor([0.0, 50.4]), 100, 2.0)
    assert bells.sum(-1).tolist() == pytest.approx([1.0, 1.0])
    assert bells.argmax(-1).tolist() == [0, 50]
    assert (bells[1, 52] / bells[1, 50]).item() == pytest.approx(math.exp((0.4**2 - 1.6**2) / 8), rel=1e-4)


def test_a_branch_has_to_have_what_it_is_to_speak() -> None:
    lesson = Lesson(example=Example(trunk=(3,), branches=((5, 6),)), first_predicted=(3,), numbers=((),))
    with pytest.raises(ValueError, match="a branch of 2 tokens has 3 as first predicted token"):
        make_targets([lesson], make_batch([lesson.example], 9))


def test_each_axis_has_its_head_and_the_other_one_looks_away(model: K25Model) -> None:
    lessons = make_pointing_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses, targets = make_losses(model), make_targets(lessons, batch)
    seen = forward(model, batch)
    given = losses._inputs.of_layer[1]
    scores = compute_scores(model.layers[1].attention, given, batch, targets.attention_rows)
    shares = (scores / losses.supervised.sharpness).log_softmax(-1)
    expected = [  # heads 2, 0 and 1 of this test; each counts the same
        (shares[0, 2, 4] + shares[1, 2, 0]) / 2,
        (shares[0, 0, 0] + shares[1, 0, 5]) / 2,
        shares[2, 1, 9],
    ]
    assert targets.attention_heads.tolist() == [0, 1, 2]
    assert losses._attention_loss(seen, batch, targets).item() == pytest.approx(-torch.stack(expected).mean().item())


def test_behind_them_the_heads_of_both_axes_look_again(model: K25Model) -> None:
    lessons = make_pointing_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses, targets = make_losses(model), make_targets(lessons, batch)
    seen = forward(model, batch)
    scores = compute_scores(model.layers[2].attention, losses._inputs.of_layer[2], batch, targets.attention_rows)
    shares = (scores / losses.supervised.sharpness).log_softmax(-1)
    expected = [shares[0, 2, 4], shares[1, 2, 0], shares[0, 0, 0], shares[1, 0, 5]]
    assert losses._second_attn_loss(seen, batch, targets).item() == pytest.approx(-torch.stack(expected).mean().item())


def test_codes_of_words_are_compared_with_keys_of_tokens_and_with_what_seeks_them(model: K25Model) -> None:
    """By hand, with the keys that attention itself forms: W_k times the latent."""
    lessons = make_lessons(model.config.media_placeholder_token_id)
    batch = make_batch([lesson.example for lesson in lessons], model.config.media_placeholder_token_id)
    losses, targets = make_losses(model), make_targets(lessons, batch)
    seen = forward(model, batch)
    mla, given, text = model.layers[1].attention, losses._inputs.of_layer[1], model.config.text
    nope, expected = text.qk_nope_head_dim, []
    sought = torch.tensor([[5, 6, 7], [8, IGNORED, IGNORED]])  # by the tokens in the rows 12 and 14
    other = torch.tensor([[5, 6], [7, IGNORED]])  # in the image, at its tokens 3 and 0
    q_nope, _ = mla.make_queries(given.x[[12, 14]], given.plan.rotations[[12, 14]])
    for head, codes in zip((2, 0), losses.heads.codes, strict=True):
        keys = given.cache[1:7, 0, : text.kv_lora_rank] @ mla.kv_b[head, :nope].T
        shares = (codes(other) @ keys.T * mla.scale).log_softmax(-1)
        expected.append(-(shares[0, 3] + shares[1, 0]) / 2)
    for head, codes in zip((2, 0), losses.heads.codes, strict=True):
        every = torch.cat((codes(sought), codes(other)))
        shares = (q_nope[:, head] @ every.T * mla.scale).log_softmax(-1)
        expected.append(-(shares[0, 0] + shares[1, 1]) / 2)
    assert losses._code_loss(seen, batch, targets).item() == pytest.approx(torch.stack(expected).mean().item(), 1e-5)


def test_a_word_that_is_sought_and_seen_is_one_word() -> None:
    """Else what seeks it would have to tell it from itself."""
    sought, seen = torch.tensor([[5, 6, IGNORED], [8, 5, 6]]), torch.tensor([[5, 6], [7, IGNORED]])
    words, which = losses_module._find_distinct(sought, seen)
    assert len(words) == 3
    assert which[0] == which[2]
