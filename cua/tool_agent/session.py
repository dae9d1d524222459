"""Conversation about files: the kernel, its files and the history persist between questions. `ask` is one question."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cua.answer import AnswerSchema
from cua.errors import ConfigError
from cua.evidence import write_bundle
from cua.evidence.recorded_inputs import recorded_inputs
from cua.model import Model
from cua.models.wire import tools_to_wire
from cua.redaction import redacted
from cua.run.end import RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.assemble import (
    SessionConfig,
    SessionParts,
    make_parts,
    make_tools_header,
    recorded_input,
    scope_within,
    settings_of_question,
    start_sandbox,
)
from cua.tool_agent.conversation import RunSnapshot
from cua.tool_agent.export import SHOWN_TOOLS
from cua.tool_agent.inputs import InputFile, copy_inputs, find_inputs, make_question
from cua.tool_agent.mcp_servers import McpTools, open_mcp_tools
from cua.tool_agent.outside import make_user_tools
from cua.tool_agent.profile import Profile, ToolContext
from cua.tool_agent.resume import describe_lost_variables, load_snapshot, repeat_cells, restore_files
from cua.tools import Toolset
from cua.tools.kernel_tools import SecondKernel
from cua.trajectory import RunRecord, TrajectoryWriter, default_runs_dir
from cua.trajectory.chain import FILES, hash_files
from cua.trajectory.record_file import reserve_run
from envs import QuestionTask, Task
from visual_tools.sandbox.contract import KernelLimits, KernelMaker

INPUTS = "inputs"
"""Folder of a run with the user's unmodified files; code works in the folder `FILES`."""


async def ask(
    question: str | QuestionTask,
    files: Sequence[Path | str] = (),
    *,
    schema: str | AnswerSchema | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    scope: RunScope | None = None,
    **settings: Any,
) -> RunResult:
    """Answer one question about files with a tool-calling model, and keep the evidence.

    Args:
        question: The question, or a task of a suite that evaluates the answer.
        files: Images, documents, videos, other files; copied into the run.
        schema: Schema of the answer: a file, `file.py:Model`, or an `AnswerSchema`.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Factory of the kernels (the caller closes it), or the kind of isolation as in the settings.
        watch: Listener of the run.
        scope: Scope of the parent run, such as a batch.
        settings: Single settings by name, such as `max_steps=20`; the others come from files and the environment.

    Returns:
        Result of the run. Its folder contains `answer.json`, `notebook.ipynb` and every image.

    Raises:
        ConfigError: If a setting or file is wrong; nothing was started.
        SandboxError: If code cannot be isolated on this machine.
    """
    task = None if isinstance(question, str) else question
    if task is not None:
        settings = settings_of_question(task, settings)
    words = question if isinstance(question, str) else question.instruction
    async with ToolSession(
        schema=schema, model=model, sandbox=sandbox, watch=watch, task=task, scope=scope, **settings
    ) as session:
        return await session.ask(words, files)


