"""Env in another process: agent and model run in this process, the env and the code of its tasks in the other one.

`RemoteEnv` is an `Env` that forwards its calls through a `Channel` to an `EnvServer`, which has the real env. This
module has a channel to a local process (`ProcessChannel`); `cua.batch.executor` has one to an actor of a Ray cluster.
Tasks are not sent: the server makes them from the name of their suite, their id and their seed.

Both sides run this program and exchange pickled objects; data of pages and models are plain values in them.
"""

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envs import registry
from envs.actions import Action, Terminate
from envs.env import (
    Env,
    EnvSpec,
    Task,
    TaskVerdict,
    VersionedScreen,
    check_task,
    checked_files,
    checked_warnings,
    evaluate_task,
)
from envs.errors import ActionError, EnvDiedError, EnvError, EnvSetupError, EvaluationError, MissingDependencyError
from envs.foreign import contained, contained_result, contained_task, describe_defect
from envs.observation import Generation, Observation, StepResult
from envs.registry import EnvSecrets
from envs.target import ActionCheck, Target

ERRORS: dict[str, type[EnvError]] = {
    kind.__name__: kind for kind in (EnvError, EnvSetupError, EnvDiedError, MissingDependencyError)
}
"""Errors of the server that are raised again on this side, by name."""
MAX_MESSAGE_BYTES = 2**28
"""Size limit of a message. A screenshot of 8 megapixels of noise takes 24 MB."""
_LENGTH = struct.Struct("<Q")
_CLOSE_TIMEOUT_S = 4.0  # a process that hangs is killed
_MAX_STDERR_CHARS = 2000  # last output of a process that ended, for the error text


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRef:
    """Reference to a suite, from which the server makes tasks.

    Attributes:
        name: As for `registry.load_suite`; a file must also exist on the server.
        options: Arguments of the suite's function.
    """

    name: str
    options: Mapping[str, object] = field(default_factory=dict)


class Channel(Protocol):
    """Connection to an `EnvServer`."""

    async def call(self, verb: str, *values: object) -> Any:
        """Call the server and return its answer.

        Raises:
            EnvDiedError: If the server is gone.
        """
        ...

    async def close(self) -> None:
        """Stop the server and everything it started. May be called twice."""
        ...


OpenChannel = Callable[[EnvSpec, SuiteRef], Awaitable[Channel]]


class TaskCodeError(EvaluationError):
    """Exception in the code of a task on the server; the text names it and its location."""


