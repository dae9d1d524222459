"""Ask about files from Python: the same path that `cua ask` takes."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cua.answer import AnswerSchema, load_schema
from cua.assemble import (
    make_caps,
    make_guard,
    make_settings_model,
    recorded_limits,
    recorded_sampling,
    recorded_settings,
    versions_of,
)
from cua.config import Resolved, Settings, load_settings
from cua.errors import ConfigError
from cua.evidence import write_bundle
from cua.messages import Sampling
from cua.model import Model, Tool
from cua.redaction import redacted, redacting
from cua.run.end import RunResult
from cua.run.watch import Watch
from cua.secrets import Secrets, load_secrets
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.inputs import InputFile, copy_inputs, find_inputs, make_question
from cua.tool_agent.options import VISUAL_MAX_STEPS, VISUAL_MAX_TOKENS, ContextOptions, ToolAgentOptions
from cua.tools import Toolset
from cua.tools.files import FilesTool
from cua.tools.ipython import IPythonTool
from cua.tools.service import Service
from cua.tools.shell import ShellTool
from cua.tools.view_image import ViewImageTool
from cua.trajectory import RunHeader, TrajectoryWriter, default_runs_dir
from cua.trajectory.run_record import TOOLS_ENV
from cua.trajectory.sealed_files import FILES, hash_files
from visual_tools.sandbox import Kernel, KernelMaker, Limits

INPUTS = "inputs"
"""Folder of a run that holds the user's files untouched; `FILES` is where code works."""

PACKAGES = (
    "numpy",
    "pillow",
    "opencv-python-headless",
    "scipy",
    "scikit-image",
    "av",
    "ipykernel",
    "matplotlib",
    "pandas",
)


