"""Settings of the app: those of the command line, each with its value and source; secrets are write-only.

A setting changed in the app has the precedence of a flag and is stored in a file next to the runs. Secrets are stored
in the system keyring, or in memory until the app ends.
"""

import importlib
import json
import re
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from cua.assemble import SECRET_SETTINGS
from cua.config import FIELDS, Settings, load_settings
from cua.errors import ConfigError
from cua.models.make import list_own_models
from cua.secrets import Secret, Secrets
from cua.trajectory.images import write_atomically
from envs.errors import did_you_mean


class SettingText(NamedTuple):
    """Words of the page for a setting: its label, one sentence, and labels of choices whose values say little."""

    label: str
    about: str
    choices: Mapping[str, str] = MappingProxyType({})


SHOWN = {
    "model": SettingText("Model", "Its name at the endpoint, or one of the embedded ones."),
    "base_url": SettingText("Endpoint", "Address of a server that speaks the OpenAI protocol."),
    "api_key": SettingText("Key", "Key of the endpoint; it cannot be read back."),
    "preset": SettingText("Sampling preset", "One of kimi-k2.5, kimi-k2.5-instant, osworld, webarena, none."),
    "fallback_model": SettingText("Second model", "It is asked when the first one does not answer."),
    "viewport": SettingText("Size of the browser", "Width and height of its pages in pixels, such as 1280x720."),
    "screen": SettingText("Size of the desktop", "Width and height of private desktops in pixels, such as 1920x1080."),
    "display": SettingText("Your own display", "The agent uses it instead of a private desktop; such as :0."),
    "monitor": SettingText("Monitor", "Number of the one to use, from 0; empty for all."),
    "headed": SettingText("Visible browser window", "The agent's browser also opens a window of its own."),
    "observation": SettingText(
        "What the agent sees", "The screen's image, alone or with a description of its elements.",
        {"screenshot": "image", "a11y_tree": "image and list of elements", "marks": "image with numbered boxes"},
    ),
    "max_images": SettingText("Images in a request", "Screenshots that the model sees at once."),
    "allow_domains": SettingText("Allowed sites", "The browser opens only these; commas separate them."),
    "deny_domains": SettingText("Denied sites", "The browser does not open these; commas separate them."),
    "approve": SettingText(
        "When it asks", "Steps that wait for your answer.",
        {"ask": "at every step", "auto": "at risky steps", "yolo": "only where a rule says so"},
    ),
    "policy": SettingText("File of rules", "Actions that are allowed, asked about or denied."),
    "max_steps": SettingText("Most steps", "A run ends after this number of steps."),
    "max_time": SettingText("Longest time", "A run ends after this number of seconds."),
    "max_tokens": SettingText("Most tokens", "A run ends after this number of tokens."),
    "max_cost": SettingText("Highest cost", "A run ends after this number of US dollars."),
    "prices": SettingText("File of prices", "Prices of models, from which costs are computed."),
    "secrets": SettingText("File of secrets", "Values that are typed without the model seeing them."),
    "http_auth": SettingText("File of logins", "Names and passwords for sites where the browser asks."),
    "storage_state": SettingText("Kept cookies", "File with the sites' data, loaded first and saved last."),
    "sandbox": SettingText(
        "Sandbox for code", "It keeps the model's code away from your files.",
        {"auto": "the strongest one", "bubblewrap": "Bubblewrap", "landlock": "Landlock", "none": "none (unsafe)"},
    ),
    "search": SettingText("Web search", "Brave, Tavily, or your own SearXNG server as searxng:ADDRESS."),
    "mcp": SettingText("Tool servers (MCP)", "File that names servers whose tools agent mode uses."),
    "runs_dir": SettingText("Folder of the runs", "The history is kept there."),
}  # fmt: skip
"""Settings shown in the app, in this order; the others are set in the command line's files and variables."""
SOURCE, KEYRING = "this app", "system keyring"
_SERVICE = "cua-k25 assistant"
_KEYRING_S = 20.0
"""Timeout of the keyring; a locked keyring prompts the user first."""
TEST_S = 60.0  # a model that loads answers late; a person waits
_NAMED = "secrets"
_MAX_SECRETS, _MAX_SECRET_CHARS = 50, 1000  # number and length; bounds the file and the search for secrets in texts


