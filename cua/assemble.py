"""Build the parts of a run from settings: env, guard, model, options. Nothing is started here."""

import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cua.answer import AnswerSchema
from cua.config import Settings
from cua.errors import ConfigError
from cua.guard import Approver, Guard, Rules, load_rules
from cua.gui_agent.agent import AgentOptions
from cua.gui_agent.protocol import ProtocolOptions
from cua.model import Model
from cua.run.caps import Caps
from cua.run.events import Listener, Noted, Thinking
from cua.secrets import Secrets, load_http_auth, load_secrets
from cua.trajectory import RunHeader
from envs import Env, EnvSetupError
from envs.http_login import HttpLogin

SECRET_SETTINGS = ("api_key", "password")
"""Never written to a run's record."""
PACKAGES = ("playwright", "mss", "rapidocr", "openai")
BROWSER_OPTIONS = ("viewport", "device_scale", "headed", "locale", "timezone", "allow_domains", "deny_domains")
DESKTOP_OPTIONS = ("screen", "display", "monitor")
MIN_SIDE_PX, MAX_SIDE_PX = 64, 16_384
"""Smallest and largest side of a page or a private display."""
INSTANT = "kimi-k2.5-instant"
"""The preset that turns thinking off; the prompt's variant follows it."""


def make_secrets(settings: Settings, login: HttpLogin | None = None) -> Secrets:
    """Everything that nobody may see.

    Args:
        settings: Name the files.
        login: The one of the start page's address; it wins over the file's.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    secrets = load_secrets(settings.secrets) if settings.secrets else Secrets()
    logins = load_http_auth(settings.http_auth) if settings.http_auth else ()
    return replace(secrets, logins=(*logins, login) if login is not None else logins)


def make_env(settings: Settings, *, url: str | None, app: str | None, secrets: Secrets, files_dir: Path | None) -> Env:
    """The world that the settings name.

    Args:
        settings: Which world and how.
        url: Address to start at (browser).
        app: Command line of the program to start (desktop).
        secrets: Values to be masked in pictures.
        files_dir: Where downloads go; None leaves it to the env.

    Raises:
        ConfigError: Settings that do not fit together.
    """
    if settings.env == "browser" and app:
        raise ConfigError(f"--app {app!r} needs a desktop: add --env desktop, or use --url for a page")
    if settings.env == "desktop" and url:
        raise ConfigError(f"--url {url!r} needs a browser: drop --env desktop, or use --app for a program")
    try:
        return _browser(settings, url, secrets, files_dir) if settings.env == "browser" else _desktop(settings, app)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def make_guard(settings: Settings, secrets: Secrets, approver: Approver | None) -> Guard:
    """The guard that the settings name.

    Raises:
        ConfigError: The policy file is missing or wrong; nothing may run then.
    """
    return Guard(
        mode=settings.approve,
        rules=load_rules(settings.policy) if settings.policy else Rules(),
        allowed_domains=settings.allow_domains,
        secrets=secrets,
        approver=approver,
    )


def make_options(settings: Settings, schema: AnswerSchema | None) -> AgentOptions:
    """Protocol, limits and answer schema."""
    return AgentOptions(
        protocol=ProtocolOptions(
            thinking=settings.thinking and settings.preset != INSTANT,
            max_images=settings.max_images,
            coordinates=settings.coordinates,
            password=settings.password,
        ),
        caps=make_caps(settings),
        answer_schema=schema,
    )


def make_settings_model(settings: Settings, listener: Listener | None = None) -> Model:
    """The model that the settings name.

    Args:
        settings: Which model, where, how.
        listener: Told about retries, and pieces of the answer as they stream in.

    Raises:
        ConfigError: No endpoint for it, or a wrong setting.
    """
    from cua.models.make import ModelSettings, make_model
    from cua.models.response import Delta
    from cua.models.retry import Retry

    def tell(retry: Retry) -> None:
        if listener:
            text = f"{retry.error} (try {retry.number} of {retry.max_retries} again in {retry.wait_s:.1f} s)"
            listener(Noted(kind="retry", text=text))

    thoughts = ("reasoning",) if settings.thinking else ("reasoning", "content")

    def show(delta: Delta) -> None:
        if listener and delta.kind in thoughts:
            listener(Thinking(text=delta.text))

    return make_model(
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
            fallback=settings.fallback_model,
            prices_file=str(settings.prices) if settings.prices else None,
        ),
        on_delta=show if listener else None,
        on_retry=tell,
    )


def make_header(
    settings: Settings, instruction: str, *, url: str | None, app: str | None, has_login: bool = False
) -> RunHeader:
    """What a run's record begins with; enough to build the same run again, without secrets."""
    return RunHeader(
        instruction=instruction,
        env=settings.env,
        env_options=_chosen(settings, BROWSER_OPTIONS if settings.env == "browser" else DESKTOP_OPTIONS),
        model=settings.model,
        protocol=_chosen(settings, ("thinking", "max_images", "coordinates")),
        sampling=recorded_sampling(settings),
        limits=recorded_limits(settings),
        settings={"settings": recorded_settings(settings), "url": url, "app": app, "url_had_login": has_login},
        versions=versions_of(PACKAGES),
    )


