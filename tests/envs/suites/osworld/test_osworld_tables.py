"""Sheets of real workbooks compared, and files that tasks bring along from the web."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs.errors import EnvSetupError, EvaluationError
from envs.suites.osworld.downloads import get_file
from envs.suites.osworld.evaluators import compare_table, why_unsupported
from envs.suites.osworld.task_file import OsworldTaskData

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("pandas")
ROWS = [["name", "count"], ["a", 1], ["b", 2.00001]]


def write(path: Path, **sheets: list[list[Any]]) -> str:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return str(path)


def compare(result: str | None, expected: str | None, *rules: dict[str, Any]) -> float:
    return compare_table(result, expected, {"rules": list(rules)})


DATA = {"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}


@pytest.mark.parametrize(
    ("rows", "rule", "score"),
    [
        (ROWS, {}, 1.0),
        ([["name", "count"], ["a", 1], ["b", 2.000012]], {}, 1.0),
        ([["name", "count"], ["a", 1], ["b", 2.000012]], {"precision": 6}, 0.0),
        ([["name", "count"], ["a", 1], ["b", 3]], {}, 0.0),
        ([["name", "count"], ["a", 1], ["B", 2.00001]], {}, 0.0),
        ([*ROWS, ["c", 3]], {}, 0.0),
        (ROWS, {"sheet_idx0": "RNother"}, 0.0),
        (ROWS, {"sheet_idx0": 7}, 0.0),
        (ROWS, {"sheet_idx0": "RNmine", "sheet_idx1": "ENmine"}, 1.0),
        (ROWS, {"sheet_idx0": "RI0", "sheet_idx1": "RI0"}, 1.0),
    ],
)
def test_values(tmp_path: Path, rows: list[list[Any]], rule: dict[str, Any], score: float) -> None:
    result, expected = write(tmp_path / "r.xlsx", mine=rows), write(tmp_path / "e.xlsx", mine=ROWS)
    assert compare(result, expected, DATA | rule) == score


def test_every_rule_has_to_hold(tmp_path: Path) -> None:
    result = write(tmp_path / "r.xlsx", one=ROWS, two=[["x"]])
    expected = write(tmp_path / "e.xlsx", one=ROWS, two=[["y"]])
    names = {"type": "sheet_name"}
    assert compare(result, expected, DATA, names) == 1.0
    assert compare(result, expected, DATA, {**DATA, "sheet_idx0": 1, "sheet_idx1": "EI1"}) == 0.0
    other = write(tmp_path / "o.xlsx", one=ROWS)
    assert compare(other, expected, DATA, names) == 0.0


def test_sheets_as_printed(tmp_path: Path) -> None:
    result, expected = write(tmp_path / "r.xlsx", S=ROWS), write(tmp_path / "e.xlsx", S=ROWS)
    printed = {"type": "sheet_print", "sheet_idx0": "RNS", "sheet_idx1": "ENS"}
    assert compare(result, expected, printed) == 0.0  # nobody has printed it
    (tmp_path / "e-S.csv").write_text("Name,Count\na,1\n")
    (tmp_path / "r-S.csv").write_text("name,count \na,1\n\n\n")
    assert compare(result, expected, printed) == 0.0
    assert compare(result, expected, {**printed, "ignore_case": True}) == 1.0
    (tmp_path / "r-S.csv").write_bytes("Name,Count\ná,1\n".encode("latin-1"))
    assert compare(result, expected, printed) == 0.0


def test_what_is_no_workbook(tmp_path: Path) -> None:
    good = write(tmp_path / "e.xlsx", S=ROWS)
    for content in (b"", b"PK\x03\x04 no", b"name,count\n"):
        (tmp_path / "r.xlsx").write_bytes(content)
        assert compare(str(tmp_path / "r.xlsx"), good, DATA) == 0.0
    assert compare(None, good, DATA) == compare(str(tmp_path / "none.xlsx"), good, DATA) == 0.0
    with pytest.raises(EvaluationError, match=r"the reference r\.xlsx is not a workbook"):
        compare(good, str(tmp_path / "r.xlsx"), DATA)
    for index in ("S", "XI0", "", "R"):
        with pytest.raises(EvaluationError, match="does not name a sheet"):
            compare(good, good, {**DATA, "sheet_idx0": index})
    with pytest.raises(EvaluationError, match="no sheet 'ENother' to compare with"):
        compare(good, good, {**DATA, "sheet_idx1": "ENother"})
    with pytest.raises(EvaluationError, match="does not name a sheet"):
        compare(good, None, DATA)


def test_tasks_with_other_rules_are_left_to_upstreams() -> None:
    data = OsworldTaskData()
    tables = [
        task
        for task in map(data.task, data.keys())
        if any(metric.function == "compare_table" for metric in task.metrics)
    ]
    missing = [why_unsupported(task) for task in tables]
    assert (len(tables), missing.count(None)) == (60, 37)
    assert "the rule pivot_table of compare_table" in missing


@pytest.fixture
def web() -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            is_there = self.path in ("/file", "/page") or (self.path == "/late" and seen.count("/late") == 2)
            self.send_response(200 if is_there or self.path == "/cut" else 503)
            self.send_header("Content-Type", "text/html" if self.path == "/page" else "text/plain")
            self.send_header("Content-Length", "9" if self.path == "/cut" else "4")
            self.end_headers()
            self.wfile.write(b"data")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_a_file_is_downloaded_once_and_whole(web: tuple[str, list[str]], tmp_path: Path) -> None:
    url, seen = web
    path = tmp_path / "task" / "name.txt"

    async def get_twice() -> None:
        await asyncio.gather(get_file(f"{url}/file", path), get_file(f"{url}/file", path))
        await get_file(f"{url}/file", path)

    asyncio.run(get_twice())
    assert path.read_bytes() == b"data" and len(seen) <= 2
    asyncio.run(get_file(f"{url}/late", path.with_name("late")))
    assert seen.count("/late") == 2

    async def fail_to_get(what: str) -> None:
        with pytest.raises(
            EnvSetupError, match=f"cannot be downloaded: .*put it into .* as {what}, as downloaded from"
        ):
            await get_file(f"{url}/{what}", path.with_name(what))

    async def fail_side_by_side() -> None:
        await asyncio.gather(*map(fail_to_get, ("cut", "gone", "page")))

    asyncio.run(fail_side_by_side())
    with pytest.raises(EnvSetupError, match="cannot be downloaded from there"):
        asyncio.run(get_file("file:///etc/passwd", path.with_name("passwd")))
    assert sorted(file.name for file in path.parent.iterdir()) == ["late", "name.txt"]
