"""Install the web apps of the suite `apps`: each by name from PyPI, npm or the system, into its own folder."""

import asyncio
import importlib.util
import json
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from apps.setup.command import CommandResult, Say, run_command
from apps.setup.packages import APT_WAIT, is_root
from apps.setup.report import DoctorRow
from envs.errors import EnvError
from envs.suites.apps.app import INSTALLED_FILE, WebApp, apps_dir, initial_state, is_found, locked, remove_old_versions
from envs.suites.apps.suite import APPS

_TIMEOUT_S = 900.0  # downloads and the first start of an app


async def install_apps(say: Say, apps: Sequence[WebApp] = APPS) -> tuple[DoctorRow, ...]:
    """Install missing apps, one after the other, and make the initial state of each.

    An interrupted installation is restarted the next time. If one app cannot be installed, the others still are.

    Returns:
        One row for each app.
    """
    return tuple([await _install(app, say) for app in apps])


async def _install(app: WebApp, say: Say) -> DoctorRow:
    since_s = time.monotonic()
    name = f"app {app.name}"
    apps_dir().mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, locked(apps_dir() / f"{app.name}.lock"))
        failure = None
        if app.why_missing() is not None:
            say(f"installing {app.name} ({app.role})")
            failure = await _install_system(app, say) or await _install_own(app, say)
        if failure is not None:
            actual, fix = failure
            return DoctorRow(name=name, level="fail", actual=actual, expected=f"{app.role} {app.name}", fix=fix)
        try:
            state = await asyncio.to_thread(initial_state, app)
        except EnvError as error:
            return DoctorRow(name=name, level="fail", actual=str(error), expected=f"{app.role} {app.name}")
        await asyncio.to_thread(remove_old_versions, apps_dir(), app.name)
    say(f"  {app.name}: ready after {time.monotonic() - since_s:.1f} s")
    return DoctorRow(name=name, level="ok", actual=f"{app.role}, first state in {state}")


_Failure = tuple[str, str]
"""Problem, and the command that fixes it."""


async def _install_system(app: WebApp, say: Say) -> _Failure | None:
    """Install system packages, which needs root."""
    packages = app.packages
    missing = _missing_programs(app)
    if not missing:
        return None
    reason = f"{' and '.join(missing)} not found"
    install = ("install", "-y", "--no-install-recommends", *(packages.apt or missing))
    by_hand = f"sudo apt-get update && sudo DEBIAN_FRONTEND=noninteractive {shlex.join(('apt-get', *install))}"
    if not packages.apt:
        return reason, by_hand
    if shutil.which("apt-get") is None:
        return f"{reason}, and there is no apt-get", f"install {' '.join(packages.apt)}"
    if not is_root():
        return f"{reason}, and apt-get needs root", by_hand
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    await run_command(("apt-get", "update"), timeout_s=_TIMEOUT_S, environment=quiet)
    for answer in packages.apt_answers:
        preset = ("sh", "-c", 'echo "$0" | debconf-set-selections', answer)
        await run_command(preset, timeout_s=_TIMEOUT_S, environment=quiet)
    argv = ("apt-get", *APT_WAIT, *install)
    say(f"  {shlex.join(argv)}")
    done = await run_command(argv, timeout_s=_TIMEOUT_S, environment=quiet)
    if done.code != 0:
        return done.why, by_hand
    missing = _missing_programs(app)
    return (f"{' and '.join(missing)} not found once these are installed", by_hand) if missing else None


def _missing_programs(app: WebApp) -> list[str]:
    """Return required system programs that are missing; npm is only needed for the installation."""
    packages = app.packages
    installers = ("npm",) if packages.npm and not (app.home / INSTALLED_FILE).is_file() else ()
    return [need for need in (*packages.needs, *installers) if not is_found(need)]


async def _install_own(app: WebApp, say: Say) -> _Failure | None:
    """Install packages into the app's own folder; a file written at the end marks it as complete."""
    packages, home = app.packages, app.home
    if (home / INSTALLED_FILE).is_file() or not (packages.pip or packages.npm):
        return None
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    commands: list[tuple[str, ...]] = []
    if packages.pip:
        if importlib.util.find_spec("pip") is None:
            return f"{sys.executable} has no pip", f"{shlex.quote(sys.executable)} -m ensurepip"
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(app.python),
            "install",
            "--no-input",
            "--disable-pip-version-check",
        )
        commands += [(sys.executable, "-m", "venv", "--without-pip", str(home / "venv")), (*pip, *packages.pip)]
    if packages.npm:
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        commands += [("npm", "install", *quiet, "--prefix", str(home), *packages.npm)]
    for argv in commands:
        done = await _run(argv, say)
        if done.code != 0:
            return done.why, shlex.join(argv)
    record = {"pip": packages.pip, "npm": packages.npm}
    (home / INSTALLED_FILE).write_text(json.dumps(record), "utf-8")
    return None


async def _run(argv: Sequence[str], say: Say) -> CommandResult:
    shown = shlex.join(argv)
    say(f"  {shown[:160]}{'...' if len(shown) > 160 else ''}")
    return await run_command(argv, timeout_s=_TIMEOUT_S)