class RemoteTask(Task):
    """Task whose code runs in the process of its env; `RemoteEnv.reset` sets it up.

    Args:
        task: The same task, made locally, in its state before setup.

    Raises:
        TypeError: If it is not a `Task`; see `envs.env.check_task`.
    """

    def __init__(self, task: Task) -> None:
        check_task(task)
        self.spec, self.instruction, self.no_retry_reason = task.spec, task.instruction, task.no_retry_reason

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Evaluate the task on the server, and fetch its files."""
        verdict: TaskVerdict
        verdict, self.files = await env.ask_for(self, "evaluate")
        return verdict

    async def teardown(self, env: Any) -> None:
        """Tear the task down on the server, if that is still running."""
        with contextlib.suppress(EnvDiedError):
            await env.ask("teardown")


class RemoteEnv:
    """Env in another process, which is started by the first reset.

    Args:
        spec: Environment to make.
        suite: Suite of its tasks.
        open_channel: Starts the server.
    """

    def __init__(self, spec: EnvSpec, suite: SuiteRef, open_channel: OpenChannel) -> None:
        self.terminate: Terminate | None = None
        self._spec = spec
        self._suite = suite
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._expected: Generation | None = None
        self._is_closed = False

    async def reset(self, task: Task) -> Observation:
        """Call `Env.reset` for a `RemoteTask`, and set the instruction of the task."""
        if not isinstance(task, RemoteTask):
            raise EnvError(f"a remote env takes a RemoteTask, got a {type(task).__name__}", retryable=False)
        if self._is_closed:
            raise EnvError("this env was closed; make a new one", retryable=False)
        if self._channel is None:
            self._channel = await self._open_channel(self._spec, self._suite)
        self.terminate = None
        observation, task.instruction = await self.ask_for(task, "reset", task.spec.id, task.spec.seed)
        return observation  # type: ignore[no-any-return]

    def expect(self, generation: Generation) -> None:
        """Set the expected generation; it is sent with the next step."""
        self._expected = generation

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Call `Env.step`; `check` is called in this process."""
        expected, self._expected = self._expected, None
        answer = await self.ask("step", tuple(actions), check is not None, expected)
        while answer[0] == "check":
            objection = None
            try:
                assert check is not None
                await check(*answer[1:])
            except ActionError as error:
                objection = str(error)
            answer = await self.ask("answer", objection)
        _, result, self.terminate = answer
        return result  # type: ignore[no-any-return]

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Call `Env.find_targets`."""
        targets: tuple[Target, ...] = await self.ask("find_targets", action)
        return targets

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Call `Env.describe_point`."""
        text: str | None = await self.ask("describe_point", x_px, y_px)
        return text

    async def ask(self, verb: str, *values: object) -> Any:
        """Call the server and return its answer.

        Raises:
            EnvDiedError: If the server is gone, or was never started.
            EnvError: As raised on the server.
            TaskCodeError: If the code of the task raised on the server.
        """
        if self._channel is None:
            raise EnvDiedError("this env was closed" if self._is_closed else "this env has no server: reset it first")
        try:
            kind, *results = await self._channel.call(verb, *values)
        except EnvDiedError:
            channel, self._channel = self._channel, None  # the next reset starts another server
            await channel.close()
            raise
        if kind == "ok":
            return results[0]
        name, text, retryable = results
        if name in ERRORS:
            raise ERRORS[name](text, retryable=retryable)
        raise TaskCodeError(text)

    async def ask_for(self, task: RemoteTask, verb: str, *values: object) -> Any:
        """Call `ask`, and then update the warnings of the task, even if the call failed."""
        try:
            answer = await self.ask(verb, *values)
        except (EnvError, TaskCodeError):
            with contextlib.suppress(EnvError):  # the server may be gone
                task.warnings = await self.ask("warnings")
            raise
        task.warnings = await self.ask("warnings")
        return answer

    async def close(self) -> None:
        """Stop the server."""
        self._is_closed = True
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


class EnvServer:
    """Server with one env that runs one task at a time.

    Args:
        spec: Environment to make.
        suite: Suite of its tasks.
        secrets: Secrets of the env.
    """

    def __init__(self, spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets) -> None:
        self._spec = spec
        loaded = registry.load_suite(suite.name, **suite.options)
        self._make_task = loaded.make_task
        self._env: Env = (loaded.make_env or secrets.make_env)(spec)
        self._task: Task | None = None
        self._asked: asyncio.Queue[tuple[object, ...]] = asyncio.Queue()
        self._answers: asyncio.Queue[str | None] = asyncio.Queue()
        self._step: asyncio.Task[StepResult] | None = None

    async def call(self, verb: str, *values: object) -> tuple[object, ...]:
        """Return `("ok", result)`, or `("error", class, text, retryable)` for an exception."""
        verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "reset": self._reset,
            "step": self._begin_step,
            "answer": self._answer,
            "find_targets": self._env.find_targets,
            "describe_point": self._env.describe_point,
            "evaluate": self._evaluate,
            "warnings": self._warnings,
            "teardown": self._teardown,
            "close": self._close,
        }
        try:
            with contained():
                return "ok", await asyncio.ensure_future(contained_result(verbs[verb](*values)))
        except EnvError as error:
            known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS)
            return "error", known, str(error), error.retryable
        except EvaluationError as error:
            return "error", type(error).__name__, str(error), False
        except Exception as error:  # tasks are third-party code
            return "error", type(error).__name__, describe_defect(error), False

    async def _reset(self, task_id: str, seed: int | None) -> tuple[Observation, str]:
        self._task = None
        self._task = self._make_task(task_id, seed)
        observation = await self._env.reset(self._task)
        return observation, self._task.instruction

    async def _begin_step(
        self, actions: Sequence[Action], has_check: bool, expected: Generation | None
    ) -> tuple[object, ...]:
        async def check(number: int, action: Action, targets: Sequence[Target]) -> None:
            self._asked.put_nowait(("check", number, action, tuple(targets)))
            objection = await self._answers.get()
            if objection is not None:
                raise ActionError(objection)

        if expected is not None and isinstance(self._env, VersionedScreen):
            self._env.expect(expected)
        self._step = asyncio.ensure_future(contained_result(self._env.step(actions, check if has_check else None)))
        return await self._step_or_question()

    async def _answer(self, objection: str | None) -> tuple[object, ...]:
        self._answers.put_nowait(objection)
        return await self._step_or_question()

    async def _step_or_question(self) -> tuple[object, ...]:
        assert self._step is not None
        question = asyncio.ensure_future(self._asked.get())
        await asyncio.wait({self._step, question}, return_when=asyncio.FIRST_COMPLETED)
        if question.done():
            return question.result()
        question.cancel()
        return "result", self._step.result(), self._env.terminate

    async def _evaluate(self) -> tuple[TaskVerdict, dict[str, bytes]]:
        assert self._task is not None
        return await evaluate_task(self._task, self._env), checked_files(self._task)

    async def _warnings(self) -> list[str]:
        return checked_warnings(self._task) if self._task is not None else []

    async def _teardown(self) -> None:
        if self._task is not None:
            await self._task.teardown(self._env)

    async def _close(self) -> None:
        if self._step is not None and not self._step.done():
            self._step.cancel()
            await asyncio.wait({self._step})
        await self._env.close()