async def ask(
    question: str,
    files: Sequence[Path | str] = (),
    *,
    schema: str | AnswerSchema | None = None,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> RunResult:
    """Answer one question about files with a tool-calling model, and keep the evidence.

    Args:
        question: What is asked.
        files: Pictures, documents, videos, other files; copied into the run.
        schema: What the answer must look like: a file, `file.py:Model`, or an `AnswerSchema`.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Makes the kernels (the caller closes it), or what isolates them as in the settings.
        watch: Who follows the run.
        settings: Single settings by name, such as `max_steps=20`; the others come from files and the environment.

    Returns:
        How it ended. The run's folder holds `answer.json`, `notebook.ipynb` and every picture.

    Raises:
        ConfigError: A setting or file is wrong; nothing was started.
        SandboxError: Code cannot be isolated here.
    """
    named = {"model": model, "sandbox": sandbox}
    flags = {**settings, **{name: value for name, value in named.items() if isinstance(value, str)}}
    asked = await asyncio.to_thread(_prepare, question, files, schema, model, watch, flags)
    async with AsyncExitStack() as stack:
        if asked.own_model:
            stack.push_async_callback(asked.model.close)
        if sandbox is None or isinstance(sandbox, str):
            maker = await start_sandbox(asked.settings)
            stack.push_async_callback(maker.close)
        else:
            maker = sandbox
        writer = _make_writer(asked, maker)
        stack.callback(writer.close)
        inputs = writer.run_dir / INPUTS
        await asyncio.to_thread(copy_inputs, asked.inputs, inputs, writer.run_dir / FILES)
        async with AsyncExitStack() as kernels:
            agent = await _make_agent(asked, maker, writer, kernels)
            if asked.watch.on_control:
                asked.watch.on_control(agent.control)
            result = await agent.run(asked.question)
        if result.end.source != "record":
            await asyncio.to_thread(_seal, writer)
        return redacted(result, asked.secrets.redact)


def _seal(writer: TrajectoryWriter) -> None:
    """Write down what the code has left, now that none of it runs any more, and the evidence beside the record."""
    files, is_whole = hash_files(writer.run_dir)
    writer.sealed(files, is_whole=is_whole)
    write_bundle(writer.run_dir)


async def start_sandbox(settings: Settings) -> KernelMaker:
    """The sandbox that the settings name.

    Raises:
        SandboxError: It does not work here.
    """
    from visual_tools.sandbox import Sandbox

    return await Sandbox.start(settings.sandbox, limits=Limits(wall_s=settings.cell_timeout))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Everything that can be checked before anything is started."""

    settings: Settings
    secrets: Secrets
    schema: AnswerSchema | None
    model: Model
    own_model: bool
    watch: Watch
    words: str
    inputs: tuple[InputFile, ...]
    question: tuple[Any, ...]


def _prepare(
    question: str,
    files: Sequence[Path | str],
    schema: str | AnswerSchema | None,
    model: Model | str | None,
    watch: Watch | None,
    flags: dict[str, Any],
) -> _Asked:
    if not question.strip():
        raise ConfigError('the question is empty; expected a text such as "How many coins are there?"')
    settings = visual_settings(load_settings(flags))
    secrets = load_secrets(settings.secrets) if settings.secrets else Secrets()
    watch = redacting(watch or Watch(), secrets)
    own_model = model is None or isinstance(model, str)
    chosen = make_settings_model(settings, watch.listener) if own_model else model
    assert chosen is not None and not isinstance(chosen, str)
    if own_model and settings.model == "literal":
        raise ConfigError(
            "the embedded literal model follows screen instructions and cannot call tools. Name a model with --model, "
            "and its server with --base-url or OPENAI_BASE_URL; `cua see` works without any model"
        )
    inputs = find_inputs([Path(file).expanduser() for file in files])
    return _Asked(
        settings=replace(settings, model=chosen.name),
        secrets=secrets,
        schema=load_schema(schema) if isinstance(schema, str) else schema,
        model=chosen,
        own_model=own_model,
        watch=watch,
        words=question,
        inputs=inputs,
        question=make_question(question, inputs),
    )


def visual_settings(resolved: Resolved) -> Settings:
    """The settings with the report's limits for visual tasks where a person has set none."""
    settings, sources = resolved.settings, resolved.sources
    if sources["max_steps"] == "default":
        settings = replace(settings, max_steps=VISUAL_MAX_STEPS)
    if sources["max_output_tokens"] == "default":
        settings = replace(settings, max_output_tokens=VISUAL_MAX_TOKENS)
    return settings


def _make_writer(asked: _Asked, maker: KernelMaker) -> TrajectoryWriter:
    settings = asked.settings
    header = RunHeader(
        instruction=asked.words,
        env=TOOLS_ENV,
        env_options={"sandbox": maker.backend},
        model=asked.model.name,
        sampling=recorded_sampling(settings),
        limits=recorded_limits(settings),
        versions=versions_of(PACKAGES),
        settings={"settings": recorded_settings(settings), "inputs": [_recorded(file) for file in asked.inputs]},
    )
    return TrajectoryWriter.create(settings.runs_dir or default_runs_dir(), header, asked.secrets.redact)


def _recorded(file: InputFile) -> dict[str, Any]:
    return {"name": file.name, "size_bytes": file.size_bytes, "is_copied": file.is_copied, "sha256": file.sha256}


async def _make_agent(asked: _Asked, maker: KernelMaker, writer: TrajectoryWriter, stack: AsyncExitStack) -> ToolAgent:
    folder = writer.run_dir / FILES
    readable = [Path(file.name) for file in asked.inputs if not file.is_copied]
    kernel = await maker.make_kernel(folder, readable=readable)
    stack.push_async_callback(kernel.close)
    service = Service(lambda: maker.make_kernel(folder, readable=readable))
    stack.push_async_callback(service.close)
    settings = asked.settings
    return ToolAgent(
        model=asked.model,
        toolset=Toolset(make_tools(kernel, service, settings)),
        options=ToolAgentOptions(
            system_prompt=make_system_prompt(asked.schema),
            caps=make_caps(settings),
            sampling=None if asked.own_model else Sampling(max_tokens=settings.max_output_tokens),
            context=ContextOptions(strategy=settings.context, max_tokens=settings.max_context),
            answer_schema=asked.schema,
            is_isolated=maker.backend != "none",
        ),
        guard=make_guard(settings, asked.secrets, asked.watch.approver),
        record=writer,
        listener=asked.watch.listener,
    )


def make_tools(kernel: Kernel, service: Service, settings: Settings) -> list[Tool]:
    """The tools of a visual task."""
    from visual_tools.sandbox import describe_inside

    limits = Limits(wall_s=settings.cell_timeout)
    return [
        IPythonTool(kernel, limits=limits, inside=describe_inside()),
        ViewImageTool(service),
        FilesTool(service),
        ShellTool(service, inside_dir=kernel.inside_dir, wall_s=limits.wall_s),
    ]


def make_system_prompt(schema: AnswerSchema | None) -> str:
    """What the model is told before the question."""
    text = resources.files("cua.tool_agent").joinpath("prompt.md").read_text(encoding="utf-8").strip()
    text = text.replace("{date}", time.strftime("%Y-%m-%d"))
    return f"{text}\n\n{schema.text_note}" if schema else text
