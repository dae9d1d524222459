"""Sizes and pixels, beside the peer's arithmetic and PIL."""

import ast
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from model_runtime.processor.media_rules import fit_size, hash_frames, make_item
from model_runtime.processor.processor import Processor

# screenshot, resized, padded, tokens as an image, tokens of a chunk as video
SIZES = [
    ((1280, 720), (1280, 720), (1288, 728), 1196, 1075),
    ((1920, 1080), (1920, 1080), (1932, 1092), 2691, 1032),
    ((2560, 1440), (2404, 1352), (2408, 1372), 4214, 1075),
    ((3840, 2160), (2392, 1345), (2408, 1372), 4214, 1032),
    ((800, 600), (800, 600), (812, 616), 638, 638),
    ((3000, 3000), (1794, 1794), (1820, 1820), 4225, 1089),
    ((1, 1), (1, 1), (28, 28), 1, 1),
    ((28, 56), (28, 56), (28, 56), 2, 2),
    ((29, 28), (29, 28), (56, 28), 2, 2),
    ((1792, 1792), (1792, 1792), (1792, 1792), 4096, 1024),
    ((7168, 14), (7168, 14), (7168, 28), 256, 256),
    ((7169, 14), (7168, 13), (7168, 28), 256, 256),
    ((14_336, 1), (7168, 1), (7168, 28), 256, 256),
    ((3, 70_000), (1, 7168), (28, 7168), 256, 256),
]


@pytest.mark.parametrize(("size", "resized", "padded", "tokens", "chunk_tokens"), SIZES)
def test_sizes(
    size: tuple[int, int], resized: tuple[int, int], padded: tuple[int, int], tokens: int, chunk_tokens: int
) -> None:
    processor = Processor()
    fit = processor.fit(*size)
    assert (fit.resized, fit.padded) == (resized, padded)
    assert processor.count_tokens(*size) == tokens
    assert processor.count_tokens(*size, is_frame=True) == chunk_tokens


def peer_resize() -> Any:
    """transformers' own function, out of a file that cannot be imported without torchvision."""
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent / "models" / "kimi_k25" / "image_processing_kimi_k25.py"
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "navit_resize"]
    names: dict[str, Any] = {"math": math}
    exec(compile(tree, str(path), "exec"), names)
    return names["navit_resize"]


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(width=st.integers(1, 20_000), height=st.integers(1, 20_000), limit=st.sampled_from([4096, 16_384, 100]))
def test_sizes_are_the_peers(width: int, height: int, limit: int) -> None:
    resized, padded = peer_resize()(height, width, 14, 2, limit, 512)
    fit = fit_size(width, height, limit, 512)
    assert (fit.resized[::-1], fit.padded[::-1]) == (resized, padded)
    assert max(fit.padded) <= 512 * 14
    assert fit.padded[0] % 28 == fit.padded[1] % 28 == 0


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", [(300, 200), (28, 28), (1, 1), (2600, 1700)])
def test_pixels_are_pils_and_padding_is_black(size: tuple[int, int]) -> None:
    image, fit = noise(*size), Processor().fit(*size)
    item = make_item([image], fit)
    expected = np.zeros((1, fit.padded[1], fit.padded[0], 3), np.uint8)
    sized = image.resize(fit.resized, Image.Resampling.BICUBIC)
    expected[0, : fit.resized[1], : fit.resized[0]] = np.asarray(sized)
    assert np.array_equal(item.frames, expected)
    assert item.grid == (1, fit.padded[1] // 14, fit.padded[0] // 14)
    assert item.num_tokens == fit.num_tokens


def test_a_chunk_has_the_first_frames_size() -> None:
    frames = [np.asarray(noise(60, 40)), np.asarray(noise(120, 80)), np.asarray(noise(30, 90))]
    item = Processor().frames(frames)
    assert item.frames.shape == (3, 56, 84, 3)
    assert np.array_equal(item.frames[0, :40, :60], frames[0])
    expected = Image.fromarray(frames[2]).resize((60, 40), Image.Resampling.BICUBIC)
    assert np.array_equal(item.frames[2, :40, :60], np.asarray(expected))


def test_equal_hashes_are_equal_pixels() -> None:
    frames = np.zeros((1, 28, 56, 3), np.uint8)
    other = frames.copy()
    other[0, 27, 55, 2] = 1
    hashes = [hash_frames(each) for each in (frames, frames.copy(), frames.reshape(1, 56, 28, 3), other)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
