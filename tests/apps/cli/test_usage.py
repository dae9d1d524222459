import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.cli.ask import ask
from apps.cli.task import task
from cua.config import FIELDS
from tests.apps.cli.running import cua

RECORD = str(Path(__file__).parents[2] / "cua/trajectory/records/ask")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["task"], "an instruction is needed"),
        (["ask", "--verify", RECORD], "is a run, not a question; to verify it: cua ask --verify --run"),
        (["task", "  "], "the instruction is empty"),
        (["task", "x", "--env", "dekstop"], "did you mean 'desktop'"),
        (["task", "x", "--approve", "yollo"], "did you mean 'yolo'"),
        (["task", "x", "--output-format", "jsno"], "did you mean 'json'"),
        (["task", "x", "--coordinates", "relativ"], "did you mean 'relative'"),
        (["task", "x", "--max-steps", "many"], "valid integer"),
        (["task", "x", "--viewport", "big"], "expected WIDTHxHEIGHT"),
        (["task", "x", "--set", "max_stpes=1"], "did you mean 'max_steps'"),
        (["task", "x", "--set", "max_steps"], "is not NAME=VALUE"),
        (["task", "x", "--policy", "nothing.toml"], "nothing runs without it"),
        (["task", "x", "--secrets", "nothing.toml"], "cannot read the secrets file"),
        (["task", "x", "--schema", "nothing.json"], "cannot read the schema"),
        (["task", "x", "--model", "kimi-k2.5"], "OPENAI_BASE_URL"),
        (["task", "x", "--model", "scripted:nothing.jsonl"], "cannot be read"),
        (["task", "x", "--env", "desktop", "--url", "http://localhost"], "needs a browser"),
        (["task", "x", "--env", "browser", "--app", "xterm"], "needs a desktop"),
        (["task", "x", "--resume", "last"], "leave out INSTRUCTION"),
        (["task", "--resume", "last"], "there are no runs"),
        (["replay", "nothing"], "there are no runs"),
        (["tsak"], "Did you mean 'task'"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_to_do(tmp_path: Path, arguments: list[str], text: str) -> None:
    ended = cua(tmp_path, *arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert text in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_nothing_is_recorded_when_a_setting_is_wrong(tmp_path: Path) -> None:
    cua(tmp_path, "task", "x", "--policy", "nothing.toml")
    cua(tmp_path, "task", "x", "--model", "kimi-k2.5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_help_version_and_completion(tmp_path: Path) -> None:
    assert "cua-k25 0." in cua(tmp_path, "--version").stdout
    assert "task" in cua(tmp_path, "--help").stdout
    shown = cua(tmp_path, _CUA_COMPLETE="source_bash")  # asked this way, no shell needs to be around
    assert "_CUA_COMPLETE=complete_bash" in shown.stdout


HELP_SCRIPT = """
import sys
sys.argv = ["cua", "--help"]
from apps.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_help_loads_the_command_line_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", HELP_SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert "doctor" in done.stdout
    loaded = set(done.stderr.split())
    assert "apps.cli.see.images" in loaded
    assert {name for name in loaded if name.partition(".")[0] in ("asyncio", "numpy", "PIL", "pydantic")} == set()
    ours = {name for name in loaded if name.partition(".")[0] in ("cua", "envs", "model_runtime", "visual_tools")}
    assert ours <= {"visual_tools", "visual_tools.box", "visual_tools.errors"}


def test_config_show_names_the_source_and_hides_secrets(tmp_path: Path) -> None:
    (tmp_path / "k25.toml").write_text("max_steps = 7\n")
    shown = cua(tmp_path, "config", "show", OPENAI_API_KEY="sk-sekrit").stdout
    lines = {line.split()[0]: line for line in shown.splitlines() if line and not line.startswith("#")}
    assert lines["max_steps"].split()[1:3] == ["7", "k25.toml"]
    assert "OPENAI_API_KEY" in lines["api_key"]
    assert "sekrit" not in shown


@pytest.mark.parametrize(
    ("command", "others"),
    [
        (task, {"instruction", "url", "app", "output_format", "yolo", "other", "schema", "resume", "report"}),
        (
            ask,
            {"question", "files", "chat", "resume", "output_format", "schema", "yolo", "other", "report"}
            | {"verify", "expect", "run", "inputs"},
        ),
    ],
)
def test_a_flag_is_a_setting_or_one_of_the_few_that_are_not(command: Callable[..., None], others: set[str]) -> None:
    """A flag reaches the settings by its name, so one that is misspelt would do nothing."""
    flags = set(inspect.signature(command).parameters) - {"given"}
    lists = {"allow_domain": "allow_domains", "deny_domain": "deny_domains", "env_option": "env_options"}
    assert {lists.get(flag, flag) for flag in flags} - set(FIELDS) == others
