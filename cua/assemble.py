"""Builds the parts of a run from settings: environment, guard, model, options. Nothing is started here.

An invalid or missing setting or file, or a task that needs another environment, raises `ConfigError`.
"""

import functools
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cua.answer import AnswerSchema
from cua.config import FIELDS, Settings
from cua.errors import ConfigError
from cua.guard.guard import Approver, Guard
from cua.guard.rules import Rules, load_rules
from cua.gui_agent.agent import AgentOptions
from cua.gui_agent.protocol import ProtocolOptions
from cua.json_text import read_json
from cua.model import Model
from cua.run.budget import Caps
from cua.run.events import Listener, Noted, Thinking
from cua.secrets import Secrets, load_http_auth, load_secrets
from cua.trajectory import RunHeader
from envs import Env, EnvSetupError, EnvSpec, Task, registry
from envs.registry import EnvKind, find_env_for
from envs.secret_texts import HttpLogin

SECRET_SETTINGS = ("api_key", "password")
"""Settings that are never written to a run's record."""
PACKAGES = ("playwright", "mss", "rapidocr", "httpx2")
INSTANT = "kimi-k2.5-instant"
"""Preset that disables thinking; the prompt variant follows it."""


def make_secrets(settings: Settings, login: HttpLogin | None = None, overrides: Secrets | None = None) -> Secrets:
    """Load the secrets and logins of a run; the caller's values and the login in the start URL override files."""
    secrets = load_secrets(settings.secrets) if settings.secrets else Secrets()
    if overrides is not None:
        secrets = replace(secrets, by_name={**secrets.by_name, **overrides.by_name})
    logins = load_http_auth(settings.http_auth) if settings.http_auth else ()
    return replace(secrets, logins=(*logins, login) if login is not None else logins)


def env_spec(settings: Settings, *, url: str | None = None, app: str | None = None) -> EnvSpec:
    """Return the spec of the configured environment, with the settings that it accepts."""
    kind = _find_env(settings.env)
    for flag, value, wanted in (("--app", app, "a desktop"), ("--url", url, "a browser")):
        if value and not kind.takes(flag[2:]):
            fitting = find_env_for([flag[2:]])
            raise ConfigError(f"{flag} {value!r} needs {wanted}: add --env {fitting}, or drop it for {settings.env!r}")
    if settings.observation != "screenshot" and not kind.takes("a11y_tree"):
        raise ConfigError(
            f"observation is {settings.observation!r}, and {settings.env!r} has no accessibility tree; "
            "it is available in the browser"
        )
    values = recorded_settings(settings)
    named = {name: value for name, value in values.items() if name in (kind.options or ())}
    tree = True if settings.observation != "screenshot" else None
    options = {**named, "a11y_tree": tree, "url": url, "app": app, **parse_env_options(settings.env_options)}
    options = {name: value for name, value in options.items() if value not in (None, ())}
    return EnvSpec(name=settings.env, options=options)


def settings_for_task(task: Task, settings: Mapping[str, Any], *, is_made: bool = False) -> dict[str, Any]:
    """Return settings by name, `url` and `app` that the task's spec requires and that are not given.

    If the environment already exists (`is_made`), its name may be unknown here.
    """
    spec = task.spec.env
    if spec is None:
        return {}
    if settings.get("env") not in (None, spec.name):
        raise ConfigError(f"the task {task.spec.id!r} needs the environment {spec.name!r}, not {settings['env']!r}")
    try:
        kind = _find_env(spec.name)
    except ConfigError:
        if is_made:
            return {}
        raise
    required: dict[str, Any] = {"env": spec.name}
    more = []
    for name, value in spec.options.items():
        if kind.options is None or name not in kind.options or name not in (*FIELDS, "url", "app"):
            more.append(f"{name}={json.dumps(value)}")  # checked by the environment, never used as a setting of the run
        elif settings.get(name) is None:
            required[name] = value
    return required | {"env_options": (*more, *settings.get("env_options", ()))} if more else required


def parse_env_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse options of an environment given as NAME=VALUE; a value that is valid JSON is parsed, else it is text."""
    options = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--env-option {pair!r} is not NAME=VALUE")
        try:
            options[name.strip()] = read_json(text)
        except ValueError:
            options[name.strip()] = text
    return options


def make_env(settings: Settings, *, url: str | None, app: str | None, secrets: Secrets, files_dir: Path | None) -> Env:
    """Create the configured environment."""
    try:
        spec = env_spec(settings, url=url, app=app)
        return registry.make_env(spec, files_dir=files_dir, masked_texts=secrets.values, http_logins=secrets.logins)
    except (EnvSetupError, ValueError) as error:
        raise ConfigError(str(error)) from error


def masks_secrets(settings: Settings) -> bool:
    """Return True if the configured environment masks secrets itself."""
    return _find_env(settings.env).masks_secrets


def _find_env(name: str) -> EnvKind:
    try:
        return registry.find_env(name)
    except EnvSetupError as error:
        raise ConfigError(str(error)) from error


def make_guard(settings: Settings, secrets: Secrets, approver: Approver | None) -> Guard:
    """Create the configured guard."""
    return Guard(
        mode=settings.approve,
        rules=load_rules(settings.policy) if settings.policy else Rules(),
        allowed_domains=settings.allow_domains,
        secrets=secrets,
        approver=approver,
    )


def make_options(settings: Settings, schema: AnswerSchema | None) -> AgentOptions:
    """Build the agent's options: protocol, limits and answer schema."""
    return AgentOptions(
        protocol=ProtocolOptions(
            thinking=settings.thinking and settings.preset != INSTANT,
            max_images=settings.max_images,
            coordinates=settings.coordinates,
            password=settings.password,
            observation=settings.observation,
            mark_untrusted=settings.mark_untrusted,
            keep_turns=settings.record_tokens,
        ),
        caps=make_caps(settings),
        answer_schema=schema,
    )


