"""What can isolate code on this machine: found out by trying."""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import platformdirs

from visual_tools.errors import SandboxError
from visual_tools.sandbox import bubblewrap
from visual_tools.sandbox.contract import Backend
from visual_tools.sandbox.landlock import abi_version
from visual_tools.sandbox.zygote.plan import Mode, Plan
from visual_tools.sandbox.zygote_client import make_argv, make_env

MODES: dict[Backend, tuple[Mode, ...]] = {
    "bubblewrap": ("nested", "exec"),
    "landlock": ("landlock",),
    "none": ("none",),
}
ISOLATING: tuple[Backend, ...] = ("bubblewrap", "landlock")
_PREFLIGHT_S = 30.0
_TOLD = {
    "nested": "namespaces, without network, with another user, for each kernel; starts in milliseconds",
    "exec": "one bubblewrap for each kernel, which starts in a second or two",
    "landlock": "Landlock and a filter of system calls: no namespaces, so names of processes and names, "
    "sizes and times of files can be seen; what is written to disk is watched, not capped",
    "none": "limits only: code can read and change whatever you can, and use the network",
}


class BackendReport(NamedTuple):
    """Whether a backend works here.

    Attributes:
        backend: Its name.
        works: Whether kernels can be made with it.
        reason: What it does here, or why it does not work and what would help.
    """

    backend: Backend
    works: bool
    reason: str


def make_plan(mode: Mode, folder: str) -> tuple[list[str], Plan]:
    """The command line before Python's own and the plan for a zygote.

    Args:
        mode: How kernels are cut off.
        folder: Its folder for temporary files.

    Raises:
        SandboxError: What the mode needs is not there.
    """
    program = bubblewrap.find_bubblewrap()
    if mode in ("nested", "exec") and program is None:
        raise SandboxError("bubblewrap is not installed (apt-get install bubblewrap, dnf install bubblewrap)")
    if mode == "landlock" and abi_version() == 0:
        raise SandboxError("this kernel has no Landlock (Linux 5.13 or newer with it switched on)")
    paths = bubblewrap.find_system_paths()
    can_be_nobody = mode == "nested" or (mode == "landlock" and is_open_to_all([*paths, folder]))
    plan = Plan(
        mode=mode,
        control_fd=-1,
        is_root=os.geteuid() == 0 and can_be_nobody,
        system_paths=tuple(paths),
        links=bubblewrap.find_links(),
        import_paths=tuple(bubblewrap.find_import_paths()),
        wrapper=tuple(bubblewrap.make_single_argv(program)) if mode == "exec" and program else (),
        preflight_dir=folder,
        cache_dir=_find_cache_dir(),
    )
    if plan.is_root:
        Path(folder).chmod(0o711)  # another user goes to folders below it
    wrapper = bubblewrap.make_outer_argv(program, is_root=plan.is_root) if mode == "nested" and program else []
    return wrapper, plan


def _find_cache_dir() -> str:
    """A folder of the user for compiled loops, made when it is not there; "" when it cannot be."""
    folder = platformdirs.user_cache_path("k25", appauthor=False) / "loops"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder)


def is_open_to_all(paths: Iterable[str]) -> bool:
    """Whether every user may go to these files and folders."""
    above = {folder for path in paths for folder in Path(path).parents}
    return all(folder.stat().st_mode & 0o001 for folder in above)


def try_mode(mode: Mode) -> str:
    """Why kernels cannot be made this way here; "" when they can."""
    with tempfile.TemporaryDirectory(prefix="k25-kernels-") as folder:
        try:
            wrapper, plan = make_plan(mode, folder)
            return _run_preflight(make_argv(wrapper, replace(plan, is_preflight=True)))
        except SandboxError as error:
            return str(error)


def _run_preflight(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=make_env("/tmp"),
            timeout=_PREFLIGHT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_PREFLIGHT_S:g} s"
    words = (done.stdout + done.stderr).strip().splitlines()
    return words[-1] if words else ("" if done.returncode == 0 else f"exit code {done.returncode}")


def describe_backends() -> list[BackendReport]:
    """Try every backend, best first; it takes about a second."""
    reports = []
    for backend, modes in MODES.items():
        failures: list[str] = []
        for mode in modes:
            why = try_mode(mode)
            if not why:
                instead = f"; faster kernels are not possible: {failures[0]}" if failures else ""
                reports.append(BackendReport(backend, True, _TOLD[mode] + instead))
                break
            failures.append(why)
        else:
            reports.append(BackendReport(backend, False, "; ".join(dict.fromkeys(failures))))
    return reports
