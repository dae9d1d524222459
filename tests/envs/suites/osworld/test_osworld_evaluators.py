"""Verdicts: each comparison on right, wrong, missing and odd results, and how several of them count."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envs import EnvError
from envs.errors import EvaluationError
from envs.suites.osworld import program_settings
from envs.suites.osworld.downloads import inside
from envs.suites.osworld.evaluators import METRICS, EvalContext, UnsupportedError, judge, why_unsupported
from envs.suites.osworld.guest_client import GuestClient
from envs.suites.osworld.task_file import Metric, OsworldTaskData, TaskFile, parse_task
from tests.tables import table

NOTHING: Any = None


@pytest.fixture
def scene(tmp_path: Path) -> EvalContext:
    return EvalContext(guest=NOTHING, cache_dir=tmp_path)


def task(*metrics: Metric, conjunction: Any = "and") -> TaskFile:
    file = parse_task("os", {"id": "x", "instruction": "Do it.", "evaluator": {"func": "exact_match"}}, "x")
    return replace(file, metrics=metrics, conjunction=conjunction)


def rule(is_right: bool) -> Metric:
    wanted = {"type": "rule", "rules": {"expected": "a" if is_right else "b"}}
    return Metric(function="exact_match", result={"type": "rule", "rules": "a"}, expected=wanted)


def cached(name: str, function: str = "check_list", **rules: Any) -> Metric:
    return Metric(
        function=function, result={"type": "cache_file", "path": name}, expected={"type": "rule", "rules": rules}
    )


@table(
    ("function", "result", "rules", "score"),
    [
        ("exact_match", "a\n", {"expected": "a\n"}, 1),
        ("exact_match", "a", {"expected": "a\n"}, 0),
        ("exact_match", None, {"expected": "a"}, 0),
        ("match_in_list", "a", {"expected": ["a", "b"]}, 1),
        ("is_in_list", ["a", "b"], {"expected": "b"}, 1),
        ("is_in_list", ["a"], {"expected": "b"}, 0),
        ("check_include_exclude", "one two", {"include": ["one", "two"], "exclude": []}, 1),
        ("check_include_exclude", "one two", {"include": ["one"], "exclude": ["two"]}, 0),
        ("check_include_exclude", "one", {"include": ["two"]}, 0),
        ("check_include_exclude", "", {}, 1),
        ("check_include_exclude", None, {}, 0),
        ("check_direct_json_object", {"a": 1, "b": 2}, {"expected": {"a": 1}}, 1),
        ("check_direct_json_object", " {'a': 'x'}\n", {"expected": {"a": "x"}}, 1),
        ("check_direct_json_object", {"a": 1}, {"expected": {"a": 2}}, 0),
        ("check_direct_json_object", None, {"expected": {"a": 2}}, 0),
        ("check_direct_json_object", "1", {"expected": {"a": 2}}, 0),
        ("check_direct_json_object", "[]", {"expected": {"a": 2}}, 0),
        ("check_direct_json_object", {"a": "abc"}, {"expect_in_result": True, "expected": {"a": "b"}}, 1),
        ("check_direct_json_object", {"a": "abc"}, {"expect_in_result": True, "expected": {"a": ["b", "abc"]}}, 1),
        ("check_direct_json_object", {"a": ["q", "b"]}, {"expect_in_result": True, "expected": {"a": ["b"]}}, 1),
        ("check_direct_json_object", {"a": "abc"}, {"expect_in_result": True, "expected": {"a": ["b"]}}, 0),
        ("check_direct_json_object", {"a": 1}, {"expected": {"a": "__EVALUATION_FAILED__"}}, 0),
    ],
)
def test_a_comparison(function: str, result: Any, rules: Any, score: float) -> None:
    assert METRICS[function](result, rules) == score


@pytest.mark.parametrize(
    ("text", "rules", "score"),
    [
        ("alpha\nbeta\n", {"expect": ["^al", "ta$"]}, 1),
        ("alpha\nbeta\n", {"expect": ["gamma"]}, 0),
        ("alpha\nbeta\n", {"expect": ["alpha"], "unexpect": ["bet"]}, 0),
        ("", {}, 1),
    ],
)
async def test_lines_of_a_file(scene: EvalContext, text: str, rules: dict[str, Any], score: float) -> None:
    (scene.cache_dir / "list").write_text(text)
    assert (await judge(task(cached("list", **rules)), scene, claims_failure=False)).score == score


@pytest.mark.parametrize(
    ("text", "score"),
    [('{"a": 1, "b": [2]}', 1.0), ('{"a": 1}', 0.0), ("{", 0.0), ("[]", 0.0), ("[" * 100_000, 0.0), ('{"a": 2}', 0.0)],
)
async def test_settings_of_a_file(scene: EvalContext, text: str, score: float) -> None:
    (scene.cache_dir / "settings.json").write_text(text)
    metric = cached("settings.json", "check_json_settings", expected={"a": 1, "b": [2]})
    assert (await judge(task(metric), scene, claims_failure=False)).score == score


@pytest.mark.parametrize(
    ("right", "conjunction", "score"),
    [
        ((True, True), "and", 1.0),
        ((True, False), "and", 0.0),
        ((False, True), "or", 1.0),
        ((False, False), "or", 0.0),
    ],
)
async def test_several_comparisons(scene: EvalContext, right: tuple[bool, ...], conjunction: str, score: float) -> None:
    judged = task(*map(rule, right), conjunction=conjunction)
    assert (await judge(judged, scene, claims_failure=False)).score == score


@pytest.mark.parametrize(("conjunction", "score"), [("and", 0.0), ("or", 1.0)])
async def test_a_missing_first_file_counts_nothing(scene: EvalContext, conjunction: str, score: float) -> None:
    judged = task(cached("none"), rule(True), conjunction=conjunction)
    assert (await judge(judged, scene, claims_failure=False)).score == score


async def test_saying_failure_is_right_for_what_cannot_be_done_alone(scene: EvalContext) -> None:
    infeasible = task(Metric(function="infeasible", result={}))
    assert (await judge(infeasible, scene, claims_failure=True)).score == 1.0
    assert (await judge(infeasible, scene, claims_failure=False)).score == 0.0
    assert (await judge(task(rule(True)), scene, claims_failure=True)).score == 0.0


async def test_what_is_not_known_is_no_zero(scene: EvalContext) -> None:
    with pytest.raises(UnsupportedError, match="the function compare_pptx_files"):
        await judge(task(replace(rule(True), function="compare_pptx_files")), scene, claims_failure=False)
    with pytest.raises(UnsupportedError, match="the result vscode_config"):
        metric = replace(rule(True), result={"type": "vscode_config"})
        await judge(task(metric), scene, claims_failure=False)


def test_which_tasks_can_be_judged() -> None:
    data = OsworldTaskData()
    judged = [key for key in data.keys("all") if why_unsupported(data.task(key)) is None]
    assert len(judged) == 144
    assert sum(data.task(key).is_infeasible for key in judged) == 29


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", ""])
def test_names_do_not_lead_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnvError, match="leads out"):
        inside(tmp_path, name)


async def test_the_guest_is_asked(tmp_path: Path) -> None:
    class Guest(GuestClient):
        async def read_file(self, path: str, *, max_bytes: int = 0) -> bytes | None:
            return json.dumps({"a": 1}).encode() if path == "/settings" else None

    guest = Guest("http://127.0.0.1:9")
    scene = EvalContext(guest=guest, cache_dir=tmp_path)
    scores = []
    for path in ("/settings", "/none"):
        result = {"type": "vm_file", "path": path, "dest": "settings.json"}
        wanted = {"type": "rule", "rules": {"expected": {"a": 1}}}
        metric = Metric(function="check_json_settings", result=result, expected=wanted)
        scores.append((await judge(task(metric), scene, claims_failure=False)).score)
    await guest.close()
    assert scores == [1.0, 0.0]


def test_a_pattern_of_a_task_that_takes_for_ever_is_an_error_of_the_evaluator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_settings, "_TIMEOUT_S", 1.0)
    file = tmp_path / "printed.txt"
    file.write_text("a" * 40 + "!\nEnd\n")
    check = METRICS["check_list"]
    assert check(str(file), {"expect": ["^a+!$", "E.d"], "unexpect": ["^z"]}) == 1.0
    assert check(str(file), {"expect": ["^a+!$"], "unexpect": ["E"]}) == 0.0
    for pattern, told in (("^(a+)+$", "took longer than 1 s"), ("(", "cannot be searched for")):
        with pytest.raises(EvaluationError, match=told):
            check(str(file), {"expect": [pattern]})
