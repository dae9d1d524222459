"""Build the parts of a session from settings: model, guard, profile, sandbox, the record's header.

A wrong or missing setting or file, and a task that needs a screen, is a `ConfigError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cua.answer import AnswerSchema, load_schema
from cua.assemble import (
    make_guard,
    make_settings_model,
    recorded_limits,
    recorded_sampling,
    recorded_settings,
    recorded_task,
    versions_of,
)
from cua.config import Resolved, Settings, load_settings
from cua.errors import ConfigError
from cua.guard.guard import Guard
from cua.messages import Sampling
from cua.model import Model
from cua.redaction import redacting
from cua.run.budget import Caps
from cua.run.events import Watch
from cua.run.scope import RunScope
from cua.secrets import Secrets, load_secrets
from cua.tool_agent.inputs import InputFile
from cua.tool_agent.mcp_file import McpServer, load_mcp_file
from cua.tool_agent.outside import find_user_tools
from cua.tool_agent.profile import VISUAL_MAX_STEPS, VISUAL_MAX_TOKENS, Profile, ToolMaker, ask_profile
from cua.trajectory import RunHeader, RunRecord, TrajectoryWriter, load_run
from cua.trajectory.events import TOOLS_ENV
from envs import QuestionTask, Task
from envs.env import check_task
from visual_tools.sandbox.contract import KernelLimits, KernelMaker

PACKAGES = "numpy pillow opencv-python-headless scipy scikit-image av ipykernel matplotlib pandas".split()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """Arguments of a session; `scope` is the scope of its parent run."""

    profile: Profile | None
    resume: Path | None
    schema: str | AnswerSchema | None
    model: Model | None
    maker: KernelMaker | None
    watch: Watch
    flags: dict[str, Any]
    task: Task | None = None
    scope: RunScope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """Parts of a session that can be checked before anything is started."""

    settings: Settings
    profile: Profile
    secrets: Secrets
    guard: Guard
    schema: AnswerSchema | None
    model: Model
    watch: Watch
    record: RunRecord | None
    servers: tuple[McpServer, ...]
    user_tools: Mapping[str, ToolMaker]


def make_parts(config: SessionConfig) -> SessionParts:
    """Make and check all parts that can be checked before anything is started.

    Raises:
        ConfigError: If a setting or file is wrong.
        TrajectoryError: If the run to resume cannot be read.
    """
    record = _load(config.resume) if config.resume is not None else None
    kept = dict(record.header.settings.get("settings", {})) if record is not None else {}
    settings = visual_settings(load_settings({**kept, **config.flags}))
    secrets = load_secrets(settings.secrets) if settings.secrets else Secrets()
    servers = load_mcp_file(settings.mcp) if settings.mcp else ()
    hidden = {name: secret for server in servers for name, secret in server.secrets.items()}
    secrets = replace(secrets, by_name={**secrets.by_name, **hidden})
    watch = redacting(config.watch, secrets)
    model = config.model or make_settings_model(settings, watch.listener)
    if config.model is None and settings.has_embedded_model and not settings.search:
        raise ConfigError(
            "the embedded literal model follows screen instructions and cannot call tools, but for those to search and "
            "read (--set search=local:world, for one). Name a model with --model, "
            "and its server with --base-url or OPENAI_BASE_URL; `cua see` works without any model"
        )
    profile = config.profile or ask_profile(settings)
    if config.model is not None and profile.sampling is None:
        profile = replace(profile, sampling=Sampling(max_tokens=settings.max_output_tokens))
    return SessionParts(
        settings=replace(settings, model=model.name),
        profile=profile,
        secrets=secrets,
        guard=make_guard(settings, secrets, watch.approver),
        schema=load_schema(config.schema) if isinstance(config.schema, str) else config.schema,
        model=model,
        watch=watch,
        record=record,
        servers=servers,
        user_tools=find_user_tools(settings.tools),
    )


def _load(run_dir: Path) -> RunRecord:
    record = load_run(run_dir, images=None)
    if not record.is_tool_run:
        raise ConfigError(f"{run_dir.name} is a run of `cua task`; resume it with: cua task --resume {run_dir.name}")
    if not record.exchanges:
        raise ConfigError(f"{run_dir.name} broke off before its question was asked: ask again")
    return record


async def start_sandbox(settings: Settings) -> KernelMaker:
    """Start the sandbox that the settings name."""
    from visual_tools.sandbox import Sandbox

    return await Sandbox.start(settings.sandbox, limits=KernelLimits(wall_s=settings.cell_timeout))


def visual_settings(resolved: Resolved) -> Settings:
    """Return the settings with the report's limits for visual tasks, unless a person has set them."""
    settings, sources = resolved.settings, resolved.sources
    if sources["max_steps"] == "default":
        settings = replace(settings, max_steps=VISUAL_MAX_STEPS)
    if sources["max_output_tokens"] == "default":
        settings = replace(settings, max_output_tokens=VISUAL_MAX_TOKENS)
    return settings


def settings_of_question(task: Task, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by name, with the search source of the task.

    Raises:
        ConfigError: If the task needs a screen, or a given setting names another source to search.
    """
    check_task(task)
    if not isinstance(task, QuestionTask):
        raise ConfigError(f"the task {task.spec.id!r} needs a screen; run it with `cua.run_task`")
    if task.search and settings.get("search") not in (None, "", task.search):
        raise ConfigError(f"the task {task.spec.id!r} is searched in {task.search!r}, not in {settings['search']!r}")
    return {**settings, "search": task.search or settings.get("search")}


def scope_within(config: SessionConfig, caps: Caps, record: TrajectoryWriter) -> RunScope | None:
    """Return the scope of a session's run within its parent scope; None without a parent."""
    return config.scope.make_run(caps, record, config.watch.listener) if config.scope is not None else None


def make_tools_header(
    parts: SessionParts, question: str, inputs: Sequence[InputFile], maker: KernelMaker, task: Task | None = None
) -> RunHeader:
    """Return the header of a run's record, with all that is needed to resume it, without secrets."""
    return RunHeader(
        instruction=question,
        task=recorded_task(task) if task is not None else {},
        env=TOOLS_ENV,
        env_options={"sandbox": maker.backend},
        model=parts.model.name,
        protocol={"profile": parts.profile.name, "mark_untrusted": parts.profile.mark_untrusted},
        sampling=recorded_sampling(parts.settings),
        limits=recorded_limits(parts.settings),
        versions=versions_of(PACKAGES),
        settings={"settings": recorded_settings(parts.settings), "inputs": [recorded_input(file) for file in inputs]},
    )


def recorded_input(file: InputFile) -> dict[str, Any]:
    """Return the record entry of a user's file."""
    return {"name": file.name, "size_bytes": file.size_bytes, "is_copied": file.is_copied, "sha256": file.sha256}
