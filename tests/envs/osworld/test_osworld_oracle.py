"""Tasks of the local list, whole: the scripted oracle gets 1 by the real verdict, who does nothing gets 0.

One task of each kind of program; `cua eval osworld --provider local --list local --model scripted-oracle` plays all.
"""

import shutil
import tempfile

import pytest

from cua.gui_agent.agent import Agent, AgentOptions
from cua.models.make import make_model
from cua.run.budget import Caps
from envs.osworld.tasks import OsworldTask
from envs.registry import load_suite, make_env
from tests.envs.osworld.test_osworld_local import why_skip

pytestmark = pytest.mark.skipif(bool(why_skip()), reason=why_skip())


def make_task(beginning: str, cache: str) -> OsworldTask:
    suite = load_suite("osworld", list="local", provider="local", cache=cache)
    (task_id,) = (id for id in suite.task_ids if id.startswith(f"osworld/{beginning}"))
    task = suite.make_task(task_id, None)
    assert isinstance(task, OsworldTask)
    return task


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


@pytest.mark.slow
@pytest.mark.skipif(not has_terminal(), reason="no terminal is installed: cua setup osworld-local-minimal")
@pytest.mark.parametrize(
    ("beginning", "program"), [("os/6f56bf42", "bash"), ("os/a4d98375", "gsettings"), ("os/37887e8c", "gzip")]
)
async def test_what_a_terminal_can_do(beginning: str, program: str) -> None:
    skip_without(program)
    assert await play(beginning, "scripted-oracle") == 1.0
    assert await play(beginning, "baseline:null") == 0.0


async def test_what_cannot_be_done() -> None:
    assert await play("os/c288e301", "scripted-oracle") == 1.0
    assert await play("os/c288e301", "baseline:null") == 0.0


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
