"""Programs that all end with the env: the client side of `supervisor`."""

import itertools
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.errors import EnvDiedError
from envs.supervisor import supervisor_command

_ANSWER_TIMEOUT_S = 20.0  # the supervising process answers at once; this only ends a wait for a broken one


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Started program; `ended` resolves to its exit code (negative: the signal that killed it)."""

    argv: tuple[str, ...]
    pid: int
    stderr: Path
    ended: "Future[int]" = field(repr=False)


class Programs:
    """All programs of one env, and every process they start, below one supervisor process.

    They end at `close`, or when this process dies for any reason.

    Args:
        folder: Existing folder for the programs' output; removed at the end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ids = itertools.count()
        self._started: dict[int, Future[tuple[int, Future[int]]]] = {}
        self._ended: dict[int, Future[int]] = {}
        self._killed: dict[int | None, Future[int]] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            supervisor_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._send({"remove": str(folder)})
        self._reader = threading.Thread(target=self._read, name="desktop-programs", daemon=True)
        self._reader.start()

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdout: Path | None = None) -> Program:
        """Start a program in a new session.

        Args:
            argv: Program and arguments, no shell.
            env: Its complete environment.
            cwd: Its working folder.
            stdout: File to which its standard output is appended; None discards it.

        Raises:
            OSError: If the program does not exist, or it cannot be run.
            EnvDiedError: If the supervisor is gone.
        """
        number = next(self._ids)
        stderr = self.folder / f"{number}-{Path(argv[0]).name}.stderr"
        with self._lock:
            answer = self._started[number] = Future()
        request = {"start": number, "argv": list(argv), "env": dict(env), "cwd": str(cwd)}
        self._send(request | {"stdout": str(stdout or os.devnull), "stderr": str(stderr)})
        pid, ended = answer.result(_ANSWER_TIMEOUT_S)
        return Program(argv=tuple(argv), pid=pid, stderr=stderr, ended=ended)

    def kill(self, pid: int | None) -> None:
        """End one program and all below it, or (None) all programs; return when they are gone."""
        with self._lock:
            answer = self._killed[pid] = Future()
        self._send({"kill": pid})
        answer.result(_ANSWER_TIMEOUT_S)

    def own_x_socket(self, path: Path) -> None:
        """Register the socket of an X server, to be removed at the end if the server leaves it."""
        self._send({"x_socket": str(path)})

    def close(self) -> None:
        """End everything and wait until it is gone; may be called twice."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)
        self._process.stdout.close()

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
        except (OSError, ValueError) as error:
            raise EnvDiedError("the process that supervises the desktop's programs is gone") from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(json.loads(line))
        with self._lock:
            waiting: list[Future[Any]] = [*self._started.values(), *self._ended.values(), *self._killed.values()]
        for future in waiting:
            future.set_exception(EnvDiedError("the desktop's programs were ended"))

    def _take(self, message: dict[str, Any]) -> None:
        with self._lock:
            if "started" in message:
                answer = self._started.pop(message["started"])
                if "error" in message:
                    answer.set_exception(OSError(message["error"]))
                else:
                    ended = self._ended[message["pid"]] = Future()
                    ended.set_running_or_notify_cancel()  # a waiter that is cancelled must not cancel it for others
                    answer.set_result((message["pid"], ended))
            elif "ended" in message and message["ended"] in self._ended:
                self._ended.pop(message["ended"]).set_result(message["code"])
            elif "killed" in message:
                self._killed.pop(message["killed"]).set_result(0)
