"""An app that runs: its process, its copy of the first state, and ways to ask it."""

import contextlib
import http.client
import os
import select
import shutil
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envs.desktop.programs import Program, Programs
from envs.errors import EnvDiedError, EnvSetupError
from envs.suites.apps.app import WebApp, first_state, make_environment

START_TIMEOUT_S = 90.0
"""Longest wait for an app to answer; some take many seconds on a machine that is busy."""
_ANSWER_TIMEOUT_S = 20.0
_POLL_S = 0.01
_Mark = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an app answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class RunningApp:
    """One app on a state of its own, below the supervisor of an env.

    Args:
        app: Which one.
        programs: What ends it, and removes its state, when the env or this process is gone.
    """

    def __init__(self, app: WebApp, programs: Programs) -> None:
        self.app = app
        self.folder = programs.folder / app.name
        self._programs = programs
        self._copy = _Copy(first_state(app), self.folder)
        self._program: Program | None = None
        self._place = _Place()

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return self._place.port

    @property
    def is_alive(self) -> bool:
        """Whether its program runs."""
        return self._program is not None and not self._program.ended.done()

    @property
    def pid(self) -> int:
        """Of its program.

        Raises:
            EnvDiedError: It does not run.
        """
        if self._program is None or not self.is_alive:
            raise EnvDiedError(f"the app {self.app.name} is gone")
        return self._program.pid

    def prepare(self) -> None:
        """Bring it to its first state, starting it if need be.

        Raises:
            EnvSetupError: It does not start.
        """
        if self.is_alive:
            self._forget_output()
            self.app.put_back(self)
            return
        self.stop()
        self.restore_files()
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            EnvSetupError: It ended, or does not answer in time.
        """
        command = self.app.command(self.folder, self.port)
        argv, env = [str(part) for part in command.argv], make_environment(self.folder, command.env)
        self._place.give_way()
        try:
            self._program = self._programs.start(argv, env, self.folder)
        except OSError as error:
            raise EnvSetupError(f"the app {self.app.name} cannot be started: {error}") from error
        until_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._program.ended.done():
                raise EnvSetupError(f"the app {self.app.name} ended at its start: {self._told()}", retryable=True)
            if time.monotonic() > until_s:
                self.stop()
                raise EnvSetupError(
                    f"the app {self.app.name} does not answer after {START_TIMEOUT_S:g} s", retryable=True
                )
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it with everything below it."""
        program, self._program = self._program, None
        if program is None:
            return
        if not program.ended.done():
            self._programs.kill(program.pid)
        program.stderr.unlink(missing_ok=True)

    def end_workers(self) -> None:
        """Kill the processes that a server like gunicorn keeps for its requests; it starts others at once.

        What was under way is cut off; when this returns nothing of it is left.
        """
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text("ascii").split()
        for pid in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                watch = os.pidfd_open(pid)
                try:
                    signal.pidfd_send_signal(watch, signal.SIGKILL)
                    select.select([watch], [], [], _ANSWER_TIMEOUT_S)
                finally:
                    os.close(watch)

    def restore_files(self) -> None:
        """Make its folder what it was at first; only what was touched is copied.

        Raises:
            EnvSetupError: Files cannot be read or written, or something writes there still.
        """
        try:
            self._copy.restore()
        except OSError as error:
            told = f"the app {self.app.name} cannot be put back to its first state: {error}"
            raise EnvSetupError(told, retryable=True) from error

    def ask(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request to it, past the browser.

        Raises:
            EnvDiedError: It does not answer.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Host": f"{self.app.name}.localhost", **(headers or {})})
            answer = connection.getresponse()
            return Answer(status=answer.status, headers=answer.headers, body=answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise EnvDiedError(f"the app {self.app.name} does not answer: {error}") from error
        finally:
            connection.close()

    def query(self, database: str, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Names of columns, and rows, of an sqlite file in its folder."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder / database}?mode=ro", uri=True)) as opened:
            found = opened.execute(sql)
            return [column[0] for column in found.description], found.fetchall()

    def tell(self, database: str, tables: Mapping[str, str]) -> dict[str, str]:
        """Facts of an sqlite file: `KIND/NAME/COLUMN` by its text, without what is empty.

        Args:
            database: Its path in the folder.
            tables: By kind of thing, the query for all of them; its first column names them.
        """
        told: dict[str, str] = {}
        for kind, sql in tables.items():
            names, rows = self.query(database, sql)
            for name, *values in rows:
                told |= {
                    f"{kind}/{name}/{column}": _tidy(value) for column, value in zip(names[1:], values, strict=True)
                }
        return {path: text for path, text in told.items() if text}

    def _answers(self) -> bool:
        try:
            return 200 <= self.ask("GET", self.app.start_path).status < 400
        except EnvDiedError:
            return False

    def _told(self) -> str:
        assert self._program is not None
        lines = self._program.stderr.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "it says nothing"

    def _forget_output(self) -> None:
        """A log of many episodes would fill the disk."""
        assert self._program is not None
        with contextlib.suppress(OSError):
            os.truncate(self._program.stderr, 0)


def _tidy(value: object) -> str:
    """A value as text, without blanks at the ends of its lines and of the whole."""
    return "" if value is None else "\n".join(line.rstrip() for line in str(value).splitlines()).strip()


class _Place:
    """A port that stays ours while no one listens on it, so that two apps never get the same."""

    def __init__(self) -> None:
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port = int(self._held.getsockname()[1])

    def give_way(self) -> None:
        """Let a program listen: on Linux it may beside a socket that does not."""
        if sys.platform != "linux":
            self._held.close()

    def __del__(self) -> None:
        self._held.close()


@dataclass(slots=True)
class _Copy:
    """A copy of a folder that is made the same again and again.

    Attributes:
        first: What it is a copy of; nobody writes there.
        folder: Where it lies.
    """

    first: Path
    folder: Path
    _marks: dict[str, _Mark] = field(default_factory=dict)

    def restore(self) -> None:
        """Remove what was added, copy what is missing or was written since."""
        self.folder.mkdir(exist_ok=True)
        wanted = dict(_walk(self.first))
        for path, entry in reversed(list(_walk(self.folder))):  # what lies in a folder comes before it
            if path not in wanted or entry.is_dir(follow_symlinks=False) != wanted[path].is_dir(follow_symlinks=False):
                _remove(Path(entry.path))
        for path, entry in wanted.items():
            self._restore(path, entry)

    def _restore(self, path: str, entry: "os.DirEntry[str]") -> None:
        there = self.folder / path
        if entry.is_dir(follow_symlinks=False):
            there.mkdir(exist_ok=True)
        elif path not in self._marks or _mark(there) != self._marks[path]:
            there.unlink(missing_ok=True)
            shutil.copy2(entry.path, there, follow_symlinks=False)
            mark = _mark(there)
            assert mark is not None
            self._marks[path] = mark


def _walk(folder: Path, below: str = "") -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Everything below a folder, by its path there; a folder comes before what lies in it. Links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{below}{entry.name}"
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{path}/")


def _mark(file: Path) -> _Mark | None:
    """What differs once a file was written to or replaced; the time of its last change cannot be set by programs."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
