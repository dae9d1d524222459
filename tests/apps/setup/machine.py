"""A machine as bare as a test wants it: an own PATH, HOME and set of programs."""

import os
import shutil
from pathlib import Path

import pytest


class BareMachine:
    """Programs are what `add` put there; `log` holds how they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = folder / "bin"
        self.home = folder / "home"
        self._log = folder / "log"
        self._log.touch()
        for part in (self.programs, self.home):
            part.mkdir()
        for name in ("K25_BROWSER", "K25_XVFB", "PLAYWRIGHT_BROWSERS_PATH", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setenv("HOME", str(self.home))

    def add(self, name: str, script: str = "", *, exit_code: int = 0) -> Path:
        """A program that notes its arguments, runs the shell `script`, and exits."""
        path = self.programs / name
        path.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\necho "{name} $*" >> {self._log}\n{script}\nexit {exit_code}\n')
        path.chmod(0o755)
        return path

    def link(self, name: str, target: str) -> None:
        """A program of the real machine, under any name."""
        (self.programs / name).symlink_to(target)

    @property
    def log(self) -> list[str]:
        """One line for each call of a program."""
        return self._log.read_text().splitlines()


def real_browser() -> str | None:
    """A browser of the machine that runs the tests."""
    names = (os.environ.get("K25_BROWSER"), "chromium-headless-shell", "chromium", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)
