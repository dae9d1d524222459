"""`cua setup osworld-evaluators`: OSWorld's own evaluators from PyPI, in their own virtual environment."""

import asyncio
import importlib.util
import json
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from apps.setup.command import Say, run_command
from apps.setup.report import DoctorRow
from envs.errors import EvaluationError
from envs.suites.apps.app import locked
from envs.suites.osworld.official import (
    INSTALL_LINE,
    INSTALLED_FILE,
    PACKAGE,
    REQUIREMENTS,
    ask,
    find_official,
    official_dir,
    python_of,
)

_TIMEOUT_S = 1800.0  # some 1.2 GB over a slow network
_NAME = "osworld-evaluators"


async def install_official_evaluators(say: Say) -> tuple[DoctorRow, ...]:
    """Install the evaluators if they are missing; an interrupted installation is restarted.

    Returns:
        One row.
    """
    folder = official_dir()
    await asyncio.to_thread(folder.parent.mkdir, parents=True, exist_ok=True)
    with locked(folder.parent / f"{_NAME}.lock"):
        if find_official() is None:
            failure = await _install(folder, say)
            if failure is not None:
                actual, fix = failure
                return (DoctorRow(name=_NAME, level="fail", actual=actual, expected=f"{PACKAGE} from PyPI", fix=fix),)
            _remove_others(folder)
    official = find_official()
    assert official is not None
    without = f", without {', '.join(official.missing)}" if official.missing else ""
    actual = (
        f"{PACKAGE}: {len(official.metrics)} functions, {len(official.getters)} kinds of results{without}, in {folder}"
    )
    return (DoctorRow(name=_NAME, level="ok", actual=actual),)


async def _install(folder: Path, say: Say) -> tuple[str, str] | None:
    """Install and write the completion file last; return the problem and the command that fixes it, None on success."""
    if importlib.util.find_spec("pip") is None:
        return f"{sys.executable} has no pip", f"{shlex.quote(sys.executable)} -m ensurepip"
    since_s = time.monotonic()
    say(f"installing OSWorld's own evaluators, {PACKAGE}, into {folder} (some 1.2 GB)")
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    python = python_of(folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--no-input")
    commands = (
        (sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")),
        (*pip, "--prefer-binary", *REQUIREMENTS),
        (*pip, "--no-deps", PACKAGE),
    )
    for argv in commands:
        done = await run_command(argv, timeout_s=_TIMEOUT_S, say=_drop)
        if done.code != 0:
            return done.why, shlex.join(argv)
    try:
        names = await ask(python, {"op": "names"})
    except EvaluationError as error:
        return str(error), INSTALL_LINE
    record = {**names, "packages": await _versions(python)}
    await asyncio.to_thread((folder / INSTALLED_FILE).write_text, json.dumps(record, indent=1), "utf-8")
    say(f"  ready after {time.monotonic() - since_s:.0f} s")
    return None


async def _versions(python: Path) -> dict[str, Any]:
    lines: list[str] = []
    argv = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "freeze")
    await run_command(argv, timeout_s=_TIMEOUT_S, say=lambda line: lines.append(line.strip()))
    return dict(line.split("==", 1) for line in lines if line.count("==") == 1)


def _remove_others(folder: Path) -> None:
    """Remove the installations of older package lists."""
    for other in folder.parent.glob(f"{_NAME}-*"):
        if other != folder and other.is_dir():
            shutil.rmtree(other, ignore_errors=True)


def _drop(line: str) -> None:
    """Drop pip's output; the outcome is reported."""
