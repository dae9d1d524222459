import json
import pickle
import random
from itertools import pairwise

import pytest

from model_runtime.training.packing import PackingLoader


def make_loader(seed: int = 0, shares: dict[str, float] | None = None) -> PackingLoader:
    rng = random.Random(7)
    sources = {
        name: [tuple(rng.randrange(100) for _ in range(rng.randint(low, high))) for _ in range(count)]
        for name, low, high, count in (("web", 1, 9, 23), ("screens", 20, 40, 11), ("code", 5, 60, 5))
    }
    return PackingLoader(
        sources=sources,
        shares=shares or {"web": 0.5, "screens": 0.3, "code": 0.2},
        row_tokens=64,
        batch_rows=2,
        seed=seed,
    )


@pytest.mark.parametrize("stop", [0, *random.Random(3).sample(range(1, 60), 4)])
def test_after_a_stop_the_next_hundred_batches_are_the_same(stop: int) -> None:
    whole, first, second = make_loader(), make_loader(), make_loader()
    expected = [next(whole) for _ in range(stop + 100)][stop:]
    for _ in range(stop):
        next(first)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    found = [next(second) for _ in range(100)]
    assert pickle.dumps(found) == pickle.dumps(expected)
    assert whole.state_dict() == second.state_dict()


def test_state_is_not_changed_by_later_batches() -> None:
    loader = make_loader()
    next(loader)
    state = loader.state_dict()
    before = json.dumps(state)
    next(loader)
    assert json.dumps(state) == before


def test_sources_are_mixed_by_tokens_and_not_by_sequences() -> None:
    loader = make_loader()
    for _ in range(300):
        next(loader)
    tokens = loader.state_dict()["tokens"]
    shares = {name: count / sum(tokens.values()) for name, count in tokens.items()}
    assert shares == pytest.approx({"web": 0.5, "screens": 0.3, "code": 0.2}, abs=60 / sum(tokens.values()))
    assert loader.state_dict()["drawn"]["web"] > 5 * loader.state_dict()["drawn"]["screens"]


def test_every_epoch_has_all_sequences_in_an_order_of_its_own() -> None:
    loader = PackingLoader(
        sources={"a": [(n,) for n in range(10)]}, shares={"a": 1}, row_tokens=10, batch_rows=1, seed=1
    )
    epochs = [next(loader)[0].ids for _ in range(3)]
    assert [sorted(ids) for ids in epochs] == [list(range(10))] * 3
    assert len(set(epochs)) == 3
    assert next(make_loader(seed=0)) != next(make_loader(seed=1))


def test_rows_hold_whole_sequences_one_after_the_other() -> None:
    loader = make_loader()
    known = {tuple(sequence) for source in loader.sources.values() for sequence in source}
    rows = [row for _ in range(30) for row in next(loader)]
    for row, following in pairwise(rows):
        ids, starts = list(row.ids), [sum(row.lengths[:number]) for number in range(len(row.lengths))]
        assert len(ids) == sum(row.lengths) <= 64
        assert len(ids) + following.lengths[0] > 64
        assert all(tuple(ids[start : start + n]) in known for start, n in zip(starts, row.lengths, strict=True))


def test_wrong_sources_are_refused() -> None:
    with pytest.raises(ValueError, match="but shares of"):
        make_loader(shares={"web": 1.0})
    with pytest.raises(ValueError, match="share 0"):
        make_loader(shares={"web": 0.0, "screens": 1.0, "code": 1.0})
    long = PackingLoader(sources={"a": [(1,) * 5]}, shares={"a": 1.0}, row_tokens=4, batch_rows=1, seed=0)
    with pytest.raises(ValueError, match="has 5 tokens, a row 4"):
        next(long)
    with pytest.raises(ValueError, match="of the sources"):
        long.load_state_dict(make_loader().state_dict())
