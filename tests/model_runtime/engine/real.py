"""Real tiny models behind the engine, for tests that compare how they are run."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from model_runtime.engine.contract import EngineOutput, EngineRequest
from model_runtime.engine.sampling import SamplingParams
from model_runtime.engine.thread import EngineThread
from model_runtime.launch.options import NativeOptions
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.native import make_engine
from model_runtime.processor.media_rules import hash_frames
from model_runtime.tokenizer import Tokenizer

SIZES = {"dtype": "float32", "num_blocks": 64, "block_size": 8, "max_num_batched_tokens": 512, "device": "cpu"}


def start(model_dir: Path, **options: object) -> EngineThread:
    return make_engine(NativeOptions(model_dir=model_dir, **{**SIZES, **options}))  # type: ignore[arg-type]


def make_item(seed: int, t: int = 1, height: int = 56, width: int = 84) -> MediaItem:
    frames = np.random.default_rng(seed).integers(0, 255, (t, height, width, 3), np.uint8)
    return MediaItem(frames=frames, content_hash=hash_frames(frames))


def make_prompt(tokenizer: Tokenizer, *parts: str | MediaItem) -> Prompt:
    ids: list[int] = []
    media = []
    for part in parts:
        if isinstance(part, str):
            ids += tokenizer.encode(part)
        else:
            media.append(MediaSpan(offset=len(ids), item=part))
            ids += [tokenizer.special.media_pad] * part.num_tokens
    return Prompt(token_ids=tuple(ids), media=tuple(media))


def greedy(name: str, prompt: Prompt, max_tokens: int = 6, **params: object) -> EngineRequest:
    wanted = {"temperature": 0.0, "max_tokens": max_tokens, "logprobs": 0, "ignore_eos": True, **params}
    return EngineRequest(request_id=name, prompt=prompt, params=SamplingParams(**wanted))  # type: ignore[arg-type]


async def collect(engine: EngineThread, request: EngineRequest) -> list[EngineOutput]:
    return [output async for output in engine.generate(request)]


async def run(engine: EngineThread, requests: Sequence[EngineRequest]) -> list[list[tuple[int, float]]]:
    """All at once; each one's tokens with their log-probabilities."""
    results = await asyncio.gather(*(collect(engine, request) for request in requests))
    return [[(p.token_id, p.logprob) for output in outputs for p in output.logprobs] for outputs in results]


def assert_same(found: list[list[tuple[int, float]]], expected: list[list[tuple[int, float]]], within: float) -> None:
    assert [[token for token, _ in row] for row in found] == [[token for token, _ in row] for row in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert [p for _, p in mine] == pytest.approx([p for _, p in theirs], abs=within)
