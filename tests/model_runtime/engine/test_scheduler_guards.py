"""Guards of the scheduler, each where leaving it out would show: who goes first, who waits, what a step may hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.engine.contract import EngineRequest
from model_runtime.engine.runner import wants_prompt_rows
from model_runtime.engine.sampling import SamplingParams
from model_runtime.engine.scheduler import MAX_SCORED_TOKENS, Chunk, Sequence
from model_runtime.media import MediaSpan, Prompt
from tests.model_runtime.engine.test_scheduler import PAD, Simulation, make_item, make_sequence


def names_of(sequences: list[Sequence]) -> list[str]:
    return [sequence.request.request_id for sequence in sequences]


def text(name: int, num_tokens: int) -> list[int]:
    """Tokens that no other prompt begins with."""
    return [10 + name, *range(100, 99 + num_tokens)]


def picture(name: int, tokens: int, first: int = 1) -> MediaSpan:
    return MediaSpan(offset=first, item=make_item(name, tokens))


def with_picture(arrival: int, name: int, tokens: int = 5, **options: int) -> Sequence:
    return make_sequence(arrival, [10 + arrival, *[PAD] * tokens, 3], (picture(name, tokens),), **options)


@pytest.mark.parametrize("priorities", [(0, 0, 0, 0), (5, 5, 6, 6)], ids=["arrival", "priority"])
def test_a_preempted_one_goes_before_those_that_came_later(priorities: tuple[int, ...]) -> None:
    engine = Simulation(num_blocks=16, max_num_seqs=2)
    engine.add(*(make_sequence(i, text(i, 5), priority=p) for i, p in enumerate(priorities)))
    engine.step()
    engine.scheduler.preempt(engine.scheduler.running[1])
    assert names_of(engine.scheduler.waiting) == ["1", "2", "3"]
    engine.step()
    assert names_of(engine.scheduler.running) == ["0", "1"]


def test_those_that_are_preempted_together_keep_their_order() -> None:
    engine = Simulation(num_blocks=16, max_num_seqs=3)
    engine.add(*(make_sequence(i, text(i, 5)) for i in range(5)))
    engine.step()
    for sequence in list(engine.scheduler.running):
        engine.scheduler.preempt(sequence)
    assert names_of(engine.scheduler.waiting) == ["0", "1", "2", "3", "4"]


def test_a_short_one_does_not_overtake_a_long_one_that_finds_no_room() -> None:
    engine = Simulation(num_blocks=8)
    engine.add(make_sequence(0, text(0, 14), output=4))  # 4 blocks, and a fifth
    engine.step()
    engine.add(make_sequence(1, text(1, 20), output=1), make_sequence(2, text(2, 2), output=1))
    engine.step()
    assert names_of(engine.scheduler.running) == ["0"]
    engine.run()
    order = [name for step in engine.steps for name, start, _ in step if start == 0]
    assert order == ["0", "1", "2"]


@pytest.mark.parametrize(("num_blocks", "is_admitted"), [(4, False), (5, True)])
def test_there_is_room_for_the_next_token_of_it_and_of_each_that_runs(num_blocks: int, is_admitted: bool) -> None:
    engine = Simulation(num_blocks=num_blocks)
    engine.add(make_sequence(0, text(0, 4)))
    engine.step()
    engine.add(make_sequence(1, text(1, 7)))
    engine.scheduler.schedule()  # its second block is taken: 2 or 3 are left
    assert (names_of(engine.scheduler.running) == ["0", "1"]) is is_admitted


def test_a_prompt_that_ends_with_its_block_needs_another_one() -> None:
    engine = Simulation(num_blocks=4)
    engine.add(make_sequence(0, text(0, 2)))
    engine.step()
    engine.add(make_sequence(1, text(1, 8)))
    engine.step()
    assert names_of(engine.scheduler.running) == ["0"]


def test_room_that_holds_its_own_beginning_is_not_counted_twice() -> None:
    engine = Simulation(num_blocks=5)
    engine.add(make_sequence(0, text(0, 9), output=1))
    engine.run()  # two blocks of it stay known
    engine.add(make_sequence(1, text(1, 5)))
    engine.step()
    engine.add(make_sequence(2, text(0, 10)))
    engine.step()  # a third block, one in reserve, and only one of the free ones is not its beginning
    assert names_of(engine.scheduler.running) == ["1"]


def test_nobody_new_comes_while_one_that_runs_finds_no_room() -> None:
    engine = Simulation(num_blocks=9, block_size=1, max_num_batched_tokens=5, max_num_seqs=3)
    engine.add(make_sequence(0, text(0, 1), output=8), make_sequence(1, text(1, 5), output=1))
    steps = 0
    while engine.scheduler.waiting or engine.scheduler.running:
        if steps == 1:
            engine.add(make_sequence(2, text(2, 1), output=1))
        before = set(names_of(engine.scheduler.running))
        preemptions = engine.scheduler.num_preemptions
        served = {chunk.sequence.request.request_id for chunk in engine.step()}
        if served - before:
            assert before <= served
            assert engine.scheduler.num_preemptions == preemptions
        steps += 1


def test_nobody_new_comes_while_one_that_runs_waits_for_its_picture() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64, media_patches_per_step=20)
    media = tuple(picture(i, 5, 1 + 6 * i) for i in range(2))
    engine.add(make_sequence(0, [1, *([PAD] * 5 + [2]) * 2, 3], media, output=1), with_picture(1, 2, output=1))
    engine.step()
    engine.add(make_sequence(2, text(2, 3), output=1))
    engine.step()
    engine.step()
    assert engine.steps == [[("1", 0, 1), ("0", 0, 7)], [("0", 7, 14)], [("1", 1, 7), ("2", 0, 3)]]


def test_the_rest_of_a_prompt_goes_before_that_of_a_lesser_one() -> None:
    engine = Simulation(num_blocks=64, media_patches_per_step=20)
    media = tuple(picture(i, 5, 1 + 6 * i) for i in range(3))
    lesser = make_sequence(0, [1, *([PAD] * 5 + [2]) * 3, 3], media, output=1)
    engine.add(lesser, make_sequence(1, text(1, 30), output=1, priority=1))
    engine.step()
    assert engine.steps[0] == [("0", 0, 7), ("1", 0, 9)]
    engine.add(make_sequence(2, text(2, 40), output=1, priority=-1))
    for _ in range(3):
        engine.step()
    assert engine.steps[1][0] == ("0", 7, 13)
    engine.run()


def test_prompts_in_progress_are_served_by_rank_not_by_when_they_came_in() -> None:
    engine = Simulation(num_blocks=64, media_patches_per_step=20)
    media = tuple(picture(i, 5, 1 + 6 * i) for i in range(3))
    engine.add(make_sequence(0, [1, *([PAD] * 5 + [2]) * 3, 3], media, output=1, priority=1))
    engine.scheduler.schedule()  # it runs, and nothing of it is computed yet
    engine.add(make_sequence(1, text(1, 30), output=1))
    engine.step()
    engine.step()
    assert engine.steps[0] == [("0", 0, 7), ("1", 0, 9)]
    assert engine.steps[1] == [("1", 9, 25)]


def test_a_beginning_with_a_hole_is_shared_up_to_the_hole() -> None:
    engine = Simulation()
    first = make_sequence(0, text(0, 13), output=1)
    engine.add(first)
    engine.run()
    pool = engine.scheduler.pool
    hole = pool.find(first.hashes[1])
    assert hole is not None
    pool.forget([hole])
    engine.add(make_sequence(1, text(0, 13), output=1))
    engine.run()
    assert engine.steps[1] == [("1", 4, 13)]


def test_a_beginning_that_a_running_one_still_computes_is_waited_for() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=8)
    engine.add(make_sequence(0, text(0, 21), output=1))
    engine.step()
    engine.add(make_sequence(1, text(0, 22), output=1))
    engine.run()
    computed = [(start, end) for step in engine.steps for name, start, end in step if name == "1"]
    assert computed == [(20, 22)]


def scored(num_tokens: int) -> Sequence:
    prompt = Prompt(token_ids=tuple(text(0, num_tokens)))
    request = EngineRequest(request_id="0", prompt=prompt, params=SamplingParams(prompt_logprobs=0))
    return Sequence(request=request, arrival=0, arrived_at=0.0, max_tokens=1)


def test_a_prompt_that_is_scored_is_computed_whole_and_in_small_pieces() -> None:
    engine = Simulation(num_blocks=400, max_num_batched_tokens=2 * MAX_SCORED_TOKENS)
    for _ in range(2):
        engine.add(scored(MAX_SCORED_TOKENS + 9))
        engine.run()
    assert engine.steps == [[("0", 0, 512)], [("0", 512, 521)]] * 2


def test_a_prompt_is_scored_before_its_output_only() -> None:
    """One that was preempted computes its prompt again, and its scores have been given out by then."""
    sequence = scored(9)
    sequence.token_ids = list(sequence.request.prompt.token_ids)
    assert wants_prompt_rows(Chunk(sequence, 0, 9))
    sequence.token_ids.append(5)
    assert not wants_prompt_rows(Chunk(sequence, 0, 9))


def test_pictures_of_several_requests_share_what_a_step_encodes() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64, media_patches_per_step=30)
    engine.add(with_picture(0, 0, output=1), with_picture(1, 1, output=1))  # 20 patches each
    engine.step()
    assert engine.steps == [[("1", 0, 1), ("0", 0, 7)]]


def test_one_picture_in_several_requests_is_encoded_once() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64, media_patches_per_step=30)
    engine.add(*(with_picture(i, 0, output=1) for i in range(3)))
    engine.step()
    assert engine.steps == [[("0", 0, 7), ("1", 0, 7), ("2", 0, 7)]]


def test_a_picture_beyond_the_limit_leaves_nothing_for_others() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64, media_patches_per_step=1)
    engine.add(with_picture(0, 0, output=1), with_picture(1, 1, output=1))
    engine.step()
    assert engine.steps == [[("1", 0, 1), ("0", 0, 7)]]


def test_a_picture_that_is_at_hand_costs_nothing() -> None:
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64, media_patches_per_step=20)
    engine.encoded.add(make_item(0, 5).content_hash)
    media = (picture(0, 5), picture(1, 5, 7))
    engine.add(make_sequence(0, [1, *[PAD] * 5, 2, *[PAD] * 5, 3], media, output=1))
    engine.step()
    assert engine.steps == [[("0", 0, 13)]]


def test_a_cached_part_of_a_picture_is_not_gone_back_into() -> None:
    """The beginning in the cache ends inside an image that this step cannot encode anew."""
    engine = Simulation(num_blocks=64, max_num_batched_tokens=64, media_patches_per_step=1)
    engine.add(with_picture(0, 0, tokens=9, output=1))
    engine.run()
    engine.encoded.clear()
    again = make_sequence(2, [10, *[PAD] * 9, 4], (picture(0, 9),), output=1)
    engine.add(with_picture(1, 1, output=1), again)
    engine.run()
    assert engine.steps[1:] == [[("1", 0, 7)], [("2", 8, 11)]]


def test_single_tokens_come_first_in_a_step() -> None:
    engine = Simulation(num_blocks=64)
    engine.add(make_sequence(0, text(0, 3), priority=1))
    engine.step()
    engine.add(make_sequence(1, text(1, 20)))
    engine.step()
    engine.add(make_sequence(2, text(2, 1), priority=-1))
    engine.step()
    for step in engine.steps:
        sizes = [end - start > 1 for _, start, end in step]
        assert sizes == sorted(sizes)


@given(seed=st.integers(0, 10_000))
def test_the_order_of_ranks_holds_in_every_step(seed: int) -> None:
    """The queue is sorted; who is preempted is younger than all that go on; who comes in waits for nobody that runs."""
    draw = np.random.default_rng(seed)
    engine = Simulation(
        num_blocks=int(draw.integers(6, 12)),
        block_size=int(draw.integers(1, 4)),
        max_num_seqs=int(draw.integers(2, 5)),
        max_num_batched_tokens=int(draw.integers(5, 12)),
    )
    longest = engine.options.num_blocks * engine.options.block_size
    for arrival in range(10):
        length = int(draw.integers(1, max(2, longest - 5)))
        engine.add(make_sequence(arrival, text(arrival, length), output=5, priority=int(draw.integers(0, 2))))
        if draw.random() < 0.6:
            check_step(engine)
    while engine.scheduler.waiting or engine.scheduler.running:
        check_step(engine)


def check_step(engine: Simulation) -> None:
    before, waiting = list(engine.scheduler.running), list(engine.scheduler.waiting)
    chunks = engine.step()
    ranks = [sequence.rank for sequence in engine.scheduler.waiting]
    assert ranks == sorted(ranks)
    sizes = [chunk.num_tokens > 1 for chunk in chunks]
    assert sizes == sorted(sizes)
    served = [chunk.sequence for chunk in chunks]
    preempted = [one for one in before if one in engine.scheduler.waiting]
    stayed = [one for one in before if one not in preempted]
    assert all(one.rank > other.rank for one in preempted for other in stayed)
    admitted = [one for one in served if one not in before]
    assert not admitted or all(one in served for one in stayed), "one that runs found no room, and another came in"
    assert sorted(one.rank for one in admitted) == [one.rank for one in waiting[: len(admitted)]], "one was overtaken"
    assert all(one.rank < other.rank for one in admitted for other in preempted)


def test_chunks_of_media_are_those_whose_placeholders_it_holds() -> None:
    sequence = make_sequence(0, [1, *[PAD] * 5, 3], (picture(0, 5),))
    sequence.token_ids = list(sequence.request.prompt.token_ids)
    found = [[span.offset for span in Chunk(sequence, *ends).media()] for ends in ((0, 1), (0, 2), (5, 6), (6, 7))]
    assert found == [[], [1], [1], []]
