import os

import pytest

from apps.setup.packages import find_package_manager, install_need, is_root
from tests.apps.setup.machine import BareMachine

SUDO = "" if os.geteuid() == 0 else "sudo "

INSTALL = "apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends"


def test_no_package_manager(machine: BareMachine) -> None:
    assert find_package_manager() is None


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("apt-get", "apt-get update && {sudo}apt-get install -y --no-install-recommends xvfb openbox xauth dbus"),
        ("dnf", "dnf install -y xorg-x11-server-Xvfb openbox xorg-x11-xauth"),
        ("pacman", "pacman -Sy --noconfirm --needed xorg-server-xvfb openbox xorg-xauth"),
        ("zypper", "zypper --non-interactive install xorg-x11-server-Xvfb openbox xauth"),
        ("apk", "apk add --no-cache xvfb openbox xauth"),
    ],
)
def test_the_line_to_type(machine: BareMachine, name: str, line: str) -> None:
    machine.add(name)
    manager = find_package_manager()
    assert manager is not None
    assert manager.manual_command(manager.packages["display"][0]) == SUDO + line.format(sudo=SUDO)


def test_root_is_told_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not is_root()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert is_root()


async def test_the_next_names_are_tried_when_the_first_are_unknown(machine: BareMachine) -> None:
    script = 'case "$*" in *chromium-headless-shell*) echo "E: Unable to locate package"; exit 100;; esac'
    machine.add("apt-get", script)
    manager = find_package_manager()
    assert manager is not None
    said: list[str] = []
    result = await install_need(manager, "browser", said.append)
    assert result.code == 0
    assert machine.log == [
        "apt-get update",
        f"{INSTALL} chromium-headless-shell fonts-dejavu-core",
        f"{INSTALL} chromium fonts-dejavu-core",
    ]
    assert said[2] == "    E: Unable to locate package"
