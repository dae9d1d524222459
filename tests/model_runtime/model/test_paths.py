"""One sequence in one step, in chunks, token by token, beside others, on a cached prefix: the logits stay the same."""

from pathlib import Path

import pytest
import torch

from model_runtime.config import TextConfig
from model_runtime.model import K25Model, load_model
from model_runtime.model.batch import is_absorbed_cheaper
from tests.model_runtime.model.drive import Drive, make_ids, run_whole

IDS = make_ids(45)


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """To 1e-5 of the largest logit everywhere, to 1e-6 on average: what fp32 sums in another order may differ by.

    How far single values lie apart depends on the processor's matmuls: 1.02e-5 was seen where logits reach 4.
    """
    assert found.shape == expected.shape
    far = (found - expected).abs()
    assert far.max() <= 1e-5 * expected.abs().max()
    assert far.mean() <= 1e-6 * expected.abs().max()


@pytest.fixture(scope="module", params=["dense", "int4"])
def model(request: pytest.FixtureRequest, tiny: K25Model, int4_dir: Path) -> K25Model:
    return tiny if request.param == "dense" else load_model(int4_dir, dtype=torch.float32)


@pytest.mark.parametrize("size", [1, 7, 8, 20, 44])
def test_in_chunks(model: K25Model, size: int) -> None:
    drive = Drive(model)
    parts = [drive.step({"one": IDS[start : start + size]})["one"] for start in range(0, len(IDS), size)]
    assert_same(torch.cat(parts), run_whole(model, IDS))


def test_one_token_that_prefills_is_one_that_decodes(tiny: K25Model) -> None:
    drive = Drive(tiny)
    drive.step({"one": IDS[:-1]})
    [last] = drive.step_rows({"one": drive.embed(IDS[-1:])}, can_decode=False).values()
    assert_same(last, run_whole(tiny, IDS)[-1:])


def test_beside_others(model: K25Model) -> None:
    """Decoding and prefilling sequences of all lengths in one step give what each gives alone."""
    lengths = {"a": 1, "b": 2, "c": 8, "d": 9, "e": 17, "f": 40, "g": 41, "h": 42}
    tokens = {name: make_ids(length + 25, seed) for seed, (name, length) in enumerate(lengths.items())}
    drive = Drive(model, num_blocks=100)
    drive.step({name: tokens[name][:length] for name, length in lengths.items()})
    chunks = dict.fromkeys(lengths, 1) | {"c": 3, "e": 25, "f": 2}
    second = {name: tokens[name][lengths[name] : lengths[name] + count] for name, count in chunks.items()}
    found = drive.step(second | {"new": IDS})
    assert_same(found.pop("new"), run_whole(model, IDS))
    for name, logits in found.items():
        end = lengths[name] + chunks[name]
        assert_same(logits, run_whole(model, tokens[name][:end])[lengths[name] :])


@pytest.mark.parametrize("rest", [1, 2, 30])
def test_on_a_cached_prefix(model: K25Model, rest: int) -> None:
    drive = Drive(model)
    drive.step({"first": IDS[:40]})
    drive.share("second", "first", 32)
    other = IDS[:32] + make_ids(rest, seed=9)
    before = drive.cache[:, drive.blocks["first"]].clone()
    assert_same(drive.step({"second": other[32:]})["second"], run_whole(model, other)[32:])
    assert torch.equal(drive.cache[:, drive.blocks["first"]], before)


RELEASE = TextConfig()


@pytest.mark.parametrize(
    ("num_queries", "num_keys", "is_absorbed"),
    [(1, 1, False), (1, 2, True), (512, 512, False), (32, 4096, True), (150, 4096, True), (200, 4096, False)],
)
def test_the_cheaper_form(num_queries: int, num_keys: int, is_absorbed: bool) -> None:
    """At the release's sizes the forms meet near 170 queries: a key costs 512 * 256 once, or 768 more a query."""
    assert is_absorbed_cheaper(RELEASE, num_queries, num_keys) is is_absorbed


def test_both_forms_of_a_chunk_are_equal(tiny: K25Model, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for choice in (True, False):
        monkeypatch.setattr("model_runtime.model.batch.is_absorbed_cheaper", lambda *_, choice=choice: choice)
        drive = Drive(tiny)
        drive.step({"one": IDS[:11], "two": IDS[:30]})
        found.append(drive.step({"one": IDS[11:], "two": IDS[30:33]}))
    for name in ("one", "two"):
        assert_same(found[0][name], found[1][name])
        assert not torch.equal(found[0][name], found[1][name])
