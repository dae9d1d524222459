"""Host side of a zygote: starts it, requests kernels, receives reports about them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from visual_tools.errors import SandboxError
from visual_tools.sandbox.zygote.plan import KernelSpec, ZygotePlan, to_json

_BOOT = (
    "import json,sys;p=json.loads(sys.argv[1]);sys.path[:0]=p['import_paths'];"
    "from visual_tools.sandbox.zygote.main import main;main()"
)
_START_TIMEOUT_S = 120.0  # it imports numpy and others, which takes long from a cold disk
_MOUNT_TIMEOUT_S = 30.0  # a mount takes milliseconds; this only ends a wait for a broken process
_PACKET_BYTES = 1 << 18
_LAST_WORDS_CHARS = 2000  # of its log in an error text


def make_argv(wrapper: Sequence[str], plan: ZygotePlan) -> list[str]:
    """Return the command line of a zygote."""
    return [*wrapper, sys.executable, "-I", "-c", _BOOT, to_json(plan)]


def make_env(tmp: str) -> dict[str, str]:
    """Return the whole environment of a kernel; no host variables are passed on."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": tmp,
        "USER": "nobody",
        "LOGNAME": "nobody",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": f"{tmp}/.matplotlib",
        "IPYTHONDIR": f"{tmp}/.ipython",
        "XDG_CACHE_HOME": f"{tmp}/.cache",
        "XDG_CONFIG_HOME": f"{tmp}/.config",
        "NUMBA_CACHE_DIR": f"{tmp}/.numba",
        "NUMBA_NUM_THREADS": "2",
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "1",  # more would start threads before the fork
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",  # each arena reserves address space, which is limited
    }


