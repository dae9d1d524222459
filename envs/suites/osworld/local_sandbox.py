"""Sandbox of a local guest: arguments of bubblewrap, generated small files, program wrappers.

It also inspects a guest from outside: its first process, and the resource usage of all its processes.
"""

import contextlib
import json
import os
import select
import signal
import site
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import envs
from envs.suites.osworld.local_session import HOME, RUN

_END_TIMEOUT_S = 20.0
_FIRST_USER = 1_800_000_000
"""First user id for guests started by root; a guest's port is added, so that no two share an id and its limits."""
_NOBODY = 65534
_USER_INSIDE = 1000
BIN = "/k25/bin"
GUEST_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/games"
"""PATH of a guest's programs, after `BIN`."""
_PYTHON_PACKAGES = "/k25/python"
TEMPLATE = "/k25/home"
_SYSTEM_PYTHON = "/usr/bin/python3"
_NEEDED_BY_PYAUTOGUI = ("python3/dist-packages/Xlib/display.py", "python3.*/lib-dynload/_tkinter*")
"""Files of Debian's python3-xlib and python3-tk."""
_ROOT_NAMES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "ImageMagick-6 X11 alternatives bash.bashrc ca-certificates ca-certificates.conf chromium chromium.d dbus-1 dconf "
    "debian_version default dictionaries-common environment fonts gimp glvnd gnome gtk-2.0 gtk-3.0 gtk-4.0 host.conf "
    "inputrc java-17-openjdk ld.so.cache ld.so.conf ld.so.conf.d libpaper.d libreoffice locale.alias localtime magic "
    "magic.mime mailcap menu-methods mime.types networks openal os-release papersize profile profile.d protocols pulse "
    "python3 python3.11 services shells skel ssl/certs ssl/openssl.cnf terminfo thunderbird timezone vulkan xattr.conf "
    "xdg xml"
).split()
_VAR = ("/var/cache/fontconfig", "/var/lib/aspell", "/var/lib/ispell", "/var/lib/libreoffice", "/var/lib/xfonts")
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")


def local_dir() -> Path:
    """Return the folder of `cua setup osworld-local`: `python` with packages, `home`, the template."""
    import platformdirs

    return platformdirs.user_data_path("k25", appauthor=False) / "osworld-local"


def find_python_packages() -> Path | None:
    """Return the folder with pyautogui for the guest, from `cua setup osworld-local` or a checkout's bootstrap."""
    places = (local_dir() / "python", Path(sys.prefix) / "guest")
    return next((place for place in places if (place / "pyautogui").is_dir()), None)


class Files:
    """Small files inside the sandbox, each written from a file descriptor."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self.fds: list[int] = []

    def arguments(self, path: str, text: str, mode: str = "0644") -> list[str]:
        """Return the arguments that create a file with this text."""
        return ["--perms", mode, "--ro-bind-data", str(self.descriptor(text)), path]

    def descriptor(self, text: str) -> int:
        """Return a file descriptor from which a text is read."""
        fd = os.memfd_create("file")
        self._opened.callback(os.close, fd)
        os.write(fd, text.encode())
        os.lseek(fd, 0, os.SEEK_SET)
        self.fds.append(fd)
        return fd


def bubblewrap_arguments(files: Files, *, template: Path, disk_bytes: int, user: int | None) -> list[str]:
    """Return the arguments before the command.

    Args:
        files: Source of the generated files.
        template: Folder from which the session fills the home; it may be missing.
        disk_bytes: Size of the home, and of each other writable folder.
        user: User that the session switches to, if started by root; None maps the current user.
    """
    argv = [*_NAMESPACES, "--hostname", "osworld", "--new-session"]
    argv += ["--die-with-parent", "--clearenv", "--cap-drop", "ALL"]
    if user is None:
        argv += ["--unshare-user", "--disable-userns", "--uid", str(_USER_INSIDE), "--gid", str(_USER_INSIDE)]
    else:
        argv += [part for name in ("SETUID", "SETGID", "CHOWN") for part in ("--cap-add", f"CAP_{name}")]
    argv += _writable_arguments(str(disk_bytes))
    argv += _system_arguments(template)  # after the others: this Python may be inside one of them
    argv += ["--perms", "1777", "--dir", "/tmp/.X11-unix", "--symlink", "/tmp", "/var/tmp"]
    for path, text in _etc_files(_USER_INSIDE if user is None else user).items():
        argv += files.arguments(path, text)
    for name, text in shims().items():
        argv += ["--perms", "0755", "--dir", BIN, *files.arguments(f"{BIN}/{name}", text, "0755")]
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def _writable_arguments(size: str) -> list[str]:
    """Return the arguments for empty folders in memory, devices and processes."""
    argv = []
    for place, most in ((HOME, size), (RUN, str(64 * 2**20))):
        argv += ["--perms", "0755", "--dir", str(place.parent)]
        argv += ["--perms", "0755", "--size", most, "--tmpfs", str(place)]
    argv += ["--dev", "/dev", "--proc", "/proc"]
    for shared in ("/tmp", "/dev/shm"):
        argv += ["--perms", "1777", "--size", size, "--tmpfs", shared]
    return argv


def _system_arguments(template: Path) -> list[str]:
    """Return the arguments for the system's programs and this Python, read-only, without the tasks and their checks."""
    shown = ["/usr", "/opt", *(f"/{name}" for name in _ROOT_NAMES), *(f"/etc/{name}" for name in _ETC), *_VAR]
    python = (sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1]))
    ours = str(Path(envs.__file__).resolve().parent)
    packages = find_python_packages()
    argv = []
    for path in dict.fromkeys([*shown, *python, *site.getsitepackages(), *package_folders()[1:], ours]):
        if Path(path).is_symlink() and path[1:] in _ROOT_NAMES:
            argv += ["--symlink", str(Path(path).readlink()), path]
        elif Path(path).exists():
            argv += _shown(path, path)
    for folder, target in ((template, TEMPLATE), (packages, _PYTHON_PACKAGES)):
        if folder is not None and folder.is_dir():
            argv += _shown(str(folder), target)
    tasks = str(Path(__file__).resolve().with_name("data"))
    return [*argv, "--tmpfs", tasks, "--remount-ro", tasks]


