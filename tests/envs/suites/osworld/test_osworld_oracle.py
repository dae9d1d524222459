"""Tasks of the local list, whole: the scripted oracle gets 1 by the real verdict, who does nothing gets 0.

One task of each kind of program; `cua eval osworld --provider local --list local --model scripted-oracle` plays all.
Two with a terminal and an editor are quick enough to be played always, without rests: each of their programs is waited
for instead.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from cua.gui_agent.agent import Agent, AgentOptions
from cua.models.make import make_model
from cua.run.budget import Caps
from envs import Action, Click, Hotkey, PressKey, TaskSpec, Terminate, TypeText
from envs.registry import load_suite, make_env
from envs.suites.osworld.env import GuestEnv, GuestOptions
from envs.suites.osworld.local import LocalGuest, LocalOptions
from envs.suites.osworld.local_tasks import load_local_tasks
from envs.suites.osworld.task_file import parse_task
from envs.suites.osworld.tasks import OsworldTask, Timing
from tests.envs.desktop.conftest import needs_program
from tests.envs.suites.osworld.test_osworld_local import why_skip

pytestmark = pytest.mark.skipif(bool(why_skip()), reason=why_skip())


NO_REST = Timing(start_s=0.0, end_s=0.0)
NOTE = {
    "id": "note",
    "instruction": "Write 'and 3 < 4' below the line of the note, and save it.",
    "config": [
        {"type": "execute", "parameters": {"command": "echo first > ~/Desktop/note.txt", "shell": True}},
        {"type": "launch", "parameters": {"command": ["mousepad", "/home/user/Desktop/note.txt"]}},
    ],
    "evaluator": {
        "postconfig": [{"type": "sleep", "parameters": {"seconds": 0.1}}],
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": ["cat", "/home/user/Desktop/note.txt"]},
        "expected": {"type": "rule", "rules": {"expected": "first\nand 3 < 4\n"}},
    },
}


def make_task(beginning: str, cache: str) -> OsworldTask:
    suite = load_suite("osworld", list="local", provider="local", cache=cache)
    (task_id,) = (id for id in suite.task_ids if id.startswith(f"osworld/{beginning}"))
    task = suite.make_task(task_id, None)
    assert isinstance(task, OsworldTask)
    return task


def without_rests(made: OsworldTask, cache: Path) -> OsworldTask:
    return OsworldTask(made.file, cache, NO_REST, made.spec, local=load_local_tasks()[made.file.key])


async def play(beginning: str, model: str) -> float | None:
    """The score of one episode."""
    with tempfile.TemporaryDirectory() as cache:
        return await play_task(make_task(beginning, cache), model)


async def play_task(task: OsworldTask, model: str) -> float | None:
    env = make_env(task.spec.env)
    try:
        agent = Agent(model=make_model(model), env=env, options=AgentOptions(caps=Caps(max_steps=9)))
        return (await agent.run(task)).end.score
    finally:
        await env.close()


def skip_without(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: cua setup osworld-local")


def has_terminal() -> bool:
    return any(shutil.which(program) for program in ("gnome-terminal", "xterm"))


async def solve(task: OsworldTask, program: str, *steps: list[Action]) -> tuple[float, float]:
    """The score without doing anything, and after these steps, which begin and end with the program's window."""
    env = GuestEnv(
        GuestOptions(pause_s=0.3, settle_timeout_s=1.0),
        LocalGuest(LocalOptions(template=Path("/none"), screen_px=(1280, 720))),
    )
    try:
        await env.reset(task)
        nothing = (await task.evaluate(env)).score
        await task.teardown(env)
        await env.reset(task)
        if program == "xterm":
            await env.guest.launch(["xterm"])
        while not await env.guest.window_size_px(program):
            await asyncio.sleep(0.1)
        for actions in steps:
            assert (await env.step(actions)).observation.last_action_error is None
        async with asyncio.timeout(30):
            while await env.guest.window_size_px(program):
                await asyncio.sleep(0.1)
        await env.step([Terminate(status="success")])
        done = (await task.evaluate(env)).score
        assert task.warnings == []
        return nothing, done
    finally:
        await task.teardown(env)
        await env.close()


@pytest.mark.long
@needs_program("xterm")
async def test_a_task_of_osworld_in_a_terminal(tmp_path: Path) -> None:
    task = without_rests(make_task("os/23393935", str(tmp_path)), tmp_path)
    copy = "find ~/Desktop/photos -name '*.jpg' -exec cp {} ~/Desktop/cpjpg ';'; exit\n"
    assert await solve(task, "xterm", [TypeText(text=copy)]) == (0.0, 1.0)


@pytest.mark.long
@needs_program("mousepad")
async def test_a_task_in_an_editor(tmp_path: Path) -> None:
    task = OsworldTask(parse_task("os", NOTE, "note.json"), tmp_path, NO_REST, TaskSpec(id="osworld/os/note"))
    write = [Click(x_px=640, y_px=400), Hotkey(keys=("ctrl", "end")), TypeText(text="and 3 < 4"), PressKey(key="enter")]
    assert await solve(task, "mousepad", write, [Hotkey(keys=("ctrl", "s")), Hotkey(keys=("ctrl", "q"))]) == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.skipif(not has_terminal(), reason="no terminal is installed: cua setup osworld-local-minimal")
@pytest.mark.parametrize(
    ("beginning", "program"), [("os/6f56bf42", "bash"), ("os/a4d98375", "gsettings"), ("os/37887e8c", "gzip")]
)
async def test_what_a_terminal_can_do(beginning: str, program: str) -> None:
    skip_without(program)
    assert await play(beginning, "scripted-oracle") == 1.0
    assert await play(beginning, "baseline:null") == 0.0


@pytest.mark.long
async def test_what_cannot_be_done(tmp_path: Path) -> None:
    task = without_rests(make_task("os/c288e301", str(tmp_path)), tmp_path)  # no program is waited for
    assert await play_task(task, "scripted-oracle") == 1.0
    assert await play_task(task, "baseline:null") == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beginning", "program"),
    [
        ("chrome/2ad9387a", "chromium"),
        ("gimp/7767eef2", "gimp"),
        ("libreoffice_impress/ef9d12bd", "soffice"),
        ("multi_apps/2c9fc0de", "git"),
        ("os/4127319a", "nautilus"),
        ("thunderbird/10a730d5", "thunderbird"),
        ("vlc/215dfd39", "vlc"),
    ],
)
async def test_a_task_of_each_program(beginning: str, program: str) -> None:
    skip_without(program, "gnome-terminal", "jq")
    assert await play(beginning, "scripted-oracle") == 1.0
    assert await play(beginning, "baseline:null") == 0.0
