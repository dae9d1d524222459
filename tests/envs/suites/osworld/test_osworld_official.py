"""OSWorld's own evaluators in a process of their own: right, wrong, broken, stuck, greedy; which tasks they know."""

import asyncio
import shutil
import sys
import venv
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from envs.errors import EvaluationError
from envs.suites.osworld.evaluators import EvalContext, judge, why_unsupported
from envs.suites.osworld.guest_client import GuestAnswerError
from envs.suites.osworld.official import (
    GuestAddress,
    OfficialEvaluators,
    _find_bubblewrap,
    ask,
    find_official,
    python_of,
)
from envs.suites.osworld.task_file import Metric, OsworldTaskData, TaskFile, parse_task
from envs.suites.osworld.tasks import EvaluatorChoice
from tests.envs.desktop.conftest import needs_display
from tests.envs.suites.osworld.conftest import TOKEN, Served
from tests.envs.suites.osworld.test_osworld_guest_client import DONE, PAGE, REDIRECT, Stub, http

REQUESTS = ("requests", "urllib3", "idna", "certifi", "charset_normalizer")
"""What the package's own metrics import."""

OFFICIAL = find_official()
needs_official = pytest.mark.skipif(
    OFFICIAL is None, reason="OSWorld's own evaluators are not installed: cua setup osworld-evaluators"
)
NOTHING: Any = None


def with_display(test: Any) -> Any:
    for mark in needs_display:
        test = mark(test)
    return test


NOWHERE = GuestAddress(host="127.0.0.1", server_port=9, chromium_port=9, vlc_port=0, screen_px=(800, 600))

METRICS = """
import os, sys, time
import easyocr
def equals(result, expected, add=0.0): return result == expected or add
def says(result): return result
def crashes(result): raise KeyError("no such sheet")
def dies(result): os._exit(3)
def hangs(result): time.sleep(10_000)
def chats(result): print('{"score": 1}'); os.write(1, b"x" * 100_000); return 1
def grabs(result): return len(bytearray(1 << 45)) and 1
def reads_image(result): return easyocr.Reader(["en"])
def writes(result): open(result, "w").write("x"); return 1
"""
GETTERS = """
def get_rule(env, config): return config["rules"]
def get_file(env, config):
    if not config["is_there"]: raise FileNotFoundError(config["is_there"])
    return "file"
def get_guest(env, config): return f"{env.vm_ip}:{env.server_port} {env.vm_platform} {env.controller.http_server}"
def get_asked(env, config):
    import requests
    for _ in range(2):
        answer = requests.post(env.controller.http_server + config["route"], json={"command": "x"})
    return answer.text if answer.status_code == 200 else None
def get_changed(env, config): config["rules"] = "changed"; return config["rules"]
"""
CONTROLLERS = {
    "python": """
class PythonController:
    def __init__(self, vm_ip, server_port): self.http_server = f"http://{vm_ip}:{server_port}"
    def get_vm_platform(self): return "Linux"
""",
    "setup": """
class SetupController:
    def __init__(self, **given): self.given = given
""",
}


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> OfficialEvaluators:
    """A package of the same shape in a virtual environment of its own, whose functions do what ours never may."""
    folder = tmp_path_factory.mktemp("evaluators")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    packages = next((folder / "venv" / "lib").glob("python3*")) / "site-packages" / "desktop_env"
    for name in ("evaluators", "controllers"):
        (packages / name).mkdir(parents=True)
    for name in REQUESTS:  # copied: their sandbox hides the home directory and /tmp, where this checkout may be
        shutil.copytree(Path(str(find_spec(name).origin)).parent, packages.parent / name)
    (packages / "evaluators" / "metrics.py").write_text(METRICS)
    (packages / "evaluators" / "getters.py").write_text(GETTERS)
    for name, text in CONTROLLERS.items():
        (packages / "controllers" / f"{name}.py").write_text(text)
    metrics = frozenset("equals says crashes dies hangs chats grabs reads_image writes".split())
    getters = frozenset(("rule", "file", "guest", "asked", "changed"))
    return OfficialEvaluators(python=python_of(folder), metrics=metrics, getters=getters)


def task(*metrics: Metric, conjunction: Any = "and") -> TaskFile:
    file = parse_task("os", {"id": "x", "instruction": "Do it.", "evaluator": {"func": "equals"}}, "x")
    return replace(file, metrics=metrics, conjunction=conjunction)


def says(value: Any, function: str = "says") -> Metric:
    return Metric(function=function, result={"type": "rule", "rules": value})


def missing(function: str = "says") -> Metric:
    return Metric(function=function, result={"type": "file", "is_there": False})


def scene_in(folder: Path) -> EvalContext:
    return EvalContext(guest=NOTHING, cache_dir=folder)


