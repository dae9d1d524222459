"""Exported evaluations are read by the programs that they are for."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from apps.evals.export import export_csv, export_inspect, export_trajectories
from tests.apps.evals.test_results import line, make_evaluation

RECORD = Path(__file__).parents[2] / "cua/trajectory/records/task"


@pytest.mark.slow
def test_inspect_ai_reads_the_log(tmp_path: Path) -> None:
    log_module = pytest.importorskip("inspect_ai.log")
    runs = tmp_path / "e" / "runs"
    runs.mkdir(parents=True)
    shutil.copytree(RECORD, runs / "one")
    broken = line("buy", 2, None, reason="the <b>browser</b> is gone")
    slow = line("sell", 2, None, kind="timeout", reason="over 180 s")
    lines = [line(run_dir="runs/one", input_tokens=7), broken, line("sell", 1, 0.25), slow]
    log = log_module.read_eval_log(str(export_inspect(make_evaluation(tmp_path / "e", *lines))))
    assert (log.status, log.eval.task, log.eval.model, log.eval.task_version) == ("success", "shop", "literal", "3")
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    assert metrics == {"mean_full": 0.3125, "mean_scored": 0.625, "success_full": 0.25, "success_scored": 0.5}
    assert (log.results.total_samples, log.results.completed_samples) == (4, 2)
    assert [(sample.id, sample.epoch) for sample in log.samples] == [
        ("buy#1", 1),
        ("sell#1", 1),
        ("buy#2", 1),
        ("sell#2", 1),
    ]
    first, graded, failed, late = log.samples
    assert (first.input, first.scores["task"].value, graded.scores["task"].value) == ("Click Go", 1.0, 0.25)
    assert (failed.scores, failed.error.message) == (None, "environment: the <b>browser</b> is gone")
    assert (late.error, late.limit.type) == (None, "time")
    assert log.stats.model_usage["literal"].input_tokens == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+SUM(A1)", "'+SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("@x", "'@x"),
        ("\t=1", "'    =1"),
        ("\r=1", "␍=1"),
        (" =1", "' =1"),
        ("＝1", "'＝1"),
        ('a\nb,"c"', 'a␊b,"c"'),
        ("a=1", "a=1"),
    ],
)
def test_no_text_of_a_table_is_a_formula(tmp_path: Path, text: str, expected: str) -> None:
    path = export_csv(make_evaluation(tmp_path / "e", line(reason=text), line("sell", 2, None, reason="gone")))
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    assert [(row["task_id"], row["seed"], row["score"], row["reason"], row["ending"]) for row in rows] == [
        ("buy", "1", "1.0", expected, "succeeded"),
        ("sell", "2", "", "gone", "env_error"),
    ]


def test_trajectories_of_all_runs(tmp_path: Path) -> None:
    runs = tmp_path / "e" / "runs"
    runs.mkdir(parents=True)
    shutil.copytree(RECORD, runs / "one")
    (runs / "two").mkdir()
    evaluation = make_evaluation(
        tmp_path / "e", line(run_dir="runs/one"), line("buy", 2, run_dir="runs/two"), line("sell")
    )
    folder, lost = export_trajectories(evaluation)
    assert [file.relative_to(folder).as_posix() for file in folder.rglob("*.json")] == ["one/trajectory.json"]
    content = json.loads((folder / "one/trajectory.json").read_text("utf-8"))
    image = content["steps"][0]["message"][1]["source"]["path"]
    assert (folder / "one" / image).resolve().is_relative_to(runs / "one" / "images")
    assert [why.partition(":")[0] for why in lost] == ["sell, seed 1", "buy, seed 2"]
    copied, _ = export_trajectories(evaluation, tmp_path / "elsewhere")
    assert len(list(copied.glob("one/images/*.png"))) >= 1
