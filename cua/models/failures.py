"""Converts errors of a server to `ModelError`s with instructions for the operator."""

import email.utils
import json
import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from cua.errors import ContextOverflowError, ModelAccessError, ModelError, UnavailableError, name_choices
from cua.json_text import read_json, well_formed
from cua.models.accumulator import count_of
from cua.models.endpoint import Endpoint
from cua.models.gate import OverloadedError

_OVERLOADED = {408, 409, 425, 429, 503, 529}
_AWAY = {502, 504, *range(520, 528), 530}
"""Statuses of a proxy that does not reach the server behind it; 520 to 530 are Cloudflare's."""
_NEVER_RETRYABLE = {501, 505}
_MAX_SHOWN_CHARS = 400  # of a server's message: enough for its sentence, too little for a page of HTML
_MAX_READ_CHARS = 100_000  # bounds the time to strip an error page

TEMPERATURE_HINT = (
    "Kimi K2.5 on this server takes one temperature only (1 with thinking, 0.6 without). "
    "Use --preset kimi-k2.5, or leave it out with --temperature omit"
)


class _Hint(NamedTuple):
    statuses: tuple[int, ...]
    pattern: str
    text: str


_CONTEXT = r"context.length|maximum context|too many tokens|context.window|prompt is too long"

_HINTS = (
    _Hint((400, 422), r"invalid temperature|only [\d.]+ is allowed", TEMPERATURE_HINT),
    _Hint(
        (400,),
        r"reasoning_content is missing",
        "the reasoning of a running tool loop must go back: keep the ThinkPart of assistant messages with tool calls",
    ),
    _Hint(
        (400, 413, 422),
        _CONTEXT,
        "the conversation is longer than the model's context: send fewer images, or raise the server's limit",
    ),
    _Hint(
        (400, 415, 422),
        r"image|multimodal|vision|content.{0,20}(list|array|string)",
        "this model may not accept images; check with `cua doctor`, or choose a model with vision",
    ),
    _Hint((400, 422), r"max_tokens|max_completion_tokens", "change --max-tokens, or leave it out"),
    _Hint((400, 422), r"stream_options|stream", "this server may not stream: turn streaming off"),
    _Hint((400, 422), r"", "the server rejects the request; its message above names the field"),
    _Hint((402,), r"", "the account has no money left"),
    _Hint((413,), r"", "the request is too large: send fewer images, or smaller ones with --image-format webp:75"),
    _Hint((429,), r"quota|billing|balance", "the account's quota is used up; waiting does not help"),
)


def status_failure(
    status: int,
    text: str,
    headers: Mapping[str, str],
    endpoint: Endpoint,
    *,
    model: str = "",
    known_models: Sequence[str] = (),
) -> ModelError:
    """Convert an HTTP error status to an error.

    Returns:
        The error: an `UnavailableError` if the endpoint serves no request at the moment; any other error of the server
        itself is retryable.
    """
    if 300 <= status < 400:
        return _redirected(status, headers.get("location", ""), endpoint)
    message = server_message(text)
    shown = f"{endpoint.shown_url} answered {status}" + (f": {message}" if message else "")
    is_quota = status == 429 and re.search(r"insufficient_quota|exceeded_current_quota|billing", text, re.IGNORECASE)
    wait_s = retry_after_s(headers)
    if not is_quota and (status in _OVERLOADED or (wait_s is not None and status >= 500)):
        return OverloadedError(shown, retry_after_s=wait_s)
    if status in _AWAY:
        return UnavailableError(shown)
    if status >= 500 and status not in _NEVER_RETRYABLE:
        return ModelError(shown, retryable=True)
    hint = _hint(status, text, endpoint, model, known_models)
    if status in (400, 413, 422) and re.search(_CONTEXT, text, re.IGNORECASE):
        return ContextOverflowError(_with_hint(shown, hint))
    if status in (401, 402, 403) or is_quota:
        return ModelAccessError(_with_hint(shown, hint))
    return ModelError(_with_hint(shown, hint), retryable=False, code=_code_of(text))


def _code_of(text: str) -> str:
    """Return the code in an error body; "" if there is none."""
    try:
        body = read_json(text)
    except ValueError:
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""


