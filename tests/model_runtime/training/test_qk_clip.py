from pathlib import Path

import pytest
import torch

from model_runtime.model import K25Model, load_model
from model_runtime.training.attention import AttentionInputs, compute_log_shares, compute_scores
from model_runtime.training.batch import Example, TrainingBatch, forward, make_batch
from model_runtime.training.updates import clip_heads, find_score_maxima
from tests.model_runtime.model.drive import difference, make_ids

EXAMPLES = [
    Example(trunk=tuple(make_ids(20)), branches=(tuple(make_ids(5, 1)), tuple(make_ids(3, 2)))),
    Example(trunk=tuple(make_ids(9, 3))),
]


@pytest.fixture
def model(tiny_dir: Path) -> K25Model:
    return load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()


def run_watched(model: K25Model) -> tuple[TrainingBatch, AttentionInputs]:
    batch, inputs = make_batch(EXAMPLES, model.config.media_placeholder_token_id), AttentionInputs(model)
    forward(model, batch)
    return batch, inputs


def test_scores_are_those_of_the_plain_form(model: K25Model) -> None:
    """By hand from the published formula: q = [q_nope, q_rope], k = [W_k c, r], of a trunk's last token."""
    batch, inputs = run_watched(model)
    mla, given = model.layers[1].attention, inputs.of_layer[1]
    found = compute_scores(mla, given, batch, torch.tensor([19]))[0]  # (heads, 20)
    text = model.config.text
    latents = given.cache[:20, 0]
    keys = torch.einsum("hnr,tr->thn", mla.kv_b[:, : text.qk_nope_head_dim], latents[:, : text.kv_lora_rank])
    keys = torch.cat((keys, latents[:, None, text.kv_lora_rank :].expand(-1, mla.num_heads, -1)), -1)
    q_latent = given.x[19:20] @ mla.qkv_a[: text.q_lora_rank].T
    q_nope, q_rope = mla._make_queries(q_latent, given.plan.rotations[19:20])
    expected = torch.einsum("hd,thd->ht", torch.cat((q_nope, q_rope), -1)[0], keys) * mla.scale
    assert difference(found, expected) <= 1e-5


def test_a_branch_sees_its_trunk_and_itself_up_to_the_token(model: K25Model) -> None:
    batch, inputs = run_watched(model)
    second = batch.branches[0][1]
    rows = torch.tensor([second.start + 1, 3])
    scores = compute_scores(model.layers[0].attention, inputs.of_layer[0], batch, rows)
    assert scores.isfinite().sum(-1).tolist() == [[22] * 4, [4] * 4]
    shares = [
        compute_log_shares(
            compute_scores(model.layers[0].attention, inputs.of_layer[0], batch, rows), torch.tensor([key, 0]), head=2
        )[0]
        for key in range(22)
    ]
    assert torch.stack(shares).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_rows_of_several_sequences_have_the_scores_that_each_has_alone(model: K25Model) -> None:
    """In any order, more of some sequences than of others, one of them twice."""
    batch, inputs = run_watched(model)
    rows = torch.tensor(
        [batch.branches[0][1].start, 3, 19, batch.branches[0][0].start + 4, 4, 3, len(batch.token_ids) - 1]
    )
    mla, given = model.layers[1].attention, inputs.of_layer[1]
    together = compute_scores(mla, given, batch, rows)
    for row, scores in zip(rows, together, strict=True):
        alone = compute_scores(mla, given, batch, row[None])[0]
        assert difference(scores[:, : alone.shape[1]], alone) <= 1e-5
        assert scores[:, alone.shape[1] :].isinf().all()


def test_heads_come_down_to_the_threshold_and_the_others_stay(model: K25Model) -> None:
    batch, inputs = run_watched(model)
    before = find_score_maxima(model, inputs, batch)[0]  # of the first layer, whose input nothing changes
    threshold = float(before.sort().values[1:3].mean())  # two heads above, two below
    kept = model.layers[0].attention.kv_b.clone()
    assert clip_heads(model.layers[0].attention, before, threshold) == 2
    forward(model, batch)
    after = find_score_maxima(model, inputs, batch)[0]
    assert torch.allclose(after, before.clamp(max=threshold), atol=1e-5)
    nope = model.config.text.qk_nope_head_dim
    assert torch.equal(kept[:, nope:], model.layers[0].attention.kv_b[:, nope:])  # values are not concerned
    assert clip_heads(model.layers[0].attention, after, threshold + 1e-3) == 0
    assert clip_heads(model.layers[0].attention, torch.full((4,), -500.0), threshold) == 0  # large, and negative


def test_factors_by_part_of_a_head(model: K25Model) -> None:
    """Kimi K2 report, section 2.1: root of the factor for q_nope and k_nope, the factor for q_rope, 1 for the rest."""
    batch, inputs = run_watched(model)
    mla, text, given = model.layers[0].attention, model.config.text, inputs.of_layer[0]
    rows = torch.arange(len(batch.token_ids))
    before = {name: weight.detach().clone() for name, weight in mla.named_parameters()}
    scores = compute_scores(mla, given, batch, rows)
    maxima = scores.amax(dim=(0, 2))
    assert (maxima > 0).all()
    wanted = torch.tensor([0.770, 0.1198, 0.5304, 1.2])  # for maxima 38.96, 250.4, 56.57, 25
    # one threshold for all: each head is scaled so that its factor is the wanted one
    mla.q_b.data.view(4, text.qk_head_dim, -1).mul_((30 / wanted / maxima)[:, None, None])
    scaled = compute_scores(mla, given, batch, rows)
    started = mla.q_b.detach().clone().view(4, text.qk_head_dim, -1)
    assert clip_heads(mla, scaled.amax(dim=(0, 2)), 30.0) == 3
    factors = wanted.clamp(max=1)[:, None, None]
    clipped = compute_scores(mla, given, batch, rows)
    torch.testing.assert_close(clipped, scaled * factors.view(1, 4, 1), rtol=1e-4, atol=1e-4)
    assert clipped.amax(dim=(0, 2)).tolist() == pytest.approx([30.0, 30.0, 30.0, 25.0], rel=1e-5)
    nope = text.qk_nope_head_dim
    ratios = mla.q_b.view(4, text.qk_head_dim, -1) / started
    torch.testing.assert_close(ratios[:, :nope], factors.sqrt().expand_as(ratios[:, :nope]))
    torch.testing.assert_close(ratios[:, nope:], factors.expand_as(ratios[:, nope:]))
    ratios = mla.kv_b / before["kv_b"]
    torch.testing.assert_close(ratios[:, :nope], factors.sqrt().expand_as(ratios[:, :nope]))
    changed = {name for name, weight in mla.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {"q_b", "kv_b"}


def test_closed_inputs_keep_nothing(model: K25Model) -> None:
    batch, inputs = run_watched(model)
    inputs.close()
    inputs.close()
    forward(model, batch)
    assert inputs.of_layer == {}
