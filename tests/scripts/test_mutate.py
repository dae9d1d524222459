"""What `scripts/mutate.py` changes, and that the working tree stays as it is."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''\
"""Text – with signs of several bytes."""
_MAX_ROWS = 5

def pick(rows, least=0):
    if not rows or len(rows) > _MAX_ROWS:
        raise ValueError("é")
    if least == 3:
        return True
    return sorted(rows, key=lambda row: -row)[0] >= max(least, 1)
'''


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module  # its data classes look themselves up
    spec.loader.exec_module(module)
    return module


def test_each_guard_is_a_mutation(mutate: ModuleType) -> None:
    found = mutate.find_mutations("rows.py", SOURCE.encode())

    assert [(one.line, one.kind, one.before, one.after) for one in found] == [
        (2, "limit", "5", "5000"),
        (5, "and/or", "not rows or len(rows) > _MAX_ROWS", "(not rows and len(rows) > _MAX_ROWS)"),
        (5, "guard", "not rows or len(rows) > _MAX_ROWS", "False"),
        (5, "not", "not rows", "rows"),
        (5, "comparison", "len(rows) > _MAX_ROWS", "(len(rows) >= _MAX_ROWS)"),
        (7, "comparison", "least == 3", "(least != 3)"),
        (7, "guard", "least == 3", "False"),
        (7, "off by one", "least == 3", "(least == 4)"),
        (8, "result", "True", "False"),
        (9, "comparison", SOURCE.splitlines()[-1].strip().removeprefix("return "),
         "(sorted(rows, key=lambda row: -row)[0] > max(least, 1))"),
        (9, "order", "sorted(rows, key=lambda row: -row)", "(list(rows))"),
        (9, "order", "-row", "row"),
        (9, "min/max", "max", "min"),
    ]  # fmt: skip


def test_each_mutation_is_a_program_of_its_own(mutate: ModuleType) -> None:
    changed = [one.apply(SOURCE.encode()) for one in mutate.find_mutations("rows.py", SOURCE.encode())]

    assert len({SOURCE.encode(), *changed}) == len(changed) + 1
    for source in changed:
        compile(source, "rows.py", "exec")


def test_all_modules_of_the_table_have_guards_and_tests(mutate: ModuleType) -> None:
    for module, tests in mutate.TARGETS.items():
        assert mutate.find_mutations(module, (ROOT / module).read_bytes()), module
        assert all((ROOT / test).exists() for test in tests), module
