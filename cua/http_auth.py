"""Logins for servers that ask by HTTP authentication: a TOML file, each login bound to one origin.

[[login]]
origin = "https://intranet.example.com"
username = "ann"
password = "..."
"""

import tomllib
from pathlib import Path

from cua.errors import ConfigError
from envs.http_login import HttpLogin

_KEYS = {"origin", "username", "password"}


def load_http_auth(path: Path) -> tuple[HttpLogin, ...]:
    """Read a file of logins.

    Raises:
        ConfigError: The file is missing, is not TOML, or holds something else; no password is told.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the http_auth file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}. Expected tables [[login]]") from error
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
