"""The app's settings: the same as the command line's, each with its value and where it comes from; secrets go in only.

What is changed in the app counts like a flag and is kept in a file beside the runs, but for secrets: they are in the
system's keyring, or live as long as the app does.
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
from typing import Any, Protocol

from cua.assemble import SECRET_SETTINGS
from cua.config import FIELDS, Settings, load_settings
from cua.errors import ConfigError
from cua.models.make import list_own_models
from cua.secrets import Secret, Secrets
from cua.trajectory.images import write_atomically

SHOWN = (
    *("model", "base_url", "api_key", "preset", "fallback_model"),
    *("viewport", "screen", "display", "monitor", "headed", "observation", "max_images"),
    *("allow_domains", "deny_domains", "approve", "policy"),
    *("max_steps", "max_time", "max_tokens", "max_cost", "prices"),
    *("secrets", "http_auth", "storage_state", "sandbox", "search", "mcp", "runs_dir"),
)
"""What people change, in this order; the others are reached through the command line's files and variables."""
SOURCE, KEYRING = "this app", "system keyring"
_SERVICE = "cua-k25 assistant"
_KEYRING_S = 20.0
"""A keyring that is locked asks the person first."""
_TEST_S = 60.0
_NAMED = "secrets"
_MAX_SECRETS, _MAX_SECRET_CHARS = 50, 1000


class SecretStore(Protocol):
    """Keeps secrets by name, such as the system's keyring does."""

    name: str

    def get(self, name: str) -> str | None:
        """A secret; None when there is none.

        Raises:
            ConfigError: It cannot be asked, or does not answer in time.
        """
        ...

    def put(self, name: str, value: str | None) -> None:
        """Keep a secret; None forgets it.

        Raises:
            ConfigError: As for `get`.
        """
        ...


class SystemKeyring:
    """The system's keyring through the package keyring.

    Args:
        backend: Its backend.
    """

    def __init__(self, backend: Any) -> None:
        self.name = str(getattr(backend, "name", type(backend).__name__))
        self._backend = backend

    def get(self, name: str) -> str | None:
        """A secret; None when there is none."""
        found: str | None = self._ask(self._backend.get_password, name)
        return found

    def put(self, name: str, value: str | None) -> None:
        """Keep a secret; None forgets it."""
        if value:
            self._ask(self._backend.set_password, name, value)
        elif self.get(name) is not None:
            self._ask(self._backend.delete_password, name)

    def _ask(self, function: Callable[..., Any], *arguments: str) -> Any:
        answer: Future[Any] = Future()
        work = partial(_answer, answer, function, _SERVICE, *arguments)
        threading.Thread(target=work, name="keyring", daemon=True).start()  # one that hangs does not keep the app alive
        try:
            return answer.result(_KEYRING_S)
        except Exception as error:  # each backend has errors of its own; the lines of some hold what was asked
            why = f"no answer within {_KEYRING_S:g} s" if isinstance(error, TimeoutError) else type(error).__name__
            raise ConfigError(f"the system keyring ({self.name}) does not work: {why}. Is it unlocked?") from error


def _answer(answer: "Future[Any]", function: Callable[..., Any], *arguments: str) -> None:
    try:
        answer.set_result(function(*arguments))
    except Exception as error:  # it goes to whoever asked
        answer.set_exception(error)


def find_keyring() -> SystemKeyring | None:
    """The system's keyring; None where there is none, or the package keyring is not installed."""
    try:
        backend = importlib.import_module("keyring").get_keyring()
    except ImportError:
        return None
    return SystemKeyring(backend) if backend.priority >= 1 else None


