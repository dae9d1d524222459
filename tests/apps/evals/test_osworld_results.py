"""OSWorld's own view of an evaluation: upstream's score beside ours, groups, the result tree and reading one."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apps.evals.osworld import (
    describe_groups,
    export_result_tree,
    read_result_tree,
    summarize_groups,
)
from apps.evals.page import render_page
from apps.evals.results import Evaluation, load_evaluation, save_results
from apps.evals.run import finish
from apps.evals.text import describe_share
from cua.errors import TrajectoryError
from cua.run.end import End
from cua.trajectory import TrajectoryWriter
from envs.suites.osworld.task_file import GROUPS, OsworldTaskData
from tests.apps.evals.test_results import PLAN, line, write_log
from tests.cua.trajectory import samples

HARNESS = Path(os.environ.get("OSWORLD_CHECKOUT", "/nowhere"), "show_result.py")
DATA = OsworldTaskData()
INFEASIBLE = [f"osworld/{key}" for key in DATA.keys("infeasible") if key.startswith("vlc/")]
FEASIBLE = [
    f"osworld/{key}"
    for domain in ("vlc", "os", "chrome", "thunderbird")
    for key in DATA.keys("all", [domain])
    if f"osworld/{key}" not in INFEASIBLE
]


def run_in(folder: Path, end: End) -> str:
    with TrajectoryWriter.create(folder / "runs", samples.HEADER) as writer:
        step = samples.make_step(1)
        writer.observed(1, step.observation)
        writer.replied(1, step.reply)
        writer.acting(1, step.turn, step.actions)
        writer.acted(step, 0.0, {})
        writer.observed(2, samples.make_observation(2))
        writer.ended(replace(samples.ENDED, end=end))
    return f"runs/{writer.run_dir.name}"


def evaluation(folder: Path) -> Evaluation:
    """Ended by the agent or not, at the last step or before, feasible or not, with a score or without."""
    folder.mkdir()
    failed = run_in(folder, End(status="failed", reason="", score=0.5))
    capped = run_in(folder, End(status="capped", cap="steps", reason="", score=1.0))
    capped_in_vain = run_in(folder, End(status="capped", cap="loop", reason="", score=0.0))
    ids = [INFEASIBLE[0], INFEASIBLE[1], *FEASIBLE[:3], next(id for id in FEASIBLE if "/os/" in id)]
    scores = [1.0, 0.0, 0.5, 1.0, 1.0, None]
    runs = [failed, capped_in_vain, failed, capped, failed, None]
    steps = [2, 2, 2, 2, PLAN.max_steps, 2]
    lines = [
        line(id, None, score, run_dir=run, num_steps=count)
        for id, score, run, count in zip(ids, scores, runs, steps, strict=True)
    ]
    write_log(folder, *lines)
    plan = replace(
        PLAN,
        suite="osworld",
        suite_name="osworld",
        revision="abc",
        task_ids=ids,
        families={id: id.split("/")[1] for id in ids},
        seeds=[None],
        model="moonshot/kimi k2.5",
    )
    return finish(Evaluation(folder=folder, plan=plan, started_at=1.0), "")


def test_what_the_harness_would_have_scored(tmp_path: Path) -> None:
    found = evaluation(tmp_path / "e")
    theirs = found.upstream_scores
    # said failure; never ended, which counts as FAIL; ended; capped; ended in the last step; no score
    assert [theirs.get(one.key) for one in found.results] == [1.0, 1.0, 0.5, 0.0, 0.0, None]
    groups = summarize_groups(found)
    assert set(groups) == {"vlc", "os", "Daily", "OS", "all"}
    ours, upstream = groups["all"]
    assert (ours.num_scored, ours.num_episodes) == (5, 6)
    assert (ours.mean_full, ours.mean_scored) == (3.5 / 6, 0.7)
    assert (upstream.mean_full, upstream.mean_scored) == (2.5 / 6, 0.5)
    assert groups["OS"][0].mean_scored is None
    rows = {row.split()[0]: row.split() for row in describe_groups(found) if row.strip()}
    assert rows["all"] == ["all", "6", "5", "58.3", "%", "70.0", "%", "41.7", "%", "50.0", "%"]


def test_the_score_that_the_harness_would_give_is_recorded_with_the_verdict(tmp_path: Path) -> None:
    given = evaluation(tmp_path / "e")
    first = replace(given.results[2], other_scores={"upstream": 1.0})
    assert first.score == 0.5 and given.upstream_scores[first.key] == 0.5
    recorded = replace(given, results=(*given.results[:2], first, *given.results[3:]), groups=GROUPS)
    assert recorded.upstream_scores[first.key] == 1.0
    by_group = recorded.figures.by_group
    assert {name: one.num_episodes for name, one in by_group.items()} == {"Daily": 5, "OS": 1}
    assert by_group["Daily"].mean_full == 0.7
    _, upstream = summarize_groups(recorded)["all"]
    page = render_page(recorded)
    assert "Score by upstream&#39;s rules" in page and describe_share(upstream.mean_full) in page
    assert ">Daily<" in page and ">Daily<" not in render_page(given)
    save_results(recorded)
    assert load_evaluation(tmp_path / "e").groups == GROUPS
    told = json.loads((tmp_path / "e" / "results.json").read_text())["figures"]["by_rule"]
    assert told.keys() == {"upstream"}
    assert (told["upstream"]["mean_full"], told["upstream"]["mean_scored"]) == (3.0 / 6, 0.6)


def test_our_score_of_a_run_by_upstreams_rules(tmp_path: Path) -> None:
    given = evaluation(tmp_path / "e")
    first = replace(given.results[2], other_scores={"default": 0.25})
    recorded = replace(given, results=(*given.results[:2], first, *given.results[3:]))
    ours, upstream = summarize_groups(recorded)["all"]
    assert (ours.mean_scored, upstream.mean_scored) == (3.25 / 5, 0.5)
    assert recorded.figures.by_rule.keys() == {"default", "upstream"}
    assert recorded.figures.by_rule["default"].mean_scored == 3.25 / 5
    assert "Score by our own rules" in render_page(recorded)


def test_the_result_tree(tmp_path: Path) -> None:
    found = evaluation(tmp_path / "e")
    root, lost = export_result_tree(found, tmp_path / "tree")
    model = root / "pyautogui" / "screenshot" / "moonshot_kimi_k2.5"
    assert [why.partition(": ")[2] for why in lost] == ["it has no record"]
    key = found.results[2].task_id.partition("/")[2]
    assert (model / key / "result.txt").read_text() == "0.5\n"
    assert json.loads((model / key / "traj.jsonl").read_text().splitlines()[0])["step_num"] == 1
    told = json.loads((model / "args.json").read_text())
    assert (told["task_data_revision"], told["max_steps"]) == ("abc", 10)
    scores, odd = read_result_tree(model)
    assert odd == []
    assert scores == {one.task_id.partition("/")[2]: one.score for one in found.results if one.score is not None}


def test_the_tree_of_another_suite_is_refused(tmp_path: Path) -> None:
    other = Evaluation(folder=tmp_path, plan=PLAN)
    with pytest.raises(TrajectoryError, match="has the suite 'shop'"):
        export_result_tree(other)


@pytest.mark.parametrize(
    ("text", "score", "told"),
    [
        ("1.0\n", 1.0, None),
        ("0.25", 0.25, None),
        ("True", 1.0, None),
        ("", None, "result.txt is '', expected a number"),
        ("nan\n", None, "expected a number from 0 to 1"),
        ("inf", None, "expected a number from 0 to 1"),
        ("-1", None, "expected a number from 0 to 1"),
        ("None", None, "result.txt is 'None', expected a number"),
        ("1.0" * 10_000, None, "expected a number"),
        (None, None, None),
    ],
)
def test_a_result_of_whatever_kind(tmp_path: Path, text: str | None, score: float | None, told: str | None) -> None:
    folder = tmp_path / "os" / "a-task"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / "result.txt").write_text(text)
    scores, odd = read_result_tree(tmp_path)
    assert scores == {"os/a-task": score}
    assert len(odd) == (told is not None) and (told is None or told in odd[0])


def test_half_written_and_foreign_folders(tmp_path: Path) -> None:
    for name in ("os/half", "os/whole", "photos/2024", "os/odd"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "os/half/traj.jsonl").write_text('{"step_num": 1}\n{"step_nu')
    (tmp_path / "os/whole/traj.jsonl").write_text('{"step_num": 1}\n')
    (tmp_path / "os/whole/result.txt").write_text("1")
    (tmp_path / "os/odd/result.txt").mkdir()
    (tmp_path / "os/notes.txt").write_text("")
    (tmp_path / "all_result.json").write_text("")
    scores, odd = read_result_tree(tmp_path)
    assert scores == {"os/half": None, "os/whole": 1.0, "os/odd": None}
    assert odd == [
        "os/half: traj.jsonl ends within a line",
        "os/odd: result.txt cannot be read: Is a directory",
        "photos/2024: OSWorld has no domain 'photos'",
    ]
    with pytest.raises(TrajectoryError, match="there is no folder"):
        read_result_tree(tmp_path / "none")


@pytest.mark.skipif(not HARNESS.is_file(), reason="OSWORLD_CHECKOUT names no checkout of xlang-ai/OSWorld")
def test_the_harness_reads_the_tree(tmp_path: Path) -> None:
    found = evaluation(tmp_path / "e")
    root, _ = export_result_tree(found, tmp_path / "tree")
    argv = [sys.executable, str(HARNESS), "--model", "moonshot_kimi_k2.5", "--result_dir", str(root)]
    told = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "Domain: vlc Runned: 5 Success Rate: 70.0 %" in told
    assert "Runned: 5 Current Success Rate: 70.0 % 3.5 / 5" in told
