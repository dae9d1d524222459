import json
from pathlib import Path

import pytest

from cua.answer import AnswerSchema, load_schema
from cua.errors import ConfigError

TOTAL = AnswerSchema({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]})


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        (TOTAL, '{"total": 12.5}', {"total": 12.5}),
        (TOTAL, '```json\n{"total": 1}\n```', {"total": 1}),
        (AnswerSchema({"type": "number"}), "48.50", 48.5),
        (AnswerSchema({"type": "string"}), "48.50", "48.50"),
        (AnswerSchema({"type": "string"}), "plain text", "plain text"),
    ],
)
def test_answers_that_satisfy_the_schema(schema: AnswerSchema, answer: str, value: object) -> None:
    assert schema.parse(answer) == value


@pytest.mark.parametrize("answer", ['{"total": "x"}', "{}", "twelve", "", None])
def test_answers_that_do_not(answer: str | None) -> None:
    with pytest.raises(ValueError, match="schema"):
        TOTAL.parse(answer)


def test_schemas_come_from_files_and_from_pydantic_models(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(TOTAL.schema))
    assert load_schema(str(file)) == TOTAL
    model = tmp_path / "models.py"
    model.write_text("from pydantic import BaseModel\n\nclass Total(BaseModel):\n    total: float\n")
    assert load_schema(f"{model}:Total").parse('{"total": 3}') == {"total": 3}


@pytest.mark.parametrize("name", ["nothing.json", "bad.json", "wrong.json", "models.py:Missing", "no_module_xyz:Model"])
def test_a_schema_that_cannot_be_used_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "wrong.json").write_text('{"type": "nonsense"}')
    (tmp_path / "models.py").write_text("x = 1\n")
    source = name if name.startswith("no_module") else str(tmp_path / name)
    with pytest.raises(ConfigError):
        load_schema(source)
