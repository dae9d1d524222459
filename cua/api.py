"""Python interface to run one task, used by `cua task` as well."""

import importlib.util
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from cua.answer import AnswerSchema, load_schema
from cua.assemble import (
    make_env,
    make_guard,
    make_header,
    make_options,
    make_page_judge,
    make_secrets,
    make_settings_model,
    masks_secrets,
    settings_for_task,
)
from cua.config import Settings, load_settings
from cua.errors import ConfigError
from cua.gui_agent.agent import Agent, Start
from cua.model import Model
from cua.redaction import Masker, redacted, redacting
from cua.run.end import RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope
from cua.secrets import Secrets
from cua.trajectory import RunRecord, TrajectoryWriter, default_runs_dir, load_run, resume_steps
from envs import Env, InstructionTask, Task
from envs.env import check_task
from envs.secret_texts import HttpLogin, split_login

MAX_INSTRUCTION_CHARS = 200_000  # some 50,000 tokens: far above a task in words, below the context of the model


async def run_task(
    instruction: str | Task,
    *,
    url: str | None = None,
    app: str | None = None,
    schema: str | AnswerSchema | None = None,
    model: Model | str | None = None,
    env: Env | str | None = None,
    watch: Watch | None = None,
    scope: RunScope | None = None,
    own_secrets: Secrets | None = None,
    keeps_env: bool = False,
    open_env: Env | None = None,
    **settings: Any,
) -> RunResult:
    """Run one task to its end and record it.

    Args:
        instruction: Instruction, or a `Task` that can also set up and evaluate.
        url: Start page (browser). A user name and a password in it are used, and not recorded.
        app: Program to start (desktop).
        schema: Schema of the final answer: a file, `file.py:Model`, or an `AnswerSchema`.
        model: Model object (the caller closes it), or a name as in the settings.
        env: Environment object (the caller closes it), or a name of `envs.registry`; None: the environment of the
            task's spec, else of the settings.
        watch: Callbacks that follow the run.
        scope: Scope of the parent run, such as a batch: its stop, budget and time limit apply in addition.
        own_secrets: Values that are typed for `{{name}}`, in addition to the secrets file of the settings.
        keeps_env: True to leave the environment open; the caller, who gets it by `watch.on_env`, closes it.
        open_env: Environment of kind `env` that an earlier run left open: this run continues on its screen, without a
            reset and the task's setup.
        settings: Single settings by name, such as `max_steps=20` or `approve="yolo"`; the others come
            from files and the environment.

    Returns:
        Result of the run; `result.end.status` is one of the statuses in `cua.run.end`.

    Raises:
        ConfigError: If a setting or file is invalid; nothing was started.
    """
    task = _task(instruction)
    named = {name: value for name, value in (("model", model), ("env", env)) if isinstance(value, str)}
    is_made = open_env is not None or hasattr(env, "step")  # created by the caller; the record contains the task's spec
    asked = settings_for_task(task, {**settings, **named, "url": url, "app": app}, is_made=is_made)
    url, app = asked.pop("url", url), asked.pop("app", app)
    resolved = load_settings({**settings, **named, **asked}).settings
    if model is not None and not isinstance(model, str):
        resolved = replace(resolved, model=model.name)
    url, login = split_login(url) if url else (url, None)
    parts = _Parts(
        settings=resolved,
        url=url,
        login=login,
        app=app,
        schema=schema,
        watch=watch or Watch(),
        model=None if isinstance(model, str) else model,
        env=open_env or (None if isinstance(env, str) else env),
        own_secrets=own_secrets,
        keeps_env=keeps_env,
    )
    header = make_header(resolved, task, url=url, app=app, has_login=login is not None)
    with closing(TrajectoryWriter.create(parts.runs_dir, header, parts.secrets.redact)) as writer:
        return await parts.run(task, Start(is_on_screen=open_env is not None), writer, scope)


async def resume_task(
    run_dir: Path,
    *,
    schema: str | AnswerSchema | None = None,
    watch: Watch | None = None,
    own_secrets: Secrets | None = None,
    **settings: Any,
) -> RunResult:
    """Resume a run that was interrupted, stopped or capped. No executed action is repeated.

    A private browser or display ended with the run: the browser starts at the last page that the
    agent saw. An attached display is in the state in which the run left it. Arguments are as for `run_task`; given
    settings take precedence over the settings of the run.

    Raises:
        TrajectoryError: If the record cannot be read, or another process is writing it.
        ConfigError: If a setting is invalid, or the run has already ended permanently.
    """
    record = load_run(run_dir, images=None if settings.get("max_images", 0) > 3 else 3)
    if record.is_tool_run:
        raise ConfigError(f"{run_dir.name} is a run of `cua ask`; resume it with: cua ask --resume {run_dir.name}")
    if record.result is not None and record.result.end.status in ("succeeded", "failed", "unverified"):
        raise ConfigError(f"the run {run_dir.name} ended as {record.result.end.status}; there is nothing to resume")
    kept = dict(record.header.settings.get("settings", {}))
    if "***@" in str(kept.get("proxy")) and "proxy" not in settings:
        raise ConfigError("the password of the proxy is not in the record; give it again: --set proxy=ADDRESS")
    parts = _Parts(
        settings=load_settings({**kept, **settings}).settings,
        url=_recorded_url(record),
        app=record.header.settings.get("app"),
        schema=schema,
        watch=watch or Watch(),
        own_secrets=own_secrets,
    )
    steps, note = resume_steps(record)
    start = Start(
        steps=steps,
        usage=record.usage,
        time_s=sum(sum(step.timings.values()) for step in record.steps),
        note=_resume_note(
            note, is_login_lost=bool(record.header.settings.get("url_had_login")) and not parts.secrets.logins
        ),
    )
    with closing(TrajectoryWriter.reopen(run_dir, parts.secrets.redact)) as writer:
        return await parts.run(InstructionTask(instruction=record.instruction), start, writer)


