"""Settings of a run and their sources, by priority: flag > environment > project file > user file > default.

A setting has the same name in files, in the environment and on the command line; its source is recorded.
"""

import dataclasses
import os
import tomllib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cua.errors import ConfigError
from envs.errors import did_you_mean
from envs.registry import env_names


def _about(
    text: str,
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Callable[[], Sequence[str]] | None = None,
) -> Any:
    """Return a field with its one-line description for `cua config show`, the range of a number, and the choices."""
    return field(default=default, metadata={"about": text, "least": least, "most": most, "choices": choices})


def _preset_names() -> tuple[str, ...]:
    from cua.models.endpoint import PRESETS

    return tuple(PRESETS)


EMBEDDED_MODEL = "literal"
"""Default model, which needs no key and no endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a run. Key in files `max_steps`, variable `K25_MAX_STEPS`, flag `--set max_steps=5`."""

    model: str = _about(
        "literal, nano, scripted:FILE, smollm2, llamacpp:FILE.gguf, or the id of a model at base_url", EMBEDDED_MODEL
    )
    base_url: str | None = _about("OpenAI-compatible endpoint (also OPENAI_BASE_URL)", None)
    api_key: str | None = _about("key of the endpoint (also OPENAI_API_KEY)", None)
    fallback_model: str | None = _about("model asked when the first one is down", None)
    preset: str | None = _about(
        "sampling preset: kimi-k2.5, kimi-k2.5-instant, osworld, webarena, none", None, choices=_preset_names
    )
    thinking: bool = _about("thinking variant of the prompt", True)
    coordinates: Literal["relative", "absolute", "qwen25"] = _about("coordinate frame of the model", "relative")
    observation: Literal["screenshot", "a11y_tree", "marks"] = _about(
        "what the model gets: the screenshot, with the accessibility tree, or with numbered boxes (browser)",
        "screenshot",
    )
    max_images: int = _about("screenshots in a request, the current one included", 3, least=1, most=100)
    image_format: str = _about("png, webp:QUALITY or jpeg:QUALITY", "png")
    temperature: float | Literal["omit"] | None = _about(
        "sampling temperature, or omit; unset: the preset's", None, least=0, most=2
    )
    top_p: float | Literal["omit"] | None = _about(
        "nucleus sampling, or omit; unset: the preset's", None, least=0.0001, most=1
    )
    max_output_tokens: int | None = _about(
        "limit on the tokens of one reply; 24000 for `cua ask` unless set", None, least=1, most=10000000
    )
    streaming: bool = _about("ask the model for a stream", True)
    request_timeout: float = _about("limit on seconds of one call of the model", 1200.0, least=0.1, most=86400)
    max_retries: int | None = _about(
        "calls after a failed one; by default 5, or what fits into retry_time while a server is away",
        None,
        least=0,
        most=1000,
    )
    retry_time: float = _about(
        "seconds for which calls to a server that is away or overloaded are repeated", 600.0, least=0, most=31536000
    )
    record_tokens: bool = _about(
        "record token ids and log-probabilities of replies, and continue conversations from these ids", False
    )
    prices: Path | None = _about("price table (JSON), for costs and max_cost", None)

    env: str = _about("which environment: browser, desktop, or one of another package", "browser", choices=env_names)
    env_options: tuple[str, ...] = _about("options of an environment of another package, NAME=VALUE", ())
    viewport: str = _about("size of the browser page, CSS px", "1280x720")
    device_scale: float = _about("device pixels per CSS px", 1.0, least=0.1, most=10)
    headed: bool = _about("show the browser window", False)
    locale: str | None = _about("browser locale, such as de-DE", None)
    timezone: str | None = _about("browser time zone, such as Europe/Berlin", None)
    geolocation: str | None = _about("browser position: LATITUDE,LONGITUDE", None)
    proxy: str | None = _about("proxy server of the browser", None)
    storage_state: Path | None = _about("cookies, local storage, IndexedDB to start with, and to save at the end", None)
    uploads: Path | None = _about("folder whose files the agent may upload", None)
    har: Path | None = _about("record network traffic into this HAR file", None)
    ignore_https_errors: bool = _about("accept wrong certificates", False)
    allow_domains: tuple[str, ...] = _about("the only domains, addresses or networks that the browser may reach", ())
    deny_domains: tuple[str, ...] = _about("domains, addresses or networks that the browser may not reach", ())
    display: str | None = _about("X display to attach to; unset starts a private one", None)
    screen: str = _about("size of the private display, px", "1920x1080")
    monitor: int | None = _about("monitor to use, from 0; unset means the whole screen", None, least=0, most=64)
    password: str = _about("password of the computer; the model sees it", "")

    approve: Literal["ask", "auto", "yolo"] = _about("ask about every step, risky ones, or never", "auto")
    policy: Path | None = _about("file of action rules", None)
    mark_untrusted: bool = _about(
        "say in the system prompt that pages, files and results are data; off in `cua eval` unless set", True
    )
    page_judge: str | None = _about(
        "model that is also asked whether new text of a page addresses the agent (at most 30 times a run)", None
    )
    secrets: Path | None = _about("file of secret values, typed as {{name}}", None)

    http_auth: Path | None = _about(
        "file of logins ([[login]] origin, username, password) for HTTP authentication", None
    )

    sandbox: Literal["auto", "bubblewrap", "landlock", "none"] = _about(
        "what isolates code that a model writes", "auto"
    )
    cell_timeout: float = _about("limit on seconds of one cell or command", 60.0, least=0.1, most=86400)
    context: Literal["none", "hide-tool-result", "discard-all", "summary"] = _about(
        "how a conversation with tools that grows too long is shortened", "none"
    )
    max_context: int | None = _about(
        "tokens at which that happens; unset: when the model refuses", None, least=1, most=100000000
    )
    tools: tuple[str, ...] = _about("tools of your own for `cua ask`: names of entry points of the group k25.tools", ())
    mcp: Path | None = _about("mcp.json that names MCP servers whose tools `cua ask` may call", None)
    search: str = _about(
        "web tools for `cua ask`: searxng:URL, brave, tavily, local:FOLDER, or local:world; empty for none", ""
    )
    search_allow: tuple[str, ...] = _about("HOST:PORT that web tools may open although they are private", ())
    search_robots: bool = _about("ask robots.txt before a page is fetched", True)
    tool_images: Literal["auto", "tool", "user"] = _about(
        "images of tool results go in the tool message, or in a user message behind it", "auto"
    )

    max_steps: int = _about("limit on steps; 30 for `cua ask` unless set", 100, least=1, most=1000000)
    max_calls: int | None = _about("limit on tool calls of the whole run", None, least=1, most=1000000)
    max_time: float | None = _about(
        "limit on seconds of work; ends a call or a step that is going on", None, least=0.1, most=31536000
    )
    max_tokens: int | None = _about("limit on tokens of the whole run", None, least=1, most=1000000000000)
    max_cost: float | None = _about("limit on US dollars", None, least=1e-06, most=1000000000)
    runs_dir: Path | None = _about("where runs are recorded", None)

    @property
    def has_embedded_model(self) -> bool:
        """True if the model is the embedded default."""
        return self.model == EMBEDDED_MODEL


