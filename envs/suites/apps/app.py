"""Real web apps: their interface (packages, initial state, command, facts of the state), and a running app.

An app is a subclass of `WebApp` without data of its own: everything that changes is in the folder of a `RunningApp`.
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
"""Compared values of an app's state, by a path such as `"page/prices/title"`; values are JSON types. Changes that an
app makes by itself (times, revisions, drafts, searches) and empty values are left out.
"""

PASSWORD = "sesame-77"
"""Password of all accounts in the apps."""
INSTALLED_FILE = "installed.json"
START_TIMEOUT_S = 90.0
"""Maximum wait for an app to answer; some take many seconds on a busy machine."""
_ANSWER_TIMEOUT_S = 20.0  # of one request on loopback, on a busy machine
_POLL_S = 0.01
_TOOL_TIMEOUT_S = 300.0  # of one command of an installation or first start
_Mark = tuple[int, int, int, int]
_KEPT_VERSIONS = 2
"""Number of kept versions of an app and its initial state: the current and the previous one, which may be in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages that an app is installed from, by name and version.

    Attributes:
        pip: Requirements with versions, `"wagtail==8.0.1"`, for the app's own virtual environment.
        npm: Packages with versions, `"tiddlywiki@5.4.1"`, for the app's own `node_modules`.
        apt: System packages of Debian and derivatives, in this order; the system defines the versions.
        apt_answers: Preset answers for their installation, in the format of `debconf-set-selections`.
        needs: Programs that must be on PATH, or files that must exist, after the installation.
    """

    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    apt_answers: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the list of packages."""
        return _digest(json.dumps([self.pip, self.npm, self.apt]).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Command that starts a program: arguments, and variables in addition to the default ones."""

    argv: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)


class WebApp(ABC):
    """Real web app, written independently of this project.

    Attributes:
        name: Name of the app; its host is `NAME.localhost`.
        role: Kind of app, for display: `"wiki"`.
        packages: Packages that it is installed from.
        start_path: Path that answers once the app is ready.
        state_code: Files whose code makes the initial state; empty for the app's own module.
        is_pending: JavaScript that returns true if a page has unsaved data; "" for apps that save immediately.
    """

    name: ClassVar[str]
    role: ClassVar[str]
    packages: ClassVar[Packages]
    start_path: ClassVar[str] = "/"
    state_code: ClassVar[tuple[Path, ...]] = ()
    is_pending: ClassVar[str] = ""

    @property
    def url(self) -> str:
        """Address of the app in the browser, the same in every environment."""
        return f"http://{self.name}.localhost"

    @property
    def home(self) -> Path:
        """Folder that `cua setup apps` installs the app into."""
        return apps_dir() / f"{self.name}-{self.packages.digest}"

    @property
    def python(self) -> Path:
        """Python interpreter of the app's virtual environment."""
        return self.home / "venv" / "bin" / "python"

    @abstractmethod
    def make_state(self, folder: Path) -> None:
        """Fill an empty folder with the initial state; `run_tool` runs the app's own programs.

        The folder is copied to other locations afterwards, so its content must not contain its own path.
        """

    @abstractmethod
    def command(self, folder: Path, port: int) -> Command:
        """Return the command that serves the state in `folder` on a port of 127.0.0.1; it runs in that folder."""

    @abstractmethod
    def facts(self, app: "RunningApp") -> Facts:
        """Return the compared values of the current state, from its files, its database or its API."""

    def reset_state(self, app: "RunningApp") -> None:
        """Reset the app to its initial state, in less than a second.

        The default stops the app, so that nothing is in progress, and starts it again: for apps that start quickly.
        """
        app.stop()
        app.restore_files()
        app.start()

    def cookies(self, app: "RunningApp") -> Mapping[str, str]:
        """Return cookies of a browser in which the user of the tasks is signed in; empty for apps without accounts."""
        return {}

    def why_missing(self) -> str | None:
        """Return the reason why the app cannot run on this machine, in one clause; None if it can."""
        missing = [need for need in self.packages.needs if not is_found(need)]
        if missing:
            return f"{' and '.join(missing)} not found"
        if not (self.packages.pip or self.packages.npm) or (self.home / INSTALLED_FILE).is_file():
            return None
        return f"{self.home} is not there"


class GunicornApp(WebApp):
    """App served by gunicorn: its files are reset while no worker has them open.

    Attributes:
        served: WSGI application, in gunicorn's notation.
    """

    served: ClassVar[str]

    def make_state(self, folder: Path) -> None:
        """Make the state by running the site's file with the app's own Python."""
        (site,) = self.state_code
        shutil.copyfile(site, folder / site.name)
        run_tool(Command(argv=(self.python, site.name)), folder)

    def command(self, folder: Path, port: int) -> Command:
        """Return gunicorn's command; it preloads the site and forks workers, so a killed worker is replaced at once."""
        options = (
            "--preload --workers 1 --threads 4 --timeout 120 --log-level warning --worker-tmp-dir . --no-control-socket"
        )
        place = ("--bind", f"127.0.0.1:{port}", self.served)
        return Command(argv=(self.python, "-m", "gunicorn", *options.split(), *place))

    def reset_state(self, app: "RunningApp") -> None:
        """Kill the workers, then copy the files; gunicorn forks new workers."""
        app.end_workers()
        app.restore_files()


def apps_dir() -> Path:
    """Return the folder of all apps."""
    import platformdirs

    return Path(platformdirs.user_data_dir("k25")) / "apps"


def initial_state(app: WebApp) -> Path:
    """Return the folder with an app's initial state, made once per version of the app and of the code that makes it.

    Raises:
        EnvSetupError: If the app is not installed, or its initial state cannot be created.
    """
    missing = app.why_missing()
    if missing is not None:
        raise EnvSetupError(f"the app {app.name} is not installed ({missing}). Install it with: cua setup apps")
    home = apps_dir() / "states"
    state = home / f"{app.name}-{app.packages.digest}-{_code_digest(type(app))}"
    if not state.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / f"{app.name}.lock"):
            if not state.is_dir():
                begun = home / f"{app.name}-begun"
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir()
                app.make_state(begun)
                begun.rename(state)
            remove_old_versions(home, app.name)
    for used in (state, app.home):
        with contextlib.suppress(OSError):  # owned by another user, or missing
            os.utime(used)
    return state