@pytest.mark.parametrize(
    ("metrics", "conjunction", "score", "upstream"),
    [
        ([says(0.25)], "and", 0.25, 0.25),
        ([says(True)], "and", 1.0, 1.0),
        ([says(1), says(0.5)], "and", 0.75, 0.75),
        ([says(0), says("never asked", "dies")], "and", 0.0, 0.0),
        ([says(1), says("never asked", "dies")], "or", 1.0, 1.0),
        ([says(0.5), says(0.25)], "or", 0.5, 0.5),
        ([missing()], "and", 0.0, 0.0),
        ([says(1), missing()], "and", 0.0, 0.0),
        ([missing(), says(1)], "or", 1.0, None),
        ([says(0.5), missing(), says(0)], "or", 0.5, 0.5),
        ([says(0), replace(missing("equals"), expected={"type": "rule", "rules": 0})], "or", 0.0, 1.0),
        ([says(1, "chats")], "and", 1.0, 1.0),
        (
            [replace(says("a", "equals"), expected={"type": "rule", "rules": "b"}, options={"add": 0.5})],
            "and",
            0.5,
            0.5,
        ),
        ([replace(says("a", "equals"), expected={"type": "changed"})], "and", 0.0, 0.0),
    ],
)
async def test_what_they_say_counts(
    fake: OfficialEvaluators, tmp_path: Path, metrics: list[Metric], conjunction: Any, score: float, upstream: Any
) -> None:
    verdict = await fake.judge(task(*metrics, conjunction=conjunction), scene_in(tmp_path), NOWHERE)
    assert (verdict.score, verdict.upstream) == (score, upstream)


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (says("", "crashes"), "the function crashes: KeyError: 'no such sheet'"),
        (says("", "dies"), "ended with status 3"),
        (says(None), "the function says: TypeError: it gives None"),
        (says("1"), "TypeError: it gives '1', expected a number"),
        (says(1.5), "ValueError: it gives 1.5, expected a number from 0 to 1"),
        (says("", "grabs"), "MemoryError"),
        (says("", "reads_image"), "the package easyocr is not installed"),
        (Metric(function="says", result={"type": "file"}), "the getter file: KeyError: 'is_there'"),
        (replace(says("a", "equals"), expected={"type": "file"}), "the getter file of what is expected: KeyError"),
        (says("", "unheard_of"), "the function unheard_of, which desktop-env==1.0.2 does not have"),
        (Metric(function="says", result={"type": "unheard_of"}), "the result unheard_of, which desktop-env"),
    ],
)
async def test_what_breaks_is_told_and_is_no_zero(
    fake: OfficialEvaluators, tmp_path: Path, metric: Metric, told: str
) -> None:
    with pytest.raises(EvaluationError, match=told):
        await fake.judge(task(metric), scene_in(tmp_path), NOWHERE)


@pytest.mark.long
async def test_what_hangs_is_ended(fake: OfficialEvaluators, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"took longer than 2 s"):
        await replace(fake, timeout_s=2.0).judge(task(says("", "hangs")), scene_in(tmp_path), NOWHERE)


@pytest.mark.skipif(_find_bubblewrap() is None, reason="bubblewrap does not work here")
async def test_they_write_into_the_folder_of_the_task_alone(fake: OfficialEvaluators, tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", tmp_path / "other"
    cache.mkdir()
    assert (await fake.judge(task(says(str(cache / "file"), "writes")), scene_in(cache), NOWHERE)).score == 1.0
    assert (cache / "file").read_text() == "x"
    await fake.judge(task(says(str(other), "writes")), scene_in(cache), NOWHERE)  # into a /tmp that is gone with it
    assert not other.exists()
    with pytest.raises(EvaluationError, match=r"the function writes: (OSError|FileNotFoundError)"):
        await fake.judge(task(says(f"{sys.prefix}/written", "writes")), scene_in(cache), NOWHERE)


async def test_they_meet_the_guest(fake: OfficialEvaluators, tmp_path: Path) -> None:
    wanted = {"type": "rule", "rules": "127.0.0.1:9 Linux http://127.0.0.1:9"}
    metric = Metric(function="equals", result={"type": "guest"}, expected=wanted)
    assert (await fake.judge(task(metric), scene_in(tmp_path), NOWHERE)).score == 1.0


@pytest.mark.parametrize(
    ("route", "answers", "told"),
    [
        ("/execute", [http(DONE, "500 Oops"), http(DONE)], None),
        ("/file", [http(b'{"error": "File not found"}', "404 Not Found")], None),
        ("/execute", [http(DONE), http(DONE, "503 Busy")], "with 503"),
        ("/execute", [http(b'{"status": "error"}')], "status 'error'"),
        ("/execute", [REDIRECT], "a proxy or login page answers"),
        ("/file", [http(PAGE, kind="text/html")], "which is not sent as a file"),
        ("/file", [http(PAGE, "404 Not Found", "text/html")], "with 404: an HTML page"),
        ("/terminal", [b""], "no answer to /terminal: ConnectionError"),
    ],
)
async def test_a_guest_that_does_not_answer_them_is_an_error_of_the_env(
    fake: OfficialEvaluators, tmp_path: Path, route: str, answers: list[bytes | None], told: str | None
) -> None:
    stub = Stub()
    stub.answers = answers
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    guest = replace(NOWHERE, server_port=server.sockets[0].getsockname()[1])
    metric = Metric(function="equals", result={"type": "asked", "route": route}, expected={"type": "rule", "rules": 1})
    try:
        if told is None:
            assert (await fake.judge(task(metric), scene_in(tmp_path), guest)).score == 0.0
        else:
            with pytest.raises(GuestAnswerError, match=told) as raised:
                await fake.judge(task(metric), scene_in(tmp_path), guest)
            assert raised.value.retryable
    finally:
        server.close()


async def test_a_python_without_them_is_told() -> None:
    with pytest.raises(EvaluationError, match="No module named 'desktop_env'"):
        await ask(Path(sys.executable), {"op": "names"})
    with pytest.raises(EvaluationError, match="Run: cua setup osworld-evaluators"):
        await ask(Path("/no/such/bin/python"), {"op": "names"})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"metrics": 1}'])
