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
    "Way": "Installer",
    "obstacle": "problem",
    "line_to_type": "manual_command",
    "Attendance": "RequestDeadline",
    "ChatWishes": "ChatOutputOptions",
    "find_share": "shard_slice",
    "outfit": "AgentParts",
    "wish": "VideoRequest",
    "mend": "revise",
    "mending": "revision",
    "Standing": "progress",
    "feel": "watch_user_input",
    "aftermath": "undo_note",
    "Told": "RunLog, or what it is",
    "Order": "BuildRequest, RunRequest or WorkItem",
    "Played": "AttemptResult",
    "Made": "OfficeResult",
    "Faults": "ChapterErrors",
    "Hand": "PointerScript",
    "Film": "Recording",
    "Look": "BoxStyle",
    "Shade": "Gradient",
    "paintings": "ink_attribution",
    "unwatch": "stop_streaming",
    "gathering": "letter_block",
    "reaching": "target_block",
    "seeking": "name_query",
    "seekers": "name_query_heads",
    "bells": "soft_targets",
}
"""Words and what to say instead. A capitalized word must not be part of a class name, any other of no name at all."""


ALLOWED = {"PlantedText", "LookUp"}
"""Names in which a retired word has its usual meaning."""


def words_of(name: str) -> list[str]:
    """`ParentDesk` is Parent and Desk, `parent_desk` is parent and desk."""
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)


def contains(name: str, retired: str) -> bool:
    """True if the words of a retired name follow each other in a name; capitalized ones count in class names only."""
    words, wanted = words_of(name), words_of(retired)
    if retired[0].islower():
        words = [word.lower() for word in words]
    elif "_" in name:
        return False
    return any(words[start : start + len(wanted)] == wanted for start in range(len(words)))


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
def test_a_retired_word_is_part_of_no_name(word: str, names: dict[str, list[Path]]) -> None:
    found = {name: paths for name, paths in names.items() if contains(name, word) and name not in ALLOWED}
    assert found == {}, f"say {RETIRED[word]}"


def test_names_are_compared_by_their_words() -> None:
    assert contains("ParentDesk", "Desk")
    assert contains("parent_outfits_of", "outfits_of")
    assert contains("XMLDesk2", "Desk")
    assert not contains("DESK_SHARE", "Desk")  # the share of a desk in a photo
    assert not contains("Desktop", "Desk")


def test_nothing_is_called_told() -> None:
    """A variable may be called so: what somebody was told."""
    functions = [path for path in FILES if re.search(r"def told\b", path.read_text("utf-8"))]
    assert functions == []


def test_an_image_is_called_an_image(names: dict[str, list[Path]]) -> None:
    assert [name for name in names if "picture" in name.lower()] == []


SHARED_TYPES = {
    # of client and server
    *("ConfigError", "ImagePart", "MissingPackageError", "TextPart", "ToolCall", "VideoPart"),
    # of an app and a library, each with its usual meaning there
}
"""Public types that two packages may each have under the same name."""


@pytest.mark.long
def test_one_word_is_one_type() -> None:
    """A second type of the same name gets a name that says which one it is."""
    classes = collections.Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in classes.items() if count > 1} - SHARED_TYPES == set()


def test_each_test_that_the_safety_page_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "safety.md").read_text("utf-8"))
    assert len(named) > 20
    missing = [
        f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ]
    assert missing == []
