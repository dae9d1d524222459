"""The command line of bubblewrap: a read-only system without network, and where Python and its packages lie."""

import os
import shutil
import site
import sys
from collections.abc import Iterable
from pathlib import Path

import visual_tools
from visual_tools.sandbox.zygote.filesystem import DISKS, FIXED, NEW_ROOT
from visual_tools.sandbox.zygote.plan import HOST_ROOT, NOBODY, SIZE_MARK

_ROOT_NAMES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "ld.so.cache ld.so.conf ld.so.conf.d alternatives fonts localtime timezone nsswitch.conf mime.types "
    "ssl/certs ssl/openssl.cnf ca-certificates.conf bash.bashrc profile protocols services os-release debian_version"
).split()
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")


def find_bubblewrap() -> str | None:
    """Path of the program, if it is installed."""
    return shutil.which("bwrap")


def find_import_paths() -> list[str]:
    """Folders that a fresh, isolated Python must add to find what this one finds: this package, the user's packages."""
    user = site.getusersitepackages()
    return [str(Path(visual_tools.__file__).parents[1]), *([user] if user in sys.path else [])]


def find_system_paths() -> list[str]:
    """Files and folders that a kernel may read: the system's programs, Python, its packages, this package."""
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
    """The paths that do not lie within another one, in order."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        if path != "/" and not any(Path(path).is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def find_links() -> dict[str, str]:
    """Symbolic links at the root of this system, such as /bin to usr/bin."""
    links = (Path(f"/{name}") for name in _ROOT_NAMES)
    return {link.name: str(link.readlink()) for link in links if link.is_symlink()}


def make_outer_argv(bubblewrap: str, *, is_root: bool) -> list[str]:
    """Arguments, up to the command, for a process that will make namespaces itself.

    It sees the host's files below a hidden folder, to take from there what a kernel may see.

    Args:
        bubblewrap: Path of the program.
        is_root: Keep the real root's identity, from which each kernel is given another one.
    """
    argv = [bubblewrap, *_NAMESPACES, "--new-session", "--clearenv"]
    if not is_root:
        argv.append("--unshare-user")
    argv += ["--tmpfs", "/tmp", *_system_arguments()]  # what is to be seen may lie below /tmp
    argv += ["--dev", "/dev", "--dev-bind", "/proc", "/proc", "--bind", "/", HOST_ROOT]
    argv += ["--dir", NEW_ROOT, "--dir", DISKS, "--dir", FIXED, "--chdir", "/"]
    return argv


def make_single_argv(bubblewrap: str) -> list[str]:
    """Arguments, up to the working folder and the command, for a bubblewrap around one kernel.

    Args:
        bubblewrap: Path of the program.
    """
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
