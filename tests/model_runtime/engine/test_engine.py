"""The engine's loop over a model that counts."""

import numpy as np
import pytest
import torch

from model_runtime.engine.contract import EngineOutput, EngineRequest
from model_runtime.engine.sampling import GrammarSpec
from model_runtime.errors import EngineDead, InvalidRequestError
from model_runtime.media import MediaItem, MediaSpan
from model_runtime.tokenizer import Tokenizer
from tests.model_runtime.engine.counting import make_engine, make_request, run_all
from tests.model_runtime.engine.spoken import RandomModel, ToldModel, start_spoken


def tokens_of(outputs: list[EngineOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


def text_of(outputs: list[EngineOutput]) -> str:
    return "".join(d if isinstance(d, str) else f"<{d}>" for output in outputs for d in output.deltas)


def test_tokens_come_one_by_one_until_the_limit(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([1, 2, 3], max_tokens=3))
    outputs = run_all(engine)["a"]
    assert [o.token_ids for o in outputs] == [(4,), (5,), (6,)]
    assert [o.finish_reason for o in outputs] == [None, None, "length"]
    assert (outputs[-1].num_prompt_tokens, outputs[-1].num_cached_tokens) == (3, 0)
    assert engine.scheduler.pool.num_free == 64


def test_an_end_token_ends_and_is_not_shown(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([ord("a")], stop_token_ids=(ord("d"),), max_tokens=50))
    outputs = run_all(engine)["a"]
    assert (tokens_of(outputs), text_of(outputs)) == ([98, 99, 100], "bc")
    assert (outputs[-1].finish_reason, outputs[-1].stop_reason) == ("stop", ord("d"))


def test_min_tokens_goes_before_an_end_token(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([ord("a")], stop_token_ids=(ord("b"),), min_tokens=2, max_tokens=3))
    outputs = run_all(engine)["a"]
    assert ord("b") not in tokens_of(outputs)
    assert outputs[-1].finish_reason == "length"


def test_an_end_token_ends_as_soon_as_there_are_min_tokens_before_it(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([ord("a")], stop_token_ids=(ord("d"),), min_tokens=2, max_tokens=9))
    outputs = run_all(engine)["a"]
    assert (tokens_of(outputs), outputs[-1].finish_reason) == ([98, 99, 100], "stop")


def test_a_stop_text_ends_and_is_not_shown(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([ord("a")], stop=("ef",), max_tokens=50))
    outputs = run_all(engine)["a"]
    assert text_of(outputs) == "bcd"
    assert (outputs[-1].finish_reason, outputs[-1].stop_reason) == ("stop", "ef")
    assert tokens_of(outputs) == [ord(c) for c in "bcdef"]


def test_text_held_back_for_a_stop_text_comes_out_at_the_end(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([ord("a")], stop=("cdx",), max_tokens=3))
    assert text_of(run_all(engine)["a"]) == "bcd"


def test_logprobs_come_with_each_token(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([1, 2], logprobs=1, max_tokens=2))
    outputs = run_all(engine)["a"]
    norm = float(torch.logsumexp(torch.tensor([20.0] + [0.0] * (tokenizer.vocab_size - 1)), 0))
    for output, token in zip(outputs, (3, 4), strict=True):
        (logprob,) = output.logprobs
        assert logprob.token_id == token
        assert logprob.logprob == pytest.approx(20.0 - norm, abs=1e-5)
        assert [place for place, _ in logprob.top] == [token]


@pytest.mark.parametrize("budget", [64, 3])
def test_prompt_logprobs_come_once_even_when_the_prompt_is_cut(tokenizer: Tokenizer, budget: int) -> None:
    engine, _ = make_engine(tokenizer, max_num_batched_tokens=budget, max_num_seqs=2)
    engine.add(make_request([5, 6, 9, 10, 11], prompt_logprobs=0, max_tokens=2))
    first, second = run_all(engine)["a"]
    assert second.prompt_logprobs is None
    assert first.prompt_logprobs is not None
    assert first.prompt_logprobs[0] is None
    likely = [entry is not None and entry.logprob > -0.1 for entry in first.prompt_logprobs]
    assert likely == [False, True, False, True, True]


def test_prompt_logprobs_are_those_of_the_whole_prompt_after_a_preemption(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, num_blocks=8, max_num_batched_tokens=8, max_num_seqs=2)
    engine.add(make_request([5, 6, 7, 8, 9, 10], name="old", max_tokens=16))
    engine.step()
    engine.add(make_request(list(range(20, 33)), name="young", prompt_logprobs=0, max_tokens=1))
    engine.step()
    engine.scheduler.preempt(next(s for s in engine.scheduler.running if s.request.request_id == "young"))
    (output,) = run_all(engine)["young"]
    assert output.prompt_logprobs is not None
    assert [entry and entry.token_id for entry in output.prompt_logprobs] == [None, *range(21, 33)]


def test_the_same_prompt_again_comes_from_the_cache(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    item = MediaItem(frames=np.zeros((1, 56, 56, 3), np.uint8), content_hash=b"x")
    prompt = [1, *[tokenizer.special.media_pad] * 4, 2, 3, 4, 5]
    for name in ("a", "b"):
        engine.add(make_request(prompt, name=name, media=(MediaSpan(offset=1, item=item),), max_tokens=1))
        (output,) = run_all(engine)[name]
    assert output.num_cached_tokens == 8
    assert [len(step.encode) for step in executor.steps] == [1, 0]
    stats = engine.stats()
    assert (stats.prompt_tokens_total, stats.cached_tokens_total) == (18, 8)
    assert stats.media_encoded_total == 1


def picture_request(
    tokenizer: Tokenizer, before: list[int], name: str, side_px: int = 56, **params: object
) -> EngineRequest:
    """A request that shows the same image as all others, behind other tokens."""
    item = MediaItem(frames=np.zeros((1, side_px, side_px, 3), np.uint8), content_hash=b"x")
    pads = [tokenizer.special.media_pad] * item.num_tokens
    return make_request([*before, *pads, 5], name=name, media=(MediaSpan(offset=len(before), item=item),), **params)


@pytest.mark.parametrize("budget", [64, 8])
def test_a_picture_at_hand_is_counted_once_for_each_request_that_shows_it(tokenizer: Tokenizer, budget: int) -> None:
    """However many pieces its tokens are computed in; those that come from the cache show no image at all."""
    engine, executor = make_engine(tokenizer, max_num_batched_tokens=budget, max_num_seqs=2)
    for before in ([1], [2], []):
        engine.add(picture_request(tokenizer, before, str(before), side_px=112, max_tokens=1))
        run_all(engine)
    assert sum(len(step.encode) for step in executor.steps) == 1
    stats = engine.stats()
    assert (stats.media_encoded_total, stats.media_cached_total) == (1, 2)


def test_a_picture_that_several_show_in_one_step_is_counted_as_encoded_once(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    for number in range(3):
        engine.add(picture_request(tokenizer, [number], str(number), max_tokens=1))
    run_all(engine)
    assert [len(step.encode) for step in executor.steps] == [1]
    stats = engine.stats()
    assert (stats.media_encoded_total, stats.media_cached_total) == (1, 2)


def test_what_is_not_a_number_fails_one_request_and_is_not_shared(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    executor.nan_after = 50
    bad, good = [1, 2, 3, 4, 5, 6, 7, 50], [2, 3, 4, 5, 6, 7, 8, 9]
    engine.add(make_request(bad, name="bad"))
    engine.add(make_request(good, name="good", max_tokens=2))
    outputs = run_all(engine)
    (fault,) = outputs["bad"]
    assert fault.finish_reason == "error"
    assert "nan" in (fault.error or "").lower()
    assert tokens_of(outputs["good"]) == [10, 11]
    engine.add(make_request(bad, name="again"))
    assert run_all(engine)["again"][0].num_cached_tokens == 0
    assert engine.stats().faults_total == 2


def test_a_picture_of_a_request_that_failed_is_encoded_anew(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    item = MediaItem(frames=np.zeros((1, 56, 56, 3), np.uint8), content_hash=b"x")
    prompt = [1, *[tokenizer.special.media_pad] * 4, 50]
    executor.nan_after = 50
    for name in ("bad", "again"):
        engine.add(make_request(prompt, name=name, media=(MediaSpan(offset=1, item=item),)))
        assert run_all(engine)[name][0].finish_reason == "error"
    assert [len(step.encode) for step in executor.steps] == [1, 1]


def test_a_picture_of_a_request_that_failed_is_encoded_anew_once(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    executor.nan_after = 5
    engine.add(picture_request(tokenizer, [50], "bad"))
    assert run_all(engine)["bad"][0].finish_reason == "error"
    executor.nan_after = None
    for number in range(2):
        engine.add(picture_request(tokenizer, [number], str(number), max_tokens=1))
        run_all(engine)
    assert [(len(step.drop), len(step.encode)) for step in executor.steps] == [(0, 1), (1, 1), (0, 0)]


def test_the_one_with_the_picture_is_given_up_when_memory_runs_out(tokenizer: Tokenizer) -> None:
    """Its tokens are few, its patches are many."""
    engine, executor = make_engine(tokenizer)
    executor.most_tokens = 15
    engine.add(make_request(list(range(12)), name="text", max_tokens=2))
    engine.add(picture_request(tokenizer, [1], "picture"))
    outputs = run_all(engine)
    assert outputs["picture"][0].finish_reason == "error"
    assert tokens_of(outputs["text"]) == [12, 13]


def test_without_memory_several_ranks_cannot_go_on(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    executor.can_go_on_after_fault = False
    executor.most_tokens = 2
    engine.add(make_request([1, 2, 3]))
    with pytest.raises(EngineDead, match="out of memory with several ranks"):
        engine.step()


def test_another_error_of_a_step_is_no_lack_of_memory(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    executor.broken = RuntimeError("device-side assert triggered")
    engine.add(make_request([1, 2, 3]))
    with pytest.raises(RuntimeError, match="device-side assert"):
        engine.step()


def test_scores_of_a_prompt_that_was_aborted_are_not_those_of_the_next_one(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, max_num_batched_tokens=8, max_num_seqs=2)
    engine.add(make_request(list(range(20)), prompt_logprobs=0, max_tokens=1))
    engine.step()
    engine.abort("a")
    engine.add(make_request([1, 2], max_tokens=1))
    (output,) = run_all(engine)["a"]
    assert output.prompt_logprobs is None


def test_the_largest_request_is_given_up_when_memory_runs_out(tokenizer: Tokenizer) -> None:
    engine, executor = make_engine(tokenizer)
    executor.most_tokens = 20
    engine.add(make_request([1, 2, 3], name="small", max_tokens=2))
    engine.add(make_request(list(range(30)), name="large"))
    outputs = run_all(engine)
    assert outputs["large"][0].finish_reason == "error"
    assert "ran out of memory" in (outputs["large"][0].error or "")
    assert tokens_of(outputs["small"]) == [4, 5]


def test_an_aborted_request_says_nothing_more(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.add(make_request([1, 2, 3], max_tokens=50))
    engine.step()
    engine.abort("a")
    engine.abort("a")
    assert not engine.has_work
    assert engine.scheduler.pool.num_free == 64


def test_little_memory_for_the_cache_changes_no_token(tokenizer: Tokenizer) -> None:
    wide, _ = make_engine(tokenizer)
    narrow, _ = make_engine(tokenizer, num_blocks=9)
    results = []
    for engine in (wide, narrow):
        for i in range(5):
            engine.add(make_request([100 * i + 1, 100 * i + 2], name=str(i), max_tokens=25, temperature=1.0, seed=i))
        results.append({name: tokens_of(outputs) for name, outputs in run_all(engine).items()})
    assert narrow.scheduler.num_preemptions > 0
    assert results[0] == results[1]


@pytest.mark.parametrize(("ignores", "reason", "tokens"), [(True, "length", 3), (False, "stop", 2)])
async def test_the_model_s_own_end_is_no_end_where_it_is_ignored(
    tokenizer: Tokenizer, ignores: bool, reason: str, tokens: int
) -> None:
    thread = start_spoken(ToldModel(tokenizer, ["a", "<|im_end|>", "b"]), tokenizer)
    request = make_request([1, 2], max_tokens=3, ignore_eos=ignores)
    outputs = [output async for output in thread.generate(request)]
    await thread.close()
    assert (len(outputs), outputs[-1].finish_reason, outputs[-1].stop_reason) == (tokens, reason, None)


async def test_the_end_of_a_grammar_is_one_whatever_else_is_asked_for(tokenizer: Tokenizer) -> None:
    thread = start_spoken(RandomModel(tokenizer), tokenizer)
    spec = GrammarSpec(kind="regex", text="ab")
    request = make_request([1, 2], max_tokens=50, min_tokens=40, ignore_eos=True, grammar=spec)
    outputs = [output async for output in thread.generate(request)]
    await thread.close()
    assert (text_of(outputs), outputs[-1].finish_reason) == ("ab", "stop")


def test_a_grammar_that_cannot_be_met_is_refused_before_it_is_queued(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    with pytest.raises(InvalidRequestError, match="unclosed group"):
        engine.admission.check(make_request([1], grammar=GrammarSpec(kind="regex", text="((")))


def test_media_stand_where_their_placeholders_are(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    item = MediaItem(frames=np.zeros((1, 56, 56, 3), np.uint8), content_hash=b"x")
    prompt = [1, *[tokenizer.special.media_pad] * 4, 2]
    engine.admission.check(make_request(prompt, media=(MediaSpan(offset=1, item=item),)))
    with pytest.raises(InvalidRequestError, match=r"4 media placeholders, and media for 4; .* in order"):
        engine.admission.check(make_request(prompt, media=(MediaSpan(offset=2, item=item),)))


def test_the_longest_prompt_leaves_room_for_one_token(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    request = make_request(list(range(255)))
    engine.admission.check(request)
    engine.add(request)
    assert [output.finish_reason for output in run_all(engine)["a"]] == ["length"]


def test_an_id_just_past_the_vocabulary_is_refused(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    engine.admission.check(make_request([tokenizer.vocab_size - 1]))
    with pytest.raises(InvalidRequestError, match="outside the vocabulary"):
        engine.admission.check(make_request([tokenizer.vocab_size]))


def test_a_limit_beyond_the_context_ends_with_the_context(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, num_blocks=2)
    request = make_request([1, 2, 3], max_tokens=1000)
    engine.admission.check(request)
    engine.add(request)
    outputs = run_all(engine)["a"]
    assert (len(outputs), outputs[-1].finish_reason) == (5, "length")


@pytest.mark.parametrize(
    ("token_ids", "params", "text", "param"),
    [
        ([], {}, "prompt is empty", "prompt"),
        ([1, 5000], {}, "token id 5000 is outside the vocabulary; expected 0 to 1279", "prompt"),
        ([1, -1, 5], {}, "token id -1 is outside the vocabulary; expected 0 to 1279", "prompt"),
        ([-1], {}, "token id -1 is outside", "prompt"),
        ([1045], {}, "1 media placeholders, and media for 0", "prompt"),
        (list(range(256)), {}, "the prompt has 256 tokens (0 of images or video); the model takes 255", "messages"),
        ([1], {"top_p": 0.0}, "top_p is 0.0; expected 1e-09 to 1", "top_p"),
        ([1], {"temperature": float("nan")}, "temperature is nan", "temperature"),
        ([1], {"min_tokens": 9}, "min_tokens is 9, more than max_tokens (4)", "min_tokens"),
        ([1], {"stop": ("",)}, "stop text is empty", "stop"),
    ],
)
def test_what_cannot_be_run_is_refused(
    tokenizer: Tokenizer, token_ids: list[int], params: dict[str, object], text: str, param: str
) -> None:
    engine, _ = make_engine(tokenizer)
    with pytest.raises(InvalidRequestError) as caught:
        engine.admission.check(make_request(token_ids, **params))
    assert text in str(caught.value)
    assert caught.value.param == param
