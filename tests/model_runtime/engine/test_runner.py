"""Encoded media that are kept."""

import pytest
import torch

from model_runtime.engine.runner import FeatureCache


def make_cache(*names: bytes, most: int = 3) -> FeatureCache:
    """One row of 4 bytes for each name; room for `most` of them."""
    cache = FeatureCache(4 * most)
    for name in names:
        cache.add(name, torch.zeros(1))
    return cache


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = make_cache(b"a", b"b", b"c", b"d")
    cache.get(b"a")
    cache.trim()
    assert cache.keys == {b"a", b"c", b"d"}
    cache.add(b"e", torch.zeros(2))
    cache.trim()
    assert cache.keys == {b"a", b"e"}


def test_features_stay_until_they_were_used() -> None:
    cache = make_cache(b"a", b"b", most=1)
    assert cache.keys == {b"a", b"b"}
    assert cache.size_bytes == 8
    cache.trim()
    assert (set(cache.keys), cache.size_bytes) == ({b"b"}, 4)


def test_what_is_dropped_makes_room() -> None:
    cache = make_cache(b"a", b"b", b"c")
    cache.drop(b"b")
    cache.drop(b"b")
    assert cache.size_bytes == 8
    cache.add(b"d", torch.zeros(1))
    cache.trim()
    assert cache.keys == {b"a", b"c", b"d"}
    with pytest.raises(KeyError):
        cache.get(b"b")