def make_settings_model(settings: Settings, listener: Listener | None = None) -> Model:
    """Create the configured model."""
    from cua.models.accumulator import Delta
    from cua.models.gate import Retry
    from cua.models.make import ModelSettings, endpoint_options, make_model

    def tell(retry: Retry) -> None:
        if listener:
            text = f"{retry.error} (try {retry.number}, again in {retry.wait_s:.1f} s)"
            listener(Noted(kind="retry", text=text))

    def note(text: str) -> None:
        if listener:
            listener(Noted(kind="tokens", text=text))

    thoughts = ("reasoning",) if settings.thinking else ("reasoning", "content")

    def show(delta: Delta) -> None:
        if listener and delta.kind in thoughts:
            listener(Thinking(text=delta.text))

    model = make_model(
        settings.model,
        ModelSettings(
            base_url=settings.base_url,
            api_key=settings.api_key,
            preset=settings.preset,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_output_tokens,
            image_format=settings.image_format,
            tool_images=settings.tool_images,
            streaming=settings.streaming,
            timeout_s=settings.request_timeout,
            max_retries=settings.max_retries,
            retry_time_s=settings.retry_time,
            record_tokens=settings.record_tokens,
            fallback=settings.fallback_model,
            prices_file=str(settings.prices) if settings.prices else None,
        ),
        on_delta=show if listener else None,
        on_retry=tell,
        on_note=note,
    )
    if settings.record_tokens and not endpoint_options(model):
        note(f"the model {model.name!r} gives no token ids: replies are recorded without tokens")
    return model


def make_page_judge(settings: Settings) -> Model | None:
    """Create the model that checks if new texts of a page address the agent; None if none is configured."""
    if settings.page_judge is None:
        return None
    own = replace(settings, model=settings.page_judge, fallback_model=None, preset=None, max_output_tokens=None)
    return make_settings_model(replace(own, temperature=None, top_p=None))


def make_header(
    settings: Settings, task: Task, *, url: str | None, app: str | None, has_login: bool = False
) -> RunHeader:
    """Build the header of a run's record, which is sufficient to repeat the run, without secrets."""
    return RunHeader(
        instruction=task.instruction,
        task=recorded_task(task),
        env=settings.env,
        env_options=_chosen(settings, _find_env(settings.env).shown) | parse_env_options(settings.env_options),
        model=settings.model,
        protocol=_chosen(
            settings, ("thinking", "max_images", "coordinates", "observation", "mark_untrusted", "record_tokens")
        ),
        sampling=recorded_sampling(settings),
        limits=recorded_limits(settings),
        settings={"settings": recorded_settings(settings), "url": url, "app": app, "url_had_login": has_login},
        versions=versions_of(PACKAGES),
    )


def recorded_task(task: Task) -> dict[str, Any]:
    """Return the id, seed and metadata of a task for the record."""
    spec = task.spec
    known = {"id": spec.id, "seed": spec.seed, "metadata": dict(spec.metadata)}
    return {name: value for name, value in known.items() if value not in ("", None, {})}


def recorded_limits(settings: Settings) -> dict[str, Any]:
    """Return the limits that are set, for the record."""
    return _chosen(settings, ("max_steps", "max_calls", "max_time", "max_tokens", "max_cost", "max_output_tokens"))


def recorded_sampling(settings: Settings) -> dict[str, Any]:
    """Return the sampling settings that are set, for the record."""
    return _chosen(settings, ("preset", "temperature", "top_p"))


def _chosen(settings: Settings, names: Sequence[str]) -> dict[str, Any]:
    """Return settings by name as JSON values, without unset ones."""
    values = recorded_settings(settings)
    return {name: values[name] for name in names if values[name] not in (None, (), "")}


def recorded_settings(settings: Settings) -> dict[str, Any]:
    """Return all settings as JSON values, without secrets."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
        if name not in SECRET_SETTINGS
    }


def make_caps(settings: Settings) -> Caps:
    """Build the configured limits."""
    return Caps(
        max_steps=settings.max_steps,
        max_calls=settings.max_calls,
        max_time_s=settings.max_time,
        max_tokens=settings.max_tokens,
        max_cost_usd=settings.max_cost,
    )


def versions_of(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of the installed packages among the given ones, and of Python, the system and cua."""
    return dict(_versions_of(tuple(packages)))


@functools.cache
def _versions_of(packages: tuple[str, ...]) -> Mapping[str, str]:
    from importlib import metadata  # 20 ms, which only a run needs

    versions = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("cua-k25", *packages):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
