"""The suite: each check takes the solution, and neither nothing nor the near miss."""

import json
from pathlib import Path

import pytest

from apps.office.suite import all_cases, make_suite
from apps.office.suite.case import OfficeCase, OfficeTask, evaluate_case
from cua import ToolSession
from cua.messages import Reply, ToolCall
from cua.models.scripted import ScriptedModel

CASES = {case.name: case for case in all_cases()}


@pytest.mark.long
def test_the_suite_is_whole() -> None:
    suite = make_suite()
    lacking = [name for name, case in CASES.items() if case.lacks()]
    assert len(CASES) >= 100 and len(suite.task_ids) == len(CASES) - len(lacking)
    assert all(name in suite.left_out for name in lacking) and bool(lacking) == bool(suite.left_out)
    families = {case.family for case in CASES.values()}
    assert families == {"make", "edit", "extract", "convert", "reconcile", "annotate"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if at % 4 == 0 else pytest.mark.slow) for at, name in enumerate(CASES)]
)
def test_solution_one_nothing_zero_near_miss_zero(name: str, tmp_path: Path) -> None:
    case: OfficeCase = CASES[name]
    if lacks := case.lacks():
        pytest.skip(lacks)
    for what in ("solved", "untouched", "missed"):
        (tmp_path / what).mkdir()
        case.prepare(tmp_path / what)
    assert evaluate_case(case, tmp_path / "solved", case.solve(tmp_path / "solved")) == []
    assert evaluate_case(case, tmp_path / "untouched", "") != []
    assert evaluate_case(case, tmp_path / "missed", case.miss(tmp_path / "missed")) != []


@pytest.mark.slow
@pytest.mark.parametrize("does", ["solve", "nothing"])
async def test_an_agent_is_judged_by_its_folder(does: str, tmp_path: Path) -> None:
    task = OfficeTask(CASES["to-csv-1"], "office/to-csv-1")
    code = (
        "import csv, openpyxl\nrows = openpyxl.load_workbook('points.xlsx').active.iter_rows(values_only=True)\n"
        "csv.writer(open('points.csv', 'w', newline='')).writerows(rows)"
    )
    call = ToolCall(id="a", name="ipython", arguments=json.dumps({"code": code if does == "solve" else "1"}))
    model = ScriptedModel([Reply(content="", tool_calls=(call,)), "Done."])
    async with ToolSession(model=model, task=task, runs_dir=tmp_path) as session:
        result = await session.ask(task.instruction, task.inputs)
    assert result.end.score == (1.0 if does == "solve" else 0.0)
