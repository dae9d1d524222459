import asyncio
import subprocess
import sys

import pytest
from Xlib.display import Display

from envs import Click, Hotkey, PressKey, TypeText
from envs.check_env import check_env
from envs.desktop import DesktopEnv, DesktopOptions
from tests.envs.desktop.conftest import MakeEnv, needs_display, needs_program
from tests.envs.desktop.long_run import run_long

pytestmark = needs_display


@pytest.mark.long
async def test_desktop_env_keeps_the_contract() -> None:
    await check_env(lambda: DesktopEnv(DesktopOptions(screen_px=(640, 480))))


@pytest.mark.slow
@needs_program("mousepad")
async def test_desktop_env_keeps_the_contract_with_a_program() -> None:
    await check_env(lambda: DesktopEnv(DesktopOptions(screen_px=(800, 600), app="mousepad")))


@needs_program("mousepad")
@pytest.mark.long
async def test_two_envs_at_once_do_not_meet(make_env: MakeEnv) -> None:
    envs = await asyncio.gather(make_env(app="mousepad"), make_env(app="mousepad"))
    assert len({env.display for env in envs}) == len({env.home for env in envs}) == 2
    texts = ("first ä", "second ö")
    await asyncio.gather(
        *(env.step([Click(x_px=400, y_px=300), TypeText(text=text)]) for env, text in zip(envs, texts, strict=True))
    )
    await asyncio.gather(*(env.set_clipboard(text) for env, text in zip(envs, texts, strict=True)))
    assert tuple(await asyncio.gather(*(env.get_clipboard() for env in envs))) == texts


def test_importing_the_desktop_loads_nothing_heavy() -> None:
    code = """
import sys, envs.desktop
heavy = {"Xlib", "mss", "numpy", "cv2", "PIL", "isal", "pyautogui", "playwright"} & set(sys.modules)
print(sorted(heavy))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert result.stdout == "[]\n"


@needs_program("galculator")
async def test_a_calculator_calculates(make_env: MakeEnv) -> None:
    env = await make_env(app="galculator")
    result = await env.step([TypeText(text="12*34"), PressKey(key="enter"), Hotkey(keys=("ctrl", "c"))])
    assert (result.observation.title, await env.get_clipboard()) == ("galculator", "408")


@pytest.mark.slow
async def test_a_private_display_takes_more_clients_than_usual(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = await make_env()
    monkeypatch.setenv("XAUTHORITY", env.environment["XAUTHORITY"])
    connections = [await asyncio.to_thread(Display, env.display) for _ in range(300)]
    for connection in connections:
        connection.close()


@needs_program("mousepad")
@needs_program("xterm")
@pytest.mark.slow
async def test_many_steps_open_nothing_new() -> None:
    run = await run_long(30, screen_px=(1280, 800))
    assert run.num_fds[1] <= run.num_fds[0]
    assert run.num_clients[0] == run.num_clients[1] < 12
