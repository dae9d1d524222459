"""Endpoint URL and key; sampling presets; a probe that checks if a model answers.

Source: the model card's recommendations for Kimi K2.5 (thinking 1.0 / 0.95, instant 0.6 / 0.95), and the
settings of the published OSWorld and WebArena runs.
"""

import io
import ipaddress
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cua.errors import ConfigError, ModelError, TruncatedReplyError, name_choices
from cua.messages import ImagePart, Message, Part, Reply, Sampling, TextPart
from cua.model import Model

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""Key for self-hosted servers that need none: the header must not be empty."""

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
"""Hosts that always require a key, so that a missing key is reported before the first request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """OpenAI-compatible server.

    Attributes:
        base_url: URL up to and including `/v1`, without a trailing slash.
        api_key: API key; never displayed.
        key_source: Source of the key, for error messages.
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
        """URL without user name, password and query."""
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    @property
    def is_loopback(self) -> bool:
        """True if the server runs on this machine, so that its tokens are free."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified

    @property
    def is_openai(self) -> bool:
        """True if this is OpenAI's own host."""
        return self.host == "api.openai.com"

    @property
    def is_moonshot(self) -> bool:
        """True if this is a host of K2.5's vendor."""
        return _is_under(self.host, MOONSHOT_HOSTS)

    def redact(self, text: str) -> str:
        """Replace the key and the password of the URL in a text."""
        parts = urlsplit(self.base_url)
        for secret in (self.api_key, parts.password):
            if secret and secret != NO_KEY:
                text = text.replace(secret, "***")
        return text


def find_endpoint(
    base_url: str | None = None, api_key: str | None = None, environ: Mapping[str, str] | None = None
) -> Endpoint:
    """Build the endpoint from settings and environment variables.

    Args:
        base_url: Base URL; takes precedence over `OPENAI_BASE_URL`. The default is OpenAI's own URL.
        api_key: API key; takes precedence over `OPENAI_API_KEY`. The default is `none` if the host is not a known
            vendor.
        environ: Environment variables; `os.environ` by default.

    Raises:
        ConfigError: If nothing is configured, the URL is not an http(s) URL, or the key is missing or malformed.
    """
    env = os.environ if environ is None else environ
    url = (base_url or env.get("OPENAI_BASE_URL") or "").strip().rstrip("/")
    key, source = (api_key or "").strip(), "the api_key setting"
    if not key:
        key, source = (env.get("OPENAI_API_KEY") or "").strip(), "OPENAI_API_KEY"
    if not url and not key:
        raise ConfigError(
            "no model endpoint is configured: set OPENAI_BASE_URL (and OPENAI_API_KEY where the server wants a key), "
            "or a model that runs on this machine: --model literal or --model nano"
        )
    url = url or OPENAI_URL
    check_url(url)
    if not key:
        key, source = NO_KEY, "no key was given"
        if _is_under((urlsplit(url).hostname or "").lower(), VENDOR_HOSTS):
            raise ConfigError(f"{urlsplit(url).hostname} needs a key: set OPENAI_API_KEY, or use --model literal")
    check_key(key, source)
    return Endpoint(base_url=url, api_key=key, key_source=source)


def _is_under(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith("." + domain) for domain in domains)


def check_key(key: str, source: str = "the api_key setting") -> None:
    """Check that an HTTP header can carry a key.

    Raises:
        ConfigError: If it cannot; the text does not contain the key.
    """
    if not key.isascii() or any(char.isspace() or not char.isprintable() for char in key):
        raise ConfigError(f"the API key from {source} holds spaces, line breaks or non-ASCII characters: copy it again")


def check_url(url: str) -> None:
    """Check the address of an endpoint.

    Raises:
        ConfigError: If it is not an http or https address.
    """
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


THINKING_OFF_SELF_HOSTED = {"chat_template_kwargs": {"thinking": False}}
THINKING_OFF_MOONSHOT = {"thinking": {"type": "disabled"}}

