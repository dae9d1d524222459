"""Read settings: flag > environment > project file > user file > default, and remember the source."""

import dataclasses
import os
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cua.config.settings import Settings
from cua.errors import ConfigError
from envs.errors import did_you_mean

PREFIX = "K25_"
PROJECT_FILE = "k25.toml"
STANDARD = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
OTHER_VARIABLES = ("K25_BROWSER", "K25_FUZZ", "K25_TEST", "K25_CONFIG")
"""Variables with our prefix that are not settings."""
FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Settings, and for each one where its value came from ("flag", "K25_MODEL", a file, "default")."""

    settings: Settings
    sources: Mapping[str, str]


def user_config_file() -> Path:
    """`k25/config.toml` in the user's config folder; K25_CONFIG names another file."""
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
    """Settings from all sources.

    Args:
        flags: Values from the command line or from Python; None values do not count.
        environ: Environment variables; the process's own when left out.
        project_file: `k25.toml` of the current folder when left out.
        user_file: The user's config file when left out.

    Raises:
        ConfigError: An unknown key, or a value of the wrong kind; names the source and the nearest valid one.
    """
    environ = os.environ if environ is None else environ
    layers = [
        _from_file(user_file or user_config_file()),
        _from_file(project_file or Path(PROJECT_FILE)),
        _from_environment(environ),
        {name: (value, "flag") for name, value in (flags or {}).items() if value not in (None, ())},
    ]
    found: dict[str, tuple[Any, str]] = {}
    for layer in layers:
        found |= layer
    values = {name: _checked(name, value, source) for name, (value, source) in found.items()}
    sources = {name: found[name][1] if name in found else "default" for name in FIELDS}
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
    found: dict[str, tuple[Any, str]] = {
        name: (environ[variable], variable) for name, variable in STANDARD.items() if environ.get(variable)
    }
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(OTHER_VARIABLES) or not value:
            continue
        name = variable.removeprefix(PREFIX).lower()
        _check_name(name, f"the environment variable {variable}")
        found[name] = (value, variable)
    return found


def _check_name(name: str, source: str) -> None:
    if name not in FIELDS:
        hint = did_you_mean(name, FIELDS) or "; see `cua config show` for all settings"
        where = "--set" if source == "flag" else source
        raise ConfigError(f"{where}: there is no setting {name!r}{hint}")


def _checked(name: str, value: Any, source: str) -> Any:
    _check_name(name, source)
    kind = typing.get_type_hints(Settings)[name]
    options = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return _choice(name, value, options, source)
    if (choices := FIELDS[name].metadata["choices"]) is not None:
        return _choice(name, value, choices(), source)
    if kind == tuple[str, ...]:
        return _texts(name, value, source)
    if any(value in typing.get_args(option) for option in options):  # a word such as "omit" beside a number
        return value
    target = options[0] if typing.get_origin(kind) in (types.UnionType, typing.Union) else kind
    try:
        return _in_range(name, _CONVERTERS[target](value), source)
    except (ValueError, TypeError) as error:
        expected = {int: "a whole number", float: "a number", bool: "true or false"}.get(target, "a text")
        raise ConfigError(f"{_named(name, source)} is {value!r}, expected {expected}") from error


def _in_range(name: str, value: Any, source: str) -> Any:
    """The value, if it is no number or lies in the range of its setting; a number that is none does not."""
    least, most = FIELDS[name].metadata["least"], FIELDS[name].metadata["most"]
    if least is None or isinstance(value, bool) or least <= value <= most:
        return value
    raise ConfigError(f"{_named(name, source)} is {value:g}, expected a number from {least:g} to {most:g}")


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
    """How a person wrote it: `--max-steps`, or `k25.toml: max_steps`."""
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