class KernelProcess:
    """Kernel process as reported by the zygote.

    Attributes:
        ended: Resolves when the kernel has ended, to the reason.
        error: Reason why the kernel could not be started; "" if it could.
        over: Limit that the kernel has exceeded; "" for none.
        num_left: Processes left behind by cells and ended at the time limit, since this was last set to 0.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.error = ""
        self.over = ""
        self.num_left = 0


class ZygoteClient:
    """Client of a running zygote; created by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, host: socket.socket, log: Path) -> None:
        self._process = process
        self._socket = host
        self._log = log
        self._numbers = 0
        self._kernels: dict[int, KernelProcess] = {}
        self._disks: dict[int, asyncio.Future[int]] = {}
        self._is_closed = False
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(host.fileno(), self._listen)

    @classmethod
    async def start(cls, wrapper: Sequence[str], plan: ZygotePlan, folder: Path) -> "ZygoteClient":
        """Start a zygote and wait until it is ready.

        Raises:
            SandboxError: If it did not start.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        argv = make_argv(wrapper, replace(plan, control_fd=theirs.fileno()))
        log = folder / "zygote.log"
        with theirs, log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=make_env("/tmp" if plan.mode in ("nested", "exec") else str(folder)),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        client = cls(process, ours, log)
        try:
            client._introduce(folder)
            await asyncio.wait_for(asyncio.shield(client.ready), _START_TIMEOUT_S)
        except (TimeoutError, OSError, SandboxError) as error:
            await client.close()
            why = client._last_words() if isinstance(error, OSError) and not isinstance(error, TimeoutError) else ""
            raise SandboxError(why or str(error) or "the process that makes kernels did not start in time") from error
        except BaseException:
            await client.close()
            raise
        return client

    def _introduce(self, folder: Path) -> None:
        self._send({"remove": str(folder)})
        with contextlib.suppress(AttributeError, OSError):  # without pidfd, closing the socket must suffice
            parent = os.pidfd_open(os.getpid())
            try:
                self._send({"parent": os.getpid()}, [parent])
            finally:
                os.close(parent)

    def _send(self, message: dict[str, object], fds: Sequence[int] = ()) -> None:
        socket.send_fds(self._socket, [json.dumps(message).encode()], list(fds))

    def _listen(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _PACKET_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._lose()
            return
        message = json.loads(data)
        if "mount" in message:
            self._hear_of_disk(message, fds)
        else:
            self._hear(message)

    def _hear_of_disk(self, message: dict[str, Any], fds: list[int]) -> None:
        waiting = self._disks.pop(message["mount"], None)
        if waiting is None or waiting.done():  # the caller no longer waits
            for fd in fds:
                os.close(fd)
        elif fds:
            waiting.set_result(fds[0])
        else:
            waiting.set_exception(SandboxError(f"no working folder in memory can be created: {message.get('error')}"))

    def _hear(self, message: dict[str, Any]) -> None:
        if "ready" in message and not self.ready.done():
            self.ready.set_result(message)
        if (kernel := self._kernels.get(message.get("failed", -1))) is not None:
            kernel.error = kernel.error or str(message["error"])
        if (kernel := self._kernels.get(message.get("over", -1))) is not None:
            kernel.over = str(message["what"])
        if (kernel := self._kernels.get(message.get("left", -1))) is not None:
            kernel.num_left += int(message["num_ended"])
        if (kernel := self._kernels.pop(message.get("ended", -1), None)) is not None and not kernel.ended.done():
            kernel.ended.set_result(kernel.over or _describe_end(int(message["code"])))

    def _lose(self) -> None:
        """Handle the end of the zygote, which ends every kernel."""
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        if not self.ready.done():
            self.ready.set_exception(SandboxError(self._last_words()))
            self.ready.exception()  # avoids a warning if no caller waits
        for kernel in self._kernels.values():
            if not kernel.ended.done():
                kernel.ended.set_result("the process that makes kernels ended")
        self._kernels.clear()
        for disk in self._disks.values():
            if not disk.done():
                disk.set_exception(SandboxError("the process that makes kernels is gone: start a new Sandbox"))
        self._is_closed = True

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return self._log.read_text(errors="replace")[-_LAST_WORDS_CHARS:].strip() or "it said nothing"
        return "it said nothing"

    @property
    def is_alive(self) -> bool:
        """True if kernels can be requested."""
        return not self._is_closed

    def make(self, spec: KernelSpec, sockets: Sequence[int]) -> KernelProcess:
        """Request a kernel.

        Raises:
            SandboxError: If the zygote has ended.
        """
        self._numbers += 1
        kernel = KernelProcess(self._numbers)
        try:
            self._send({"make": kernel.number, "spec": asdict(spec)}, sockets)
        except OSError as error:
            raise SandboxError(f"the process that makes kernels is gone ({error}): start a new Sandbox") from error
        self._kernels[kernel.number] = kernel
        return kernel

    async def mount_disk(self, number: int, size_bytes: int, num_files: int) -> int:
        """Have the zygote mount an in-memory file system for kernels to work in; return a descriptor of it.

        Raises:
            SandboxError: If it cannot be mounted.
        """
        disk = self._disks[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"mount": number, "size_bytes": size_bytes, "num_files": num_files})
            return await asyncio.wait_for(disk, _MOUNT_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise SandboxError(f"the process that makes kernels is gone ({error}): start a new Sandbox") from error

    def unmount_disk(self, number: int) -> None:
        """Unmount an in-memory file system."""
        with contextlib.suppress(OSError):
            self._send({"unmount": number})

    def set_busy(self, kernel: KernelProcess, is_busy: bool, limit_s: float = 0.0) -> None:
        """Report whether a cell runs, for at most `limit_s`; the zygote then checks the kernel's use more often."""
        with contextlib.suppress(OSError):
            self._send({"busy": kernel.number, "is_busy": is_busy, "limit_s": limit_s})

    async def kill(self, kernel: KernelProcess) -> None:
        """Kill a kernel and everything it started; returns when they are gone."""
        with contextlib.suppress(OSError):
            self._send({"kill": kernel.number})
        await asyncio.wait([kernel.ended], timeout=10)

    async def close(self) -> None:
        """End the zygote with all kernels. May be called twice."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        self._lose_all()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _lose_all(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for kernel in self._kernels.values():
                if not kernel.ended.done():
                    kernel.ended.set_result("")
            self._kernels.clear()


def _describe_end(code: int) -> str:
    """Describe why a kernel ended from its init's exit code: above 128 the kernel's signal, below 0 the init's."""
    if code < 0:
        return "it was killed"
    if code <= 128:
        return f"the code made it exit with code {code}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(code - 128).name}"
    return f"it was ended by signal {code - 128}"