class SecretStore(Protocol):
    """Interface of a store of secrets by name, such as the system keyring."""

    name: str

    def get(self, name: str) -> str | None:
        """Return a secret; None if it does not exist.

        Raises:
            ConfigError: If the store fails, or does not answer in time.
        """
        ...

    def put(self, name: str, value: str | None) -> None:
        """Store a secret; None deletes it.

        Raises:
            ConfigError: If the store fails, or does not answer in time.
        """
        ...


class SystemKeyring:
    """System keyring, through the package keyring.

    Args:
        backend: Keyring backend.
    """

    def __init__(self, backend: Any) -> None:
        self.name = str(getattr(backend, "name", type(backend).__name__))
        self._backend = backend

    def get(self, name: str) -> str | None:
        """Return a secret; None if it does not exist."""
        value: str | None = self._ask(self._backend.get_password, name)
        return value

    def put(self, name: str, value: str | None) -> None:
        """Store a secret; None deletes it."""
        if value:
            self._ask(self._backend.set_password, name, value)
        elif self.get(name) is not None:
            self._ask(self._backend.delete_password, name)

    def _ask(self, function: Callable[..., Any], *arguments: str) -> Any:
        answer: Future[Any] = Future()
        work = partial(_answer, answer, function, _SERVICE, *arguments)
        threading.Thread(target=work, name="keyring", daemon=True).start()  # a daemon does not keep the app alive
        try:
            return answer.result(_KEYRING_S)
        except Exception as error:  # backends raise their own errors, and some messages contain the request
            why = f"no answer within {_KEYRING_S:g} s" if isinstance(error, TimeoutError) else type(error).__name__
            raise ConfigError(f"the system keyring ({self.name}) does not work: {why}. Is it unlocked?") from error


def _answer(answer: "Future[Any]", function: Callable[..., Any], *arguments: str) -> None:
    try:
        answer.set_result(function(*arguments))
    except Exception as error:  # passed on to the caller
        answer.set_exception(error)


def find_keyring() -> SystemKeyring | None:
    """Return the system keyring; None if there is none, or the package keyring is not installed."""
    try:
        backend = importlib.import_module("keyring").get_keyring()
    except ImportError:
        return None
    return SystemKeyring(backend) if backend.priority >= 1 else None


