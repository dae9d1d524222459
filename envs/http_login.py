"""User names and passwords for HTTP authentication, and how they come out of addresses."""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

MIN_PASSWORD_CHARS = 3
"""A shorter password is hidden only beside its user name; alone it would be found in every text."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOGIN = re.compile(r"(https?):[/\\]*([^/?#\\]*)@", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLogin:
    """What a browser answers when a server asks for a user name and a password.

    Attributes:
        origin: The only place that gets it: scheme, host and, if it is not the usual one, port; `https://host:8443`.
        username: The user's name.
        password: Never shown by `repr`.
    """

    origin: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if origin_of(self.origin) != self.origin.lower().rstrip("/"):
            raise ValueError(f"{self.origin!r} is no origin; expected one such as https://intranet.example.com")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that nobody may see."""
        alone = self.password or self.username
        both = f"{self.username}:{self.password}"
        return (both, alone) if len(alone) >= MIN_PASSWORD_CHARS else (both,)


def origin_of(url: str) -> str | None:
    """Scheme, host and port of an address, as a browser writes them; None when it has none."""
    try:
        parts = urlsplit(url.replace("\\", "/"))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        return None
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (f":{port}" if port not in (None, _DEFAULT_PORTS[parts.scheme]) else "")


def split_login(url: str) -> tuple[str, HttpLogin | None]:
    """An address without the user name and password in it, and these."""
    found = _LOGIN.match(url.strip())
    if found is None:
        return url, None
    plain = f"{found[1].lower()}://{url.strip()[found.end() :]}"
    origin = origin_of(plain)
    username, _, password = found[2].partition(":")
    if origin is None or not (username or password):
        return plain, None
    return plain, HttpLogin(origin=origin, username=unquote(username), password=unquote(password))
