"""Where the programs of a private display are."""

import os
import shutil

INSTALL_LINE = "apt-get install -y --no-install-recommends xvfb openbox dbus"
"""What an operator of a Debian-like system types to get all of it."""

_WINDOW_MANAGERS = ("openbox", "xfwm4", "matchbox-window-manager", "metacity", "icewm", "fluxbox")


def find_xvfb() -> str | None:
    """Path of the virtual X server: $K25_XVFB, else `Xvfb` on PATH; None if there is none."""
    return shutil.which(os.environ.get("K25_XVFB") or "Xvfb")


def find_window_manager(preferred: str | None = None) -> str | None:
    """Path of a window manager: `preferred` alone if given, else the first that is installed."""
    names = (preferred,) if preferred else _WINDOW_MANAGERS
    return next((path for path in map(shutil.which, names) if path), None)


def find_dbus_daemon() -> str | None:
    """Path of `dbus-daemon`, which gives a private display its own session bus; None if there is none."""
    return shutil.which("dbus-daemon")
