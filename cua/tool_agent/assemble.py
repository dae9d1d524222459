"""Build the parts of a session from settings: model, guard, profile, sandbox, the record's header.

A setting or file that is wrong or missing, and a task that cannot be answered without a screen, is a `ConfigError`.
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
from cua.guard import Guard
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
from cua.trajectory.run_record import TOOLS_ENV
from envs import Task, search_of, spec_of
from visual_tools.sandbox import KernelMaker, Limits

PACKAGES = "numpy pillow opencv-python-headless scipy scikit-image av ipykernel matplotlib pandas".split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the caller of a session gave; `scope` is that of what the session is a part of."""

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
    """Everything that can be checked before anything is started."""

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


def make_parts(given: Given) -> SessionParts:
    """Read and check all that can be checked before anything is started.

    Raises:
        ConfigError: A setting or file is wrong.
        TrajectoryError: The run to go on with cannot be read.
    """
    record = _load(given.resume) if given.resume is not None else None
    kept = dict(record.header.settings.get("settings", {})) if record is not None else {}
    settings = visual_settings(load_settings({**kept, **given.flags}))
    secrets = load_secrets(settings.secrets) if settings.secrets else Secrets()
    servers = load_mcp_file(settings.mcp) if settings.mcp else ()
    hidden = {name: secret for server in servers for name, secret in server.secrets.items()}
    secrets = replace(secrets, by_name={**secrets.by_name, **hidden})
    watch = redacting(given.watch, secrets)
    model = given.model or make_settings_model(settings, watch.listener)
    if given.model is None and settings.model == "literal" and not settings.search:
        raise ConfigError(
            "the embedded literal model follows screen instructions and cannot call tools, but for those to search and "
            "read (--set search=local:world, for one). Name a model with --model, "
            "and its server with --base-url or OPENAI_BASE_URL; `cua see` works without any model"
        )
    profile = given.profile or ask_profile(settings)
    if given.model is not None and profile.sampling is None:
        profile = replace(profile, sampling=Sampling(max_tokens=settings.max_output_tokens))
    return SessionParts(
        settings=replace(settings, model=model.name),
        profile=profile,
        secrets=secrets,
        guard=make_guard(settings, secrets, watch.approver),
        schema=load_schema(given.schema) if isinstance(given.schema, str) else given.schema,
        model=model,
        watch=watch,
        record=record,
        servers=servers,
        user_tools=find_user_tools(settings.tools),
    )


def _load(run_dir: Path) -> RunRecord:
    record = load_run(run_dir, images=None)
    if not record.is_tool_run:
        raise ConfigError(f"{run_dir.name} is a run of `cua task`; go on with it by: cua task --resume {run_dir.name}")
    if not record.turns:
        raise ConfigError(f"{run_dir.name} broke off before its question was asked: ask again")
    return record


async def start_sandbox(settings: Settings) -> KernelMaker:
    """The sandbox that the settings name."""
    from visual_tools.sandbox import Sandbox

    return await Sandbox.start(settings.sandbox, limits=Limits(wall_s=settings.cell_timeout))


def visual_settings(resolved: Resolved) -> Settings:
    """The settings with the report's limits for visual tasks where a person has set none."""
    settings, sources = resolved.settings, resolved.sources
    if sources["max_steps"] == "default":
        settings = replace(settings, max_steps=VISUAL_MAX_STEPS)
    if sources["max_output_tokens"] == "default":
        settings = replace(settings, max_output_tokens=VISUAL_MAX_TOKENS)
    return settings


def settings_of_question(task: Task, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, with what the task is searched in.

    Raises:
        ConfigError: It cannot be answered without a screen, or is searched in something else than what is given.
    """
    search = search_of(task)
    if search is None:
        raise ConfigError(f"the task {spec_of(task).id!r} needs a screen; run it with `cua.run_task`")
    if search and given.get("search") not in (None, "", search):
        raise ConfigError(f"the task {spec_of(task).id!r} is searched in {search!r}, not in {given['search']!r}")
    return {**given, "search": search or given.get("search")}


def scope_within(given: Given, caps: Caps, record: TrajectoryWriter) -> RunScope | None:
    """The scope of a session's run within that of which it is a part; None: it stands alone."""
    return given.scope.make_run(caps, record, given.watch.listener) if given.scope is not None else None


def make_tools_header(
    parts: SessionParts, question: str, inputs: Sequence[InputFile], maker: KernelMaker, task: Task | None = None
) -> RunHeader:
    """What a run's record begins with; enough to go on with it, without secrets."""
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
    """A file of the user as a record lists it."""
    return {"name": file.name, "size_bytes": file.size_bytes, "is_copied": file.is_copied, "sha256": file.sha256}