def remove_old_versions(folder: Path, name: str) -> None:
    """Remove old versions of an app from `folder`; the most recently used ones are kept."""
    versions = [path for path in folder.iterdir() if re.fullmatch(rf"{name}(-[0-9a-f]{{10}})+", path.name)]
    for old in sorted(versions, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT_VERSIONS:]:
        shutil.rmtree(old, ignore_errors=True)


def run_tool(command: Command, folder: Path) -> str:
    """Run one of an app's own programs in a folder and wait for its end; return its output.

    Raises:
        EnvSetupError: If the program failed, or took too long.
    """
    programs = Programs(Path(tempfile.mkdtemp(prefix="k25-apps-")))
    shown = " ".join(map(str, command.argv[:3]))
    try:
        printed = programs.folder / "stdout"
        argv = [str(part) for part in command.argv]
        program = programs.start(argv, make_environment(folder, command.env), folder, printed)
        code = program.ended.result(_TOOL_TIMEOUT_S)
        if code != 0:
            lines = program.stderr.read_text("utf-8", "replace").strip().splitlines() or ["no error output"]
            raise EnvSetupError(f"{shown} ended with status {code}: {lines[-1][:300]}")
        return printed.read_text("utf-8", "replace")
    except TimeoutError as error:
        raise EnvSetupError(f"{shown} took longer than {_TOOL_TIMEOUT_S:g} s", retryable=True) from error
    except OSError as error:
        raise EnvSetupError(f"{shown} cannot be run: {error}") from error
    finally:
        programs.close()


def make_environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return an app's variables: PATH and `more`, nothing else of this process (keys, settings); HOME is its folder."""
    base = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"}
    return {**base, **more}


def is_found(need: str) -> bool:
    """Return True if a program is on PATH, or a file (a name that begins with `/`) exists."""
    return Path(need).exists() if need.startswith("/") else shutil.which(need) is not None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


