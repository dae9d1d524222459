"""Whole instructions in real desktop programs on a private display; files and the clipboard are the judges."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envs import InstructionTask
from envs.desktop import DesktopEnv, DesktopOptions
from envs.desktop.private_display import find_window_manager, find_xvfb
from tests.apps.literal.driver import Outcome, follow

pytestmark = [
    pytest.mark.desktop,
    pytest.mark.slow,
    pytest.mark.skipif(find_xvfb() is None or find_window_manager() is None, reason="needs Xvfb and a window manager"),
]


@pytest.fixture
async def desktops() -> AsyncIterator[list[DesktopEnv]]:
    started: list[DesktopEnv] = []
    yield started
    for env in started:
        await env.close()


async def follow_in(desktops: list[DesktopEnv], app: str, home: Path, instruction: str) -> tuple[DesktopEnv, Outcome]:
    env = DesktopEnv(DesktopOptions(app=app, home_dir=home, screen_px=(1280, 800)))
    desktops.append(env)
    observation = await env.reset(InstructionTask(instruction=instruction))
    return env, await follow(env, observation, instruction)


@pytest.mark.slow
async def test_calculator_is_worked_by_its_buttons(desktops: list[DesktopEnv], tmp_path: Path) -> None:
    instruction = (
        "Wait for 'sqrt'. Click '1', '2', '*', '7', '-', '4', '.', '5' and '='. Wait for '79.5'. "
        "Open the Edit menu, then click Copy. Wait 1 second."
    )

    env, outcome = await follow_in(desktops, "galculator", tmp_path, instruction)

    assert (outcome.status, await env.get_clipboard()) == ("success", "79.5"), outcome.actions


@pytest.mark.slow
async def test_text_is_typed_and_saved_through_the_menu(desktops: list[DesktopEnv], tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    instruction = (
        "Wait for 'File'. Type 'Grüße & <tags>\\nsecond line' into the document. Open the File menu. "
        f"Click 'Save As...'. Wait for 'Cancel'. Type '{path}' into Name. Wait 1 second. Press Enter. "
        "Wait until 'Save As' is gone. Wait 1 second."
    )

    _, outcome = await follow_in(desktops, "mousepad --disable-server", tmp_path, instruction)

    assert outcome.status == "success", (outcome.answer, outcome.actions)
    assert path.read_text() == "Grüße & <tags>\nsecond line"


async def test_a_menu_that_is_not_there_is_named(desktops: list[DesktopEnv], tmp_path: Path) -> None:
    _, outcome = await follow_in(desktops, "mousepad --disable-server", tmp_path, "Open the Frobnicate menu")

    assert outcome.status == "failure"
    assert '"Frobnicate"' in outcome.answer and "nearest texts" in outcome.answer
