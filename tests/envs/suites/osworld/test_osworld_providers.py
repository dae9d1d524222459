"""Options of the env, and upstream's `DesktopEnv` behind it: a fake module of the same interface."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envs import EnvSetupError, EnvSpec, InstructionTask
from envs.registry import load_suite, make_env
from envs.suites.osworld.env import GuestEnv
from envs.suites.osworld.evaluators import EvalContext, OsworldVerdict
from envs.suites.osworld.local import LocalGuest
from envs.suites.osworld.official import GuestAddress
from envs.suites.osworld.providers import OfficialGuest, make_guest_env
from envs.suites.osworld.task_file import TaskFile
from envs.suites.osworld.tasks import EvaluatorChoice, OsworldTask, make_suite
from tests.envs.suites.osworld.conftest import SCREEN_PX, Served

FAKE = """
CALLS = []
PLACE = {}


class DesktopEnv:
    def __init__(self, provider_name="vmware", region=None, path_to_vm=None, snapshot_name="init_state",
                 action_space="pyautogui", cache_dir="cache", screen_size=(1920, 1080), headless=False,
                 require_a11y_tree=True, require_terminal=False, os_type="Ubuntu", enable_proxy=False,
                 client_password=""):
        CALLS.append(("made", provider_name, path_to_vm, snapshot_name, screen_size, client_password))
        if "broken" in PLACE:
            raise Exception("no such container")
        self.is_environment_used = provider_name == "vmware"
        self.__dict__.update(PLACE)

    def reset(self, task_config=None, seed=None, options=None):
        CALLS.append(("reset", task_config, self.is_environment_used))
        self.is_environment_used = False

    def close(self):
        CALLS.append(("closed",))
"""
TASK = InstructionTask(instruction="Use the guest.")


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Upstream's package, as installed."""
    (tmp_path / "desktop_env").mkdir()
    (tmp_path / "desktop_env" / "__init__.py").write_text("")
    (tmp_path / "desktop_env" / "desktop_env.py").write_text(FAKE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import desktop_env.desktop_env as module  # type: ignore[import-not-found]

    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == "desktop_env"]:
        del sys.modules[name]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.desktop
@pytest.mark.long
async def test_upstreams_machine_is_put_back_at_each_reset(official: Any, served: Served) -> None:
    ports = {"server_port": served.options.server_port, "chromium_port": 9333, "vlc_port": 8081}
    official.PLACE |= {"vm_ip": "127.0.0.1", **ports}
    options = {"provider": "docker", "vm": "image.qcow2", "settle_timeout_s": 0.1, "password": "word"}
    env = make_guest_env(options)
    with pytest.raises(EnvSetupError, match="a bearer token is wanted"):
        await env.reset(TASK)  # this guest wants one, unlike upstream's
    assert official.CALLS == [
        ("made", "docker", "image.qcow2", "init_state", (1920, 1080), "word"),
        ("reset", None, False),
        ("closed",),
    ]
    served_env = GuestEnv(served.options, env._provider)
    del official.CALLS[:]
    await served_env.reset(TASK)
    await served_env.reset(TASK)
    assert served_env.options.chromium_port == 9333 and served_env.screen_px == SCREEN_PX
    official.PLACE["vlc_port"] = 8082  # the next container's
    other = await OfficialGuest("docker", vm="", snapshot="", screen_px=SCREEN_PX, password="").fresh(served.options)
    task = make_suite(list="all", evaluator="ours").make_task("osworld/vlc/59f21cfb-0120-4326-b255-a5b827b38967", None)
    assert isinstance(task, OsworldTask)
    asked: list[int] = []

    async def judge(task: TaskFile, scene: EvalContext, guest: GuestAddress) -> OsworldVerdict:
        asked.append(guest.vlc_port)
        return OsworldVerdict(score=1.0, upstream=1.0)

    known = SimpleNamespace(why_unsupported=lambda task: None, judge=judge)
    task._judging = EvaluatorChoice(evaluator="official", official=known)  # type: ignore[arg-type]
    for options in (served_env.options, other):
        guest: Any = SimpleNamespace(options=options, screen_px=SCREEN_PX)
        await task._choose_comparison(guest)(task.file, EvalContext(guest=None, cache_dir=Path()))  # type: ignore[arg-type]
    assert asked == [8081, 8082]
    await served_env.close()
    await served_env.close()
    assert [call[0] for call in official.CALLS] == ["made", "reset", "reset", "made", "reset", "closed"]
    assert official.CALLS[2] == ("reset", None, True)


async def test_what_upstream_raises_is_the_envs_error(official: Any) -> None:
    official.PLACE["broken"] = True
    with pytest.raises(EnvSetupError, match="did not give a guest: no such container") as told:
        await make_guest_env({"provider": "vmware"}).reset(TASK)
    assert told.value.retryable


def test_upstreams_package_is_not_installed() -> None:
    with pytest.raises(EnvSetupError, match="pip install desktop-env"):
        make_guest_env({"provider": "vmware"})


def test_what_options_make() -> None:
    env = make_env(EnvSpec(name="osworld", options={"guest": "10.0.0.7:5001", "screen": "1280x720"}))
    assert isinstance(env, GuestEnv)
    assert (env.options.base_url, env.options.screen_px) == ("http://10.0.0.7:5001", (1280, 720))
    local = make_guest_env({"provider": "local", "screen": "1280x720", "memory_mb": "2048"})._provider
    assert isinstance(local, LocalGuest)
    assert (local.options.screen_px, local.options.memory_bytes) == ((1280, 720), 2**31)
    suite = load_suite("osworld", provider="local", domains="os")
    spec = suite.make_task(suite.task_ids[0], None).spec
    assert spec.env is not None and dict(spec.env.options) == {"provider": "local"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"provider": "locl"}, "expected one of address, local, docker, vmware; did you mean 'local'"),
        ({"provider": "local", "token": "x"}, "token is for the provider address, not for local"),
        ({"provider": "docker", "memory_mb": 1}, "memory_mb is for the provider local, not for docker"),
        ({"home": "/tmp"}, "home is for the provider local, not for address"),
        ({"provider": "local", "home": "/no/such"}, "home is '/no/such', which is not a folder"),
        ({"provider": "local", "screen": "wide"}, "screen is 'wide'"),
        ({"provider": "local", "memory_mb": "much"}, "memory_mb is 'much', expected a int"),
    ],
)
def test_options_that_are_not_taken(options: dict[str, Any], told: str) -> None:
    with pytest.raises(EnvSetupError, match=told):
        make_env(EnvSpec(name="osworld", options=options))


def test_a_guest_is_only_for_one_that_runs() -> None:
    with pytest.raises(EnvSetupError, match="guest is for the provider address, not for local"):
        load_suite("osworld", provider="local", guest="10.0.0.7")
