"""The app's settings: the same as the command line's, each with its value and where it comes from; secrets go in only.

What is changed in the app counts like a flag and is kept in a file beside the runs, but for secrets: they live as long
as the app does.
"""

import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cua.assemble import SECRET_SETTINGS
from cua.config import FIELDS, Settings, load_settings
from cua.errors import ConfigError
from cua.trajectory.images import write_atomically

SHOWN = (
    *("model", "base_url", "api_key", "preset", "fallback_model"),
    *("viewport", "screen", "headed", "observation", "max_images"),
    *("allow_domains", "deny_domains", "approve", "policy"),
    *("max_steps", "max_time", "max_tokens", "max_cost", "prices"),
    *("secrets", "http_auth", "storage_state", "sandbox", "search", "mcp", "runs_dir"),
)
"""What people change, in this order; the others are reached through the command line's files and variables."""
SOURCE = "this app"
_TEST_S = 60.0


class Preferences:
    """Settings that were chosen in the app.

    Args:
        file: Where they are kept; None keeps them as long as the app lives.
        flags: Given when the app was started; they hold unless the app changes them.
    """

    def __init__(self, file: Path | None = None, flags: Mapping[str, Any] | None = None) -> None:
        self._file = file
        self._flags = dict(flags or {})
        self._chosen = _read(file) if file is not None else {}

    @property
    def values(self) -> dict[str, Any]:
        """By name, for a run."""
        return {**self._flags, **self._chosen}

    def change(self, name: str, value: str | None) -> None:
        """Set one; an empty value goes back to where it came from before.

        Raises:
            ConfigError: There is no such setting, or not that value.
        """
        if name not in FIELDS:
            load_settings({name: value or "x"})  # says which one is nearest
        changed = {**self._chosen, name: value}
        if not value:
            del changed[name]
        load_settings({**self._flags, **changed})
        self._chosen = changed
        if self._file is not None:
            kept = {name: value for name, value in changed.items() if name not in SECRET_SETTINGS}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(kept, indent=1).encode())
            self._file.chmod(0o600)

    def rows(self) -> list[dict[str, Any]]:
        """What the page shows: name, value as text, source, what it is, choices. Secrets show whether they are set."""
        resolved = load_settings(self.values)
        return [
            {
                "name": name,
                "value": _shown(name, getattr(resolved.settings, name)),
                "source": SOURCE if name in self._chosen else resolved.sources[name],
                "about": FIELDS[name].metadata["about"],
                "choices": _choices(name),
                "is_secret": name in SECRET_SETTINGS,
            }
            for name in SHOWN
        ]

    def test_endpoint(self) -> dict[str, Any]:
        """What works at the endpoint that the settings name, probe by probe, and what to do. Takes a while.

        Raises:
            ConfigError: The settings name none, or nothing answers there.
        """
        from model_runtime.errors import RuntimeFault
        from model_runtime.self_test import SelfTestOptions, run_self_test

        settings = load_settings(self.values).settings
        if not settings.base_url:
            raise ConfigError("no endpoint is set; fill in base_url, such as http://127.0.0.1:8000/v1")
        model = None if settings.model == "literal" else settings.model
        options = SelfTestOptions(url=settings.base_url, model=model, api_key=settings.api_key, timeout_s=_TEST_S)
        try:
            return run_self_test(options).to_json()
        except RuntimeFault as error:
            raise ConfigError(str(error)) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Remove it to begin anew") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} holds no settings; expected a JSON object. Remove it to begin anew")
    load_settings(found)
    return found


def _shown(name: str, value: object) -> str:
    if name in SECRET_SETTINGS:
        return "(set)" if value else ""
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _choices(name: str) -> list[str]:
    kind = typing.get_type_hints(Settings)[name]
    if typing.get_origin(kind) is typing.Literal:
        return [str(option) for option in typing.get_args(kind)]
    return ["true", "false"] if kind is bool else []
