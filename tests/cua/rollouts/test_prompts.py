"""Prompts differ between tasks and never within a group, are the same in every process, and cannot be farmed."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from cua.errors import ConfigError
from cua.rollouts.prompts import (
    DIVERSIFIERS,
    AnswerConstraint,
    Diversifier,
    RolloutPrompt,
    add_distractors,
    derive_seed,
    draw_prompt,
    paraphrase_system,
    shuffle_tools,
)
from cua.rollouts.rollout import RolloutOutcome

TOOLS = RolloutPrompt(tools=("click", "type", "search", "view"))
ALL: dict[str, Diversifier] = {
    **DIVERSIFIERS,
    "system": paraphrase_system(("You act on a screen.", "You use a computer.")),
    "distractors": add_distractors(("weather", "stocks", "click")),
}
SCRIPT = """
import json
from tests.cua.rollouts.test_prompts import draw_many
print(json.dumps(draw_many()))
"""


def draw_many() -> list[object]:
    return [
        draw_prompt(TOOLS, ALL, run_seed=1, task_id=f"task/{number}", seed=number).to_json() for number in range(40)
    ]


def test_another_process_draws_the_same_whatever_its_hash_seed() -> None:
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        printed = subprocess.check_output([sys.executable, "-c", SCRIPT], env=environment)
        assert json.loads(printed) == json.loads(json.dumps(draw_many()))


def test_a_seed_is_pinned() -> None:
    """Recorded draws can be repeated only while this holds."""
    assert derive_seed(1, "task", None, "tools") == 0x985E39CEB315BBAB


def test_tasks_and_seeds_of_a_run_get_different_prompts() -> None:
    drawn = {json.dumps(found) for found in draw_many()}
    assert len(drawn) > 30
    for run_seed in (2, 3):
        other = draw_prompt(TOOLS, ALL, run_seed=run_seed, task_id="task/0", seed=0)
        assert other != draw_prompt(TOOLS, ALL, run_seed=1, task_id="task/0", seed=0)


def test_one_diversifier_does_not_change_the_draws_of_another() -> None:
    for number in range(20):
        alone = draw_prompt(TOOLS, {"tools": shuffle_tools}, run_seed=1, task_id=str(number))
        with_others = draw_prompt(TOOLS, DIVERSIFIERS, run_seed=1, task_id=str(number))
        assert alone.tools == with_others.tools


def test_tools_are_never_lost_and_distractors_are_new() -> None:
    for number in range(50):
        drawn = draw_prompt(TOOLS, ALL, run_seed=1, task_id=str(number))
        assert max(Counter(drawn.tools).values()) == 1
        assert set(TOOLS.tools) <= set(drawn.tools) <= {*TOOLS.tools, "weather", "stocks"}


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (AnswerConstraint("max_words", "3"), "It isn't red", "It is not red"),
        (AnswerConstraint("forbidden_word", "sure"), "I am certain, surely", "Sure, red"),
        (AnswerConstraint("json", "answer"), '{"answer": "red"}', '{"colour": "red"}'),
        (AnswerConstraint("json", "answer"), ' {"answer": null}\n', 'The answer is {"answer": "red"}'),
        (AnswerConstraint("first_word", "Done"), "**done**: red", "It is done"),
    ],
)
def test_constraints_are_checked_by_rules(constraint: AnswerConstraint, good: str, bad: str) -> None:
    assert constraint.value in constraint.text
    assert [constraint.is_met(answer) for answer in (good, bad, "", " \n")] == [True, False, False, False]


def test_a_constraint_lowers_the_score_of_a_task_and_never_makes_up_for_it() -> None:
    prompt = RolloutPrompt(
        constraints=(AnswerConstraint("max_words", "5"), AnswerConstraint("first_word", "Done")), constraint_weight=0.2
    )
    solved, failed = RolloutOutcome(score=1.0), RolloutOutcome(score=0.0)
    assert prompt.judge(solved, "Done: red").score == pytest.approx(1.0)
    assert prompt.judge(solved, "red").score == pytest.approx(0.9)
    assert prompt.judge(solved, None).score == pytest.approx(0.8)
    assert prompt.judge(solved, "red").parts == {"task": 1.0, "constraints": 0.5}
    assert prompt.judge(failed, "Done: red").score == 0.0
    assert prompt.judge(RolloutOutcome(score=None), "Done: red").score is None
    assert RolloutPrompt().judge(solved, None) is solved


def test_constraints_cannot_outweigh_the_task() -> None:
    with pytest.raises(ConfigError, match=r"at most 0\.3"):
        RolloutPrompt(constraint_weight=0.5)