def _shown(source: str, target: str) -> list[str]:
    """Return the arguments for a read-only mount; parent folders get mode 0755, else only root could enter them."""
    above = [str(folder) for folder in reversed(Path(target).parents[:-1])]
    return [part for folder in above for part in ("--perms", "0755", "--dir", folder)] + ["--ro-bind", source, target]


def package_folders() -> list[str]:
    """Return the folders to add to an isolated Python's path: this project and the user's packages."""
    user = site.getusersitepackages()
    return [str(Path(envs.__file__).resolve().parents[1]), *([user] if user in sys.path else [])]


def _etc_files(user: int) -> dict[str, str]:
    return {
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nuser:x:{user}:{user}:user:{HOME}:/bin/bash\n",
        "/etc/group": f"root:x:0:\nuser:x:{user}:\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "/etc/hosts": "127.0.0.1 localhost osworld\n",
        "/etc/hostname": "osworld\n",
        "/etc/resolv.conf": "nameserver 10.0.2.3\n",
        "/etc/machine-id": "6f73776f726c642d6c6f63616c2d3131\n",
    }


def shims() -> dict[str, str]:
    """Return wrapper scripts by the program names that the tasks use."""
    is_system = all(any(Path("/usr/lib").glob(path)) for path in _NEEDED_BY_PYAUTOGUI)
    interpreter = _SYSTEM_PYTHON if is_system else sys.executable
    python = f'#!/bin/sh\nPYTHONPATH={_PYTHON_PACKAGES}${{PYTHONPATH:+:$PYTHONPATH}} exec {interpreter} "$@"\n'
    shims = dict.fromkeys(("python", "python3"), python)
    if Path("/usr/bin/chromium").exists():
        shims |= dict.fromkeys(("google-chrome", "google-chrome-stable", "chromium", "chromium-browser"), _CHROME)
        shims |= dict.fromkeys(("pkill", "killall"), _KILL)
    return shims


_CHROME = """#!/bin/sh
exec /usr/bin/chromium --no-sandbox --test-type --no-first-run --no-default-browser-check --disable-gpu \\
  --password-store=basic --force-renderer-accessibility --user-data-dir="$HOME/.config/google-chrome" "$@"
"""
"""Wrapper for Chrome: its own sandbox does not work inside this one; `--test-type` hides the warning about that."""
_KILL = """#!/bin/sh
for part; do
  shift
  test "$part" = chrome && part=chromium
  set -- "$@" "$part"
done
exec "/usr/bin/${0##*/}" "$@"
"""
"""Wrapper for pkill: tasks close the browser by another process name."""


def choose_user(port: int) -> int | None:
    """Return the user for a guest started by root, a separate one if the machine has enough ids; None if not root."""
    if os.geteuid() != 0:
        return None
    first, _, count = map(int, Path("/proc/self/uid_map").read_text("ascii").split()[:3])
    wanted = _FIRST_USER + port
    return wanted if first <= wanted < first + count else _NOBODY


class FirstProcess:
    """First process of a guest's namespace, seen from outside; all other processes inside end with it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def end(self) -> None:
        """Kill it and wait until it is gone, which is after all others."""
        try:
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)
            select.select([self._fd], [], [], _END_TIMEOUT_S)
        except ProcessLookupError:
            pass
        finally:
            os.close(self._fd)

    def usage(self) -> tuple[int, int]:
        """Return the used memory in bytes, including files in memory, and the number of files."""
        private, shared, num_bytes, num_files = 0, 0, 0, 0
        for status in map(_read_status, self._pids()):
            private += status.get("RssAnon", 0)
            shared = max(shared, status.get("RssShmem", 0))
        with contextlib.suppress(OSError):
            for place in (HOME, RUN, Path("/tmp"), Path("/dev/shm")):
                usage = os.statvfs(f"/proc/{self.pid}/root{place}")
                num_bytes += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
                num_files += usage.f_files - usage.f_ffree
        return (private + shared) * 1024 + num_bytes, num_files

    def _pids(self) -> Iterator[int]:
        waiting = [self.pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            with contextlib.suppress(OSError):  # it may end during the inspection
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    waiting += map(int, children.read_text("ascii").split())


def _read_status(pid: int) -> dict[str, int]:
    """Return memory counters of a process by name, in kilobytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split(":\t") for line in lines if line.startswith("Rss"))
    return {name: int(value.split()[0]) for name, value in pairs}


def read_first_process(info_fd: int) -> "FirstProcess | None":
    """Read the first process from bubblewrap's output; return None if there is none."""
    text = b""
    while chunk := os.read(info_fd, 4096):
        text += chunk
    try:
        return FirstProcess(json.loads(text)["child-pid"])
    except (ValueError, KeyError, OSError):
        return None
