"""Help pages at 80 columns: every command has a whole summary line, and every option a description."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from apps.cli.main import app

VERBS = (
    *(
        "Analyse",
        "Answer",
        "Build",
        "Carry",
        "Change",
        "Check",
        "Classify",
        "Compare",
        "Count",
        "Create",
        "Crop",
        "Cut",
    ),
    *("Draw", "Enlarge", "Evaluate", "Export", "Find", "Install", "List", "Measure", "Offer", "Open", "Print", "Read"),
    *("Rotate", "Run", "Score", "Serve", "Show", "Train", "Use", "Write"),
)


def commands(command: Any, name: str = "cua") -> Iterator[tuple[str, Any]]:
    yield name, command
    for child_name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{name} {child_name}")


def help_page(name: str) -> list[str]:
    result = CliRunner().invoke(app, [*name.split()[1:], "--help"], prog_name="cua", env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output.splitlines()


@pytest.mark.parametrize(("name", "command"), [*commands(get_command(app))])
def test_help_is_whole_at_80_columns(name: str, command: Any) -> None:
    lines = help_page(name)
    summary = lines[2].strip()
    assert re.match(r"\w+", summary)[0] in VERBS  # type: ignore[index]
    assert summary.endswith(".")
    parent, _, last = name.rpartition(" ")
    if parent:
        assert any(line.startswith(f"  {last} ") and line.endswith(f"  {summary}") for line in help_page(parent))
    for parameter in command.params:
        assert getattr(parameter, "hidden", False) or parameter.help, f"{name}: {parameter.name} has no help text"
    assert [line for line in lines if len(line) > 80 and not line.startswith("      ")] == []
    assert "<str>" not in "".join(lines), "name the value with metavar="


def test_commands_are_listed_in_groups() -> None:
    titles = [line.rstrip(":") for line in help_page("cua") if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", "Run", "Ask", "Train and evaluate", "Serve", "Recorded runs", "Manage"]
