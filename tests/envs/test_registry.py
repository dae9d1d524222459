"""Environments and suites by name, those of another distribution included."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from cua.api import run_task
from cua.errors import ConfigError
from cua.models.scripted import ScriptedModel
from cua.trajectory import load_run
from envs import EnvSetupError, EnvSpec, InstructionTask, TaskSpec
from envs.check_env import check_env
from envs.registry import env_names, find_env, find_env_for, load_suite, make_env, suite_names
from tests.apps.cli.running import DONE, cua, script

ROBOT = """
from dataclasses import dataclass
from envs import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.fake import FakeEnv, FakeOptions

def make_robot(request):
    options = dict(request.options)
    size = tuple(options.pop("screen_px", (320, 200)))
    if options:
        raise ValueError(f"the robot takes screen_px, not {sorted(options)}")
    return FakeEnv(FakeOptions(screen_px=size, rewards=(0.25,)))

NOT_AN_ENV = 7

def make_nothing(request):
    return object()

@dataclass
class Chore(Task):
    instruction: str
    spec: TaskSpec
    async def evaluate(self, env): return TaskVerdict(1.0)

def make_chores(count=2):
    needs = EnvSpec(name="robot", options={"screen_px": [64, 48]})
    return [Chore(f"Do {n}", TaskSpec(id="chores/do", seed=n, env=needs, metadata={"room": n})) for n in range(count)]

def make_twins():
    return [Chore("Do", TaskSpec(id="same")), Chore("Do", TaskSpec(id="same"))]
"""
ENTRY_POINTS = """
[k25.envs]
robot = tiny_robot:make_robot
missing = tiny_robot_gone:make
typo = tiny_robot:mkae_robot
number = tiny_robot:NOT_AN_ENV
nothing = tiny_robot:make_nothing

[k25.suites]
chores = tiny_robot:make_chores
twins = tiny_robot:make_twins
"""


def install(site: Path, name: str, entry_points: str) -> None:
    """A distribution as an installer leaves it: metadata and its list of entry points."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    install(folder, "tiny_robot", ENTRY_POINTS)
    (folder / "tiny_robot.py").write_text(ROBOT)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "tiny_robot", raising=False)
    return folder


def test_ours_are_known_by_name() -> None:
    assert env_names()[:2] == ("browser", "desktop")
    assert find_env_for(["app"]) == "desktop"
    assert find_env_for(["url"]) == "browser"
    assert find_env_for(["display", "app"]) == "desktop"
    assert find_env_for(["url", "app"]) is None


async def test_an_env_of_another_distribution_keeps_the_contract(site: Path) -> None:
    assert "robot" in env_names()
    await check_env(lambda: make_env(EnvSpec(name="robot", options={"screen_px": [100, 80]})))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broser", "there is no environment 'broser'. Did you mean 'browser'?"),
        ("missing", "'missing' of tiny_robot 1.0 (tiny_robot_gone:make) cannot be loaded: ModuleNotFoundError"),
        ("typo", "(tiny_robot:mkae_robot) cannot be loaded: AttributeError"),
        ("number", "is a int; expected an EnvKind, or a function"),
        ("nothing", "made a object, which is not an Env: it has no reset()"),
    ],
)
def test_what_is_not_there_or_broken_is_one_line(site: Path, name: str, text: str) -> None:
    with pytest.raises(EnvSetupError) as caught:
        make_env(EnvSpec(name=name))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_that_cannot_be_read_breaks_nothing_else(site: Path) -> None:
    install(site, "broken_list", "[k25.envs]\nthis line has no equals sign\n")
    (site / "nameless-0.dist-info").mkdir()
    assert "robot" in env_names()
    assert find_env("robot").options is None


def test_two_distributions_of_one_name_are_told_apart_by_nobody(site: Path) -> None:
    install(site, "other_robot", "[k25.envs]\nrobot = other_robot:make\n")
    with pytest.raises(EnvSetupError, match=r"brought by other_robot .* and tiny_robot .*; uninstall one"):
        find_env("robot")


def test_ours_cannot_be_taken_over(site: Path) -> None:
    install(site, "evil", "[k25.envs]\nbrowser = tiny_robot:make_robot\n")
    assert find_env("browser").takes("viewport")
    assert env_names().count("browser") == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"viewprot": "800x600"}, "has no option 'viewprot'. Did you mean 'viewport'"),
        ({"viewport": "big"}, "expected WIDTHxHEIGHT"),
        ({"url": "no such page"}, "the start page cannot be opened"),
        ({"geolocation": "north"}, "expected LATITUDE,LONGITUDE"),
    ],
)
def test_options_of_the_browser_are_checked_before_anything_starts(options: dict[str, str], text: str) -> None:
    with pytest.raises(EnvSetupError, match=text):
        make_env(EnvSpec(name="browser", options=options))


def test_a_suite_gives_tasks_that_can_be_told_apart(site: Path) -> None:
    assert set(suite_names()) >= {"chores", "twins"}
    suite = load_suite("chores", count=3)
    assert (suite.name, suite.task_ids, suite.seeds) == ("chores", ("chores/do",), (0, 1, 2))
    assert suite.make_task("chores/do", 2).spec.metadata == {"room": 2}
    with pytest.raises(EnvSetupError, match="two of one id and seed"):
        load_suite("twins")
    with pytest.raises(EnvSetupError, match=r"'chores' cannot be made: .*unexpected keyword"):
        load_suite("chores", cuont=3)
    with pytest.raises(EnvSetupError, match=r"there is no suite 'choers'\. Did you mean 'chores'"):
        load_suite("choers")


