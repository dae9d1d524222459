"""`cua setup osworld-local` and `osworld-evaluators`.

Local guests need programs, pyautogui and the template of a home folder; OSWorld's own evaluators are installed from
PyPI in their own virtual environment.
"""

import asyncio
import importlib.util
import io
import json
import shlex
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apps.setup.archive import unpack
from apps.setup.command import Say, run_command
from apps.setup.packages import INSTALL_TIMEOUT_S, find_package_manager, is_root
from apps.setup.report import DoctorRow
from envs.errors import EnvError, EvaluationError
from envs.suites.apps.app import locked
from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.guest_client import GuestClient
from envs.suites.osworld.local import LocalGuest, LocalOptions
from envs.suites.osworld.local_sandbox import find_python_packages, local_dir
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

_EVALUATORS_TIMEOUT_S = 1800.0  # some 1.2 GB over a slow network
_EVALUATORS = "osworld-evaluators"
SCREEN: tuple[str, ...] = (
    *("bubblewrap", "xvfb", "openbox", "dbus", "dbus-x11", "at-spi2-core", "libatk-adaptor", "gir1.2-atspi-2.0"),
    *("python3-gi", "python3-tk", "python3-xlib", "xterm", "mousepad", "x11-utils", "x11-xserver-utils", "xdotool"),
    *("wmctrl", "xclip", "scrot", "fonts-dejavu-core", "adwaita-icon-theme", "libglib2.0-bin", "dconf-cli"),
    *("dconf-gsettings-backend", "xdg-utils", "procps", "socat", "ffmpeg"),
)
"""Debian packages for a guest with a terminal and an editor."""
PROGRAMS: tuple[str, ...] = (
    *("chromium", "libreoffice-calc", "libreoffice-writer", "libreoffice-impress", "libreoffice-gtk3", "gimp"),
    *("vlc", "thunderbird", "nautilus", "gnome-terminal", "gsettings-desktop-schemas", "gnome-shell-common", "eog"),
    *("evince", "file-roller", "gedit", "zip", "unzip", "imagemagick", "file", "curl", "git", "fonts-liberation2"),
    *("fonts-noto-cjk", "jq", "bc", "xsel", "sysstat"),
)
"""Debian packages of the programs that tasks use; 335 MB to download, 1.6 GB on disk."""
_PYTHON = ("pyautogui", "pymsgbox", "pytweening", "pyscreeze", "pyperclip")
"""Packages to install without dependencies: python3-xlib and others are from the system; mouseinfo needs tkinter."""
_MAX_HOME_BYTES = 400 * 2**20  # of the packed home of a guest; a larger one has caches that were not meant

_OFFICE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<item oor:path="/org.openoffice.Office.Common/Misc"><prop oor:name="FirstRun" oor:op="fuse"><value>false</value>
</prop></item>
<item oor:path="/org.openoffice.Office.Common/Misc"><prop oor:name="ShowTipOfTheDay" oor:op="fuse"><value>false</value>
</prop></item>
</oor:items>
"""
_FILES: Mapping[str, str] = {
    "~/.config/libreoffice/4/user/registrymodifications.xcu": _OFFICE,
    "~/.config/vlc/vlcrc": "[qt]\nqt-privacy-ask=0\n[core]\nmetadata-network-access=0\n",
    "~/.config/mimeapps.list": "[Default Applications]\ntext/plain=org.gnome.gedit.desktop;org.xfce.mousepad.desktop\n"
    "image/png=org.gnome.eog.desktop\nimage/jpeg=org.gnome.eog.desktop\napplication/pdf=org.gnome.Evince.desktop\n"
    "inode/directory=org.gnome.Nautilus.desktop\nvideo/mp4=vlc.desktop\naudio/mpeg=vlc.desktop\n",
}
"""Settings that suppress first-start dialogs, and file associations as in the VM."""
_FIRST_STARTS: Mapping[str, str] = {
    "gsettings": "gsettings set org.gnome.desktop.interface toolkit-accessibility true",
    "google-chrome": "timeout -s TERM 10 google-chrome about:blank; rm -f ~/.config/google-chrome/Singleton*",
    "soffice": "timeout 60 soffice --headless --terminate_after_init",
    "gimp": "timeout 90 gimp -i -b '(gimp-quit 1)'",
    "xdg-user-dirs-update": "xdg-user-dirs-update",
}
"""Command that creates a program's files, by required program."""