class Preferences:
    """Settings that were chosen in the app.

    Args:
        file: File of the settings; None keeps them in memory.
        flags: Flags of the app's command line; they apply unless the app changes them.
        store: Store of secrets; None keeps them in memory.

    Attributes:
        file: File of the settings, as given.
    """

    def __init__(
        self, file: Path | None = None, flags: Mapping[str, Any] | None = None, store: SecretStore | None = None
    ) -> None:
        self.file = file
        self._flags = dict(flags or {})
        self._chosen = _read(file) if file is not None else {}
        self._store = store
        self._problem = ""
        self._named: dict[str, Secret] = {}
        try:
            kept = {name: store.get(name) for name in SHOWN if name in SECRET_SETTINGS} if store is not None else {}
            self._chosen |= {name: value for name, value in kept.items() if value}
            self._named = _parse_named(store.get(_NAMED)) if store is not None else {}
        except ConfigError as error:
            self._store, self._problem = None, str(error)

    @property
    def secrets(self) -> Secrets:
        """Secrets that a run on a screen types for `{{name}}`."""
        return Secrets(dict(self._named))

    def secret_rows(self) -> list[dict[str, Any]]:
        """Return names of the secrets and the sites where they may be typed; never the values."""
        return [{"name": name, "domains": list(self._named[name].domains)} for name in sorted(self._named)]

    def change_secret(self, name: str, value: str | None, domains: Sequence[str] = ()) -> None:
        """Store a secret that is typed for `{{name}}`; an empty value deletes it.

        Args:
            name: Name of letters, digits and `_`.
            value: Value to type.
            domains: Domains where it may be typed; empty for all.

        Raises:
            ConfigError: If the name or a domain is invalid, there are too many, or the keyring fails.
        """
        if not re.fullmatch(r"[A-Za-z_]\w{0,59}", name, re.ASCII):
            raise ConfigError("a secret's name has letters, digits and _ only, such as shop_password")
        wanted = tuple(domain.strip().lower() for domain in domains if domain.strip())
        changed = dict(self._named)
        changed.pop(name, None)
        if value:
            changed[name] = Secret(value=value[:_MAX_SECRET_CHARS], domains=wanted)
        if len(changed) > _MAX_SECRETS:
            raise ConfigError(f"there are {_MAX_SECRETS} secrets already; delete one first")
        if self._store is not None:
            kept = {key: {"value": secret.value, "domains": secret.domains} for key, secret in changed.items()}
            self._store.put(_NAMED, json.dumps(kept) if kept else None)
        self._named = changed

    @property
    def about_secrets(self) -> str:
        """Sentence for users about the store of keys."""
        if self._store is not None:
            return f"Keys and secrets cannot be read back; they are kept in the system keyring ({self._store.name})."
        why = f" ({self._problem})" if self._problem else ""
        ends = "they are deleted when the app ends."
        return f"Keys and secrets cannot be read back; without a system keyring{why} {ends}"

    @property
    def values(self) -> dict[str, Any]:
        """Settings of a run, by name."""
        return {**self._flags, **self._chosen}

    def change(self, name: str, value: str | None) -> None:
        """Change a setting; an empty value resets it.

        Raises:
            ConfigError: If the setting does not exist, or the value is invalid.
        """
        if name not in FIELDS:
            raise ConfigError(f"there is no setting {name!r}{did_you_mean(name, FIELDS)}")
        changed = {**self._chosen, name: value}
        if not value:
            del changed[name]
        try:
            load_settings({**self._flags, **changed})
        except ConfigError as error:  # it names the setting as on the command line
            flag = "--" + name.replace("_", "-")
            raise ConfigError(str(error).replace(flag, SHOWN[name].label if name in SHOWN else name)) from error
        if name in SECRET_SETTINGS and self._store is not None:
            self._store.put(name, value or None)
        self._chosen = changed
        if self.file is not None:
            kept = {name: value for name, value in changed.items() if name not in SECRET_SETTINGS}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, json.dumps(kept, indent=1).encode())
            self.file.chmod(0o600)

    def rows(self) -> list[dict[str, Any]]:
        """Return the settings for the page: name, value as text, source, label, description, and choices.

        For secrets, the value says only if they are set; a flag says if values other than the choices are allowed.
        """
        resolved = load_settings(self.values)
        return [
            {
                "name": name,
                "value": _shown(name, getattr(resolved.settings, name)),
                "source": self._source(name) or resolved.sources[name],
                "label": text.label,
                "about": text.about,
                "choices": list_own_models() if name == "model" else _choices(name),
                "is_open": name == "model",
                "is_secret": name in SECRET_SETTINGS,
            }
            for name, text in SHOWN.items()
        ]

    def _source(self, name: str) -> str:
        if name not in self._chosen:
            return ""
        return KEYRING if name in SECRET_SETTINGS and self._store is not None else SOURCE

    def test_endpoint(self) -> dict[str, Any]:
        """Test the configured endpoint and return the result and advice of each probe. Takes a while.

        Raises:
            ConfigError: If no endpoint is configured, or it does not answer.
        """
        from apps.endpoint_check import SelfTestOptions, run_self_test
        from model_runtime.errors import RuntimeFault

        settings = load_settings(self.values).settings
        if not settings.base_url:
            raise ConfigError("no endpoint is set; enter its address, such as http://127.0.0.1:8000/v1")
        model = None if settings.has_embedded_model else settings.model
        options = SelfTestOptions(url=settings.base_url, model=model, api_key=settings.api_key, timeout_s=TEST_S)
        try:
            return run_self_test(options).to_json()
        except RuntimeFault as error:
            raise ConfigError(str(error)) from error


def _parse_named(kept: str | None) -> dict[str, Secret]:
    """Parse named secrets from the keyring; text in another format counts as none."""
    try:
        rows = json.loads(kept or "{}")
        return {name: Secret(value=row["value"], domains=tuple(row["domains"])) for name, row in rows.items()}
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError):
        return {}


def _read(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Delete it to start without settings") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is not a JSON object of settings. Delete it to start without settings")
    load_settings(values)
    return values


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
