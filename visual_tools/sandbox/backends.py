"""Detect which isolation backends work on this machine, and build the bubblewrap command lines.

Backends are detected by trying them. Bubblewrap shows a kernel a read-only system without network. This module also
finds Python and its packages, which the kernel must be able to read.
"""

import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import platformdirs

import visual_tools
from visual_tools.errors import SandboxError
from visual_tools.sandbox.contract import Backend
from visual_tools.sandbox.landlock import abi_version
from visual_tools.sandbox.zygote.filesystem import DISKS, FIXED, NEW_ROOT
from visual_tools.sandbox.zygote.plan import HOST_ROOT, NOBODY, SIZE_MARK, Mode, ZygotePlan
from visual_tools.sandbox.zygote_client import make_argv, make_env

_ROOT_NAMES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "ld.so.cache ld.so.conf ld.so.conf.d alternatives fonts localtime timezone nsswitch.conf mime.types "
    "ssl/certs ssl/openssl.cnf ca-certificates.conf bash.bashrc profile protocols services os-release debian_version"
).split()
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")


def find_bubblewrap() -> str | None:
    """Return the path of bubblewrap, or None if it is not installed."""
    return shutil.which("bwrap")


def find_import_paths() -> list[str]:
    """Return the folders that an isolated Python must add to `sys.path`: this package and the user's packages."""
    user = site.getusersitepackages()
    return [str(Path(visual_tools.__file__).parents[1]), *([user] if user in sys.path else [])]


def find_system_paths() -> list[str]:
    """Return the files and folders that a kernel may read: system programs, Python, its packages, this package."""
    python = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    interpreter = Path(sys.executable).resolve().parents[1]
    wanted = [
        "/usr",
        *(f"/{name}" for name in _ROOT_NAMES if not Path(f"/{name}").is_symlink()),
        *(f"/etc/{name}" for name in _ETC),
        "/var/cache/fontconfig",
        *python,
        str(interpreter),
        *find_import_paths()[1:],
        *(str(Path(path).resolve()) for path in site.getsitepackages()),
        str(Path(visual_tools.__file__).parent.resolve()),
    ]
    return _outermost(path for path in wanted if Path(path).exists())


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that are not inside another path of the list, in order."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        if path != "/" and not any(Path(path).is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def find_links() -> dict[str, str]:
    """Return the symbolic links at the root of this system, such as /bin to usr/bin."""
    links = (Path(f"/{name}") for name in _ROOT_NAMES)
    return {link.name: str(link.readlink()) for link in links if link.is_symlink()}


def make_outer_argv(bubblewrap: str, *, is_root: bool) -> list[str]:
    """Return the bubblewrap arguments, up to the command, for a process that creates namespaces itself.

    The process sees the host's files under a hidden folder and builds each kernel's file system from them.

    Args:
        bubblewrap: Path of the program.
        is_root: True to keep the real root's identity, from which each kernel gets a different user.
    """
    argv = [bubblewrap, *_NAMESPACES, "--new-session", "--clearenv"]
    if not is_root:
        argv.append("--unshare-user")
    argv += ["--tmpfs", "/tmp", *_system_arguments()]  # readable paths may be below /tmp
    argv += ["--dev", "/dev", "--dev-bind", "/proc", "/proc", "--bind", "/", HOST_ROOT]
    argv += ["--dir", NEW_ROOT, "--dir", DISKS, "--dir", FIXED, "--chdir", "/"]
    return argv


def make_single_argv(bubblewrap: str) -> list[str]:
    """Return the bubblewrap arguments, up to the working folder and the command, for one kernel."""
    argv = [bubblewrap, "--unshare-user", *_NAMESPACES, "--new-session", "--die-with-parent"]
    argv += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL", "--hostname", "sandbox"]
    argv += ["--as-pid-1", "--size", SIZE_MARK, "--tmpfs", "/tmp", *_system_arguments()]
    argv += ["--dev", "/dev", "--size", SIZE_MARK, "--tmpfs", "/dev/shm", "--proc", "/proc", "--remount-ro", "/proc"]
    return argv


