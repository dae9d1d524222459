"""Run an example the way `cua task` does, and skip where the machine cannot."""

import shutil
from pathlib import Path

import pytest

from cua.api import run_task
from cua.model import Model
from cua.run.end import RunResult
from envs.browser.launch import find_browser
from envs.desktop.private_display import find_window_manager, find_xvfb
from examples.example import Example, load_examples

EXAMPLES = load_examples()


def example_params() -> list[object]:
    """Every example by name, marked with the world that it needs."""
    return [
        pytest.param(
            example,
            id=example.name,
            marks=[pytest.mark.slow, pytest.mark.browser if example.env == "browser" else pytest.mark.desktop],
        )
        for example in EXAMPLES
    ]


def skip_unless_possible(example: Example) -> None:
    if example.env == "browser" and find_browser() is None:
        pytest.skip("no Chromium found: cua setup")
    if example.env == "desktop":
        if find_xvfb() is None or find_window_manager() is None:
            pytest.skip("no Xvfb or no window manager: cua setup")
        program = example.app.split()[0]
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


async def run_example(example: Example, model: Model | str, folder: Path) -> RunResult:
    """One run with the real agent loop; the record goes below `folder`."""
    skip_unless_possible(example)
    env = example.make_env(folder)
    try:
        return await run_task(
            example.make_task(folder), model=model, env=env, approve="yolo", runs_dir=str(folder / "runs"), max_time=240
        )
    finally:
        await env.close()