PRESETS: dict[str, Sampling] = {
    "kimi-k2.5": Sampling(temperature=1.0, top_p=0.95),
    "kimi-k2.5-instant": Sampling(temperature=0.6, top_p=0.95),
    "osworld": Sampling(temperature=0.0, top_p=0.95, max_tokens=4096),
    "webarena": Sampling(temperature=0.1),
    "none": Sampling(),
}
"""Sampling presets. `osworld` and `webarena` work only on self-hosted servers: Moonshot refuses these temperatures."""


def preset_sampling(name: str, endpoint: Endpoint) -> Sampling:
    """Return a preset; thinking is turned off by a separate field at Moonshot, by the chat template elsewhere.

    Raises:
        ConfigError: If the preset is unknown; the text names the closest one.
    """
    name = name.strip().lower()
    sampling = PRESETS.get(name)
    if sampling is None:
        raise ConfigError(f"there is no preset {name!r}.{name_choices(name, PRESETS)}")
    if name != "kimi-k2.5-instant":
        return sampling
    extra = THINKING_OFF_MOONSHOT if endpoint.is_moonshot else THINKING_OFF_SELF_HOSTED
    return Sampling(temperature=sampling.temperature, top_p=sampling.top_p, extra_body=extra)


def automatic_sampling(model: str, endpoint: Endpoint) -> Sampling:
    """Return the default sampling: the thinking preset for K2.5 at Moonshot, else an empty one."""
    is_k25 = model.lower().rpartition("/")[2].startswith("kimi-k2.5")
    return PRESETS["kimi-k2.5" if is_k25 and endpoint.is_moonshot else "none"]


_QUESTION = "Which colour fills the image? Answer with that one word."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """Result of the probe.

    Attributes:
        ok: True if the model answered.
        model: Name of the model, as the server gives it.
        latency_s: Seconds for the answered request.
        accepts_images: True if a request with an image was answered; None if no request was.
        saw_image: True if the answer names the image's color; a server may drop images silently.
        reasoning_field: Field that contained the reasoning; None if there was none.
        reports_usage: True if the server counts tokens; without counts, token and cost caps have no effect.
        answer: Beginning of the reply.
        error: Error of the last failed request; empty if none failed.
        retryable: True if a retry may succeed after that error.
    """

    ok: bool
    model: str = ""
    latency_s: float = 0.0
    accepts_images: bool | None = None
    saw_image: bool = False
    reasoning_field: str | None = None
    reports_usage: bool = False
    answer: str = ""
    error: str = ""
    retryable: bool = False


async def probe(model: Model) -> ProbeReport:
    """Ask for the color of a 32x32 image; if the request is refused, ask a question without an image.

    Retries and timeouts are the model's own: for a fast probe, build the model with low limits. A truncated reply
    counts as an answer.

    Returns:
        The report; errors of the endpoint are included in it, not raised.
    """
    image = ImagePart(data=_red_square())
    try:
        reply, latency_s = await _ask(model, (image, TextPart(text=_QUESTION)))
        return _report(model, reply, latency_s, accepts_images=True)
    except ModelError as error:
        if error.retryable:
            return ProbeReport(ok=False, error=str(error), retryable=True)
        refusal = str(error)
    try:
        reply, latency_s = await _ask(model, (TextPart(text="Answer with the one word: ready"),))
    except ModelError as error:
        return ProbeReport(ok=False, error=str(error), retryable=error.retryable)
    return _report(model, reply, latency_s, accepts_images=False, error=refusal)


async def _ask(model: Model, parts: tuple[Part, ...]) -> tuple[Reply, float]:
    started = time.perf_counter()
    try:
        reply = await model.generate([Message(role="user", parts=parts)])
    except TruncatedReplyError as error:
        if error.reply is None:
            raise
        reply = error.reply
    return reply, time.perf_counter() - started


def _report(model: Model, reply: Reply, latency_s: float, *, accepts_images: bool, error: str = "") -> ProbeReport:
    return ProbeReport(
        ok=True,
        model=reply.model or model.name,
        latency_s=latency_s,
        accepts_images=accepts_images,
        saw_image=accepts_images and "red" in reply.content.lower(),
        reasoning_field=getattr(model, "last_reasoning_field", None),
        reports_usage=reply.usage.total_tokens > 0,
        answer=reply.content.strip()[:80],
        error=error,
    )


def _red_square() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (32, 32), (255, 0, 0)).save(out, format="png")
    return out.getvalue()
