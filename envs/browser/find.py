"""Which Chromium to run: the first that is there, and how it was found."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BrowserKind = Literal["headless-shell", "chromium", "chrome", "playwright"]

_ON_PATH: tuple[tuple[str, BrowserKind], ...] = (
    ("chromium-headless-shell", "headless-shell"),
    ("chromium", "chromium"),
    ("chromium-browser", "chromium"),
    ("google-chrome", "chrome"),
    ("google-chrome-stable", "chrome"),
)
_UNPACKED: tuple[tuple[str, BrowserKind], ...] = (
    ("chrome-headless-shell", "headless-shell"),
    ("chromium-headless-shell", "headless-shell"),
    ("headless_shell", "headless-shell"),
    ("chromium", "headless-shell"),
    ("chrome", "chrome"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserBinary:
    """A browser that was found.

    Attributes:
        path: The program; None lets Playwright take its own.
        how: Where it was found, for people.
        kind: `headless-shell` cannot show a window.
    """

    path: str | None
    how: str
    kind: BrowserKind


def find_browser(*, headless: bool = True) -> BrowserBinary | None:
    """The browser to run.

    Order: `$K25_BROWSER`, headless shell, Chromium and Chrome on PATH, the copy unpacked by
    `cua setup` (`unpacked_dir()`), Playwright's own.

    Args:
        headless: False leaves out programs that cannot show a window.

    Returns:
        The first that is there, or None. A `$K25_BROWSER` that names nothing is not passed over:
        None is returned, and the setting has to be mended.
    """
    wanted = os.environ.get("K25_BROWSER")
    if wanted:
        path = shutil.which(wanted)
        return BrowserBinary(path=path, how="$K25_BROWSER", kind=_kind_of(path)) if path else None
    for binary in _candidates():
        if headless or binary.kind != "headless-shell":
            return binary
    return None


def unpacked_dir() -> Path:
    """Folder that `cua setup` unpacks a browser into."""
    import platformdirs

    return Path(platformdirs.user_data_dir("k25")) / "browser"


def _candidates() -> Iterator[BrowserBinary]:
    for name, kind in _ON_PATH:
        path = shutil.which(name)
        if path:
            yield BrowserBinary(path=path, how=f"{name} on PATH", kind=kind)
    root = unpacked_dir()
    for name, kind in _UNPACKED:
        for found in sorted(root.glob(f"**/{name}")) if root.is_dir() else ():
            if found.is_file() and os.access(found, os.X_OK):
                yield BrowserBinary(path=str(found), how=f"unpacked by `cua setup` under {root}", kind=kind)
    if _playwright_has_its_own():
        yield BrowserBinary(path=None, how="Playwright's own", kind="playwright")


def _kind_of(path: str) -> BrowserKind:
    name = Path(path).name.lower()
    if "headless" in name:
        return "headless-shell"
    return "chrome" if "chrome" in name else "chromium"


def _playwright_has_its_own() -> bool:
    if importlib.util.find_spec("playwright") is None:
        return False
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    caches = (".cache", "Library/Caches", "AppData/Local")
    folders = [Path(named)] if named else [Path.home() / cache / "ms-playwright" for cache in caches]
    return any(True for folder in folders for _ in folder.glob("chromium*-*/INSTALLATION_COMPLETE"))
