"""What sampling remembers of one request, and the penalties that follow from its counts."""

import pytest
import torch

from model_runtime.engine.contract import EngineRequest
from model_runtime.engine.grammar import GrammarEngine
from model_runtime.engine.sampling import GrammarSpec, SamplingParams
from model_runtime.engine.sampling.state import WRITABLE, SamplingState, apply_penalties, make_counts, make_state
from model_runtime.media import Prompt
from model_runtime.tokenizer import Tokenizer

LOGITS = [2.0, -2.0, 0.0, 1.0, -1.0, 3.0]
PROMPT = (0, 1, 1, 5)
OUTPUT = (3, 4, 3, 0)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(presence_penalty=0.5), [1.5, -2.0, 0.0, 0.5, -1.5, 3.0]),
        (SamplingParams(frequency_penalty=0.5), [1.5, -2.0, 0.0, 0.0, -1.5, 3.0]),
        (SamplingParams(presence_penalty=-1.0, frequency_penalty=0.25), [2.75, -2.0, 0.0, 1.5, -0.25, 3.0]),
        (SamplingParams(repetition_penalty=2.0), [1.0, -4.0, 0.0, 0.5, -2.0, 1.5]),
        (SamplingParams(repetition_penalty=0.5), [4.0, -1.0, 0.0, 2.0, -0.5, 6.0]),
        (SamplingParams(repetition_penalty=2.0, frequency_penalty=1.0), [0.0, -4.0, 0.0, -1.5, -3.0, 1.5]),
    ],
)
def test_penalties(params: SamplingParams, expected: list[float]) -> None:
    counts = make_counts(PROMPT, params)
    assert counts is not None
    for token_id in OUTPUT:
        counts.add(token_id)
    row = torch.tensor(LOGITS)
    apply_penalties(row, counts, params)
    assert row.tolist() == expected


def test_nothing_is_counted_without_penalties() -> None:
    assert make_counts(PROMPT, SamplingParams()) is None


def test_no_token_yet() -> None:
    params = SamplingParams(frequency_penalty=1.0)
    counts = make_counts(PROMPT, params)
    assert counts is not None
    row = torch.tensor(LOGITS)
    apply_penalties(row, counts, params)
    assert row.tolist() == LOGITS


DIGITS = GrammarSpec(kind="regex", text="[0-9]{2}")


def start(tokenizer: Tokenizer, *, in_reasoning: bool = False, **params: object) -> SamplingState:
    request = EngineRequest(
        request_id="a",
        prompt=Prompt(token_ids=(1, 2)),
        params=SamplingParams(**params),  # type: ignore[arg-type]
        starts_in_reasoning=in_reasoning,
    )
    return make_state(request, tokenizer, (tokenizer.special.im_end,), GrammarEngine(tokenizer))


def test_end_ids_are_those_that_end_this_request(tokenizer: Tokenizer) -> None:
    im_end = tokenizer.special.im_end
    assert start(tokenizer, stop_token_ids=(7,)).end_ids == {im_end, 7}
    assert start(tokenizer, stop_token_ids=(7,), ignore_eos=True).end_ids == {7}


@pytest.mark.parametrize("closing", ["</think>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>"])
def test_reasoning_ends_at_its_marker_or_at_a_section(tokenizer: Tokenizer, closing: str) -> None:
    state = start(tokenizer, in_reasoning=True)
    for token_id in (5, 6, tokenizer.special.id_of(closing), 7):
        state.accept(token_id)
    assert (state.in_reasoning, state.num_reasoning_tokens, state.num_output_tokens) == (False, 2, 4)


def test_reasoning_may_be_opened_by_the_first_token_only(tokenizer: Tokenizer) -> None:
    think = tokenizer.special.think_begin
    state = start(tokenizer, thinking_budget=1)
    state.accept(think)
    assert state.in_reasoning
    assert state.forced_id is None
    state.accept(5)
    assert state.forced_id == tokenizer.special.think_end
    later = start(tokenizer)
    for token_id in (5, think):
        later.accept(token_id)
    assert not later.in_reasoning


def test_a_grammar_waits_for_the_end_of_the_reasoning(tokenizer: Tokenizer) -> None:
    special = tokenizer.special
    state = start(tokenizer, in_reasoning=True, grammar=DIGITS)
    assert state.active_matcher is None
    assert state.banned_ids == {special.id_of(text) for text in WRITABLE} - {special.think_end}
    for token_id in (5, special.think_end):
        state.accept(token_id)
    assert state.active_matcher is not None
    assert state.banned_ids == frozenset()
    for token_id in tokenizer.encode("4") + tokenizer.encode("2"):
        state.accept(token_id)
    assert state.active_matcher.must_end
    assert not state.is_complete
    state.accept(special.im_end)
    assert state.active_matcher is None
    assert state.is_complete


def test_the_way_out_of_the_reasoning_stays_open_where_it_ends_the_request(tokenizer: Tokenizer) -> None:
    special = tokenizer.special
    state = start(tokenizer, in_reasoning=True, grammar=DIGITS, stop_token_ids=(special.think_end, 7))
    assert special.think_end not in state.banned_ids
    assert 7 in state.banned_ids


def test_a_grammar_may_rule_the_reasoning_too(tokenizer: Tokenizer) -> None:
    spec = GrammarSpec(kind="lark", text='start: "ok" </think> "yes"', starts_after_reasoning=False)
    state = start(tokenizer, in_reasoning=True, grammar=spec)
    assert state.active_matcher is not None


def test_the_grammar_s_end_goes_before_min_tokens(tokenizer: Tokenizer) -> None:
    state = start(tokenizer, grammar=DIGITS, min_tokens=10)
    assert state.banned_ids == {tokenizer.special.im_end}
    for token_id in tokenizer.encode("4") + tokenizer.encode("2"):
        state.accept(token_id)
    assert state.banned_ids == frozenset()


def test_a_token_without_a_place_in_the_grammar_is_a_fault(tokenizer: Tokenizer) -> None:
    state = start(tokenizer, grammar=DIGITS)
    state.accept(tokenizer.encode("x")[0])
    assert state.matcher is not None
    assert state.matcher.fault is not None


def test_a_grammar_needs_its_engine(tokenizer: Tokenizer) -> None:
    request = EngineRequest(request_id="a", prompt=Prompt(token_ids=(1,)), params=SamplingParams(grammar=DIGITS))
    with pytest.raises(ValueError, match="no GrammarEngine"):
        make_state(request, tokenizer, ())


def test_a_negative_seed_is_a_seed(tokenizer: Tokenizer) -> None:
    assert start(tokenizer, seed=-1).uniform == start(tokenizer, seed=-1).uniform != start(tokenizer, seed=1).uniform