def test_a_broken_installation_is_none(tmp_path: Path, text: str) -> None:
    assert find_official(tmp_path) is None
    (tmp_path / "installed.json").write_text(text)
    assert find_official(tmp_path) is None


def test_who_judges_a_task(fake: OfficialEvaluators) -> None:
    known = task(Metric(function="exact_match", result={"type": "rule"}, expected={"type": "rule"}))
    other = task(says(1))
    assert [EvaluatorChoice().choose(one) for one in (known, other)] == ["ours", "official"]
    assert EvaluatorChoice(evaluator="official", official=fake).choose(known) == "official"
    told = EvaluatorChoice().why_not(other)
    assert told is not None and told.endswith("install them: cua setup osworld-evaluators")
    assert EvaluatorChoice(official=fake).why_not(other) is None
    assert EvaluatorChoice(evaluator="ours", official=fake).why_not(other) == "the function says"
    assert EvaluatorChoice(evaluator="official").why_not(task(Metric(function="infeasible", result={}))) is None


async def test_an_agent_that_does_not_end_has_failed_upstream(fake: OfficialEvaluators, tmp_path: Path) -> None:
    async def compare(judged: TaskFile, scene: EvalContext) -> Any:
        return await fake.judge(judged, scene, NOWHERE)

    infeasible = task(Metric(function="infeasible", result={}))
    found = []
    for judged in (infeasible, task(says(1))):
        for said, ended in ((True, True), (False, True), (False, False)):
            verdict = await judge(judged, scene_in(tmp_path), claims_failure=said, has_ended=ended, compare=compare)
            found.append((verdict.score, verdict.upstream))
    assert found == [(1, 1), (0, 0), (0, 1), (0, 0), (1, 1), (1, 0)]


@needs_official
def test_which_tasks_the_published_package_knows() -> None:
    assert OFFICIAL is not None
    data = OsworldTaskData()
    tasks = [data.task(key) for key in data.keys("all")]
    unknown = {file.key: why for file in tasks if (why := OFFICIAL.why_unsupported(file)) is not None}
    lacking = {key for key, why in unknown.items() if "does not have" in why}
    assert {key[: key.index("/") + 9] for key in lacking} == {"chrome/93eabf48", "multi_apps/e8172110", "vlc/5ac2891a"}
    assert {why.split(",")[0] for key, why in unknown.items() if key not in lacking} == {
        "compare_image_text",
        "googledrive_file",
    }
    neither = [file.key for file in tasks if EvaluatorChoice(official=OFFICIAL).why_not(file) is not None]
    assert (len(unknown), len(neither)) == (11, 10)


@needs_official
@with_display
@pytest.mark.asyncio(loop_scope="module")
async def test_the_published_evaluators_on_a_real_guest(served: Served, tmp_path: Path) -> None:
    assert OFFICIAL is not None
    options = served.options
    guest = GuestAddress(
        host=options.host,
        server_port=options.server_port,
        chromium_port=9,
        vlc_port=0,
        screen_px=(800, 600),
        token=TOKEN,
    )
    said = {"type": "vm_command_line", "command": ["sh", "-c", "echo '{\"a\": 1}' > ~/settings.json; echo hello"]}
    file = {"type": "vm_file", "path": "/etc/hostname", "dest": "hostname"}
    no_rule = {"type": "vm_screen_size"}
    right = Metric(function="exact_match", result=said, expected={"type": "rule", "rules": {"expected": "hello\n"}})
    same = Metric(function="compare_text_file", result=file, expected={**file, "dest": "again"})
    verdict = await OFFICIAL.judge(task(right, same), scene_in(tmp_path), guest)
    assert (verdict.score, verdict.upstream) == (1.0, 1.0)
    broken = Metric(function="exact_match", result=said, expected=no_rule)
    with pytest.raises(EvaluationError, match="the function exact_match: KeyError: 'expected'"):
        await OFFICIAL.judge(task(broken), scene_in(tmp_path), guest)


def test_ours_and_theirs_together() -> None:
    data = OsworldTaskData()
    ours = [key for key in data.keys("all") if why_unsupported(data.task(key)) is None]
    assert len(ours) == 144
