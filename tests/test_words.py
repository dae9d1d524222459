"""Words that were given up for those of the field do not come back, and no two types of one name stand side by side."""

import ast
import collections
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("cua", "envs", "visual_tools", "model_runtime", "apps")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
RETIRED = {
    "Ward": "KernelMonitor",
    "give_birth": "spawn_kernel",
    "move_in": "mount_root",
    "rehearse": "preflight",
    "Breach": "CheckFailed",
    "Planted": "Canaries",
    "prelude": "preamble",
    "Desk": "RunningDesktop",
    "Performer": "ActionExecutor",
    "Looker": "Observer",
    "Comings": "PendingPages",
    "catch_up": "flush_input",
    "Draft": "StreamAccumulator",
    "BodyReader": "ResponseReader",
    "Fold": "Compaction",
    "told": "translate_os_errors, or what it is",
    "Way": "Installer",
    "find_obstacle": "check_prerequisites",
    "line_to_type": "manual_command",
    "Attendance": "RequestDeadline",
    "ChatWishes": "ChatOutputOptions",
    "find_share": "shard_slice",
}


def names_in(path: Path) -> set[str]:
    """All names that a file defines: classes, functions, arguments, variables, attributes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.arg(arg=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return {name.lstrip("_") for name in found}


@pytest.fixture(scope="module")
def names() -> dict[str, list[Path]]:
    where = collections.defaultdict(list)
    for path in FILES:
        for name in names_in(path):
            where[name].append(path)
    return where


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_names_nothing(word: str, names: dict[str, list[Path]]) -> None:
    allowed = {"told"}  # a variable may be called so: what somebody was told
    found = [
        path for path in names.get(word, ()) if word not in allowed or re.search(rf"def {word}\b", path.read_text())
    ]
    assert found == [], f"say {RETIRED[word]}"


def test_an_image_is_called_an_image(names: dict[str, list[Path]]) -> None:
    assert [name for name in names if "picture" in name.lower()] == []


def test_one_word_is_one_type_in_the_agents() -> None:
    """`Usage`, `Outcome`, `Decision`, `Verdict` stood for several things each."""
    classes = collections.Counter(
        node.name
        for path in FILES
        if path.is_relative_to(ROOT / "cua")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name in ("Usage", "Outcome", "Decision", "Verdict") if classes[name] > 1} == set()


def test_each_test_that_the_safety_page_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "safety.md").read_text("utf-8"))
    assert len(named) > 20
    missing = [
        f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ]
    assert missing == []