def test_a_suite_comes_from_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "chores.py"
    file.write_text(
        "from envs import InstructionTask, Suite, TaskSpec\n"
        "def make(task_id, seed):\n"
        "    return InstructionTask(instruction=f'Do {seed}', spec=TaskSpec(id=task_id, seed=seed))\n"
        "def make_suite():\n"
        "    return Suite(name='mine', about='', task_ids=('a', 'b'), make_task=make, seeds=(1, 2))\n"
        "def make_tasks():\n"
        "    return [make('a', 1), make('b', 2)]\n"
    )
    suite = load_suite(str(file))
    assert (suite.name, suite.make_task("b", 2).instruction) == ("mine", "Do 2")
    with pytest.raises(EnvSetupError, match=r"different seeds: there is no 'a' with seed 2"):
        load_suite(f"{file}:make_tasks")
    with pytest.raises(EnvSetupError, match=r"has no function make_none\(\)"):
        load_suite(f"{file}:make_none")
    with pytest.raises(EnvSetupError, match="there is no file"):
        load_suite(str(tmp_path / "none.py"))
    file.write_text("1 / 0")
    with pytest.raises(EnvSetupError, match="cannot be loaded: ZeroDivisionError: division by zero"):
        load_suite(str(file))


async def test_a_task_runs_in_the_env_that_it_asks_for_and_is_named_in_the_record(site: Path, tmp_path: Path) -> None:
    task = load_suite("chores").make_task("chores/do", 1)
    click = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.5, 0.5)\n```"
    result = await run_task(task, model=ScriptedModel([click, DONE]), runs_dir=tmp_path, approve="yolo")
    assert result.end.status == "succeeded"
    record = load_run(Path(str(result.run_dir)))
    assert record.header.task == {"id": "chores/do", "seed": 1, "metadata": {"room": 1}}
    assert (record.header.env, record.header.env_options) == ("robot", {"screen_px": [64, 48]})
    assert [outcome.reward for outcome in record.outcomes] == [0.25, 0.0]
    assert record.steps[0].observation.geometry.native_px == (64, 48)


async def test_a_task_is_not_run_in_another_env(site: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the environment 'robot', not 'browser'"):
        await run_task(
            load_suite("chores").make_task("chores/do", 0),
            env="browser",
            model=ScriptedModel([DONE]),
            runs_dir=tmp_path,
        )


async def test_a_task_cannot_change_settings_that_are_not_its_envs(tmp_path: Path) -> None:
    spec = TaskSpec(id="evil", env=EnvSpec(name="browser", options={"approve": "yolo"}))
    with pytest.raises(ConfigError, match="the environment 'browser' has no option 'approve'"):
        await run_task(InstructionTask(instruction="x", spec=spec), model=ScriptedModel([DONE]), runs_dir=tmp_path)


@pytest.mark.slow
def test_the_command_line_takes_an_env_of_another_distribution(site: Path, tmp_path: Path) -> None:
    flags = ("task", "Look", "--env", "robot", "--model", script(tmp_path, DONE), "--output-format", "json")
    ended = cua(tmp_path, *flags, "--env-option", "screen_px=[200, 100]", PYTHONPATH=str(site))
    assert (ended.code, ended.result["answer"]) == (0, "42")
    header = load_run(Path(ended.result["run_dir"])).header
    assert (header.env, header.env_options) == ("robot", {"screen_px": [200, 100]})
    wrong = cua(tmp_path, *flags, "--env-option", "colour=red", PYTHONPATH=str(site))
    assert (wrong.code, "the robot takes screen_px, not ['colour']" in wrong.stderr) == (2, True)
    unknown = cua(tmp_path, "task", "x", "--env", "robto", PYTHONPATH=str(site))
    assert "did you mean 'robot'" in unknown.stderr
    broken = cua(tmp_path, "task", "x", "--env", "missing", PYTHONPATH=str(site))
    assert broken.code == 2 and "cannot be loaded: ModuleNotFoundError" in " ".join(broken.stderr.split())
    assert "Traceback" not in unknown.stderr + broken.stderr + wrong.stderr


@pytest.mark.long
def test_options_that_are_not_pairs_are_refused(tmp_path: Path) -> None:
    ended = cua(tmp_path, "task", "x", "--env-option", "big")
    assert ended.code == 2 and "is not NAME=VALUE" in ended.stderr


def test_the_record_of_the_header_is_json(site: Path) -> None:
    assert json.loads(EnvSpec(name="robot", options={"screen_px": (1, 2)}).key) == ["robot", {"screen_px": [1, 2]}]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import sys\nsys.exit(0)", "cannot be loaded: SystemExit: 0 (chores.py, line 2)"),
        ("import asyncio\nraise asyncio.CancelledError", "cannot be loaded: CancelledError (chores.py, line 2)"),
        ("def make_suite():\n    raise SystemExit(0)", "cannot be made: SystemExit: 0 (chores.py, line 2)"),
        ("def make_suite():\n    return {}['x']", "cannot be made: KeyError: 'x' (chores.py, line 2)"),
    ],
)
def test_the_file_of_a_suite_cannot_end_the_process(tmp_path: Path, code: str, text: str) -> None:
    file = tmp_path / "chores.py"
    file.write_text(code, "utf-8")
    with pytest.raises(EnvSetupError) as caught:
        load_suite(str(file))
    assert text in str(caught.value)
