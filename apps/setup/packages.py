"""System package manager: detection, and package names."""

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from apps.setup.command import CommandResult, Say, run_command

Need = Literal["driver", "browser", "display", "fonts", "sandbox", "office"]

INSTALL_TIMEOUT_S = 900.0  # some hundred MB over a slow network


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageManager:
    """Package manager of a system.

    Attributes:
        name: Name of the program.
        refresh: Arguments that update the package index; empty if the installation does that.
        install: Arguments before the package names.
        packages: Lists of package names for each need, tried in this order.
    """

    name: str
    refresh: tuple[str, ...] = ()
    install: tuple[str, ...]
    packages: Mapping[Need, tuple[tuple[str, ...], ...]]
    wait: tuple[str, ...] = ()
    """Options to wait for another running instance."""

    def install_argv(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the command that installs packages."""
        return (self.name, *self.wait, *self.install, *names)

    def manual_command(self, names: Sequence[str]) -> str:
        """Return the command for a user to install packages, with sudo unless they are root."""
        sudo = "" if is_root() else "sudo "
        first = f"{sudo}{shlex.join((self.name, *self.refresh))} && " if self.refresh else ""
        return f"{first}{sudo}{shlex.join((self.name, *self.install, *names))}"


APT_WAIT = ("-o", "DPkg::Lock::Timeout=300")
"""Seconds that apt-get waits for another instance, such as automatic updates, instead of failing at once."""

APT_FONTS = (
    *("fonts-dejavu-core", "fonts-liberation", "fonts-wqy-microhei", "fonts-noto-color-emoji"),
    *("fonts-lohit-deva", "fonts-lohit-beng-bengali", "fonts-lohit-guru", "fonts-lohit-gujr", "fonts-lohit-orya"),
    *("fonts-lohit-taml", "fonts-lohit-telu", "fonts-lohit-knda", "fonts-lohit-mlym", "fonts-lklug-sinhala"),
    *("fonts-tlwg-loma-ttf", "fonts-sil-padauk", "fonts-khmeros", "fonts-sil-abyssinica"),
)
"""Font packages for Debian 12: 16.9 MB to download and 29.5 MiB on disk; fonts-noto-core and fonts-noto-cjk take 69 MB
and 130 MiB. fonts-wqy-microhei has Chinese, Japanese and Korean; fonts-dejavu-core also Arabic, Hebrew, Georgian,
Armenian, Lao.
"""

_OFFICE_FONTS = ("fonts-liberation", "fonts-wqy-microhei")
"""Fonts of Times, Arial and Courier's widths, and one with Chinese, Japanese and Korean: 1.6 MB to download; the other
candidates of Debian 12 take 1.8 MB (fonts-droid-fallback, which has no bold Latin letters of the same style), 7.5 MB
(fonts-wqy-zenhei) and 56.5 MB (fonts-noto-cjk).
"""
_LIBREOFFICE = ("libreoffice-calc", "libreoffice-writer", "libreoffice-impress", "libreoffice-math")

_MANAGERS = (
    PackageManager(
        name="apt-get",
        refresh=("update",),
        install=("install", "-y", "--no-install-recommends"),
        wait=APT_WAIT,
        packages={
            "driver": (("libatomic1",),),
            "browser": (("chromium-headless-shell", "fonts-dejavu-core"), ("chromium", "fonts-dejavu-core")),
            "display": (("xvfb", "openbox", "xauth", "dbus"),),
            "fonts": (
                APT_FONTS,
                ("fonts-dejavu-core", "fonts-liberation", "fonts-noto-core", "fonts-noto-cjk"),
            ),
            "sandbox": (("bubblewrap",),),
            "office": (
                (*(f"{name}-nogui" for name in _LIBREOFFICE), *_OFFICE_FONTS),
                (*_LIBREOFFICE, *_OFFICE_FONTS),
                (*_LIBREOFFICE, "fonts-liberation"),
            ),
        },
    ),
    PackageManager(
        name="dnf",
        install=("install", "-y"),
        packages={
            "driver": (("libatomic",),),
            "browser": (("chromium-headless", "dejavu-sans-fonts"), ("chromium", "dejavu-sans-fonts")),
            "display": (("xorg-x11-server-Xvfb", "openbox", "xorg-x11-xauth"),),
            "fonts": (("dejavu-sans-fonts", "default-fonts"), ("dejavu-sans-fonts", "liberation-fonts")),
            "sandbox": (("bubblewrap",),),
            "office": (
                (*_LIBREOFFICE, "liberation-fonts", "google-noto-sans-cjk-fonts"),
                (*_LIBREOFFICE, "liberation-fonts"),
            ),
        },
    ),
    PackageManager(
        name="pacman",
        install=("-Sy", "--noconfirm", "--needed"),
        packages={
            "driver": (("gcc-libs",),),
            "browser": (("chromium", "ttf-dejavu"),),
            "display": (("xorg-server-xvfb", "openbox", "xorg-xauth"),),
            "fonts": (("ttf-dejavu", "noto-fonts", "noto-fonts-cjk", "noto-fonts-emoji"),),
            "sandbox": (("bubblewrap",),),
            "office": (("libreoffice-still", "ttf-liberation", "noto-fonts-cjk"),),
        },
    ),
    PackageManager(
        name="zypper",
        install=("--non-interactive", "install"),
        packages={
            "driver": (("libatomic1",),),
            "browser": (("chromium", "dejavu-fonts"),),
            "display": (("xorg-x11-server-Xvfb", "openbox", "xauth"),),
            "fonts": (("dejavu-fonts",),),
            "sandbox": (("bubblewrap",),),
            "office": (
                (*_LIBREOFFICE, "liberation-fonts", "google-noto-sans-cjk-fonts"),
                (*_LIBREOFFICE, "liberation-fonts"),
            ),
        },
    ),
    PackageManager(
        name="apk",
        install=("add", "--no-cache"),
        packages={
            "driver": (("libatomic",),),
            "browser": (("chromium", "font-dejavu"),),
            "display": (("xvfb", "openbox", "xauth"),),
            "fonts": (("font-dejavu", "font-noto-all", "font-noto-cjk", "font-noto-emoji"),),
            "sandbox": (("bubblewrap",),),
            "office": (("libreoffice", "font-liberation", "font-noto-cjk"),),
        },
    ),
)


def find_package_manager() -> PackageManager | None:
    """Return the first known package manager on PATH."""
    return next((manager for manager in _MANAGERS if shutil.which(manager.name)), None)


def manual_command(need: Need) -> str:
    """Return the command for a user to install packages for a need; "" without a known package manager."""
    manager = find_package_manager()
    return manager.manual_command(manager.packages[need][0]) if manager else ""


def is_root() -> bool:
    """Return True if this process may install system packages."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


async def install_need(manager: PackageManager, need: Need, say: Say) -> CommandResult:
    """Install the first list of packages for a need that the system has; return the last result."""
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    if manager.refresh:
        argv = (manager.name, *manager.refresh)
        say(f"  {shlex.join(argv)}")
        await run_command(argv, timeout_s=INSTALL_TIMEOUT_S, environment=quiet)
    result = CommandResult(code=1, tail=())
    for names in manager.packages[need]:
        argv = manager.install_argv(names)
        say(f"  {shlex.join(argv)}")
        result = await run_command(argv, timeout_s=INSTALL_TIMEOUT_S, environment=quiet)
        if result.code == 0:
            return result
        say(f"    {result.why}")
    return result
