"""Where requests go and with which key: the setting, else `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cua.errors import ConfigError

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""Sent where a server of one's own asks for no key: the header must hold something."""

MOONSHOT_HOSTS = ("moonshot.ai", "moonshot.cn")
VENDOR_HOSTS = (
    *MOONSHOT_HOSTS,
    "api.openai.com",
    "openrouter.ai",
    "together.xyz",
    "together.ai",
    "fireworks.ai",
    "groq.com",
    "deepseek.com",
    "mistral.ai",
    "anthropic.com",
    "googleapis.com",
    "x.ai",
)
"""Hosts that never answer without a key, so that its absence is told before the first request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible server.

    Attributes:
        base_url: URL up to and including `/v1`, without a trailing slash.
        api_key: Never shown.
        key_source: Where the key comes from, for error texts.
    """

    base_url: str = field(repr=False)
    api_key: str = field(repr=False)
    key_source: str = "the api_key setting"

    @property
    def host(self) -> str:
        """Host name in lower case, without the port."""
        return (urlsplit(self.base_url).hostname or "").lower()

    @property
    def shown_url(self) -> str:
        """The URL without a user name and password."""
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, so that its tokens cost nothing."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own host."""
        return self.host == "api.openai.com"

    @property
    def is_moonshot(self) -> bool:
        """Whether this is one of the hosts of K2.5's vendor."""
        return _is_under(self.host, MOONSHOT_HOSTS)

    def redact(self, text: str) -> str:
        """Take the key and a password of the URL out of a text."""
        parts = urlsplit(self.base_url)
        for secret in (self.api_key, parts.password):
            if secret and secret != NO_KEY:
                text = text.replace(secret, "***")
        return text


def find_endpoint(
    base_url: str | None = None, api_key: str | None = None, environ: Mapping[str, str] | None = None
) -> Endpoint:
    """Put the endpoint together from settings and environment.

    Args:
        base_url: Wins over `OPENAI_BASE_URL`; without both it is OpenAI's own.
        api_key: Wins over `OPENAI_API_KEY`; a server that is no known vendor gets the word `none`.
        environ: `os.environ` unless given.

    Returns:
        The endpoint; nothing is contacted.

    Raises:
        ConfigError: Nothing is configured, the URL is no http URL, or the key is missing or malformed.
    """
    env = os.environ if environ is None else environ
    url = (base_url or env.get("OPENAI_BASE_URL") or "").strip().rstrip("/")
    key, source = (api_key or "").strip(), "the api_key setting"
    if not key:
        key, source = (env.get("OPENAI_API_KEY") or "").strip(), "OPENAI_API_KEY"
    if not url and not key:
        raise ConfigError(
            "no model endpoint is configured: set OPENAI_BASE_URL (and OPENAI_API_KEY where the server wants a key), "
            "or use the embedded model with --model literal"
        )
    url = url or OPENAI_URL
    _check_url(url)
    if not key:
        key, source = NO_KEY, "no key was given"
        if _is_under((urlsplit(url).hostname or "").lower(), VENDOR_HOSTS):
            raise ConfigError(f"{urlsplit(url).hostname} needs a key: set OPENAI_API_KEY, or use --model literal")
    if not key.isascii() or any(char.isspace() or not char.isprintable() for char in key):
        raise ConfigError(f"the API key from {source} holds spaces, line breaks or non-ASCII characters: copy it again")
    return Endpoint(base_url=url, api_key=key, key_source=source)


def _is_under(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith("." + domain) for domain in domains)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        guess = "" if "://" in url else f" Did you mean 'http://{url}'?"
        shown = url.rpartition("@")[2]
        raise ConfigError(
            f"the model's base URL {shown!r} is not an http(s) URL; expected something like "
            f"'http://localhost:8000/v1'.{guess}"
        )
