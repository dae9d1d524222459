"""Parser of `mcp.json`, which names MCP servers in the format that other programs use too:

{"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"], "env": {"TOKEN": "${MY_TOKEN}"}},
                "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}}}}
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cua.errors import ConfigError, name_choices
from cua.json_text import JsonMapping, read_json
from cua.secrets import Secret

MAX_FILE_BYTES = 2**20  # bounds memory; such files have a few kB
MAX_SERVERS = 32  # each is a process or a connection for the whole run
_KEYS = ("command", "args", "env", "cwd", "url", "headers", "type", "disabled")
_OTHERS_KEYS = ("timeout", "autoApprove", "alwaysAllow", "description", "name", "version", "gallery")
"""Keys of other programs that are ignored; approval of calls is decided by the guard."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|auth|credential|cookie|session")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """Server in the file; either `command` or `url` is set.

    Attributes:
        name: Name in the file.
        command: Program with its arguments.
        env: Environment variables in addition to PATH.
        cwd: Working folder; None for the current folder.
        url: Address of a running server (streamable HTTP).
        headers: Sent with every request.
        secrets: Values that must not be shown, each with a name.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)


def load_mcp_file(path: Path, environ: Mapping[str, str] = os.environ) -> tuple[McpServer, ...]:
    """Load `mcp.json`; `${NAME}` and `${NAME:-default}` in `env` and `headers` are replaced by environment variables.

    Raises:
        ConfigError: If it cannot be read or has another format; the message names the key and the nearest valid word.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        content = read_json(text) if len(text) <= MAX_FILE_BYTES else None
    except OSError as error:
        raise ConfigError(f"cannot read the MCP file {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"the MCP file {path} is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("mcpServers"), dict):
        hint = name_choices(next(iter(content), ""), ["mcpServers"]) if isinstance(content, dict) else ""
        raise ConfigError(f'the MCP file {path} is wrong: expected {{"mcpServers": {{NAME: ...}}}}.{hint}')
    servers = content["mcpServers"]
    if len(servers) > MAX_SERVERS:
        raise ConfigError(f"the MCP file {path} names {len(servers)} servers; at most {MAX_SERVERS} are used")
    read = [_read_server(path, name, entry, environ) for name, entry in servers.items()]
    return tuple(server for server in read if server is not None)


def _read_server(path: Path, name: str, entry: Any, environ: Mapping[str, str]) -> McpServer | None:
    prefix = f"the MCP file {path}, server {name!a:.60}"
    if not isinstance(entry, dict):
        raise ConfigError(f"{prefix}: expected an object with a command or a url")
    unknown = next((key for key in entry if key not in (*_KEYS, *_OTHERS_KEYS)), None)
    if unknown is not None:
        raise ConfigError(f"{prefix}: there is no {unknown!a:.60}.{name_choices(unknown, _KEYS)}")
    if entry.get("disabled") is True:
        return None
    if ("command" in entry) == ("url" in entry):
        raise ConfigError(f"{prefix}: expected either a command or a url")
    if entry.get("type") == "sse":
        raise ConfigError(f"{prefix}: type 'sse' is MCP's old transport; a url is reached by streamable HTTP only")
    texts = [entry.get("command", ""), entry.get("url", ""), entry.get("cwd", ""), *_items(entry, "args", prefix)]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        raise ConfigError(f"{prefix}: command, args, cwd and url are texts")
    env, headers = _filled(entry, "env", prefix, environ), _filled(entry, "headers", prefix, environ)
    if "url" in entry and urlsplit(entry["url"]).scheme not in ("http", "https"):
        raise ConfigError(f"{prefix}: the url is not an http or https address")
    return McpServer(
        name=name,
        command=(entry["command"], *entry.get("args", [])) if "command" in entry else (),
        env=env,
        cwd=entry.get("cwd"),
        url=entry.get("url"),
        headers=headers,
        secrets=dict(_secrets_of(name, entry, env, headers)),
    )


def _items(entry: JsonMapping, key: str, prefix: str) -> list[Any]:
    value = entry.get(key, [])
    if not isinstance(value, list):
        raise ConfigError(f"{prefix}: {key} is {type(value).__name__}, expected a list of texts")
    return value


def _filled(entry: JsonMapping, key: str, prefix: str, environ: Mapping[str, str]) -> dict[str, str]:
    values = entry.get(key, {})
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ConfigError(f"{prefix}: {key} is an object of texts")

    def fill(match: re.Match[str]) -> str:
        value = environ.get(match[1], match[2])
        if value is None:
            raise ConfigError(f"{prefix}: {key} names the variable {match[1]}, which is not set")
        return value

    return {name: _VARIABLE.sub(fill, value) for name, value in values.items()}


def _secrets_of(
    server: str, entry: JsonMapping, env: Mapping[str, str], headers: Mapping[str, str]
) -> Iterator[tuple[str, Secret]]:
    """Yield values that are secrets by their name or came from a variable, and a password in the address."""
    for kind, values in (("env", env), ("headers", headers)):
        for name, value in values.items():
            if len(value) >= 4 and (_SECRET_NAME.search(name) or _VARIABLE.search(entry[kind][name])):
                words = value.split()  # `Bearer ...`
                yield f"mcp.{server}.{name}", Secret(value=words[-1] if kind == "headers" and words else value)
    password = urlsplit(entry.get("url", "")).password
    if password:
        yield f"mcp.{server}.password", Secret(value=password)
