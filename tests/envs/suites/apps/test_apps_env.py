"""The env of web apps: envs do not meet, nothing leaves, what dies is started again, nothing is left."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from envs import EnvDiedError, EnvSetupError, InstructionTask, Terminate
from envs.desktop.programs import Programs
from envs.env import EnvSpec
from envs.registry import make_env
from envs.suites.apps import AppsEnv, AppTask, RunningApp
from envs.suites.apps.suite import TASKS
from envs.suites.apps.tiddlywiki import TiddlyWiki
from tests.envs.suites.apps.proving import apps_env, skip_unless_installed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
CONFIG = next(config for config in TASKS if config.id == "tiddlywiki/new-note")
NOTE = {"X-Requested-With": "TiddlyWiki", "Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def _installed() -> None:
    skip_unless_installed("tiddlywiki")


def write_note(env: AppsEnv, title: str) -> None:
    """Past the browser."""
    env.app("tiddlywiki").ask("PUT", f"/recipes/default/tiddlers/{title}", body=b'{"text": "x"}', headers=NOTE)


@pytest.mark.long
async def test_a_reset_puts_the_first_state_back_while_the_app_runs_on(env: AppsEnv) -> None:
    task = AppTask(CONFIG)
    await env.reset(task)
    first, pid = await env.facts(), env.app("tiddlywiki").pid
    write_note(env, "Extra")
    env.app("tiddlywiki").ask("DELETE", "/bags/default/tiddlers/Boats", headers=NOTE)
    assert await env.facts() != first
    await env.reset(task)
    assert await env.facts() == first
    assert env.app("tiddlywiki").pid == pid


@pytest.mark.long
async def test_only_the_sites_of_the_task_are_reached(env: AppsEnv) -> None:
    await env.reset(AppTask(CONFIG))
    port = env.app("tiddlywiki").port
    for url in (f"http://tiddlywiki.localhost:{port}/", f"http://127.0.0.1:{port}/", "http://example.org/"):
        with pytest.raises(EnvSetupError):
            await env.goto(url)
    await env.reset(InstructionTask(instruction="Look."))
    with pytest.raises(EnvSetupError):
        await env.goto("http://tiddlywiki.localhost/")
    with pytest.raises(EnvSetupError, match="the task has no site 'tiddlywiki'"):
        env.app("tiddlywiki")


@pytest.mark.slow
async def test_an_app_that_died_is_told_and_started_again(env: AppsEnv) -> None:
    task = AppTask(CONFIG)
    await env.reset(task)
    write_note(env, "Extra")
    pid = env.app("tiddlywiki").pid
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(psutil.wait_procs, [psutil.Process(pid)] if psutil.pid_exists(pid) else [], 10)
    with pytest.raises(EnvDiedError, match="the app tiddlywiki is gone"):
        for _ in range(100):  # its end is reported by the process that watches it
            await env.step([])
    await env.reset(task)
    assert "tiddlywiki/Extra/text" not in await env.facts()
    assert env.app("tiddlywiki").pid != pid


@pytest.mark.slow
async def test_two_envs_do_not_meet(env: AppsEnv) -> None:
    async with apps_env() as other:
        await asyncio.gather(env.reset(AppTask(CONFIG)), other.reset(AppTask(CONFIG)))
        write_note(env, "Extra")
        assert "tiddlywiki/Extra/text" in await env.facts()
        assert "tiddlywiki/Extra/text" not in await other.facts()
        folder, family = other.app("tiddlywiki").folder, psutil.Process(other.app("tiddlywiki").pid)
        assert folder.is_dir()
    assert not folder.parent.exists()
    assert not family.is_running()


async def test_a_task_that_names_no_app_of_ours_is_refused(env: AppsEnv) -> None:
    task = AppTask(CONFIG)
    task.sites = ("tidlywiki",)
    with pytest.raises(EnvSetupError, match=r"no app 'tidlywiki'; the nearest is .*tiddlywiki"):
        await env.reset(task)


@pytest.mark.long
async def test_an_app_that_is_not_installed_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with apps_env() as bare:
        with pytest.raises(EnvSetupError, match=r"tiddlywiki is not installed .*cua setup apps"):
            await bare.reset(AppTask(CONFIG))


@pytest.mark.long
async def test_a_step_that_says_success_scores_nothing(env: AppsEnv) -> None:
    task = AppTask(CONFIG)
    await env.reset(task)
    result = await env.step([Terminate(status="success")])
    assert result.terminated and (await task.evaluate(env)).score == 0.0


async def test_options_are_judged() -> None:
    env = make_env(EnvSpec(name="apps", options={"viewport": "1000x700"}))
    assert isinstance(env, AppsEnv) and env.options.viewport_px == (1000, 700)
    with pytest.raises(EnvSetupError, match=r"has no option 'viewprt'.*viewport"):
        make_env(EnvSpec(name="apps", options={"viewprt": "1000x700"}))


CHILD = """
import asyncio
from tests.envs.suites.apps.test_apps_env import CONFIG, AppTask
from tests.envs.suites.apps.proving import APPS, AppsEnv

async def main():
    env = AppsEnv(APPS)
    await env.reset(AppTask(CONFIG))
    print(env.app("tiddlywiki").folder.parent, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_nothing_outlives_a_killed_parent() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, stdout=asyncio.subprocess.PIPE)
    try:
        assert child.stdout is not None
        told = (await child.stdout.readline()).decode().strip()
        folder = Path(told)
        assert told and await asyncio.to_thread(folder.is_dir)
        family = psutil.Process(child.pid).children(recursive=True)
        assert any("tiddlywiki" in " ".join(process.cmdline()) for process in family)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, family, timeout=20)
    assert [process.name() for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert not await asyncio.to_thread(folder.exists)


async def test_a_first_state_that_cannot_be_put_back_is_the_envs_fault(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        app = RunningApp(TiddlyWiki(), programs)
        app.folder.write_text("no folder", "utf-8")
        with pytest.raises(EnvSetupError, match=r"tiddlywiki cannot be put back to its first state: .*exists") as told:
            app.restore_files()
        assert told.value.retryable
    finally:
        programs.close()


@pytest.mark.long
async def test_the_first_state_is_made_once() -> None:
    from envs.suites.apps.app import initial_state

    made = initial_state(TiddlyWiki())
    assert initial_state(TiddlyWiki()) == made and (made / "tiddlywiki.info").is_file()