async def resume_ask(
    run_dir: Path,
    *,
    schema: str | AnswerSchema | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> RunResult:
    """Resume the open question of a run of `ask` that was interrupted, stopped or capped.

    Its cells are run again in a fresh kernel, on unmodified copies of the files; the model gets a note about different
    results. Calls of other tools are not repeated. Arguments are as for `ask`; settings passed here override
    the settings of the run.

    Raises:
        TrajectoryError: If the record cannot be read, or another process is writing it.
        ConfigError: If a setting is wrong, or the question was already answered.
    """
    async with ToolSession(
        resume=run_dir, schema=schema, model=model, sandbox=sandbox, watch=watch, **settings
    ) as session:
        return await session.continue_question()


class ToolSession:
    """Consecutive questions to an agent that keeps its Python state, its files and the history.

    ```python
    async with ToolSession(model="kimi-k2.5") as session:
        first = await session.ask("How many coins are there?", ["coins.png"])
        second = await session.ask("And how many of them are silver?")
    ```

    A session is one run with one record. `max_steps` applies to each question, all other limits to the session; time
    between questions does not count. `close` ends kernels, sandbox and record, and writes the evidence.

    Args:
        profile: Tools, system prompt, limits and context; default: the profile of `ask`. It takes precedence over
            settings.
        resume: Folder of an earlier run to resume: its cells are run again before the first question.
        schema: Schema of final answers: a file, `file.py:Model`, or an `AnswerSchema`.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Factory of the kernels (the caller closes it), or the kind of isolation as in the settings.
        watch: Listener of the run; its `on_control` gets the controls of each question before it starts.
        task: Task that evaluates the answers.
        scope: Scope of the parent run; its stop, budget and time apply too.
        settings: Single settings by name; the others come from files and the environment.
    """

    def __init__(
        self,
        *,
        profile: Profile | None = None,
        resume: Path | None = None,
        schema: str | AnswerSchema | None = None,
        model: Model | str | None = None,
        sandbox: KernelMaker | str | None = None,
        watch: Watch | None = None,
        task: Task | None = None,
        scope: RunScope | None = None,
        **settings: Any,
    ) -> None:
        named = {"model": model, "sandbox": sandbox}
        self._config = SessionConfig(
            profile=profile,
            resume=resume,
            schema=schema,
            model=None if isinstance(model, str) else model,
            maker=None if isinstance(sandbox, str) else sandbox,
            watch=watch or Watch(),
            flags={**settings, **{name: value for name, value in named.items() if isinstance(value, str)}},
            task=task,
            scope=scope,
        )
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._parts: SessionParts | None = None
        self._running: _RunningSession | None = None
        self._is_closed = False

    @property
    def run_dir(self) -> Path | None:
        """Folder of the run; None before the first question."""
        return self._running.writer.run_dir if self._running else None

    async def ask(self, question: str, files: Sequence[Path | str] = ()) -> RunResult:
        """Answer a question; the model knows the earlier questions and answers.

        Args:
            question: Text of the question.
            files: Images, documents, videos, other files, in addition to earlier ones; copied into the run.

        Returns:
            Result with the steps, usage and time of all questions together.

        Raises:
            ConfigError: If a setting or file is wrong; nothing was started, and earlier answers remain valid.
            SandboxError: If code cannot be isolated on this machine.
        """
        async with self._lock:
            if not question.strip():
                raise ConfigError('the question is empty; expected a text such as "How many coins are there?"')
            parts = await self._prepared()
            running = self._running
            if running is None and parts.record is not None:
                running = await self._started(self._open_again(parts, parts.record))
            inputs = await asyncio.to_thread(_find_inputs, files, running)
            question_parts = await asyncio.to_thread(make_question, question, inputs)
            if running is None:
                running = await self._started(self._open_new(parts, question, inputs))
                entries: list[dict[str, Any]] = []  # already listed in the header
            else:
                await asyncio.to_thread(
                    copy_inputs, inputs, running.writer.run_dir / INPUTS, running.writer.run_dir / FILES
                )
                running.names |= {file.name for file in inputs}
                entries = [recorded_input(file) for file in inputs]
            return await self._answer(
                parts, running, running.agent.run(question_parts, inputs=entries, prepare=running.prepare)
            )

    async def continue_question(self) -> RunResult:
        """Continue the question that the run of `resume` left open, as in `ask`.

        Raises:
            ConfigError: If no question is open.
        """
        async with self._lock:
            parts = await self._prepared()
            if parts.record is None or self._running is not None:
                raise ConfigError(
                    "there is no run to continue; name one with `resume`, and continue it before other questions"
                )
            end = parts.record.end
            if end is not None and end.status in ("succeeded", "failed", "unverified"):
                raise ConfigError(
                    f"the run {parts.record.run_dir.name} ended as {end.status}; there is nothing to resume. "
                    "It can be asked a further question"
                )
            running = await self._started(self._open_again(parts, parts.record))
            return await self._answer(parts, running, running.agent.continue_question(running.prepare))

    async def close(self) -> None:
        """Close all resources of the session, and write the evidence; safe to call twice."""
        async with self._lock:
            self._is_closed = True
            await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _prepared(self) -> SessionParts:
        if self._is_closed:
            raise ConfigError("this session is closed; make a new one")
        if self._parts is None:
            self._parts = await asyncio.to_thread(make_parts, self._config)
            if self._config.model is None:
                self._stack.push_async_callback(self._parts.model.close)
        return self._parts

    async def _started(self, opening: Coroutine[object, object, "_RunningSession"]) -> "_RunningSession":
        """Return the opened resources; if opening fails, close everything."""
        try:
            self._running = await opening
        except BaseException:
            self._is_closed = True
            await self._stack.aclose()
            raise
        return self._running

    async def _open_new(self, parts: SessionParts, question: str, inputs: Sequence[InputFile]) -> "_RunningSession":
        runs_dir = parts.settings.runs_dir or default_runs_dir()
        run_dir = self._stack.enter_context(reserve_run(runs_dir, parts.secrets.redact(question)))
        mcp_tools = await self._reach_servers(parts)
        header = make_tools_header(parts, question, inputs, maker := await self._make_maker(parts), self._config.task)
        writer = TrajectoryWriter.create(runs_dir, header, parts.secrets.redact, run_dir=run_dir)
        self._stack.callback(writer.close)
        await asyncio.to_thread(copy_inputs, inputs, writer.run_dir / INPUTS, writer.run_dir / FILES)
        readable = [Path(file.name) for file in inputs if not file.is_copied]
        running = await self._assemble(parts, maker, writer, readable, mcp_tools)
        running.names |= {file.name for file in inputs}
        return running

    async def _open_again(self, parts: SessionParts, record: RunRecord) -> "_RunningSession":
        mcp_tools = await self._reach_servers(parts)
        maker = await self._make_maker(parts)
        writer = TrajectoryWriter.reopen(record.run_dir, parts.secrets.redact)
        self._stack.callback(writer.close)
        laid_out = await asyncio.to_thread(restore_files, record)
        running = await self._assemble(parts, maker, writer, laid_out.readable, mcp_tools, load_snapshot(record))
        running.names |= {entry.name for entry in recorded_inputs(record)}
        running.restore_kernel = partial(repeat_cells, record, running.tool_context, running.agent, laid_out.findings)
        return running

    async def _make_maker(self, parts: SessionParts) -> KernelMaker:
        if self._config.maker is not None:
            return self._config.maker
        maker = await start_sandbox(parts.settings)
        self._stack.push_async_callback(maker.close)
        return maker

    async def _reach_servers(self, parts: SessionParts) -> McpTools:
        limits = KernelLimits(wall_s=parts.settings.cell_timeout)
        return await open_mcp_tools(parts.servers, self._stack, limits=limits, redact=parts.secrets.redact)

    async def _assemble(
        self,
        parts: SessionParts,
        maker: KernelMaker,
        writer: TrajectoryWriter,
        readable: Sequence[Path],
        mcp_tools: McpTools,
        start: RunSnapshot | None = None,
    ) -> "_RunningSession":
        """Assemble kernels and agent; the files of the code are sealed when the kernels are closed."""
        folder, stack = writer.run_dir / FILES, self._stack
        stack.push_async_callback(self._seal, writer)
        kernel = await maker.make_kernel(folder, readable=readable)
        stack.push_async_callback(kernel.close)
        second_kernel = SecondKernel(lambda: maker.make_kernel(folder, readable=readable))
        stack.push_async_callback(second_kernel.close)
        tool_context = ToolContext(
            kernel=kernel, second_kernel=second_kernel, limits=KernelLimits(wall_s=parts.settings.cell_timeout)
        )
        inside = [make(tool_context) for make in parts.profile.tools]
        outside = [*make_user_tools(parts.user_tools, tool_context, parts.secrets.redact), *mcp_tools.tools]
        toolset = Toolset(inside, outside=outside, folder=folder)
        agent = ToolAgent(
            model=parts.model,
            toolset=toolset,
            profile=parts.profile,
            answer_schema=parts.schema,
            task=self._config.task,
            is_isolated=maker.backend != "none",
            guard=parts.guard,
            scope=scope_within(self._config, parts.profile.caps, writer),
            record=writer,
            listener=parts.watch.listener,
            start=start,
        )
        names = ", ".join(tool.name for tool in toolset.tools)
        writer.note(SHOWN_TOOLS, names, system_prompt=agent.system_prompt, tools=tools_to_wire(toolset.tools))
        for note in mcp_tools.notes:
            agent.scope.note("tools", note)
        return _RunningSession(writer=writer, tool_context=tool_context, agent=agent)

    async def _answer(
        self, parts: SessionParts, running: "_RunningSession", answering: Coroutine[object, object, RunResult]
    ) -> RunResult:
        running.result = None
        if parts.watch.on_control:
            parts.watch.on_control(running.agent.control)
        running.result = await answering
        return redacted(running.result, parts.secrets.redact)

    async def _seal(self, writer: TrajectoryWriter) -> None:
        """Record the files that the code left, after the kernels are closed, and write the evidence."""
        result = self._running.result if self._running else None
        if result is None or result.end.source == "record":
            return
        files, is_whole = await asyncio.to_thread(hash_files, writer.run_dir)
        writer.sealed(files, is_whole=is_whole)
        await asyncio.to_thread(write_bundle, writer.run_dir)


@dataclass(slots=True, kw_only=True)
class _RunningSession:
    """Open resources of a session.

    Attributes:
        writer: Writer of the record.
        tool_context: Kernels and working folder.
        agent: Agent that answers.
        names: Names of the files given to the run.
        restore_kernel: Repeats the cells of an earlier process; None if there are none left.
        result: Result of the latest question; None while one is being answered.
    """

    writer: TrajectoryWriter
    tool_context: ToolContext
    agent: ToolAgent
    names: set[str] = field(default_factory=set)
    restore_kernel: Callable[[], Awaitable[str | None]] | None = None
    result: RunResult | None = None

    async def prepare(self) -> str | None:
        """Return a note for the model about lost variables before it continues."""
        restore, self.restore_kernel = self.restore_kernel, None
        if restore is not None:
            return await restore()
        return await describe_lost_variables(self.tool_context.kernel, self.agent.steps)


def _find_inputs(files: Sequence[Path | str], running: "_RunningSession | None") -> tuple[InputFile, ...]:
    paths = [Path(file).expanduser() for file in files]
    if running is None:
        return find_inputs(paths)
    inputs = find_inputs(paths, taken={*running.names, *os.listdir(running.writer.run_dir / FILES)})  # noqa: PTH208
    large = next((file for file in inputs if not file.is_copied), None)
    if large is not None:
        raise ConfigError(
            f"{large.path} has {large.size_bytes} bytes; a file of this size is read in place, and only from the "
            "first question on: begin a new session with it"
        )
    return inputs