async def install_official_evaluators(say: Say) -> tuple[DoctorRow, ...]:
    """Install the evaluators if they are missing; an interrupted installation is restarted.

    Returns:
        One row.
    """
    folder = official_dir()
    await asyncio.to_thread(folder.parent.mkdir, parents=True, exist_ok=True)
    with locked(folder.parent / f"{_EVALUATORS}.lock"):
        if find_official() is None:
            failure = await _install_evaluators(folder, say)
            if failure is not None:
                actual, fix = failure
                return (
                    DoctorRow(name=_EVALUATORS, level="fail", actual=actual, expected=f"{PACKAGE} from PyPI", fix=fix),
                )
            _remove_others(folder)
    official = find_official()
    assert official is not None
    without = f", without {', '.join(official.missing)}" if official.missing else ""
    actual = (
        f"{PACKAGE}: {len(official.metrics)} functions, {len(official.getters)} kinds of results{without}, in {folder}"
    )
    return (DoctorRow(name=_EVALUATORS, level="ok", actual=actual),)


async def _install_evaluators(folder: Path, say: Say) -> tuple[str, str] | None:
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
        done = await run_command(argv, timeout_s=_EVALUATORS_TIMEOUT_S)
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
    await run_command(argv, timeout_s=_EVALUATORS_TIMEOUT_S, say=lambda line: lines.append(line.strip()))
    return dict(line.split("==", 1) for line in lines if line.count("==") == 1)


def _remove_others(folder: Path) -> None:
    """Remove the installations of older package lists."""
    for other in folder.parent.glob(f"{_EVALUATORS}-*"):
        if other != folder and other.is_dir():
            shutil.rmtree(other, ignore_errors=True)


async def install_osworld_local(say: Say) -> tuple[DoctorRow, ...]:
    """Install all programs, for `cua setup osworld-local`."""
    return await _install(say, (*SCREEN, *PROGRAMS))


async def install_osworld_minimal(say: Say) -> tuple[DoctorRow, ...]:
    """Install only terminal and editor, for `cua setup osworld-local-minimal`."""
    return await _install(say, SCREEN)


async def _install(say: Say, packages: tuple[str, ...]) -> tuple[DoctorRow, ...]:
    programs = await _install_programs(say, packages)
    python = await _install_python(say)
    if "fail" in (programs.level, python.level):
        return programs, python
    return programs, python, await _make_home(say)


async def _install_programs(say: Say, packages: tuple[str, ...]) -> DoctorRow:
    """Install missing packages with apt-get, which needs root."""
    name = "programs"
    manager = find_package_manager()
    if manager is None or manager.name != "apt-get":
        actual = f"{manager.name if manager else 'no package manager'}; names of packages are known for Debian alone"
        return DoctorRow(name=name, level="warn", actual=actual, expected=" ".join(packages))
    missing = await _find_missing(packages)
    if not missing:
        return DoctorRow(name=name, level="ok", actual=f"{len(packages)} packages of the system")
    fix = manager.manual_command(missing)
    if not is_root():
        reason = f"{len(missing)} packages are not installed, and apt-get needs root"
        return DoctorRow(name=name, level="fail", actual=reason, expected=" ".join(missing), fix=fix)
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    say(f"getting {len(missing)} packages by apt-get")
    await run_command(("apt-get", "update"), timeout_s=INSTALL_TIMEOUT_S, environment=quiet)
    done = await run_command(manager.install_argv(missing), timeout_s=2 * INSTALL_TIMEOUT_S, environment=quiet)
    if done.code != 0:
        return DoctorRow(name=name, level="fail", actual=done.why, expected=" ".join(missing), fix=fix)
    return DoctorRow(
        name=name, level="ok", actual=f"{len(packages)} packages of the system, {len(missing)} of them new"
    )