class Preferences:
    """Settings that were chosen in the app.

    Args:
        file: Where they are kept; None keeps them as long as the app lives.
        flags: Given when the app was started; they hold unless the app changes them.
        store: Where secrets are kept; None keeps them as long as the app lives.

    Attributes:
        file: As given.
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
        """Values that a run on a screen types as `{{name}}`."""
        return Secrets(dict(self._named))

    def secret_rows(self) -> list[dict[str, Any]]:
        """Names of the values and where they may be typed; never the values."""
        return [{"name": name, "domains": list(self._named[name].domains)} for name in sorted(self._named)]

    def change_secret(self, name: str, value: str | None, domains: Sequence[str] = ()) -> None:
        """Keep a value that is typed as `{{name}}`; an empty one forgets it.

        Args:
            name: Letters, digits, `_`.
            value: What is typed.
            domains: Where it may be typed; none means everywhere.

        Raises:
            ConfigError: That is no name or no domain, there are too many, or the keyring does not work.
        """
        if not re.fullmatch(r"[A-Za-z_]\w{0,59}", name, re.ASCII):
            raise ConfigError("a secret's name has letters, digits and _ only, such as shop_password")
        wanted = tuple(domain.strip().lower() for domain in domains if domain.strip())
        changed = dict(self._named)
        changed.pop(name, None)
        if value:
            changed[name] = Secret(value=value[:_MAX_SECRET_CHARS], domains=wanted)
        if len(changed) > _MAX_SECRETS:
            raise ConfigError(f"there are {_MAX_SECRETS} secrets already; forget one first")
        if self._store is not None:
            kept = {each: {"value": one.value, "domains": one.domains} for each, one in changed.items()}
            self._store.put(_NAMED, json.dumps(kept) if kept else None)
        self._named = changed

    @property
    def about_secrets(self) -> str:
        """Where keys are kept, as a sentence for people."""
        if self._store is not None:
            return (
                f"Keys and secrets go in and never come out; they are kept in the system keyring ({self._store.name})."
            )
        why = f" ({self._problem})" if self._problem else ""
        ends = "they are forgotten when the app ends."
        return f"Keys and secrets go in and never come out; without a system keyring{why} {ends}"

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
        if name in SECRET_SETTINGS and self._store is not None:
            self._store.put(name, value or None)
        self._chosen = changed
        if self.file is not None:
            kept = {name: value for name, value in changed.items() if name not in SECRET_SETTINGS}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, json.dumps(kept, indent=1).encode())
            self.file.chmod(0o600)

    def rows(self) -> list[dict[str, Any]]:
        """What the page shows: name, value as text, source, what it is, choices and whether there are others.

        Secrets show whether they are set.
        """
        resolved = load_settings(self.values)
        return [
            {
                "name": name,
                "value": _shown(name, getattr(resolved.settings, name)),
                "source": self._source(name) or resolved.sources[name],
                "about": FIELDS[name].metadata["about"],
                "choices": list_own_models() if name == "model" else _choices(name),
                "is_open": name == "model",
                "is_secret": name in SECRET_SETTINGS,
            }
            for name in SHOWN
        ]

    def _source(self, name: str) -> str:
        if name not in self._chosen:
            return ""
        return KEYRING if name in SECRET_SETTINGS and self._store is not None else SOURCE

    def test_endpoint(self) -> dict[str, Any]:
        """What works at the endpoint that the settings name, probe by probe, and what to do. Takes a while.

        Raises:
            ConfigError: The settings name none, or nothing answers there.
        """
        from apps.endpoint_check import SelfTestOptions, run_self_test
        from model_runtime.errors import RuntimeFault

        settings = load_settings(self.values).settings
        if not settings.base_url:
            raise ConfigError("no endpoint is set; fill in base_url, such as http://127.0.0.1:8000/v1")
        model = None if settings.has_embedded_model else settings.model
        options = SelfTestOptions(url=settings.base_url, model=model, api_key=settings.api_key, timeout_s=_TEST_S)
        try:
            return run_self_test(options).to_json()
        except RuntimeFault as error:
            raise ConfigError(str(error)) from error


def _parse_named(kept: str | None) -> dict[str, Secret]:
    """Named values as the keyring has them; what is not ours there counts as none."""
    try:
        found = json.loads(kept or "{}")
        return {name: Secret(value=one["value"], domains=tuple(one["domains"])) for name, one in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError):
        return {}


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
