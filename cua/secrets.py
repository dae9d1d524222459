"""Secrets: the model writes `{{name}}`, the value is inserted after its reply and never recorded.

A secrets file is TOML. Each key is a name; its value is the secret, or a table with the secret and
the domains on which it may be typed:

    password = "hunter2"
    card = { value = "4242 4242 4242 4242", domains = ["shop.example.com"] }

Logins for servers with HTTP authentication are in a separate TOML file, each bound to one origin:

    [[login]]
    origin = "https://intranet.example.com"
    username = "ann"
    password = "..."
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from cua.errors import CodeError, ConfigError
from envs import Action, TypeSecret, TypeText
from envs.domain_rules import DomainRules
from envs.errors import EnvSetupError
from envs.secret_texts import BoundText, HttpLogin, SecretForms

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One secret value.

    Attributes:
        value: Text to type. Never shown by `repr`.
        domains: Hosts that may receive it, in the syntax of domain rules; empty means all.

    Raises:
        ConfigError: If a domain is invalid.
    """

    value: str = field(repr=False)
    domains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            DomainRules(allowed=self.domains)
        except EnvSetupError as error:
            raise ConfigError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Secrets:
    """All secrets of a run, by name, and the logins of its browser, which the model never types."""

    by_name: Mapping[str, Secret] = field(default_factory=dict)
    logins: tuple[HttpLogin, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """Values to mask in images."""
        logins = [text for login in self.logins for text in login.secrets]
        return (*(secret.value for secret in self.by_name.values()), *logins)

    def fill(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        """Replace the placeholders in actions; the result must be passed only to the environment.

        A text with secrets that are bound to domains becomes a `TypeSecret`: the environment checks the recipient.

        Raises:
            CodeError: If a name is unknown.
        """
        if not self.by_name:
            return tuple(actions)
        return tuple(self._filled(action) if isinstance(action, TypeText) else action for action in actions)

    def redact(self, text: str) -> str:
        """Replace every secret value in a text, in any of its forms, by its placeholder."""
        has_none = not self.by_name and not self.logins and "@" not in text  # a URL may hold a login
        return text if has_none else self.forms(text)

    @property
    def forms(self) -> SecretForms:
        """Matcher that finds the values in texts."""
        named = [(secret.value, "{{" + name + "}}") for name, secret in self.by_name.items()]
        logins = [(text, "***") for login in self.logins for text in login.secrets]
        return _forms((*named, *logins))

    def values_in(self, actions: Sequence[Action]) -> tuple[str, ...]:
        """Return the secret values that these actions type."""
        names = {
            match[1]
            for action in actions
            if isinstance(action, TypeText)
            for match in PLACEHOLDER.finditer(action.text)
        }
        return tuple(secret.value for name, secret in self.by_name.items() if name in names)

    def uses(self, action: Action) -> bool:
        """Return True if an action would type a secret."""
        return isinstance(action, TypeText) and bool(self.by_name) and PLACEHOLDER.search(action.text) is not None

    def _filled(self, action: TypeText) -> TypeText:
        names = dict.fromkeys(PLACEHOLDER.findall(action.text))
        for name in names:
            if name not in self.by_name:
                raise CodeError(f"there is no secret {name!r}; known: {', '.join(sorted(self.by_name))}")
        filled = PLACEHOLDER.sub(lambda match: self.by_name[match[1]].value, action.text)
        bound = tuple(
            BoundText(name=name, value=self.by_name[name].value, domains=self.by_name[name].domains)
            for name in names
            if self.by_name[name].domains
        )
        return TypeSecret(text=action.text, filled=filled, bound=bound) if bound else replace(action, text=filled)


@lru_cache(maxsize=8)
def _forms(replacements: tuple[tuple[str, str], ...]) -> SecretForms:
    return SecretForms(replacements)


def load_secrets(path: Path) -> Secrets:
    """Load a secrets file.

    Raises:
        ConfigError: If the file is missing, is not TOML, or contains other values than text.
    """
    raw = _read_toml(path, "secrets", 'lines such as: password = "..."')
    return Secrets({name: _secret(path, name, value) for name, value in raw.items()})


def _read_toml(path: Path, label: str, expected: str) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the {label} file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}. Expected {expected}") from error


def _secret(path: Path, name: str, value: object) -> Secret:
    if isinstance(value, str) and value:
        return Secret(value=value)
    if isinstance(value, dict) and value.keys() <= {"value", "domains"}:
        text, domains = value.get("value"), value.get("domains", [])
        if isinstance(text, str) and text and isinstance(domains, list) and all(isinstance(d, str) for d in domains):
            try:
                return Secret(value=text, domains=tuple(domains))
            except ConfigError as error:
                raise ConfigError(f"{path}: {name}: {error}") from error
    raise ConfigError(
        f'{path}: {name} must be a non-empty text or {{ value = "...", domains = ["host"] }}'  # never echo the value
    )


_KEYS = {"origin", "username", "password"}


def load_http_auth(path: Path) -> tuple[HttpLogin, ...]:
    """Load a file of logins.

    Raises:
        ConfigError: If the file is missing, is not TOML, or has other content; the text contains no password.
    """
    raw = _read_toml(path, "logins", "tables [[login]]")
    entries = raw.get("login")
    if raw.keys() != {"login"} or not isinstance(entries, list):
        raise ConfigError(f"{path} holds {', '.join(sorted(raw)) or 'nothing'}; expected tables [[login]] and no more")
    logins = tuple(_login(path, number, entry) for number, entry in enumerate(entries, 1))
    origins = [login.origin for login in logins]
    twice = {origin for origin in origins if origins.count(origin) > 1}
    if twice:
        raise ConfigError(
            f"{path}: more than one login for {', '.join(sorted(twice))}; there can be one for each origin"
        )
    return logins


def _login(path: Path, number: int, entry: object) -> HttpLogin:
    if not isinstance(entry, dict) or entry.keys() != _KEYS or not all(isinstance(v, str) for v in entry.values()):
        raise ConfigError(f"{path}: login {number} must have the texts origin, username and password, and no more")
    if not entry["username"] and not entry["password"]:
        raise ConfigError(f"{path}: login {number} is empty")
    try:
        return HttpLogin(**entry)
    except ValueError as error:
        raise ConfigError(f"{path}: login {number}: {error}") from error