async def _find_missing(packages: tuple[str, ...]) -> tuple[str, ...]:
    lines: list[str] = []
    query = ("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\\n", *packages)
    await run_command(query, timeout_s=60.0, say=lambda line: lines.append(line.strip()))
    installed = {line.split()[1] for line in lines if line.startswith("installed ")}
    return tuple(package for package in packages if package not in installed)


async def _install_python(say: Say) -> DoctorRow:
    """Install pyautogui for the guest's programs, separate from this project's packages."""
    name, target = "pyautogui", local_dir() / "python"
    packages = find_python_packages()
    if packages is not None:
        return DoctorRow(name=name, level="ok", actual=f"in {packages}")
    pip = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--quiet")
    argv = (*pip, "--target", str(target), *_PYTHON)
    say(f"  {shlex.join(argv)}")
    done = await run_command(argv, timeout_s=INSTALL_TIMEOUT_S)
    if done.code != 0 or find_python_packages() is None:
        return DoctorRow(name=name, level="fail", actual=done.why, expected="pyautogui by pip", fix=shlex.join(argv))
    return DoctorRow(name=name, level="ok", actual=f"in {target}")


async def _make_home(say: Say) -> DoctorRow:
    """Start each program once in a guest with an empty home, and save that home as the template."""
    say("making the home of local guests: each program is started once")
    target = local_dir() / "home"
    try:
        with tempfile.TemporaryDirectory(prefix="home-", dir=_make_folder(local_dir())) as scratch:
            data = await _first_home(say)
            num_files = await asyncio.to_thread(_unpack, data, Path(scratch) / "home")
            shutil.rmtree(target, ignore_errors=True)
            (Path(scratch) / "home").rename(target)
    except (EnvError, OSError, tarfile.TarError) as error:
        reason = str(error)
        return DoctorRow(
            name="home", level="fail", actual=reason, expected="a guest that starts", fix="cua setup osworld-local"
        )
    return DoctorRow(name="home", level="ok", actual=f"{num_files} files, {len(data) >> 20} MB in {target}")


async def _first_home(say: Say) -> bytes:
    """Return an archive of the files that the programs created.

    Raises:
        EnvError: If no guest starts.
    """
    async with LocalGuest(LocalOptions(template=local_dir() / "none")) as guest:
        client = GuestClient((await guest.fresh(GuestOptions())).base_url)
        try:
            for path, text in _FILES.items():
                await client.upload(path, text.encode())
            for program, command in _FIRST_STARTS.items():
                if (await client.execute(["which", program])).returncode == 0:
                    say(f"  {program}")
                    await client.execute(command, shell=True)
            packed = "tar -C ~ --exclude=./.cache -cf /tmp/home.tar ."
            ended = await client.execute(packed, shell=True)
            data = await client.read_file("/tmp/home.tar", max_bytes=_MAX_HOME_BYTES)
        finally:
            await client.close()
    if data is None or ended.returncode:
        raise EnvError(f"the guest's home cannot be packed: {ended.stderr[-200:]}")
    return data


def _unpack(data: bytes, target: Path) -> int:
    """Unpack an archive inside `target` only, readable by all users; return the number of files."""
    target.mkdir()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [member for member in archive.getmembers() if member.isfile() or member.isdir()]
        for member in members:
            member.mode |= 0o755 if member.isdir() else 0o644
        unpack(archive, target, members)
    target.chmod(0o755)
    return sum(member.isfile() for member in members)


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
