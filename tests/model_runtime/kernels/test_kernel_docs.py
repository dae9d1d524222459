"""The generated parts of docs/kernels.md: filled between their marks, and up to date."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from model_runtime.errors import ConfigError

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "make_kernel_docs.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_kernel_docs", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = "# A\n\n<!-- generated: x -->\nold\n<!-- end -->\n\nprose\n\n<!-- generated: y -->\n<!-- end -->\n"


def test_parts_are_filled_and_nothing_else_changes(script: ModuleType) -> None:
    filled = script.fill(PAGE, {"x": r"| a\1 |", "y": "not measured"})
    assert filled == PAGE.replace("old", r"| a\1 |").replace("y -->\n", "y -->\nnot measured\n")
    assert script.fill(filled, {"x": r"| a\1 |", "y": "not measured"}) == filled


@pytest.mark.parametrize("page", ["", PAGE.replace("generated: x", "generated: z"), PAGE + PAGE])
def test_a_page_without_its_marks_is_told(script: ModuleType, page: str) -> None:
    with pytest.raises(ConfigError, match="must have one part from <!-- generated: x -->"):
        script.fill(page, {"x": "new"})


def test_an_outdated_page_is_told_and_left_alone(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (page := tmp_path / "kernels.md").write_text(PAGE, "utf-8")
    monkeypatch.setattr(script, "PAGE", page)
    monkeypatch.setattr(script, "make_parts", lambda: {"x": "new"})
    with pytest.raises(ConfigError, match=r"is out of date; run: .*make_kernel_docs"):
        script.update_page(is_check=True)
    assert page.read_text("utf-8") == PAGE
    script.update_page(is_check=False)
    assert page.read_text("utf-8") == PAGE.replace("old", "new")
    script.update_page(is_check=True)


def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, "-m", "scripts.make_kernel_docs", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
