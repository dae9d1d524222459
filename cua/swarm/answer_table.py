"""Table of the answers of sub-agents with a schema: merged by code, outside of the orchestrator's context."""

import collections
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

TABLES = "tables"
SOURCE = "source"
"""Last column of a table: the task that the row comes from. Marks in cells, such as `[^t003.2^]`, name the calls."""
MAX_COLUMNS = 200  # bounds a table whose schema a model wrote


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Return the reason why answers of this JSON schema are not rows of a table, or ""."""
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return str(error.message)[:300]
    row = schema.get("items", {}) if schema.get("type") == "array" else schema
    if not isinstance(row, Mapping) or row.get("type") != "object" or not isinstance(row.get("properties"), Mapping):
        return "expected an object with properties, or an array of such objects"
    if not 0 < len(row["properties"]) <= MAX_COLUMNS:
        return f"it has {len(row['properties'])} properties; expected 1 to {MAX_COLUMNS}"
    if SOURCE in row["properties"]:
        return f"the column {SOURCE!r} is added to the table with the task of each row; name this property differently"
    return ""


def table_name(agent: str) -> str:
    """Return the file of an agent's table, within the folder of its parent."""
    plain = re.sub(r"[^\w-]+", "-", agent).strip("-")[:60]
    mark = "" if plain == agent else "-" + hashlib.sha256(agent.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{TABLES}/{plain or 'agent'}{mark}.csv"


def make_table(answers: Mapping[str, str]) -> tuple[str, Mapping[str, int]]:
    """Merge answers, by task, into one CSV table in the order of the tasks.

    A text that a spreadsheet would take for a formula begins with an apostrophe.

    Returns:
        The table, and the number of rows by task.
    """
    rows = [(task, row) for task, answer in sorted(answers.items()) for row in _rows_of(answer)]
    columns = list(dict.fromkeys(name for _, row in rows for name in row if name != SOURCE))[:MAX_COLUMNS]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*map(_plain, columns), SOURCE])
    for task, row in rows:
        writer.writerow([*(_cell(row.get(name), task) for name in columns), task])
    return text.getvalue(), collections.Counter(task for task, _ in rows)


def _rows_of(answer: str) -> Iterator[Mapping[str, Any]]:
    try:
        value = json.loads(answer)
    except ValueError:  # the last text of a child that did not answer
        return
    for row in value if isinstance(value, list) else [value]:
        if isinstance(row, dict):
            yield row


def _cell(value: Any, task: str) -> str:
    if value is None:
        return ""
    text = _plain(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return re.sub(r"\[\^(\d+(?:\.\d+)?)\^\]", rf"[^{task}.\1^]", text)


def _plain(text: str) -> str:
    """Return a text that readers of CSV take for one cell, and spreadsheets for no formula."""
    text = re.sub(r"\r\n?|\0", "\n", text)
    is_formula = text.lstrip()[:1] in ("=", "+", "-", "@") and not re.fullmatch(r"\s*[+-][\d\s.,:/()%-]*", text)
    return f"'{text}" if text.lstrip() and is_formula else text
