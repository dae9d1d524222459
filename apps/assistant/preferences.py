"""Settings of the app: those of the command line, each with its value and source; secrets are write-only.

A setting changed in the app has the precedence of a flag and is stored in a file next to the runs. It is checked as by
a run that uses it, so that no run fails because of its value. Secrets are stored in the system keyring, or in memory
until the app ends.
"""

import importlib
import json
import os
import re
import threading
import typing
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from apps.assistant.wording import SHOWN, label_of, phrase
from cua.assemble import SECRET_SETTINGS, parse_env_options
from cua.config import FIELDS, Settings, load_settings
from cua.errors import ConfigError
from cua.guard.rules import load_rules
from cua.models.endpoint import check_key, check_url
from cua.models.make import list_own_models
from cua.models.prices import load_prices
from cua.models.wire import ImageFormat
from cua.research.fetch import check_search
from cua.research.network import AddressRules
from cua.secrets import Secret, Secrets, load_http_auth, load_secrets
from cua.tool_agent.mcp_file import load_mcp_file
from cua.tool_agent.outside import find_user_tools
from cua.trajectory.images import write_atomically
from envs import EnvSpec
from envs.browser.context import read_storage_state
from envs.errors import EnvError, did_you_mean
from envs.registry import find_env, make_env

SOURCE, KEYRING = "this app", "system keyring"
_SERVICE = "cua-k25 assistant"
_KEYRING_S = 20.0
"""Timeout of the keyring; a locked keyring prompts the user first."""
TEST_S = 60.0  # a model that loads answers late; a person waits
_NAMED = "secrets"
_KINDS = typing.get_type_hints(Settings)
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
            kept = f"They are kept in the system keyring ({self._store.name})."
        else:
            why = f" ({self._problem})" if self._problem else ""
            kept = f"Without a system keyring{why} they are deleted when the app ends."
        return f"Keys and secrets cannot be read back. {kept}"

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
        value = (value or "").strip()
        changed = {**self._chosen, name: value}
        if not value:
            del changed[name]
        try:
            check_setting(name, load_settings({**self._flags, **changed}).settings)
        except (ConfigError, EnvError) as error:
            text, label = phrase(error), label_of(name)
            remedy = " Choose another one, or leave it empty." if Path in typing.get_args(_KINDS[name]) else ""
            raise ConfigError(f"{text if label.lower() in text.lower() else f'{label}: {text}'}{remedy}") from error
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
                "choices": list_own_models() if name == "model" else choices_of(name),
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


def choices_of(name: str) -> list[str]:
    """Return the values that a setting may have; empty if others are possible."""
    kind = _KINDS[name]
    if typing.get_origin(kind) is typing.Literal:
        return [str(option) for option in typing.get_args(kind)]
    choices = FIELDS[name].metadata["choices"]
    return list(choices()) if choices is not None else ["true", "false"] if kind is bool else []


_ENVS = ("browser", "desktop")


def check_setting(name: str, settings: Settings) -> None:
    """Check the value of one setting.

    Raises:
        ConfigError: If a run could not use it.
        EnvError: If the environment refuses it.
    """
    value = getattr(settings, name)
    if value in (None, "", ()):
        return
    if name in _CHECKS:
        _CHECKS[name](value)
    option = str(value) if isinstance(value, Path) else value
    for env in _ENVS:
        if find_env(env).takes(name):
            make_env(EnvSpec(name=env, options={name: option}))


def _check_model(name: str) -> None:
    kind, _, file = name.partition(":")
    if kind in ("scripted", "llamacpp") and not Path(file).expanduser().is_file():
        raise ConfigError(f"the model {kind} needs a file, and {file!r} is not one; expected {kind}:FILE")


def _check_text(expected: str, pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise ConfigError(f"{text[:80]!r} is not valid; expected {expected}")

    return check


def _check_time_zone(name: str) -> None:
    if name not in zoneinfo.available_timezones():
        raise ConfigError(f"there is no time zone {name[:80]!r}; expected one such as Europe/Berlin")


def _check_proxy(address: str) -> None:
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https", "socks5") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(f"{address[:80]!r} is not a proxy; expected an address such as http://127.0.0.1:3128")


def _check_storage_state(path: Path) -> None:
    if path.exists():
        read_storage_state(path)
    else:
        _check_new_file(path)


def _check_new_file(path: Path) -> None:
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{path} cannot be written; expected a file in a folder that you may write to")


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; expected one that exists")


def _check_new_folder(path: Path) -> None:
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"runs cannot be kept in {path}; expected a folder that you may write to")


_CHECKS: Mapping[str, Callable[..., object]] = {
    "model": _check_model,
    "fallback_model": _check_model,
    "page_judge": _check_model,
    "base_url": check_url,
    "api_key": check_key,
    "image_format": ImageFormat.parse,
    "prices": load_prices,
    "policy": load_rules,
    "secrets": load_secrets,
    "http_auth": load_http_auth,
    "mcp": load_mcp_file,
    "search": check_search,
    "search_allow": AddressRules.parse,
    "tools": find_user_tools,
    "env_options": parse_env_options,
    "display": _check_text("the name of an X display, such as :0", r"[\w.-]*:\d{1,5}(\.\d)?"),
    "locale": _check_text("a language such as de-DE", r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*"),
    "timezone": _check_time_zone,
    "proxy": _check_proxy,
    "storage_state": _check_storage_state,
    "har": _check_new_file,
    "uploads": _check_folder,
    "runs_dir": _check_new_folder,
}
