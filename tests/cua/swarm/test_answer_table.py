"""Answers with a schema become one table in the parent's folder; the orchestrator gets their number."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.messages import Message, Reply
from cua.swarm import resume_swarm
from cua.swarm.answer_table import make_table, schema_problem, table_name
from tests.cua.swarm.test_swarm import OPTIONS, Cast, call, calls, play

ROWS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "built": {"type": "integer"}},
        "required": ["name", "built"],
    },
}


class Tabular(Cast):
    """Children that answer with rows; the one of the prompt `bad` answers without JSON first."""

    def __init__(self, items: Sequence[str], schema: Any = ROWS) -> None:
        super().__init__(items)
        self.schema = schema

    async def generate(self, messages: Sequence[Message], tools: Any = (), sampling: Any = None) -> Reply:
        question, number = messages[1].text, sum(message.role == "assistant" for message in messages)
        if question == "all" and number == 1 and tools:
            self.received.append(tuple(messages))
            tasks = [call("assign_task", agent="my worker", prompt=item, schema=self.schema) for item in self.items]
            return calls(*tasks)
        if question == "all" and number == 0:
            return calls(call("create_subagent", name="my worker", system_prompt="You work."))
        if question == "all":
            return await super().generate(messages, tools, sampling)
        self.received.append(tuple(messages))
        if number == 0:
            return calls(call("note", text="look"))
        if question == "bad" and number == 1:
            return Reply(content="There are some.")
        rows = [{"name": f"{question} {n} [^0^]", "built": 1900 + n} for n in range(2)]
        return Reply(content=f"```json\n{json.dumps(rows)}\n``` " + "x" * 5000)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


async def test_rows_of_all_children_are_in_one_table_with_their_sources(tmp_path: Path) -> None:
    model = Tabular(["a", "bad", "c"])
    done = await play(tmp_path, model, replace(OPTIONS, is_extended=True))
    assert [child.state for child in done.children] == ["finished"] * 3
    (path,) = (Path(str(done.run.run_dir)) / "files" / "tables").glob("*.csv")
    assert f"tables/{path.name}" == table_name("my worker")
    rows = read(path)
    assert [row["source"] for row in rows] == ["t001", "t001", "t002", "t002", "t003", "t003"]
    assert rows[0] == {"name": "a 0 [^t001.0^]", "built": "1900", "source": "t001"}
    assert all(len(child.message) < 200 and "2 rows are in tables/" in child.message for child in done.children)
    again = await resume_swarm_from_round(tmp_path, Path(str(done.run.run_dir)))
    assert read(again) == rows


async def resume_swarm_from_round(tmp_path: Path, run_dir: Path) -> Path:
    """Resume after the first child's end: the others run again, and the table is the same."""
    path = run_dir / "trajectory.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if b"t001 finished" in line)
    path.write_bytes(b"".join(lines[: cut + 1]))
    for table in (run_dir / "files" / "tables").iterdir():
        table.unlink()
    model = Tabular(["a", "bad", "c"])
    await resume_swarm(run_dir, model=model, options=replace(OPTIONS, is_extended=True))
    assert not model.asked_by("a")
    (table,) = (run_dir / "files" / "tables").glob("*.csv")
    return table


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array", "items": {"type": "string"}}, "expected an object with properties"),
        ({"type": "object"}, "expected an object with properties"),
        ({"type": "object", "properties": {}}, "it has 0 properties"),
        ({"type": 3}, "is not valid"),
        ({"type": "object", "properties": {str(n): {} for n in range(300)}}, "it has 300 properties"),
        ({"type": "object", "properties": {"source": {}}}, "the column 'source' is added"),
        (ROWS, ""),
    ],
)
async def test_a_schema_that_is_no_table_is_refused(tmp_path: Path, schema: Any, problem: str) -> None:
    assert problem in schema_problem(schema)
    if problem:
        model = Tabular(["a"], schema)
        done = await play(tmp_path, model, replace(OPTIONS, is_extended=True))
        assert not done.children
        assert f"The schema cannot be used: {schema_problem(schema)}" in model.asked_by("all")[-1][-1].text


def test_odd_answers_and_names() -> None:
    text, counts = make_table(
        {"t002": '[{"a": null, "b": [1]}, 3]', "t001": "no JSON", "t003": '{"c": "x,\\n\\"y\\""}'}
    )
    assert counts == {"t002": 1, "t003": 1}
    assert list(csv.reader(text.splitlines(keepends=True))) == [
        ["a", "b", "c", "source"],
        ["", "[1]", "", "t002"],
        ["", "", 'x,\n"y"', "t003"],
    ]
    odd = [
        {"a": "=1+1", "source": "t009"},
        {"a": "\r=2"},
        {"a": "-5"},
        {"a": "+49 (30) 12-3"},
        {"a": "-cmd|x"},
        {"=b": -1},
    ]
    rows = list(csv.reader(make_table({"t001": json.dumps(odd)})[0].splitlines(keepends=True)))
    assert rows[0] == ["a", "'=b", "source"]
    assert [row[0] for row in rows[1:]] == ["'=1+1", "'\n=2", "-5", "+49 (30) 12-3", "'-cmd|x", ""]
    assert {row[-1] for row in rows[1:]} == {"t001"}
    names = [table_name(name) for name in ("worker", "../../etc/passwd", "a b", "a/b", "", "研究员", "x" * 500)]
    assert len(set(names)) == len(names)
    assert all(name.count("/") == 1 and ".." not in name and len(name) < 90 for name in names)