def open_server(spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets) -> tuple[EnvServer | None, tuple[object, ...]]:
    """Make a server, if possible, and return it with the answer to the request."""
    try:
        return EnvServer(spec, suite, secrets), ("ok", None)
    except EnvError as error:
        return None, ("error", type(error).__name__, str(error), error.retryable)


class ProcessChannel:
    """`EnvServer` in a separate local process, which ends with this one in all cases."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Use `open` instead of the constructor."""
        self._process = process
        self._lock = asyncio.Lock()
        self._errors = ""
        self._reading = asyncio.create_task(self._read_errors())

    @classmethod
    async def open(cls, spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets | None = None) -> "ProcessChannel":
        """Start the process and the env in it; `secrets` are sent by its standard input.

        Raises:
            EnvError: As raised when the suite or the env is made.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from envs.remote import serve; serve()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,  # Ctrl-C in the terminal is for the parent
        )
        channel = cls(process)
        try:
            kind, *results = await channel.call("open", spec, suite, secrets or EnvSecrets())
            if kind == "error":
                name, text, retryable = results
                raise ERRORS.get(name, EnvSetupError)(text, retryable=retryable)
        except BaseException:
            await channel.close()
            raise
        return channel

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    async def call(self, verb: str, *values: object) -> Any:
        """Call the server; a cancelled call ends the process, since its answer could no longer be assigned."""
        is_done = False
        async with self._lock:
            try:
                answer = await self._exchange((verb, values))
                is_done = True
                return answer
            except (OSError, EOFError, asyncio.IncompleteReadError) as error:
                await self._process.wait()
                last = self._errors.strip().splitlines()[-1:]
                last_line = f": {last[0]}" if last else ""
                raise EnvDiedError(
                    f"the env's process ended (exit code {self._process.returncode}){last_line}"
                ) from error
            finally:
                if not is_done:
                    self._kill()

    async def close(self) -> None:
        """Stop the process, gracefully if it responds in time."""
        if self._process.returncode is None:
            with contextlib.suppress(EnvDiedError, TimeoutError):
                await asyncio.wait_for(self.call("close"), _CLOSE_TIMEOUT_S)
        self._kill()
        await self._process.wait()
        await asyncio.wait({self._reading})

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _exchange(self, message: object) -> object:
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
    """Run the server process of a `ProcessChannel`: answer on standard output until standard input ends."""
    answers = os.dup(1)
    os.dup2(2, 1)  # output of tasks must not mix with the answers
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


async def _unless_gone(work: Awaitable[object], reader: asyncio.StreamReader) -> Any:
    """Return the result; cancel the work if the parent process ends in the meantime."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait({task}, timeout=1.0)
        if not task.done() and reader.at_eof():
            task.cancel()
            await asyncio.wait({task})
            raise BrokenPipeError
    return task.result()