PREFIX = "K25_"
PROJECT_FILE = "k25.toml"
STANDARD = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
OTHER_VARIABLES = (
    *("K25_BROWSER", "K25_CHECK", "K25_CONFIG", "K25_FUZZ", "K25_JUDGE", "K25_NANO", "K25_SITE", "K25_TEST"),
    "K25_XVFB",
)
"""Variables with our prefix that are not settings, or prefixes of their names."""
FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Settings, and the source of each value ("flag", "K25_MODEL", a file, "default")."""

    settings: Settings
    sources: Mapping[str, str]


def user_config_file() -> Path:
    """Return `k25/config.toml` in the user's config folder; K25_CONFIG overrides the path."""
    import platformdirs

    override = os.environ.get("K25_CONFIG")
    return Path(override) if override else Path(platformdirs.user_config_dir("k25")) / "config.toml"


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    project_file: Path | None = None,
    user_file: Path | None = None,
) -> Resolved:
    """Load settings from all sources.

    Raises:
        ConfigError: If a key is unknown or a value has the wrong type; names the source and the closest valid one.
    """
    environ = os.environ if environ is None else environ
    layers = [
        _from_file(user_file or user_config_file()),
        _from_file(project_file or Path(PROJECT_FILE)),
        _from_environment(environ),
        {name: (value, "flag") for name, value in (flags or {}).items() if value not in (None, ())},
    ]
    merged: dict[str, tuple[Any, str]] = {}
    for layer in layers:
        merged |= layer
    values = {name: _checked(name, value, source) for name, (value, source) in merged.items()}
    sources = {name: merged[name][1] if name in merged else "default" for name in FIELDS}
    return Resolved(settings=Settings(**values), sources=sources)