def recorded_limits(settings: Settings) -> dict[str, Any]:
    """The limits of a run that are set, for a reader of its record."""
    return _chosen(settings, ("max_steps", "max_calls", "max_time", "max_tokens", "max_cost", "max_output_tokens"))


def recorded_sampling(settings: Settings) -> dict[str, Any]:
    """The sampling settings that are set, for a reader of its record."""
    return _chosen(settings, ("preset", "temperature", "top_p"))


def _chosen(settings: Settings, names: Sequence[str]) -> dict[str, Any]:
    """Settings by name as JSON values; those that are unset are left out."""
    values = recorded_settings(settings)
    return {name: values[name] for name in names if values[name] not in (None, (), "")}


def recorded_settings(settings: Settings) -> dict[str, Any]:
    """All settings as JSON values, without secrets."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
        if name not in SECRET_SETTINGS
    }


def make_caps(settings: Settings) -> Caps:
    """The limits that the settings name."""
    return Caps(
        max_steps=settings.max_steps,
        max_calls=settings.max_calls,
        max_time_s=settings.max_time,
        max_tokens=settings.max_tokens,
        max_cost_usd=settings.max_cost,
    )


def _browser(settings: Settings, url: str | None, secrets: Secrets, files_dir: Path | None) -> Env:
    from envs.browser import BrowserEnv, BrowserOptions
    from envs.browser.env import check_start

    try:
        check_start(url)
    except EnvSetupError as error:
        raise ConfigError(f"--url {url!r}: {error}") from error
    return BrowserEnv(
        BrowserOptions(
            start_url=url,
            viewport_px=_size("viewport", settings.viewport),
            device_scale=settings.device_scale,
            headless=not settings.headed,
            locale=settings.locale,
            timezone=settings.timezone,
            geolocation=_position(settings.geolocation),
            proxy=settings.proxy,
            storage_state=settings.storage_state
            if settings.storage_state and settings.storage_state.exists()
            else None,
            save_storage_state=settings.storage_state,
            downloads_dir=files_dir / "downloads" if files_dir else None,
            uploads_dir=settings.uploads,
            har_path=settings.har,
            ignore_https_errors=settings.ignore_https_errors,
            allowed_domains=settings.allow_domains,
            denied_domains=settings.deny_domains,
            masked_texts=secrets.values,
            http_logins=secrets.logins,
        )
    )


def _desktop(settings: Settings, app: str | None) -> Env:
    from envs.desktop import DesktopEnv, DesktopOptions

    return DesktopEnv(
        DesktopOptions(
            display=settings.display,
            screen_px=_size("screen", settings.screen),
            app=app,
            monitor=settings.monitor,
        )
    )


def _size(name: str, text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not all(side.isascii() and side.isdigit() and len(side) <= 5 for side in (width, height)):
        raise ConfigError(f"{name} is {text!r}, expected WIDTHxHEIGHT such as 1280x720")
    size = int(width), int(height)
    if min(size) < MIN_SIDE_PX or max(size) > MAX_SIDE_PX:
        raise ConfigError(f"{name} is {text!r}, expected sides from {MIN_SIDE_PX} to {MAX_SIDE_PX} px")
    return size


def _position(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"geolocation is {text!r}, expected LATITUDE,LONGITUDE such as 52.52,13.405") from error
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ConfigError(
            f"geolocation is {text!r}, expected a latitude from -90 to 90 and a longitude from -180 to 180"
        )
    return latitude, longitude


def versions_of(packages: Sequence[str]) -> dict[str, str]:
    """Version by package, of those that are installed; and of Python, the system and ourselves."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("cua-k25", *packages):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