class _Parts:
    """Common parts of a new and a resumed run.

    Created before anything is written or started: all files are read and all settings are validated here.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        url: str | None,
        app: str | None,
        schema: str | AnswerSchema | None,
        watch: Watch,
        login: HttpLogin | None = None,
        model: Model | None = None,
        env: Env | None = None,
        own_secrets: Secrets | None = None,
        keeps_env: bool = False,
    ) -> None:
        self.settings, self.url, self.app, self.keeps_env = settings, url, app, keeps_env
        self.secrets = make_secrets(settings, login, own_secrets)
        self.watch = watch = redacting(watch, self.secrets)
        self.runs_dir = settings.runs_dir or default_runs_dir()
        self.options = make_options(settings, load_schema(schema) if isinstance(schema, str) else schema)
        self.guard = make_guard(settings, self.secrets, watch.approver)
        self.own_model = model is None
        self.model = model or make_settings_model(settings, watch.listener)
        self.page_judge = make_page_judge(settings)
        self.env = env
        if env is None:
            self._make_env(None)

    async def run(
        self, task: Task, start: Start, writer: TrajectoryWriter, parent: RunScope | None = None
    ) -> RunResult:
        """Run the agent and close the parts that were created here."""
        caps, listener = self.options.caps, self.watch.listener
        scope = parent.make_run(caps, writer, listener) if parent else None
        async with AsyncExitStack() as stack:
            if self.own_model:
                stack.push_async_callback(self.model.close)
            if self.page_judge is not None:
                stack.push_async_callback(self.page_judge.close)
            env = self.env
            if env is None:
                env = self._make_env(writer.run_dir)
                if not self.keeps_env:
                    stack.push_async_callback(env.close)
            agent = Agent(
                model=self.model,
                env=env,
                options=self.options,
                guard=self.guard,
                secrets=self.secrets,
                masker=self._masker(),
                page_judge=self.page_judge,
                scope=scope or RunScope(caps=caps, record=writer, listener=listener),
            )
            if self.watch.on_env:
                self.watch.on_env(env)
            if self.watch.on_control:
                self.watch.on_control(agent.control)
            return redacted(await agent.run(task, start), self.secrets.redact)

    def _masker(self) -> Masker | None:
        """Return a masker of typed values in images; a browser without OCR masks only by its document."""
        is_needed = not masks_secrets(self.settings) or importlib.util.find_spec("rapidocr") is not None
        return Masker() if self.secrets.by_name and is_needed else None

    def _make_env(self, files_dir: Path | None) -> Env:
        return make_env(self.settings, url=self.url, app=self.app, secrets=self.secrets, files_dir=files_dir)


def _task(instruction: str | Task) -> Task:
    task = InstructionTask(instruction=instruction) if isinstance(instruction, str) else instruction
    try:
        check_task(task)
    except TypeError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(task.instruction, str):
        raise ConfigError(f"the instruction of the task is a {type(task.instruction).__name__}, expected a text")
    if not task.instruction.strip():
        raise ConfigError('the instruction is empty; expected a text such as "Click Save"')
    if len(task.instruction) > MAX_INSTRUCTION_CHARS:
        raise ConfigError(
            f"the instruction has {len(task.instruction)} characters, at most {MAX_INSTRUCTION_CHARS} are accepted"
        )
    return task


def _resume_note(note: str | None, *, is_login_lost: bool) -> str | None:
    notes = [note] if note else []
    if is_login_lost:
        notes.append(
            "the record does not keep the password of the start address; give it again with the setting http_auth"
        )
    return f"The run was resumed: {'; '.join(notes)}." if notes else None


def _recorded_url(record: RunRecord) -> str | None:
    """Return the last page that the run saw, else its start page."""
    seen = [step.observation.url for step in record.steps]
    if record.pending is not None:
        seen.append(record.pending.observation.url)
    urls = [url for url in seen if url and url.startswith(("http://", "https://", "file://"))]
    return urls[-1] if urls else record.header.settings.get("url")
