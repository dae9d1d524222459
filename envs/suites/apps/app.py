"""The contract of a real web app: what it is made of, its first state, how it runs, and what its state says.

An app is a subclass of `WebApp` without data of its own: everything that changes lies in the folder of a `RunningApp`.
"""

import contextlib
import functools
import hashlib
import inspect
import json
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from envs.desktop.programs import Programs
from envs.errors import EnvSetupError

if TYPE_CHECKING:
    from envs.suites.apps.running import RunningApp

Facts = Mapping[str, Any]
"""What counts in an app's state, by a path such as `"page/prices/title"`; values that JSON has. What an app changes by
itself (times, revisions, drafts, searches) is left out, and so is what is empty."""

PASSWORD = "sesame-77"
"""Of everybody who has an account in one of the apps."""
INSTALLED_FILE = "installed.json"
_TOOL_TIMEOUT_S = 300.0
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