def _from_file(path: Path) -> dict[str, tuple[Any, str]]:
    if not path.is_file():
        return {}
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    for name in raw:
        _check_name(name, str(path))
    return {name: (value, str(path)) for name, value in raw.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    values: dict[str, tuple[Any, str]] = {
        name: (environ[variable], variable) for name, variable in STANDARD.items() if environ.get(variable)
    }
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(OTHER_VARIABLES) or not value:
            continue
        name = variable.removeprefix(PREFIX).lower()
        _check_name(name, f"the environment variable {variable}")
        values[name] = (value, variable)
    return values


def _check_name(name: str, source: str) -> None:
    if name not in FIELDS:
        hint = did_you_mean(name, FIELDS) or "; see `cua config show` for all settings"
        location = "--set" if source == "flag" else source
        raise ConfigError(f"{location}: there is no setting {name!r}{hint}")


def _checked(name: str, value: Any, source: str) -> Any:
    _check_name(name, source)
    if name == "api_key" and not (str(value).isascii() and str(value).isprintable()):  # never shown
        raise ConfigError(f"{_named(name, source)} has a character that no HTTP header can carry; copy the key again")
    kind = typing.get_type_hints(Settings)[name]
    options = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return _choice(name, value, options, source)
    if (choices := FIELDS[name].metadata["choices"]) is not None:
        return _choice(name, value, choices(), source)
    if kind == tuple[str, ...]:
        return _texts(name, value, source)
    if any(value in typing.get_args(option) for option in options):  # a word such as "omit"
        return value
    target = options[0] if typing.get_origin(kind) in (types.UnionType, typing.Union) else kind
    try:
        return _in_range(name, _CONVERTERS[target](value), source)
    except (ValueError, TypeError) as error:
        expected = {int: "a whole number", float: "a number", bool: "true or false"}.get(target, "a text")
        raise ConfigError(f"{_named(name, source)} is {value!r}, expected {expected}") from error


def _in_range(name: str, value: Any, source: str) -> Any:
    """Return the value if it is within the range of its setting or has no range; NaN is out of range."""
    least, most = FIELDS[name].metadata["least"], FIELDS[name].metadata["most"]
    if least is None or isinstance(value, bool) or least <= value <= most:
        return value
    raise ConfigError(f"{_named(name, source)} is {value:g}, expected a number from {_plain(least)} to {_plain(most)}")


def _plain(number: float) -> str:
    """Return a number as people write it: 31,536,000, not 3.1536e+07."""
    return f"{int(number):,}" if float(number).is_integer() else f"{number:g}"


def _choice(name: str, value: Any, options: tuple[Any, ...], source: str) -> Any:
    if value in options:
        return value
    expected = f"expected one of {', '.join(options)}{did_you_mean(str(value), options)}"
    raise ConfigError(f"{_named(name, source)} is {value!r}, {expected}")


def _texts(name: str, value: Any, source: str) -> tuple[str, ...]:
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ConfigError(f"{_named(name, source)} is {value!r}, expected a list of texts")
    return tuple(item for item in items if item)


def _named(name: str, source: str) -> str:
    """Return the setting's name as in its source: `--max-steps`, or `k25.toml: max_steps`."""
    return "--" + name.replace("_", "-") if source == "flag" else f"{source}: {name}"


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(value)
    return float(value)


def _yes(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes", "on"):
        return True
    if str(value).lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise ValueError(value)
    return Path(value).expanduser()


_CONVERTERS: dict[Any, Any] = {int: _whole, float: _number, bool: _yes, str: _text, Path: _path}
