"""What is computed when, checked against a cache that remembers what was written where."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.engine.contract import EngineOptions, EngineRequest
from model_runtime.engine.runner import make_step_input
from model_runtime.engine.sampling import SamplingParams
from model_runtime.engine.scheduler import Chunk, Scheduler, Sequence
from model_runtime.media import MediaItem, MediaSpan, Prompt

PAD = 7


def make_item(name: int, tokens: int) -> MediaItem:
    return MediaItem(frames=np.zeros((1, 28, 28 * tokens, 3), np.uint8), content_hash=str(name).encode())


def make_sequence(
    arrival: int, token_ids: list[int], media: tuple[MediaSpan, ...] = (), output: int = 3, priority: int = 0
) -> Sequence:
    request = EngineRequest(
        request_id=str(arrival),
        prompt=Prompt(token_ids=tuple(token_ids), media=media),
        params=SamplingParams(),
        priority=priority,
    )
    return Sequence(request=request, arrival=arrival, arrived_at=0.0, max_tokens=output)


class Simulation:
    """An engine whose model writes down what it saw: a row of the cache names everything up to its token."""

    def __init__(self, **options: int) -> None:
        self.options = EngineOptions(**{"block_size": 4, "num_blocks": 16, "max_num_batched_tokens": 16, **options})
        self.scheduler = Scheduler(self.options)
        self.rows: dict[int, tuple[object, ...]] = {}
        self.encoded: set[bytes] = set()
        self.steps: list[list[tuple[str, int, int]]] = []
        self.computed_tokens = 0

    def add(self, *sequences: Sequence) -> None:
        for sequence in sequences:
            self.scheduler.add(sequence)

    def step(self) -> list[Chunk]:
        chunks = self.scheduler.schedule(self.encoded)
        step = make_step_input(chunks, self.options.block_size, self.encoded)
        assert len(step.token_ids) <= self.options.max_num_batched_tokens
        assert len(self.scheduler.running) <= self.options.max_num_seqs
        self.encoded |= {item.content_hash for item in step.encode}
        for slot, token, position, chunk in zip(
            step.slot_mapping, step.token_ids, step.positions, self._owners(chunks), strict=True
        ):
            assert chunk.sequence.token_ids[position] == token
            self.rows[slot] = self.name_of(chunk.sequence, position)
        for chunk in chunks:
            self._check_context(chunk)
        self.scheduler.computed(chunks)
        self.steps.append([(c.sequence.request.request_id, c.start, c.end) for c in chunks])
        self.computed_tokens += len(step.token_ids)
        for chunk in chunks:
            if chunk.is_last:
                chunk.sequence.token_ids.append(100 + len(chunk.sequence.token_ids))
                if chunk.sequence.num_output >= chunk.sequence.max_tokens:
                    self.scheduler.remove(chunk.sequence)
        return chunks

    def run(self, limit: int = 2000) -> None:
        for _ in range(limit):
            if not (self.scheduler.waiting or self.scheduler.running):
                assert self.scheduler.pool.num_free == self.options.num_blocks
                return
            assert self.step(), "nothing scheduled although something waits"
        raise AssertionError("it never ends")

    @staticmethod
    def name_of(sequence: Sequence, position: int) -> tuple[object, ...]:
        """Everything the row of a token depends on: tokens and images up to it."""
        seen = [s for s in sequence.request.prompt.media if s.offset <= position]
        pictures = tuple((s.offset, min(position + 1, s.end), s.item.content_hash) for s in seen)
        return (*sequence.token_ids[: position + 1], pictures)

    @staticmethod
    def _owners(chunks: list[Chunk]) -> Iterator[Chunk]:
        return (chunk for chunk in chunks for _ in range(chunk.num_tokens))

    def _check_context(self, chunk: Chunk) -> None:
        size = self.options.block_size
        for k in range(chunk.end):
            slot = chunk.sequence.block_table[k // size] * size + k % size
            assert self.rows[slot] == self.name_of(chunk.sequence, k)


def test_a_long_prompt_is_computed_in_pieces_beside_decoding_ones() -> None:
    engine = Simulation(max_num_batched_tokens=8)
    engine.add(make_sequence(0, [1, 2], output=4))
    engine.step()
    engine.add(make_sequence(1, list(range(20, 40)), output=1))
    engine.run()
    assert engine.steps == [
        [("0", 0, 2)],
        [("0", 2, 3), ("1", 0, 7)],
        [("0", 3, 4), ("1", 7, 14)],
        [("0", 4, 5), ("1", 14, 20)],
    ]


def test_equal_beginnings_are_computed_once() -> None:
    engine = Simulation()
    engine.add(make_sequence(0, [1, 2, 3, 4, 5, 6, 7, 8, 9], output=1))
    engine.run()
    engine.add(make_sequence(1, [1, 2, 3, 4, 5, 6, 7, 8, 10], output=1))
    engine.run()
    assert engine.steps == [[("0", 0, 9)], [("1", 8, 9)]]


def test_the_last_token_of_a_known_prompt_is_computed_all_the_same() -> None:
    engine = Simulation()
    for arrival in range(2):
        engine.add(make_sequence(arrival, [1, 2, 3, 4, 5, 6, 7, 8], output=1))
        engine.run()
    assert engine.steps[-1] == [("1", 4, 8)]


def test_requests_that_come_together_wait_for_the_beginning_they_share() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64)
    engine.add(*(make_sequence(i, [*range(1, 13), 50 + i], output=2) for i in range(4)))
    engine.run()
    assert engine.steps[0] == [("0", 0, 13)]
    assert engine.steps[1] == [("0", 13, 14), ("1", 12, 13), ("2", 12, 13), ("3", 12, 13)]


def test_a_picture_with_equal_placeholders_is_another_prefix() -> None:
    engine = Simulation()
    for arrival, name in enumerate((1, 2, 1)):
        span = MediaSpan(offset=1, item=make_item(name, 6))
        engine.add(make_sequence(arrival, [1, *[PAD] * 6, 3, 4], (span,), output=1))
        engine.run()
    assert engine.steps == [[("0", 0, 9)], [("1", 0, 9)], [("2", 8, 9)]]


def test_pictures_beyond_what_one_step_encodes_come_a_step_later() -> None:
    engine = Simulation(media_patches_per_step=30, num_blocks=64, max_num_batched_tokens=64)
    media = tuple(MediaSpan(offset=1 + 6 * i, item=make_item(i, 5)) for i in range(3))  # 20 patches each
    engine.add(make_sequence(0, [1, *([PAD] * 5 + [2]) * 3, 3], media, output=1))
    engine.run()
    assert engine.steps == [[("0", 0, 7)], [("0", 7, 13)], [("0", 13, 20)]]


def test_a_picture_larger_than_the_limit_of_a_step_is_encoded_alone() -> None:
    engine = Simulation(media_patches_per_step=1)
    engine.add(make_sequence(0, [1, *[PAD] * 8, 3], (MediaSpan(offset=1, item=make_item(0, 8)),), output=1))
    engine.run()
    assert engine.steps == [[("0", 0, 10)]]


def test_the_youngest_gives_way_and_loses_nothing() -> None:
    engine = Simulation(num_blocks=6, block_size=4)
    old, young = make_sequence(0, [1, 2, 3, 4, 5], output=14), make_sequence(1, [6, 7, 8, 9, 10], output=14)
    engine.add(old, young)
    engine.run()
    assert engine.scheduler.num_preemptions > 0
    assert [len(s.token_ids) for s in (old, young)] == [19, 19]
    assert young.token_ids[5:] == [100 + i for i in range(5, 19)]


def test_priority_goes_before_arrival() -> None:
    engine = Simulation(max_num_seqs=1)
    engine.add(make_sequence(0, [1], output=1), make_sequence(1, [2], output=1, priority=-1))
    engine.run()
    assert [step[0][0] for step in engine.steps] == ["1", "0"]


def test_nobody_is_overtaken_for_ever() -> None:
    engine = Simulation(num_blocks=8, max_num_seqs=2)
    engine.add(make_sequence(0, list(range(30)), output=1))
    for arrival in range(1, 30):
        engine.add(make_sequence(arrival, [arrival], output=1))
        engine.step()
    assert "0" in {name for step in engine.steps[:3] for name, _, _ in step}
    engine.run()


@pytest.mark.parametrize("has_prefix_cache", [True, False])
def test_a_removed_sequence_leaves_nothing(has_prefix_cache: bool) -> None:
    engine = Simulation(has_prefix_cache=has_prefix_cache)
    running, waiting = make_sequence(0, [1, 2, 3, 4, 5]), make_sequence(1, [1, 2, 3, 4, 6])
    engine.add(running)
    engine.step()
    engine.add(waiting)
    for sequence in (running, waiting):
        engine.scheduler.remove(sequence)
    assert (engine.scheduler.running, engine.scheduler.waiting, engine.scheduler.pool.num_free) == ([], [], 16)


@given(seed=st.integers(0, 10_000))
def test_whatever_arrives_everything_ends_and_every_row_is_right(seed: int) -> None:
    draw = random.Random(seed)
    engine = Simulation(
        num_blocks=draw.randint(8, 20),
        block_size=draw.choice([1, 3, 4]),
        max_num_seqs=draw.randint(1, 5),
        max_num_batched_tokens=draw.randint(5, 20),
        media_patches_per_step=draw.choice([4, 16, 1000]),
    )
    longest = engine.options.num_blocks * engine.options.block_size
    sequences = []
    for arrival in range(draw.randint(1, 12)):
        output = draw.randint(1, max(1, min(6, longest - 2)))
        tokens, media = make_random_prompt(draw, draw.randint(1, longest - output))
        sequences.append(make_sequence(arrival, tokens, media, output, priority=draw.choice([0, 0, 0, 1])))
        engine.add(sequences[-1])
        for _ in range(draw.randint(0, 3)):
            engine.step() if engine.scheduler.waiting or engine.scheduler.running else None
    engine.run()
    assert all(sequence.num_output == sequence.max_tokens for sequence in sequences)


def make_random_prompt(draw: random.Random, length: int) -> tuple[list[int], tuple[MediaSpan, ...]]:
    """Few different tokens and images, so that beginnings are often shared."""
    tokens: list[int] = []
    media: list[MediaSpan] = []
    while len(tokens) < length:
        room = length - len(tokens)
        if room > 3 and draw.random() < 0.3:
            item = make_item(draw.randint(0, 1), draw.randint(2, min(room, 6)))
            item = MediaItem(frames=item.frames, content_hash=item.content_hash + bytes([item.num_tokens]))
            media.append(MediaSpan(offset=len(tokens), item=item))
            tokens += [PAD] * item.num_tokens
        else:
            tokens.append(draw.randint(1, 2))
    return tokens, tuple(media)