def _system_arguments() -> list[str]:
    argv = []
    for path in find_system_paths():
        argv += ["--ro-bind", path, path]
    for name, target in find_links().items():
        argv += ["--symlink", target, f"/{name}"]
    return argv


MODES: dict[Backend, tuple[Mode, ...]] = {
    "bubblewrap": ("nested", "exec"),
    "landlock": ("landlock",),
    "none": ("none",),
}
ISOLATING: tuple[Backend, ...] = ("bubblewrap", "landlock")
_PREFLIGHT_S = 30.0  # a first start loads Python from a cold disk; a backend that hangs is given up
_DESCRIPTIONS = {
    "nested": "namespaces, without network, with another user, for each kernel; starts in milliseconds",
    "exec": "one bubblewrap for each kernel, which starts in a second or two",
    "landlock": "Landlock and a filter of system calls: no namespaces, so names of processes and names, "
    "sizes and times of files can be seen; what is written to disk is watched, not capped",
    "none": "limits only: code can read and change whatever you can, and use the network",
}


class BackendReport(NamedTuple):
    """Result of trying one backend on this machine.

    Attributes:
        backend: Name of the backend.
        works: True if kernels can be created with it.
        reason: What it does here, or why it does not work and how to fix it.
    """

    backend: Backend
    works: bool
    reason: str


def make_plan(mode: Mode, folder: str) -> tuple[list[str], ZygotePlan]:
    """Build the command line prefix for Python and the plan for a zygote.

    Raises:
        SandboxError: If a requirement of the mode is missing.
    """
    program = find_bubblewrap()
    if mode in ("nested", "exec") and program is None:
        raise SandboxError("bubblewrap is not installed (apt-get install bubblewrap, dnf install bubblewrap)")
    if mode == "landlock" and abi_version() == 0:
        raise SandboxError("this kernel has no Landlock (Linux 5.13 or newer with it switched on)")
    paths = find_system_paths()
    can_be_nobody = mode == "nested" or (mode == "landlock" and is_open_to_all([*paths, folder]))
    plan = ZygotePlan(
        mode=mode,
        control_fd=-1,
        is_root=os.geteuid() == 0 and can_be_nobody,
        system_paths=tuple(paths),
        links=find_links(),
        import_paths=tuple(find_import_paths()),
        wrapper=tuple(make_single_argv(program)) if mode == "exec" and program else (),
        preflight_dir=folder,
        cache_dir=_find_cache_dir(),
    )
    if plan.is_root:
        Path(folder).chmod(0o711)  # another user must reach folders below it
    wrapper = make_outer_argv(program, is_root=plan.is_root) if mode == "nested" and program else []
    return wrapper, plan


def _find_cache_dir() -> str:
    """Return the user's cache folder for compiled loops, creating it if needed; "" if it cannot be created."""
    folder = platformdirs.user_cache_path("k25", appauthor=False) / "loops"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder)


def is_open_to_all(paths: Iterable[str]) -> bool:
    """Return True if every user can access these files and folders."""
    above = {folder for path in paths for folder in Path(path).parents}
    return all(folder.stat().st_mode & 0o001 for folder in above)


def try_mode(mode: Mode) -> str:
    """Return the reason why kernels cannot be created in this mode; "" if they can."""
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
    """Try every backend, best first; takes about a second."""
    reports = []
    for backend, modes in MODES.items():
        failures: list[str] = []
        for mode in modes:
            why = try_mode(mode)
            if not why:
                instead = f"; faster kernels are not possible: {failures[0]}" if failures else ""
                reports.append(BackendReport(backend, True, _DESCRIPTIONS[mode] + instead))
                break
            failures.append(why)
        else:
            reports.append(BackendReport(backend, False, "; ".join(dict.fromkeys(failures))))
    return reports
