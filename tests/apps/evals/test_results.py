"""Folders of evaluations: what is written is read again, and what a stranger wrote is refused in one line."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.evals.compare import compare, describe_comparison
from apps.evals.episodes import EPISODES
from apps.evals.plan import (
    EvalPlan,
    Selection,
    find_checkout,
    find_differences,
    make_plan,
    plan_keys,
    select_seeds,
    select_tasks,
)
from apps.evals.request import EvalRequest, prepare
from apps.evals.results import RESULTS, Evaluation, KnownBaseline, load_evaluation, save_results
from apps.evals.run import finish
from apps.evals.text import describe_evaluation, describe_key, describe_unavailable
from cua.batch import EpisodeLog, EpisodeResult
from cua.errors import ConfigError, TrajectoryError
from envs import EnvSetupError, InstructionTask, Suite, Task, TaskSpec, TaskVerdict
from envs.suite import LABELS

PLAN = EvalPlan(
    suite="shop",
    suite_name="shop",
    revision="3",
    suite_options={},
    task_ids=["buy", "sell"],
    families={"buy": "trade"},
    seeds=[1, 2],
    repeats=1,
    model="literal",
    settings={"max_images": 3},
    max_steps=10,
    max_time_s=60.0,
)


def line(task_id: str = "buy", seed: int | None = 1, score: float | None = 1.0, **more: Any) -> dict[str, Any]:
    kind = "scored" if score is not None else "env_error"
    told = {"event": "ended", "task_id": task_id, "seed": seed, "repeat": 0, "kind": kind, "score": score}
    return {**told, "reason": "checked", "num_steps": 2, "duration_s": 1.5, "run_dir": None, **more}


def write_log(folder: Path, *lines: object, end: str = "\n") -> None:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in ({"event": "batch", "version": 1}, *lines)]
    folder.mkdir(exist_ok=True)
    (folder / EPISODES).write_text("\n".join(texts) + end, "utf-8")


def make_evaluation(folder: Path, *lines: object) -> Evaluation:
    write_log(folder, *lines)
    known = {"null": KnownBaseline(score=0.25, num_episodes=4, command="cua eval shop --baseline null")}
    return finish(Evaluation(folder=folder, plan=PLAN, started_at=1.0, baselines=known), "stopped by the user")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    lines = [{"event": "begun", "task_id": "x"}, line("sell", 2, 0.5), line(), line("buy", 2, None)]
    written = make_evaluation(tmp_path / "e", *lines)
    assert (written.status, written.num_unfinished, written.why_stopped) == ("unfinished", 1, "stopped by the user")
    assert [one.key for one in written.results] == [("buy", 1, 0), ("buy", 2, 0), ("sell", 2, 0)]
    read = load_evaluation(tmp_path / "e")
    assert read == written
    assert read.figures.by_family.keys() == {"", "trade"}
    words = "\n".join(describe_evaluation(read))
    assert "score      50.0 %" in words
    assert "unfinished: 1 of 4 episodes are not over: stopped by the user" in words
    assert "null       25.0 %  an agent that does nothing" in words


def test_tasks_of_one_template_are_drawn_together_and_figures_are_told_by_label(tmp_path: Path) -> None:
    ids = [f"task-{n}" for n in range(20)]
    template = {id: str(n // 10) for n, id in enumerate(ids)}
    labels = {"template": template, "site": {"task-0": "shop"}}
    alone = replace(PLAN, task_ids=ids, families={}, seeds=[1], labels=labels)
    lines = [line(id, score=float(template[id]), other_scores={"upstream": 1.0}) for id in ids]
    write_log(tmp_path / "e", *lines)
    apart = finish(Evaluation(folder=tmp_path / "e", plan=alone)).figures.all.mean_full_interval
    written = finish(Evaluation(folder=tmp_path / "e", plan=replace(alone, cluster_by="template")))
    read = load_evaluation(tmp_path / "e")
    assert read == written and read.figures == written.figures
    together = read.figures.all.mean_full_interval
    assert apart is not None and together is not None
    assert (apart.method, together.method) == ("wilson", "clustered")
    assert together.low < 0.15 and together.high > 0.85 and apart.low > 0.2
    assert {name: one.num_succeeded for name, one in read.figures.by_label["template"].items()} == {"0": 0, "1": 10}
    assert read.figures.by_label["site"]["shop"].num_episodes == 1
    words = "\n".join(describe_evaluation(read))
    assert "upstream  100.0 %" in words and "\ntemplate  episodes" in words and "\nsite  " in words
    page = (tmp_path / "e" / "index.html").read_text("utf-8")
    assert "By template" in page and "by the spread of templates" in page


def test_a_task_tells_its_labels() -> None:
    def make_task(task_id: str, seed: int | None) -> Task:
        metadata = {LABELS: {"template": 7} if task_id == "a" else "none"}
        return InstructionTask(instruction="go", spec=TaskSpec(id=task_id, metadata=metadata))

    suite = Suite(name="s", about="", task_ids=("a", "b"), make_task=make_task, cluster_by="template")
    options: dict[str, Any] = {"path": "s", "options": {}, "model": "m", "settings": {}}
    plan = make_plan(suite, Selection(), **options, max_steps=1, max_time_s=None)
    assert (plan.labels, plan.cluster_by) == ({"template": {"a": "7"}}, "template")


def test_the_last_word_about_an_episode_counts_and_a_torn_line_does_not(tmp_path: Path) -> None:
    write_log(tmp_path, line(score=0.0), line(score=1.0), '{"event": "ended", "task_id": "se', end="")
    save_results(Evaluation(folder=tmp_path, plan=PLAN))
    assert [one.score for one in load_evaluation(tmp_path).results] == [1.0]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (line(score=1.5), "line 2, is not a line of an episode log: score"),
        (line(score=float("nan")), "score"),
        (line(kind="timeout"), "kind 'timeout' with score 1.0"),
        (line(kind="won"), "kind"),
        (line(task_id="x" * 300), "task_id"),
        (line(duration_s=float("inf")), "duration_s"),
        (line(task_id="steal"), "an episode \\('steal', 1, 0\\) that results.json does not plan"),
        (line(num_steps=-1), "num_steps"),
    ],
)
def test_a_strangers_journal_is_judged(tmp_path: Path, bad: object, text: str) -> None:
    write_log(tmp_path, bad)
    save_results(Evaluation(folder=tmp_path, plan=PLAN))
    with pytest.raises(TrajectoryError, match=text) as error:
        load_evaluation(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", ["[]", "[" * 5000, "no json", "\0", '{"event": "ended", "task_id": "buy"'])
def test_a_line_of_another_program_is_left_out_and_named(tmp_path: Path, bad: str) -> None:
    written = make_evaluation(tmp_path, line(), bad, line("sell"))
    assert [one.key for one in written.results] == [("buy", 1, 0), ("sell", 1, 0)]
    assert load_evaluation(tmp_path) == written
    assert "they were left out: line 3" in "\n".join(describe_evaluation(written))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "its version is 2, expected 1"),
        ({"status": "won"}, "status"),
        ({"started_at": float("nan")}, "Out of range|JSON compliant"),
        ({"plan": {}}, "plan.suite: Field required"),
        ({"baselines": {"null": {"score": 7, "num_episodes": 1, "command": ""}}}, "baselines.null.score"),
        ({"checkout": {"commit": "--upload-pack=x", "is_dirty": False}}, "checkout.commit"),
    ],
)
def test_strange_results_are_judged(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    make_evaluation(tmp_path / "e", line())
    path = tmp_path / "e" / RESULTS
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **change}), "utf-8")
    with pytest.raises(TrajectoryError, match=text):
        load_evaluation(tmp_path / "e")


def test_a_plan_that_counts_to_the_moon_is_refused(tmp_path: Path) -> None:
    make_evaluation(tmp_path / "e", line())
    path = tmp_path / "e" / RESULTS
    content = json.loads(path.read_text("utf-8"))
    content["plan"] |= {"repeats": 100_000, "seeds": list(range(1000))}
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(TrajectoryError, match="200000000 episodes, at most 500000 are possible"):
        load_evaluation(tmp_path / "e")
    content["plan"] |= {"repeats": 1, "seeds": [1, 1]}
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(TrajectoryError, match="it lists a seed twice"):
        load_evaluation(tmp_path / "e")


def test_no_folder_of_an_evaluation(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match=r"there is no results\.json in"):
        load_evaluation(tmp_path)
    (tmp_path / RESULTS).symlink_to("/etc/passwd")
    with pytest.raises(TrajectoryError, match="through a link"):
        load_evaluation(tmp_path)
    (tmp_path / RESULTS).unlink()
    os.mkfifo(tmp_path / RESULTS)
    with pytest.raises(TrajectoryError, match="not a regular file"):
        load_evaluation(tmp_path)


@pytest.mark.parametrize("run_dir", ["../../etc", "/etc", "runs/..", "", None, "runs/.hidden", "runs/a b", "runs/gone"])
def test_a_run_outside_of_the_folder_is_not_linked(tmp_path: Path, run_dir: str | None) -> None:
    evaluation = make_evaluation(tmp_path / "e", line(run_dir=run_dir))
    assert evaluation.find_run(evaluation.results[0]) is None
    (tmp_path / "e" / "runs" / "good").mkdir(parents=True)
    good = make_evaluation(tmp_path / "e", line(run_dir="/elsewhere/runs/good"))
    assert good.find_run(good.results[0]) == "runs/good"
    assert good.find_report(good.results[0]) is None


def test_flips_lead_to_both_runs(tmp_path: Path) -> None:
    before, after = (
        make_evaluation(tmp_path / name, line(score=score, run_dir="runs/one"))
        for name, score in (("a", 0.0), ("b", 1.0))
    )
    (tmp_path / "b" / "runs" / "one").mkdir(parents=True)
    words = "\n".join(describe_comparison(compare(before.results, after.results), before, after))
    assert "+ buy, seed 1: 0 -> 1" in words
    assert f"B: {tmp_path}/b/runs/one" in words
    assert f"A: {tmp_path}/a/runs" not in words


SUITE = Suite(
    name="shop",
    about="",
    task_ids=("shop/buy-1", "shop/buy-2", "shop/sell-1"),
    make_task=lambda id, seed: InstructionTask(instruction=""),
    seeds=(3, 5),
)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), [0, 1, 2]),
        (Selection(patterns=("buy-*",)), [0, 1]),
        (Selection(patterns=("*-1", "shop/buy-2")), [0, 1, 2]),
        (Selection(limit=1, patterns=("sell-?",)), [2]),
        (Selection(limit=9), [0, 1, 2]),
        (Selection(sample=9), [0, 1, 2]),
    ],
)
def test_tasks_are_chosen_in_the_suites_order(selection: Selection, expected: list[int]) -> None:
    assert select_tasks(SUITE, selection) == [SUITE.task_ids[place] for place in expected]


def test_a_sample_follows_from_its_seed() -> None:
    drawn = {tuple(select_tasks(SUITE, Selection(sample=2, sample_seed=seed))) for seed in range(20)}
    assert len(drawn) == 3
    assert all(list(one) == [id for id in SUITE.task_ids if id in one] for one in drawn)
    same = [select_tasks(SUITE, Selection(sample=2, sample_seed=4)) for _ in range(2)]
    assert same[0] == same[1]


def test_seeds_are_the_suites_and_then_count_on() -> None:
    assert [select_seeds(SUITE, count) for count in (None, 1, 4)] == [[3, 5], [3], [3, 5, 6, 7]]
    still = Suite(name="still", about="", task_ids=("a",), make_task=SUITE.make_task)
    assert select_seeds(still, None) == [None]
    with pytest.raises(ConfigError, match="use --repeats to repeat each"):
        select_seeds(still, 2)
    with pytest.raises(ConfigError, match="no task of 'shop' matches 'buy'"):
        select_tasks(SUITE, Selection(patterns=("buy",)))


def test_every_task_comes_once_before_any_comes_twice() -> None:
    assert plan_keys(PLAN) == [("buy", 1, 0), ("sell", 1, 0), ("buy", 2, 0), ("sell", 2, 0)]
    assert find_differences(PLAN, PLAN) == []


def test_the_checkout_is_told_where_there_is_one(tmp_path: Path) -> None:
    assert find_checkout(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert find_checkout(tmp_path) is None


@pytest.mark.parametrize("bad", ["x" * 201, "\ud83d\ude00", "half \ud800", "two\nlines", "\x1b[31mred", "", 7])
def test_an_id_that_results_could_not_hold_is_refused_before_anything_is_played(tmp_path: Path, bad: Any) -> None:
    file, out = tmp_path / "odd.py", tmp_path / "found"
    file.write_text(f"from envs import Suite\ndef make_suite():\n    return Suite({_fields(('good', bad))})\n", "utf-8")
    with pytest.raises(EnvSetupError, match=r"the id of a task is one line|a task without an id") as refused:
        prepare(EvalRequest(suite=str(file), settings={"model": "baseline:null"}, out=out))
    assert str(refused.value).isprintable() and not out.exists()


@pytest.mark.parametrize("field", ["name", "revision", "groups"])
@pytest.mark.parametrize("text", ["x" * 2_001, "half \ud800"])
def test_other_texts_of_a_suite_that_could_not_be_read_again_are_refused(tmp_path: Path, field: str, text: str) -> None:
    file, out = tmp_path / "odd.py", tmp_path / "found"
    more = {field: {text: ("a",)} if field == "groups" else text}
    file.write_text(
        f"from envs import Suite\ndef make_suite():\n    return Suite({_fields(('a',), **more)})\n", "utf-8"
    )
    with pytest.raises(ConfigError, match="the suite cannot be evaluated"):
        prepare(EvalRequest(suite=str(file), settings={"model": "baseline:null"}, out=out))
    assert not out.exists()


@pytest.mark.parametrize(("given", "expected"), [({}, False), ({"mark_untrusted": True}, True)])
def test_requests_of_an_evaluation_are_as_published_unless_set(
    tmp_path: Path, given: dict[str, Any], expected: bool
) -> None:
    file, out = tmp_path / "odd.py", tmp_path / "found"
    file.write_text(f"from envs import Suite\ndef make_suite():\n    return Suite({_fields(('a',))})\n", "utf-8")
    prepared = prepare(EvalRequest(suite=str(file), settings={"model": "baseline:null", **given}, out=out))
    assert prepared.settings["mark_untrusted"] is expected
    assert prepared.evaluation.plan.settings["mark_untrusted"] is expected


def _fields(ids: tuple[Any, ...], **more: Any) -> str:
    given = {"name": "odd", "about": "", "task_ids": ids, **more}
    return ", ".join([*(f"{name}={value!a}" for name, value in given.items()), "make_task=lambda task_id, seed: None"])


def test_foreign_texts_of_any_length_are_written_so_that_they_are_read(tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(300):
        nested = [nested]

    odd = TaskVerdict(1.0, other_scores={"y" * 3_000: 1.0}, info={"k" * 2_500: 1, "half": "\ud800"})
    named: dict[str, Any] = {"task_id": "buy", "seed": 1, "repeat": 0, "kind": "scored", "score": 1.0}
    told: dict[str, Any] = {"other_scores": odd.other_scores, "info": odd.info}
    with EpisodeLog(tmp_path) as log:
        asyncio.run(log.ended(EpisodeResult(**named, reason="\ud800" + "z" * 2_000_000, **told)))
        deep = TaskVerdict(1.0, info={"deep": nested}).info
        asyncio.run(log.ended(EpisodeResult(**{**named, "seed": 2}, reason="", info=deep)))
    found = finish(Evaluation(folder=tmp_path, plan=PLAN)).results
    assert [(one.score, len(one.reason)) for one in found] == [(1.0, 2_000), (1.0, 0)]
    assert load_evaluation(tmp_path).results == found


def test_an_id_of_several_lines_in_a_folder_of_another_is_shown_on_one() -> None:
    assert describe_key(("a\nb", 1, 0)) == "a␊b, seed 1"
    assert list(describe_unavailable({"a\r\nb": "no network"})) == ["1 task: no network (a␍␊b)"]
