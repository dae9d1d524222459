"""What is printed cannot steer a terminal."""

import ast
import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from apps.cli.terminal import safe_lines, to_json
from tests.apps.cli.running import cua
from tests.cua.evidence.bundles import write_bundle_of

ROOT = Path(__file__).parents[3]
EVIL = (
    "\x1b]0;owned\x07 \x1b[2J \x9b2J \x9d0;x\x9c \x1bPq\x1b\\ \r over \x08\x7f \u202egnp.exe \u2066x\u2069 \u200b "
    "\ufeff \u2028 \u2029 \u061c \x00 \x85 \U000e0041 \x1b[8mhidden"
)
NEVER = {char for char in map(chr, range(0x110000)) if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
FINE = set("\n\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd")


def is_clean(text: str) -> bool:
    return not set(text) & (NEVER - FINE)


@pytest.mark.parametrize("text", [EVIL, " ".join(sorted(NEVER - FINE)), "\ud800"])
def test_every_control_character_is_shown_as_something_else(text: str) -> None:
    assert is_clean(safe_lines(text))
    line = to_json({"a": text, text: 1})
    assert is_clean(line)
    assert "\n" not in line
    assert json.loads(line) == {"a": text, text: 1}


def test_words_of_all_scripts_stay_as_they_are() -> None:
    said = "naïve Größe 漢字 한국어 العربية नमस्ते 👩\u200d💻 🇩🇪 می\u200cخواهم"
    assert safe_lines(said + "\r\nsecond line") == said + "\nsecond line"
    assert json.loads(to_json(said)) == said
    assert to_json("Größe 漢字") == '"Größe 漢字"'


@pytest.mark.long
def test_only_one_module_prints() -> None:
    found = []
    for path in (ROOT / "apps").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and path.name != "terminal.py":
                name = ast.unparse(node.func)
                if name in ("print", "typer.echo", "typer.secho", "click.echo", "click.secho", "sys.stdout.write"):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert found == []


@pytest.mark.slow
def test_a_run_full_of_escape_codes(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path, answer=f"It is two {EVIL} [^0^].")
    runs = run_dir.parent
    (runs / f"{run_dir.name}\x1b]0;x\x07").symlink_to(run_dir)
    shown = [
        cua(runs, "runs"),
        cua(runs, "runs", "--json"),
        cua(runs, "replay", run_dir.name),
        cua(runs, "replay", "no\x1b]0;x\x07 \x9b such"),
        cua(runs, "see", "count", f"{tmp_path}/\x1b]0;x\x07.png"),
        cua(runs, "see", "\x1b]0;x\x07"),
        cua(runs, "task", "x", "--output-format", "\x1b[2J\x9b"),
    ]
    for done in shown:
        assert is_clean(done.stdout)
        assert is_clean(done.stderr)
    assert "It is two" in shown[2].stdout


def test_a_traceback_is_cleaned_too() -> None:
    code = (
        "import sys\nfrom apps.cli import terminal\nterminal.clean_stderr()\n"
        "sys.stderr.write('\\x1b[31mred\\x1b[0m\\x9b2J')\nraise ValueError('\\x1b]0;x\\x07')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stderr.startswith("\x1b[31mred\x1b[0m\N{REPLACEMENT CHARACTER}2J")
    assert "\x1b]" not in done.stderr
    assert "ValueError" in done.stderr
