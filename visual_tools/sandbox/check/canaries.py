"""Canaries planted on this machine as targets for the attacks: files, listeners, a process, a secret."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from visual_tools.sandbox.walk import remove_tree


@dataclass(slots=True, kw_only=True)
class Canaries:
    """Objects outside the sandbox that code inside must not read, change, reach or end.

    Attributes:
        base: Root folder; the kernels' working folders are inside it.
        token: Unique text that marks files, processes and names of this run.
        secret: Unique text in the planted files and in the environment.
        variable: Name of the environment variable that holds the secret.
        files: Planted files: next to the working folders, in the home folder, in folders for temporary files.
        descriptor: Number of an open, inheritable descriptor of the first file.
        victim: Process of the same user.
        listeners: Sockets that wait for a message, by description.
    """

    base: Path
    token: str
    secret: str
    variable: str
    files: tuple[Path, ...]
    descriptor: int
    victim: subprocess.Popen[bytes]
    listeners: dict[str, socket.socket]

    def facts(self) -> dict[str, object]:
        """Return the locations of all canaries, as passed to the cells."""
        return {
            "base": str(self.base),
            "token": self.token,
            "variable": self.variable,
            "home": str(Path.home()),
            "canaries": [str(path) for path in self.files],
            "secret_halves": [self.secret[:8], self.secret[8:]],
            "descriptor": self.descriptor,
            "victim": self.victim.pid,
            "checker": os.getpid(),
            "tcp": [s.getsockname()[:2] for name, s in self.listeners.items() if name.startswith("tcp")],
            "udp": [s.getsockname()[:2] for name, s in self.listeners.items() if name.startswith("udp")],
            "unix": str(self.base / "unix.sock"),
            "abstract": self.token,
        }

    def heard(self) -> list[str]:
        """Return the listeners that received a connection or message, and reset them."""
        return [name for name, listener in self.listeners.items() if _is_reached(listener)]

    def damage(self) -> list[str]:
        """Return descriptions of all canaries that were changed."""
        changes = [f"{path} is changed" for path in self.files if not _is_whole(path, self.secret)]
        if self.victim.poll() is not None:
            changes.append(f"the planted process has ended with {self.victim.returncode}")
        return changes

    def restore(self) -> None:
        """Restore the files and the process after an attack that changed them."""
        for path in self.files:
            _write_canary(path, self.secret)
        if self.victim.poll() is not None:
            self.victim = start_victim(self.token, (path.parent for path in self.files))

    def end_victim(self) -> None:
        """Kill the planted process."""
        self.victim.kill()
        self.victim.communicate()


def _is_whole(path: Path, secret: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == secret and path.stat().st_mode & 0o777 == 0o644


def _is_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(4096)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def plant() -> Iterator[Canaries]:
    """Plant all canaries, and remove them on exit."""
    token, secret = f"k25{secrets.token_hex(4)}", secrets.token_hex(16)
    variable = f"K25_CHECK_{token.upper()}_API_KEY"
    with contextlib.ExitStack() as stack:
        base = _make_folder(stack, Path(tempfile.gettempdir()), token)
        assert base is not None, "the folder for temporary files cannot be written"
        places = (Path.home(), Path("/var/tmp"), Path("/dev/shm"), Path("/run"))
        folders = [base, *filter(None, (_make_folder(stack, place, token) for place in places))]
        files = tuple(_write_canary(folder / f"{token}.txt", secret) for folder in folders)
        descriptor = os.open(files[0], os.O_RDWR)
        stack.callback(os.close, descriptor)
        os.set_inheritable(descriptor, True)
        os.environ[variable] = secret
        stack.callback(os.environ.pop, variable, None)
        canaries = Canaries(
            base=base,
            token=token,
            secret=secret,
            variable=variable,
            files=files,
            descriptor=descriptor,
            victim=start_victim(token, folders),
            listeners=dict(_open_listeners(stack, base, token)),
        )
        stack.callback(canaries.end_victim)
        yield canaries


def _make_folder(stack: contextlib.ExitStack, place: Path, token: str) -> Path | None:
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"check-sandbox-{token}-", dir=place))
    except OSError:
        return None
    stack.callback(remove_tree, str(folder))
    folder.chmod(0o755)
    return folder


def _write_canary(path: Path, secret: str) -> Path:
    path.write_text(secret, "utf-8")
    path.chmod(0o644)
    return path


def start_victim(token: str, folders: Iterable[Path]) -> subprocess.Popen[bytes]:
    """Start a process that waits until the checker dies, then removes `folders`; `token` is in its command line."""
    wait = "import shutil,sys;sys.stdin.read();[shutil.rmtree(path, ignore_errors=True) for path in sys.argv[2:]]"
    return subprocess.Popen(
        [sys.executable, "-I", "-c", wait, f"victim-{token}", *map(str, folders)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _open_listeners(stack: contextlib.ExitStack, base: Path, token: str) -> Iterator[tuple[str, socket.socket]]:
    inet, inet6, unix = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
    places: list[tuple[str, int, object]] = [("127.0.0.1", inet, ("127.0.0.1", 0)), ("::1", inet6, ("::1", 0))]
    if (outer := _outer_address()) is not None:
        places.append((outer, inet, (outer, 0)))
    wanted = [
        (f"{kind} {name}", family, type_, address)
        for name, family, address in places
        for kind, type_ in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM))
    ]
    wanted.append(("unix path", unix, socket.SOCK_STREAM, str(base / "unix.sock")))
    wanted.append(("unix abstract", unix, socket.SOCK_STREAM, "\0" + token))
    for name, family, type_, address in wanted:
        listener = socket.socket(family, type_)
        stack.callback(listener.close)
        with contextlib.suppress(OSError):  # a machine without IPv6
            listener.bind(address)  # type: ignore[arg-type]
            if type_ == socket.SOCK_STREAM:
                listener.listen(64)
            listener.setblocking(False)
            yield name, listener


def _outer_address() -> str | None:
    """Return this machine's address on its outgoing interface, or None; sends no packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])
