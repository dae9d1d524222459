"""Tasks on a real guest: setup, act, verdict; and steps that cannot be done."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from envs import EnvDiedError, EnvError, EnvSetupError, Hotkey, PressKey, Terminate, TypeText, Wait
from envs.errors import EvaluationError
from envs.registry import load_suite
from envs.suite import Suite
from envs.suites.osworld import tasks
from envs.suites.osworld.env import GuestEnv
from envs.suites.osworld.evaluators import EvalContext, judge
from envs.suites.osworld.guest_client import GuestClient
from envs.suites.osworld.local_tasks import LOCAL
from envs.suites.osworld.official import OfficialEvaluators
from envs.suites.osworld.setup_steps import cached_name
from envs.suites.osworld.task_file import TaskFile
from envs.suites.osworld.tasks import OsworldTask, Timing, make_suite
from tests.envs.desktop.conftest import needs_display, needs_program
from tests.envs.suites.osworld.conftest import Served, serve

pytestmark = needs_display
NO_REST = Timing(start_s=0.0, end_s=0.0)
NOBODY = EvalContext(guest=GuestClient("http://127.0.0.1:1"), cache_dir=Path("/nonexistent"))
"""Who asks this one gets an error."""


def make_task(cache: Path, setup: list[dict[str, Any]], evaluator: dict[str, Any]) -> OsworldTask:
    from envs import TaskSpec
    from envs.suites.osworld.task_file import parse_task

    content = {"id": "a-task", "instruction": "Do it.", "config": setup, "evaluator": evaluator}
    return OsworldTask(parse_task("os", content, "a-task.json"), cache, NO_REST, TaskSpec(id="osworld/os/a-task"))


def step(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}


def says(text: str, *command: str) -> dict[str, Any]:
    return {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": list(command)},
        "expected": {"type": "rule", "rules": {"expected": text}},
    }


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
@needs_program("xterm")
async def test_a_task_from_setup_to_verdict(served: Served, tmp_path: Path) -> None:
    evaluator = says("hello\n", "cat", "~/answer.txt") | {"postconfig": [step("sleep", seconds=0.1)]}
    task = make_task(tmp_path, [step("launch", command="xterm -geometry 80x24+0+0")], evaluator)
    env = GuestEnv(served.options)
    try:
        await env.reset(task)
        while not await env.guest.window_size_px("xterm"):
            await env.step([Wait(duration_s=0.1)])
        assert (await task.evaluate(env)).score == 0.0
        await env.step([TypeText(text="echo hello > ~/answer.txt\n"), Wait(duration_s=0.5)])
        await env.step([Terminate(status="success")])
        assert (await task.evaluate(env)).score == 1.0
        assert task.warnings == []
        await env.step([Hotkey(keys=("ctrl", "d")), PressKey(key="enter")])
    finally:
        await env.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_steps_of_every_simple_kind(served: Served, tmp_path: Path) -> None:
    url = "https://files.example/a.txt"
    (tmp_path / "a-task").mkdir()
    (tmp_path / "a-task" / cached_name(url, "/x/a.txt")).write_text("asset")
    setup = [
        step("download", files=[{"url": url, "path": "~/Desktop/a.txt"}]),
        step("execute", command="cat ~/Desktop/a.txt", shell=True, stdout="printed.txt"),
        step("command", command=["echo", "{SCREEN_WIDTH}x{SCREEN_HEIGHT_HALF} {CLIENT_PASSWORD}"], stdout="filled"),
        step("execute", command=["sh", "-c", "echo why >&2; exit 3"]),
        step("execute", command="date >> ~/tries; wc -l < ~/tries", shell=True, until={"stdout": "3"}),
        step("activate_window", window_name="no such window"),
        step("close_window", window_name="no such window", strict=True),
    ]
    task = make_task(tmp_path, setup, says("3\n", "sh", "-c", "wc -l < ~/tries"))
    env = GuestEnv(served.options)
    try:
        await env.reset(task)
        assert (task.work_dir() / "printed.txt").read_text() == "asset"
        assert (task.work_dir() / "filled").read_text() == "800x300 password\n"
        assert task.warnings == ["sh -c echo why >&2; exit 3 ended with status 3: why"]
        assert (await task.evaluate(env)).score == 1.0
        other = make_task(
            tmp_path, [step("sleep", seconds=0)], says("3\n", "true")
        )  # another try of it, beside this one
        await env.reset(other)
        assert [file.name for file in other.work_dir().iterdir()] == [cached_name(url, "/x/a.txt")]
        folders = [one.work_dir() for one in (task, other)]
        await other.teardown(env)
        assert [folder.exists() for folder in folders] == [True, False]
        assert [file.name for file in (tmp_path / "a-task").iterdir()] == [cached_name(url, "/x/a.txt")]
    finally:
        await task.teardown(env)
        await env.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("setup", "told"),
    [
        (step("lunch", command="x"), r"step 1 \(lunch\) is none that is known; did you mean 'launch'"),
        (step("googledrive", settings_file="x"), "needs an account at Google Drive"),
        (step("launch", comand="x"), "has parameters that it does not take"),
        (
            step("download", files=[{"url": "https://files.example/b", "path": "/b"}]),
            "as downloaded from https://files.example/b",
        ),
        (step("execute", command=["true"], stdout="../../out"), "leads out"),
        (step("launch", command="no-such-program"), "with 500"),
        (step("open", path="~/none.txt"), "with 404: File not found"),
    ],
)
async def test_a_step_that_cannot_be_done_is_told(
    served: Served, tmp_path: Path, setup: dict[str, Any], told: str
) -> None:
    env = GuestEnv(served.options)
    with pytest.raises(EnvError, match=told):
        await env.reset(make_task(tmp_path, [setup], says("", "true")))


@pytest.mark.asyncio(loop_scope="module")
async def test_an_evaluator_that_nobody_knows_is_no_zero(served: Served, tmp_path: Path) -> None:
    task = make_task(tmp_path, [], says("", "true") | {"func": "exact_macth"})
    env = GuestEnv(served.options)
    try:
        await env.reset(task)
        with pytest.raises(EvaluationError, match="needs the function exact_macth, which OSWorld's own evaluators may"):
            await task.evaluate(env)
    finally:
        await task.teardown(env)
        await env.close()


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_a_guest_that_dies_within_a_task_is_told_and_left(served: Served, tmp_path: Path) -> None:
    task = make_task(tmp_path, [step("execute", command=["sh", "-c", "echo why >&2; exit 3"])], says("", "true"))
    async with serve(served.desktop) as own:
        env = GuestEnv(own.options)
        await env.reset(task)
    try:
        with pytest.raises(EnvDiedError, match="does not answer"):
            await env.step([PressKey(key="a")])
        with pytest.raises(EnvError, match="does not answer"):
            await task.evaluate(env)
        assert task.warnings == ["sh -c echo why >&2; exit 3 ended with status 3: why"]
    finally:
        await task.teardown(env)
        await env.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([(500, b"{}"), (200, b'{"status": "error"}')], None),
        ([(500, b"{}"), (200, b""), (502, b"")], "with 502: empty; whether it was done is not known"),
        ([(302, b"")], "a proxy or login page answers in place of the guest server"),
    ],
)
async def test_the_verdict_alone_is_asked_for_again(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[tuple[int, bytes]], told: str | None
) -> None:
    broken: list[tuple[int, bytes]] = []

    def breaking(app: Any) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if not (broken and scope.get("path") == "/execute"):
                return await app(scope, receive, send)
            status, body = broken.pop(0)
            await send({"type": "http.response.start", "status": status, "headers": []})
            return await send({"type": "http.response.body", "body": body})

        return answer

    monkeypatch.setattr(tasks, "_VERDICT_PAUSES_S", (0.0, 0.0))
    task = make_task(tmp_path, [], says("1\n", "echo", "1") | {"postconfig": [step("sleep", seconds=0)]})
    async with serve(served.desktop, breaking) as guest:
        env = GuestEnv(guest.options)
        try:
            await env.reset(task)
            broken += answers
            if told is None:
                assert (await task.evaluate(env)).score == 1.0
                assert sum("the verdict is asked for again" in text for text in task.warnings) == 2
            else:
                with pytest.raises(EnvError, match=told):
                    await task.evaluate(env)
            assert broken == []
        finally:
            await task.teardown(env)
            await env.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_setup_that_breaks_keeps_what_it_warned_of(served: Served, tmp_path: Path) -> None:
    task = make_task(tmp_path, [step("execute", command=["sh", "-c", "exit 3"]), step("lunch")], says("", "true"))
    with pytest.raises(EnvSetupError, match=r"step 2 \(lunch\)"):
        await GuestEnv(served.options).reset(task)
    assert task.warnings == ["sh -c exit 3 ended with status 3: no error output"]
    await task.teardown(GuestEnv(served.options))


def test_the_suite() -> None:
    suite = load_suite("osworld", guest="10.0.0.7:5001", domains="os")
    assert len(suite.task_ids) == 24
    spec = suite.make_task(suite.task_ids[0], None).spec
    assert spec.env is not None and dict(spec.env.options) == {"guest": "10.0.0.7:5001"}
    assert spec.metadata["family"] == "os"
    parity = make_suite(parity="upstream", domains="os")
    assert parity.revision == f"{suite.revision}-parity"
    env = parity.make_task(parity.task_ids[0], None).spec.env
    assert env is not None and env.options["pause_s"] == 5.0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"guest": "host:port"}, "guest is 'port', expected a int"),
        ({"list": "al"}, "there is no list 'al'; did you mean 'all'"),
        ({"pause": 3}, "no option 'pause'"),
        ({"parity": "half"}, "parity is 'half'"),
    ],
)
def test_options_that_are_not_taken(options: dict[str, Any], told: str) -> None:
    with pytest.raises(EnvSetupError, match=told):
        load_suite("osworld", **options)


def test_a_checkout_of_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "examples" / "os"
    folder.mkdir(parents=True)
    content = {"id": "mine", "instruction": "Do it.", "evaluator": {"func": "infeasible"}}
    (folder / "mine.json").write_text(json.dumps(content))
    suite = load_suite("osworld", data=str(tmp_path), list="all")
    assert suite.task_ids == ("osworld/os/mine",)


@pytest.mark.parametrize(("options", "num_tasks"), [({"list": "all"}, 369), ({}, 361), ({"list": "infeasible"}, 29)])
def test_who_says_failure_at_once_gets_what_the_suite_says(options: dict[str, Any], num_tasks: int) -> None:
    suite = make_suite(**options)
    verdicts = [
        asyncio.run(judge(_file(suite, id), context=NOBODY, claims_failure=True)).score for id in suite.task_ids
    ]
    baseline = suite.baselines["fail"]
    assert (len(verdicts), sum(verdicts)) == (num_tasks, 29)
    assert (baseline.score, baseline.num_episodes) == (sum(verdicts) / num_tasks, num_tasks)
    families = {suite.make_task(id, None).spec.metadata["family"] for id in suite.task_ids}
    assert families <= {domain for group in suite.groups.values() for domain in group}


OFFICIAL = OfficialEvaluators(python=Path("python"), metrics=frozenset(("compare_images",)), getters=frozenset())


@pytest.mark.parametrize(
    ("options", "official", "count", "reasons"),
    [
        ({}, None, 218, {"needs OSWorld's own evaluators, which are not installed; install them": 217}),
        ({"list": "all"}, None, 226, {"needs an account at Google Drive": 8}),
        ({"evaluator": "ours"}, None, 218, {"needs the function compare_pptx_files": 38}),
        (
            {},
            OFFICIAL,
            218,
            {"needs the result vm_file, which desktop-env==": 4, "needs the function compare_docx_f": 13},
        ),
        ({"list": "infeasible"}, None, 0, {}),
    ],
)
def test_tasks_that_cannot_be_evaluated_are_known_beforehand(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    official: OfficialEvaluators | None,
    count: int,
    reasons: dict[str, int],
) -> None:
    monkeypatch.setattr(tasks, "find_official", lambda: official)
    suite = make_suite(**options)
    found = suite.find_unavailable(suite.task_ids)
    assert len(found) == count and found.keys() <= set(suite.task_ids)
    counts = {reason: sum(why.startswith(reason) for why in found.values()) for reason in reasons}
    assert counts == reasons


def test_programs_of_a_local_guest_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "why_impossible", lambda: None)
    monkeypatch.setattr(tasks.shutil, "which", lambda name, path: None if name == "gimp" else f"/usr/bin/{name}")
    suite = make_suite(provider="local", list=LOCAL)
    found = suite.find_unavailable(suite.task_ids)
    assert set(found.values()) == {"needs the program gimp, which is not on this machine"}
    monkeypatch.setattr(tasks, "why_impossible", lambda: "bwrap not found")
    with pytest.raises(EnvSetupError, match="bwrap not found"):
        suite.find_unavailable(suite.task_ids)
    with pytest.raises(EnvSetupError, match="pip install desktop-env"):
        make_suite(provider="docker").find_unavailable(())


def _file(suite: Suite, task_id: str) -> TaskFile:
    task = suite.make_task(task_id, None)
    assert isinstance(task, OsworldTask)
    return task.file