def _redirected(status: int, location: str, endpoint: Endpoint) -> ModelError:
    """Return the error for a redirect. Redirects are not followed: they would send key and data to an unchosen host."""
    try:
        parts = urlsplit(urljoin(f"{endpoint.shown_url}/chat/completions", location))
    except ValueError:
        location, parts = "", urlsplit("")
    shown = f"{endpoint.shown_url} answered with a redirect ({status})"
    if not location or parts.scheme not in ("http", "https"):
        return ModelError(f"{shown}; set --base-url to the address of the API itself", retryable=False)
    target = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()[:_MAX_SHOWN_CHARS]
    base_url = target.removesuffix("/chat/completions")
    return ModelError(
        f"{shown} to {target!r}, which is not followed; if that is the right server, set --base-url to {base_url!r}",
        retryable=False,
    )


def stream_failure(error: object) -> ModelError:
    """Convert an error inside a 200 answer to an error; only a clear 4xx code makes it permanent."""
    fields = error if isinstance(error, dict) else {"message": error}
    status = count_of(fields.get("code")) or count_of(fields.get("status")) or 0
    message = well_formed(str(fields.get("message") or json.dumps(fields, ensure_ascii=False)))[:_MAX_SHOWN_CHARS]
    is_permanent = 400 <= status < 500 and status not in _OVERLOADED
    hint = next((h.text for h in _HINTS if status in h.statuses and re.search(h.pattern, message, re.IGNORECASE)), "")
    shown = f"the server reports an error: {message}"
    return ModelError(_with_hint(shown, hint) if is_permanent else shown, retryable=not is_permanent)


def connection_failure(
    error: BaseException, endpoint: Endpoint, *, timeouts: str = "", has_answered: bool = False
) -> ModelError:
    """Convert a broken or failed connection to an error."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ModelError(
                f"the certificate of {endpoint.shown_url} cannot be trusted: {cause.verify_message}. "
                "Set SSL_CERT_FILE to the authority's certificate",
                retryable=False,
            )
    if any("timeout" in type(cause).__name__.lower() for cause in causes):
        if has_answered:
            return ModelError(f"{endpoint.shown_url} did not finish its answer in time{timeouts}", retryable=True)
        return UnavailableError(f"{endpoint.shown_url} did not answer in time{timeouts}")
    system = [str(cause) for cause in causes if isinstance(cause, OSError) and str(cause)]
    message = (system or [str(cause) for cause in causes if str(cause)] or [type(error).__name__])[-1]
    if has_answered:
        return ModelError(
            f"the connection to {endpoint.shown_url} broke in the middle of the reply: {message}", retryable=True
        )
    return UnavailableError(f"no connection to {endpoint.shown_url}: {message}. Is the server running?")


def server_message(text: str) -> str:
    """Extract the message of an error body (OpenAI's, FastAPI's or plain text), shortened and without markup."""
    try:
        body = read_json(text)
    except ValueError:
        tags = r"<(script|style)\b(?:(?!<\1\b).)*?</\1>|<[^<>]*>"
        plain = re.sub(tags, " ", text[:_MAX_READ_CHARS], flags=re.DOTALL | re.IGNORECASE)
        return _shorten(" ".join(plain.split()))
    if isinstance(body, dict):
        error = body.get("error")
        inner = error.get("message") if isinstance(error, dict) else error
        body = inner or body.get("message") or body.get("detail") or body
    return _shorten(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Parse a Retry-After header (seconds or a date) to seconds; None if absent or unreadable."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(value)
        return seconds if 0 <= seconds < 1e9 else None
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(value)
        return max(0.0, date.timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _hint(status: int, text: str, endpoint: Endpoint, model: str, known_models: Sequence[str]) -> str:
    if status == 401:
        return f"the key is not accepted ({endpoint.key_source}): set OPENAI_API_KEY to one for {endpoint.host}"
    if status == 403:
        return f"the key may not use model {model!r} here ({endpoint.key_source}), or the region is not served"
    if status in (404, 405):
        return _not_found_hint(endpoint, model, known_models)
    for hint in _HINTS:
        if status in hint.statuses and re.search(hint.pattern, text, re.IGNORECASE):
            return hint.text
    return ""


def _with_hint(text: str, hint: str) -> str:
    return f"{text.rstrip('.')}. {hint[:1].upper()}{hint[1:]}" if hint else text


def _not_found_hint(endpoint: Endpoint, model: str, known_models: Sequence[str]) -> str:
    if known_models and model not in known_models:
        return f"the server has no model {model!r}.{name_choices(model, known_models)}"
    if not re.search(r"/v\d", endpoint.base_url):
        return f"the base URL usually ends in /v1: {endpoint.shown_url}/v1"
    return f"either the model {model!r} or the base URL is wrong"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 3] + "..."
