"""Real web apps: the contract (packages, first state, command, facts of its state), and an app that runs.

An app is a subclass of `WebApp` without data of its own: everything that changes lies in the folder of a `RunningApp`.
"""

import contextlib
import functools
import hashlib
import http.client
import inspect
import json
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from envs.desktop.programs import Program, Programs
from envs.errors import EnvDiedError, EnvSetupError

Facts = Mapping[str, Any]
"""What counts in an app's state, by a path such as `"page/prices/title"`; values that JSON has. What an app changes by
itself (times, revisions, drafts, searches) is left out, and so is what is empty."""

PASSWORD = "sesame-77"
"""Of everybody who has an account in one of the apps."""
INSTALLED_FILE = "installed.json"
START_TIMEOUT_S = 90.0
"""Longest wait for an app to answer; some take many seconds on a machine that is busy."""
_ANSWER_TIMEOUT_S = 20.0
_POLL_S = 0.01
_TOOL_TIMEOUT_S = 300.0
_Mark = tuple[int, int, int, int]
_KEPT_VERSIONS = 2
"""Of an app, and of its first state: the one in use, and the one used before it, which other programs may still use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """What an app is installed from, by name and version, and nothing else.

    Attributes:
        pip: Requirements with versions, `"wagtail==8.0.1"`, for a virtual environment of the app's own.
        npm: Packages with versions, `"tiddlywiki@5.4.1"`, for a `node_modules` of the app's own.
        apt: Packages of Debian and its kin, for the system, in this order; their versions are the system's.
        apt_answers: What their installation is not to ask, as `debconf-set-selections` takes it.
        needs: Programs that must be on PATH, or files that must be there, once these are installed.
    """

    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    apt_answers: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Another one for every other list of packages."""
        return _digest(json.dumps([self.pip, self.npm, self.apt]).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What starts a program: arguments, and variables beside the few that every app gets."""

    argv: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)


class WebApp(ABC):
    """An app that nobody here wrote.

    Attributes:
        name: Of the app; its host is `NAME.localhost`.
        role: What it is, for a person: `"wiki"`.
        packages: What it is installed from.
        start_path: An address that answers once it is up.
        state_code: Files that make the first state, and nothing else does; the app's own module when there are none.
        is_pending: JavaScript that tells whether a page still has something to store; "" where pages store at once.
    """

    name: ClassVar[str]
    role: ClassVar[str]
    packages: ClassVar[Packages]
    start_path: ClassVar[str] = "/"
    state_code: ClassVar[tuple[Path, ...]] = ()
    is_pending: ClassVar[str] = ""

    @property
    def url(self) -> str:
        """Where a browser finds it, in every env."""
        return f"http://{self.name}.localhost"

    @property
    def home(self) -> Path:
        """The folder that `cua setup apps` installs it into."""
        return apps_dir() / f"{self.name}-{self.packages.digest}"

    @property
    def python(self) -> Path:
        """The interpreter of its virtual environment."""
        return self.home / "venv" / "bin" / "python"

    @abstractmethod
    def make_state(self, folder: Path) -> None:
        """Fill an empty folder with the first state; `run_tool` runs the app's own programs for it.

        The folder is copied to other places afterwards, so that it may not name its own.
        """

    @abstractmethod
    def command(self, folder: Path, port: int) -> Command:
        """What serves the state in `folder` on a port of 127.0.0.1; runs in that folder."""

    @abstractmethod
    def facts(self, app: "RunningApp") -> Facts:
        """What counts in its state now, read from its files, its database or its API."""

    def put_back(self, app: "RunningApp") -> None:
        """Bring it back to its first state, in less than a second.

        This one stops it, so that nothing is under way any more, and starts it again: for apps that start at once.
        """
        app.stop()
        app.restore_files()
        app.start()

    def cookies(self, app: "RunningApp") -> Mapping[str, str]:
        """Cookies of a browser in which the person of the tasks is signed in; none where there are no accounts."""
        return {}

    def why_missing(self) -> str | None:
        """Why it cannot be run here, in one clause; None when it can."""
        missing = [need for need in self.packages.needs if not is_there(need)]
        if missing:
            return f"{' and '.join(missing)} not found"
        if not (self.packages.pip or self.packages.npm) or (self.home / INSTALLED_FILE).is_file():
            return None
        return f"{self.home} is not there"


class GunicornApp(WebApp):
    """An app that gunicorn serves: its files are put back while no worker has them open.

    Attributes:
        served: The WSGI application, as gunicorn takes it.
    """

    served: ClassVar[str]

    def make_state(self, folder: Path) -> None:
        """What the site's file makes, run by the app's own Python."""
        (site,) = self.state_code
        shutil.copyfile(site, folder / site.name)
        run_tool(Command(argv=(self.python, site.name)), folder)

    def command(self, folder: Path, port: int) -> Command:
        """Gunicorn, which loads the site once and forks what serves it: a worker that was killed is back at once."""
        options = (
            "--preload --workers 1 --threads 4 --timeout 120 --log-level warning --worker-tmp-dir . --no-control-socket"
        )
        place = ("--bind", f"127.0.0.1:{port}", self.served)
        return Command(argv=(self.python, "-m", "gunicorn", *options.split(), *place))

    def put_back(self, app: "RunningApp") -> None:
        """End what is under way, then copy the files; gunicorn forks anew what serves."""
        app.end_workers()
        app.restore_files()


def apps_dir() -> Path:
    """The folder of all apps."""
    import platformdirs

    return Path(platformdirs.user_data_dir("k25")) / "apps"


def first_state(app: WebApp) -> Path:
    """The folder with an app's first state; made once for each version of the app and of the code that makes it.

    Raises:
        EnvSetupError: The app is not installed, or its first state cannot be made.
    """
    missing = app.why_missing()
    if missing is not None:
        raise EnvSetupError(f"the app {app.name} is not installed ({missing}). Install it with: cua setup apps")
    home = apps_dir() / "states"
    made = home / f"{app.name}-{app.packages.digest}-{_code_digest(type(app))}"
    if not made.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / f"{app.name}.lock"):
            if not made.is_dir():
                begun = home / f"{app.name}-begun"
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir()
                app.make_state(begun)
                begun.rename(made)
            remove_old_versions(home, app.name)
    for used in (made, app.home):
        with contextlib.suppress(OSError):  # the folder of another user, or none
            os.utime(used)
    return made


def remove_old_versions(folder: Path, name: str) -> None:
    """Remove what lies in `folder` for an app, but for the versions that were used last."""
    versions = [path for path in folder.iterdir() if re.fullmatch(rf"{name}(-[0-9a-f]{{10}})+", path.name)]
    for old in sorted(versions, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT_VERSIONS:]:
        shutil.rmtree(old, ignore_errors=True)


def run_tool(command: Command, folder: Path) -> str:
    """Run one of an app's own programs to its end, in a folder; returns what it printed.

    Raises:
        EnvSetupError: It failed, or took too long.
    """
    programs = Programs(Path(tempfile.mkdtemp(prefix="k25-apps-")))
    shown = " ".join(map(str, command.argv[:3]))
    try:
        printed = programs.folder / "stdout"
        argv = [str(part) for part in command.argv]
        program = programs.start(argv, make_environment(folder, command.env), folder, printed)
        code = program.ended.result(_TOOL_TIMEOUT_S)
        if code != 0:
            told = program.stderr.read_text("utf-8", "replace").strip().splitlines() or ["it says nothing"]
            raise EnvSetupError(f"{shown} ended with status {code}: {told[-1][:300]}")
        return printed.read_text("utf-8", "replace")
    except TimeoutError as error:
        raise EnvSetupError(f"{shown} took longer than {_TOOL_TIMEOUT_S:g} s", retryable=True) from error
    except OSError as error:
        raise EnvSetupError(f"{shown} cannot be run: {error}") from error
    finally:
        programs.close()


def make_environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Variables of an app: nothing of this process (keys, settings) but where programs are; its home is its folder."""
    base = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"}
    return {**base, **more}


def is_there(need: str) -> bool:
    """Whether a program is on PATH, or a file (it begins with `/`) exists."""
    return Path(need).exists() if need.startswith("/") else shutil.which(need) is not None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


@functools.cache
def _code_digest(app: type[WebApp]) -> str:
    files = app.state_code or (Path(inspect.getfile(app)),)
    return _digest(b"".join(file.read_bytes() for file in files))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """One process and thread at a time; the lock goes with whoever has it."""
    import fcntl

    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


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
