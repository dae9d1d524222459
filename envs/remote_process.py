"""An `EnvServer` in a process of this machine, and the way to it: pickled messages, each after its length."""

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from collections.abc import Awaitable
from typing import Any

from envs.env import EnvSpec
from envs.errors import EnvDiedError, EnvSetupError
from envs.foreign import contained_task
from envs.registry import EnvSecrets
from envs.remote import ERRORS, EnvServer, SuiteRef, open_server

MAX_MESSAGE_BYTES = 2**28
"""A screenshot of 8 megapixels of noise takes 24 MB."""
_LENGTH = struct.Struct("<Q")
_CLOSE_TIMEOUT_S = 4.0
_MAX_STDERR_CHARS = 2000


class ProcessChannel:
    """An `EnvServer` in a process of its own on this machine, which ends with this one, however that comes about."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Not for callers: see `open`."""
        self._process = process
        self._lock = asyncio.Lock()
        self._errors = ""
        self._reading = asyncio.create_task(self._read_errors())

    @classmethod
    async def open(cls, spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets | None = None) -> "ProcessChannel":
        """Start the process and the env in it; `secrets` go to it by its standard input.

        Raises:
            EnvError: As making the suite or the env raises it.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from envs.remote_process import serve; serve()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,  # a terminal's Ctrl-C is for the parent
        )
        channel = cls(process)
        try:
            kind, *told = await channel.call("open", spec, suite, secrets or EnvSecrets())
            if kind == "error":
                name, text, retryable = told
                raise ERRORS.get(name, EnvSetupError)(text, retryable=retryable)
        except BaseException:
            await channel.close()
            raise
        return channel

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def call(self, verb: str, *values: Any) -> Any:
        """As `Channel.call`. One that is cancelled ends the process: its answer belongs to nobody."""
        is_done = False
        async with self._lock:
            try:
                answer = await self._exchange((verb, values))
                is_done = True
                return answer
            except (OSError, EOFError, asyncio.IncompleteReadError) as error:
                await self._process.wait()
                last = self._errors.strip().splitlines()[-1:]
                told = f": {last[0]}" if last else ""
                raise EnvDiedError(f"the env's process ended (exit code {self._process.returncode}){told}") from error
            finally:
                if not is_done:
                    self._kill()

    async def close(self) -> None:
        """End the process, in order if it lets itself."""
        if self._process.returncode is None:
            with contextlib.suppress(EnvDiedError, TimeoutError):
                await asyncio.wait_for(self.call("close"), _CLOSE_TIMEOUT_S)
        self._kill()
        await self._process.wait()
        await asyncio.wait({self._reading})

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _exchange(self, message: Any) -> Any:
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None and reader is not None
        data = pickle.dumps(message)
        writer.write(_LENGTH.pack(len(data)) + data)
        await writer.drain()
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if size > MAX_MESSAGE_BYTES:
            raise EOFError(f"an answer of {size} bytes")
        return pickle.loads(await reader.readexactly(size))

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while text := await self._process.stderr.read(4096):
            self._errors = (self._errors + text.decode("utf-8", "replace"))[-_MAX_STDERR_CHARS:]


def serve() -> None:
    """Be the process of a `ProcessChannel`: answer on standard output until standard input ends."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a task prints is no answer
    asyncio.run(_serve(answers))


async def _serve(answers: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(contained_task)
    reader = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    server: EnvServer | None = None
    with os.fdopen(answers, "wb") as output:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, BrokenPipeError):  # the parent has gone
                while True:
                    verb, values = pickle.loads(await reader.readexactly(*_LENGTH.unpack(await reader.readexactly(8))))
                    if verb == "open":
                        server, answer = open_server(*values)
                    else:
                        assert server is not None
                        answer = await _unless_gone(server.call(verb, *values), reader)
                    data = pickle.dumps(answer)
                    output.write(_LENGTH.pack(len(data)) + data)
                    output.flush()
                    if verb == "close":
                        server = None
                        return
        finally:
            if server is not None:
                await server.call("close")


async def _unless_gone(work: Awaitable[Any], reader: asyncio.StreamReader) -> Any:
    """The answer; a parent that goes meanwhile, and asks for nothing more, ends the work."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait({task}, timeout=1.0)
        if not task.done() and reader.at_eof():
            task.cancel()
            await asyncio.wait({task})
            raise BrokenPipeError
    return task.result()
