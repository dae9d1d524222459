"""Kinds of players: ours, and those of another distribution, from the plan to the page."""

import asyncio
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from apps.evals.page import render_page
from apps.evals.players import GROUP, baseline_names, find_player_kind, player_names
from apps.evals.request import EvalRequest, prepare
from apps.evals.results import load_evaluation
from apps.evals.run import EvalOptions, run_evaluation
from apps.evals.text import describe_evaluation
from cua.errors import ConfigError

PHONE = """
from contextlib import nullcontext
from apps.evals.players import PlayerKind
from cua.run.budget import Caps
from cua.run.end import End
from envs import Suite, TaskSpec, InstructionTask

def make(runs_dir, settings):
    async def play(episode, scope):
        run = scope.make_run(Caps(max_steps=settings["max_steps"]))
        run.begin(episode.make_task().instruction)
        end = End(status="succeeded", score=1.0, reason=f"called by {settings['model']}")
        return await run.finish(end, 1)
    return nullcontext(play)

PLAYER = PlayerKind(make=make, about="a phone", makes_models=True, baselines={"busy": "is never reached"})
WRONG = 7

def make_suite():
    make_task = lambda id, seed: InstructionTask(instruction="call", spec=TaskSpec(id=id))
    return Suite(name="calls", about="", task_ids=("call",), make_task=make_task, agents=("phone", "odd", "gui"))
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    info = tmp_path / "site" / "tiny_phone-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny_phone\nVersion: 1.0\n")
    lines = f"""
        [{GROUP}]
        phone = tiny_phone:PLAYER
        odd = tiny_phone:WRONG
        gone = tiny_phone:NOT_THERE
        """
    (info / "entry_points.txt").write_text(textwrap.dedent(lines))
    file = tmp_path / "site" / "tiny_phone.py"
    file.write_text(PHONE)
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.delitem(sys.modules, "tiny_phone", raising=False)
    return str(file)


def test_a_kind_of_another_distribution_plays_and_is_reported(tmp_path: Path, suite: str) -> None:
    assert player_names() == ("gui", "tools", "swarm", "web", "gone", "odd", "phone")
    assert baseline_names() == ("null", "fail", "random", "image", "text", "busy")
    prepared = prepare(EvalRequest(suite=suite, settings={"model": "literal"}, out=tmp_path / "found"))
    work = run_evaluation(
        prepared.evaluation, prepared.suite, prepared.settings, EvalOptions(), listener=lambda standing, result: None
    )
    (result,) = asyncio.run(work).results
    assert (result.score, result.reason) == (1.0, "called by literal")
    kept = load_evaluation(tmp_path / "found")
    assert kept.plan.agent == "phone"
    assert "literal, a phone" in render_page(kept)
    assert "--baseline busy measures them" in "\n".join(describe_evaluation(kept))


def test_results_of_a_kind_that_is_not_installed_are_read(tmp_path: Path, suite: str) -> None:
    evaluation = prepare(EvalRequest(suite=suite, settings={"model": "literal"}, out=tmp_path / "found")).evaluation
    elsewhere = replace(evaluation, plan=replace(evaluation.plan, agent="fax"))
    assert "literal, fax" in render_page(elsewhere)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("phones", "there is no player 'phones'. Did you mean 'phone'?"),
        ("odd", "the player 'odd' is a int; expected a PlayerKind"),
        ("gone", "the player 'gone' (tiny_phone:NOT_THERE) cannot be loaded"),
    ],
)
def test_a_kind_that_cannot_be_had_is_refused(suite: str, name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_player_kind(name)
    assert text in str(caught.value)


def test_a_suite_is_played_by_its_kinds_only_and_by_working_ones(tmp_path: Path, suite: str) -> None:
    for agent, text in (("swarm", "for phone or odd or gui"), ("odd", "expected a PlayerKind")):
        with pytest.raises(ConfigError, match=text):
            prepare(EvalRequest(suite=suite, settings={"model": "literal"}, agent=agent, out=tmp_path / "found"))
