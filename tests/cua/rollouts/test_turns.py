"""Turns of a session: relation of prompts to earlier turns, and the sequences to train on."""

import math

import pytest

from cua.messages import ReplyTokens
from cua.rollouts.samples import PolicySpan
from cua.rollouts.turns import Drift, TurnLog, realigned_share


def tokens(prompt: tuple[int, ...], output: tuple[int, ...], **fields: object) -> ReplyTokens:
    logprobs = tuple(-value / 8 for value in output)
    return ReplyTokens(prompt_ids=prompt, ids=output, logprobs=logprobs, **fields)  # type: ignore[arg-type]


def record(*turns: ReplyTokens) -> TurnLog:
    log = TurnLog()
    for turn in turns:
        log.add(turn, temperature=1.0)
    return log


def test_each_prompt_is_related_to_the_turns_before() -> None:
    log = record(
        tokens((1, 2), (3, 4)),
        tokens((1, 2, 3, 4, 5), (6,)),  # goes on
        tokens((1, 2, 3, 9, 5), (6,)),  # the reply was tokenized again
        tokens((1, 2), (3, 5)),  # another sample of the first prompt
        tokens((7, 8), (9,)),  # another agent
        tokens((7, 8, 9, 1), (2,)),  # which goes on
    )
    assert [(turn.drift, turn.parent_id) for turn in log.turns] == [
        (Drift.CLEAN, None),
        (Drift.CLEAN, 0),
        (Drift.REALIGN, None),
        (Drift.FORK, None),
        (Drift.FORK, None),
        (Drift.CLEAN, 4),
    ]


def test_each_reply_is_trained_once() -> None:
    log = record(
        tokens((1,), (2, 3), sampled=(True, False), versions=(("a", 1), ("b", 1))),
        tokens((1, 2, 3, 4), (5,), versions=(("b", 1),)),
        tokens((1, 2, 3, 6), (7,)),
    )
    first, second = log.branches({"a": 7, "b": 8, "": 9}.__getitem__)
    assert (first.ids.tolist(), first.mask.tolist()) == ([1, 2, 3, 4, 5], [0, 1, 0, 0, 1])
    assert first.logprobs.tolist() == [0, -0.25, 0, 0, -0.625]
    assert first.spans == (PolicySpan(1, 2, 7), PolicySpan(2, 3, 8), PolicySpan(4, 5, 8))
    assert (second.ids.tolist(), second.mask.tolist()) == ([1, 2, 3, 6, 7], [0, 0, 0, 0, 1])
    assert (second.spans, second.num_turns) == ((PolicySpan(4, 5, 9),), 2)  # the engine named no version


def test_kept_sets_of_tokens_that_were_not_sampled_are_left_out() -> None:
    log = record(
        tokens((1,), (2, 3, 4), sampled=(True, False, True), kept_ids=(2, 9, 3, 4), num_kept=(2, 1, 1)),
        tokens((1, 2, 3, 4), (5,), kept_ids=(5, 6, 7), num_kept=(3,)),
        tokens((1, 2, 3, 4, 5), (6,)),
    )
    (sample,) = log.branches(lambda _: 0)
    assert sample.kept is not None
    assert sample.kept.num.tolist() == [0, 2, 0, 1, 3, 0]
    assert sample.kept.ids.tolist() == [2, 9, 4, 5, 6, 7]


def test_missing_log_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="2 ids, 0 log-probabilities"):
        TurnLog().add(ReplyTokens(prompt_ids=(1,), ids=(2, 3)), temperature=1.0)


def test_the_share_of_realigned_turns_counts_from_100_turns() -> None:
    def make(num_turns: int, num_realigned: int) -> TurnLog:
        log = record(tokens((1,), (2,)))
        prompt: tuple[int, ...] = (1, 2)
        for at in range(num_turns):
            if at < num_realigned:
                log.add(tokens((1, 3 + at), (4,)), temperature=1.0)
            else:
                log.add(tokens(prompt, (5,)), temperature=1.0)
                prompt += (5,)
        return log

    assert realigned_share(make(98, 9).counts()) == 0.0
    assert math.isclose(realigned_share(make(50, 0).counts() + make(50, 2).counts()), 0.02)