@functools.cache
def _code_digest(app: type[WebApp]) -> str:
    files = app.state_code or (Path(inspect.getfile(app)),)
    return _digest(b"".join(file.read_bytes() for file in files))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Lock a file across processes and threads; the lock ends with the process that holds it."""
    import fcntl

    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class AppResponse:
    """HTTP response of an app."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class RunningApp:
    """Running app with its own state, a child of an environment's supervisor.

    Args:
        app: The app.
        programs: Supervisor that ends the app, and removes its state, when the environment or this process ends.
    """

    def __init__(self, app: WebApp, programs: Programs) -> None:
        self.app = app
        self.folder = programs.folder / app.name
        self._programs = programs
        self._copy = _RestorableCopy(initial_state(app), self.folder)
        self._program: Program | None = None
        self._place = _ReservedPort()

    @property
    def port(self) -> int:
        """Port of the app on 127.0.0.1."""
        return self._place.port

    @property
    def is_alive(self) -> bool:
        """True if the app's program is running."""
        return self._program is not None and not self._program.ended.done()

    @property
    def pid(self) -> int:
        """Process id of the app's program.

        Raises:
            EnvDiedError: If the program is not running.
        """
        if self._program is None or not self.is_alive:
            raise EnvDiedError(f"the app {self.app.name} is gone")
        return self._program.pid

    def prepare(self) -> None:
        """Reset the app to its initial state, starting it if required.

        Raises:
            EnvSetupError: If it does not start.
        """
        if self.is_alive:
            self._truncate_log()
            self.app.reset_state(self)
            return
        self.stop()
        self.restore_files()
        self.start()

    def start(self) -> None:
        """Start the app and wait until it answers.

        Raises:
            EnvSetupError: If the program exited, or does not answer in time.
        """
        command = self.app.command(self.folder, self.port)
        argv, env = [str(part) for part in command.argv], make_environment(self.folder, command.env)
        self._place.stop_reserving()
        try:
            self._program = self._programs.start(argv, env, self.folder)
        except OSError as error:
            raise EnvSetupError(f"the app {self.app.name} cannot be started: {error}") from error
        until_s = time.monotonic() + START_TIMEOUT_S
        while not self._is_responding():
            if self._program.ended.done():
                raise EnvSetupError(
                    f"the app {self.app.name} ended at its start: {self._last_log_line()}", retryable=True
                )
            if time.monotonic() > until_s:
                self.stop()
                raise EnvSetupError(
                    f"the app {self.app.name} does not answer after {START_TIMEOUT_S:g} s", retryable=True
                )
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the app and all its child processes, which can outlive it and hold its port."""
        program, self._program = self._program, None
        if program is None:
            return
        self._programs.kill(program.pid)
        program.stderr.unlink(missing_ok=True)

    def end_workers(self) -> None:
        """Kill the worker processes of a server like gunicorn; it starts new ones at once.

        Requests in progress are aborted; all workers are gone when this returns.
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
        """Restore the initial content of the app's folder; only changed files are copied.

        Raises:
            EnvSetupError: If files cannot be read or written, or another process is still writing to the folder.
        """
        try:
            self._copy.restore()
        except OSError as error:
            message = f"the app {self.app.name} cannot be put back to its first state: {error}"
            raise EnvSetupError(message, retryable=True) from error

    def ask(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> AppResponse:
        """Send one request to the app, without the browser.

        Raises:
            EnvDiedError: If it does not answer.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Host": f"{self.app.name}.localhost", **(headers or {})})
            answer = connection.getresponse()
            return AppResponse(status=answer.status, headers=answer.headers, body=answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise EnvDiedError(f"the app {self.app.name} does not answer: {error}") from error
        finally:
            connection.close()

    def query(self, database: str, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Run an SQL query on an sqlite file in the app's folder; return column names and rows."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder / database}?mode=ro", uri=True)) as opened:
            cursor = opened.execute(sql)
            return [column[0] for column in cursor.description], cursor.fetchall()

    def tell(self, database: str, tables: Mapping[str, str]) -> dict[str, str]:
        """Return the facts of an sqlite file: text by `KIND/NAME/COLUMN`, without empty values.

        Args:
            database: Path of the file in the folder.
            tables: Query for each kind of item; its first column is the name.
        """
        facts: dict[str, str] = {}
        for kind, sql in tables.items():
            names, rows = self.query(database, sql)
            for name, *values in rows:
                facts |= {
                    f"{kind}/{name}/{column}": _tidy(value) for column, value in zip(names[1:], values, strict=True)
                }
        return {path: text for path, text in facts.items() if text}

    def _is_responding(self) -> bool:
        try:
            return 200 <= self.ask("GET", self.app.start_path).status < 400
        except EnvDiedError:
            return False

    def _last_log_line(self) -> str:
        assert self._program is not None
        lines = self._program.stderr.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "no error output"

    def _truncate_log(self) -> None:
        """Truncate the log, which would fill the disk over many episodes."""
        assert self._program is not None
        with contextlib.suppress(OSError):
            os.truncate(self._program.stderr, 0)


def _tidy(value: object) -> str:
    """Return a value as text, without whitespace at the ends of its lines and of the whole."""
    return "" if value is None else "\n".join(line.rstrip() for line in str(value).splitlines()).strip()


class _ReservedPort:
    """Port that stays reserved while no program listens on it, so that two apps never get the same one."""

    def __init__(self) -> None:
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port = int(self._held.getsockname()[1])

    def stop_reserving(self) -> None:
        """Let a program listen on the port: Linux allows this while the reserving socket does not listen."""
        if sys.platform != "linux":
            self._held.close()

    def __del__(self) -> None:
        self._held.close()


@dataclass(slots=True)
class _RestorableCopy:
    """Copy of a folder that can be restored repeatedly.

    Attributes:
        first: Original folder, which is never written to.
        folder: Location of the copy.
    """

    first: Path
    folder: Path
    _marks: dict[str, _Mark] = field(default_factory=dict)

    def restore(self) -> None:
        """Remove added files, and copy files that are missing or were modified."""
        self.folder.mkdir(exist_ok=True)
        wanted = dict(_walk(self.first))
        for path, entry in reversed(list(_walk(self.folder))):  # entries of a folder come before the folder
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
    """Yield all entries below a folder by relative path, folders before their content; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{below}{entry.name}"
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{path}/")


def _mark(file: Path) -> _Mark | None:
    """Return file metadata that changes on write or replacement; programs cannot set the change time (ctime)."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
