"""URLs from typed text, navigation, and the reasons why it failed or returned an error page."""

import ipaddress
import re
from collections import deque
from collections.abc import Callable, Container
from http import HTTPStatus
from typing import TYPE_CHECKING

from envs.errors import ActionError, AddressError
from envs.secret_texts import origin_of, without_login

if TYPE_CHECKING:
    from playwright.async_api import Page, Request, Response

_MAX_FAILED = 50  # remembered failed requests; bounds memory
_NOT_OPENED = "This page could not be opened"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_KNOWN = frozenset({"http", "https", "about", "data"})
_HOST = re.compile(r"[^\s/?#@:]+(:\d{1,5})?", re.IGNORECASE)
_CAUSES = {
    "ERR_CONNECTION_REFUSED": "nothing answers at that address (connection refused)",
    "ERR_NAME_NOT_RESOLVED": "there is no such host",
    "ERR_INTERNET_DISCONNECTED": "there is no network",
    "ERR_ADDRESS_UNREACHABLE": "the host cannot be reached",
    "ERR_CONNECTION_TIMED_OUT": "the host did not answer in time",
    "ERR_TIMED_OUT": "the host did not answer in time",
    "ERR_CONNECTION_RESET": "the host cut the connection",
    "ERR_CONNECTION_CLOSED": "the host closed the connection without an answer",
    "ERR_EMPTY_RESPONSE": "the host closed the connection without an answer",
    "ERR_PROXY_CONNECTION_FAILED": "the proxy does not answer",
    "ERR_TUNNEL_CONNECTION_FAILED": "the proxy refused to connect",
    "ERR_TOO_MANY_REDIRECTS": "it redirects without end",
    "ERR_SSL_PROTOCOL_ERROR": "it does not speak https; try http://",
    "ERR_UNKNOWN_URL_SCHEME": "the browser does not know this kind of address",
    "ERR_INVALID_URL": "this is not a valid address",
    "ERR_FILE_NOT_FOUND": "there is no such file",
    "ERR_UNSAFE_PORT": "the browser refuses this port",
    "ERR_HTTP_RESPONSE_CODE_FAILURE": "the server answered with an error and without a page",
    "ERR_BLOCKED_BY_CLIENT": "it is blocked",
}
_HINTS = {
    401: "it wants a user name and a password by HTTP authentication, for which there is no window; a person can give "
    "them in the setting http_auth",
    407: "the proxy wants a password",
    429: "wait before the next request",
}
_REFUSED = "it refuses the user name and the password given for it; a person can change them in the setting http_auth"


def to_url(text: str, *, more_schemes: frozenset[str] = frozenset()) -> str:
    """Complete an address: `localhost:8000/x` becomes http, `example.com` https.

    Args:
        text: Typed text.
        more_schemes: Accepted schemes in addition to http, https, about and data (for example `"file"`).

    Raises:
        AddressError: If it is not an address, or its scheme is not accepted.
    """
    address = text.strip()
    if not address:
        raise AddressError("the address is empty")
    scheme = _SCHEME.match(address)
    if scheme and ("://" in address or not _looks_like_port(address, scheme.end())):
        name = scheme[1].lower()
        if name in ("http", "https") and not re.match(r"https?:/*[^/?#:\s]", address, re.IGNORECASE):
            raise AddressError(f"{address!r} names no host; write one such as https://example.com/page")
        if name in _KNOWN | more_schemes:
            return address
        raise AddressError(f"addresses of the kind {name + ':'!r} are not taken; write http:// or https://")
    host = re.split(r"[/?#]", address, maxsplit=1)[0]
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    if not _HOST.fullmatch(host) and not _is_ip(name):
        raise AddressError(f"{address!r} is not a web address; write one such as https://example.com/page")
    if _is_local(name):
        return f"http://{address}"
    if "." not in name.strip("."):
        raise AddressError(f"{address!r} is not a web address; write one such as https://example.com/page")
    return f"https://{address}"


def _looks_like_port(address: str, after_colon: int) -> bool:
    return re.match(r"\d{1,5}(?:[/?#]|$)", address[after_colon:]) is not None


def _is_local(host: str) -> bool:
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or _is_ip(host)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


async def open_url(page: "Page", url: str, timeout_s: float) -> None:
    """Navigate to a complete URL; return when its document begins to load.

    Raises:
        ActionError: If it does not load; the text says why.
    """
    from playwright.async_api import Error, TimeoutError

    try:
        await _goto(page, url, timeout_s)
    except TimeoutError as error:
        raise ActionError(f"{url} was not opened: no answer within {timeout_s:g} s") from error
    except Error as error:
        if "Download is starting" in error.message:
            return
        raise ActionError(f"{url} was not opened: {explain(error.message)}") from error


async def _goto(page: "Page", url: str, timeout_s: float) -> None:
    from playwright.async_api import Error

    for _ in range(2):
        try:
            await page.goto(url, wait_until="commit", timeout=timeout_s * 1000)
        except Error as error:
            if "interrupted by another navigation" not in error.message:
                raise
            if "chrome-error:" in error.message:  # an earlier error page loaded late
                continue
        return


def explain(message: str) -> str:
    """Return the cause in a browser's error message, in words."""
    match = re.search(r"net::(ERR_[A-Z_0-9]+)", message)
    code = match[1] if match else ""
    if code.startswith("ERR_CERT"):
        return f"its certificate is not valid ({code}); to accept it anyway, set ignore_https_errors"
    if code in _CAUSES:
        return f"{_CAUSES[code]} ({code})"
    if "invalid URL" in message:
        return "this is not a valid address"
    return code or message.splitlines()[0]


class FailedPages:
    """Reasons why tabs show an error page of the browser, which is blank in a headless one.

    Args:
        why_unreachable: Returns the reason for a URL; None if the browser's own reason is better.
    """

    def __init__(self, why_unreachable: Callable[[str], str | None]) -> None:
        self._why_unreachable = why_unreachable
        self._failed: deque[Request] = deque(maxlen=_MAX_FAILED)

    def on_request_failed(self, request: "Request") -> None:
        """Record a failed navigation."""
        if request.is_navigation_request() and "ERR_ABORTED" not in (request.failure or ""):
            self._failed.append(request)

    def lines_of(self, page: "Page") -> tuple[str, ...]:
        """Return lines that say what a tab could not open and why; empty if it shows anything else."""
        if not page.url.startswith("chrome-error:"):
            return ()
        request = next((request for request in reversed(self._failed) if _is_of(request, page)), None)
        if request is None:
            return (_NOT_OPENED, "the browser gives no reason")
        reason = self._why_unreachable(request.url) or explain(request.failure or "")
        return (_NOT_OPENED, without_login(request.url), reason)


def _is_of(request: "Request", page: "Page") -> bool:
    from playwright.async_api import Error

    try:
        return request.frame == page.main_frame
    except Error:  # a new window has no frame yet
        return False


def error_note(response: "Response", login_origins: Container[str] = ()) -> str | None:
    """Return a note on the main document of a tab that has an error status; None for all other responses.

    Args:
        response: Response of any request.
        login_origins: Origins that were given a user name and a password.
    """
    if response.status < 400 or not _is_page(response):
        return None
    hint = _HINTS.get(response.status)
    if response.status == HTTPStatus.UNAUTHORIZED and origin_of(response.url) in login_origins:
        hint = _REFUSED
    status = f"{response.status} {_phrase(response)}".strip()
    return f"the server answered {status} for {without_login(response.url)}" + (f": {hint}" if hint else "")


def _phrase(response: "Response") -> str:
    try:
        return HTTPStatus(response.status).phrase
    except ValueError:
        return response.status_text[:80]


def _is_page(response: "Response") -> bool:
    from playwright.async_api import Error

    if not response.request.is_navigation_request():
        return False
    try:
        return response.frame.parent_frame is None
    except Error:  # a new window has no frame yet
        return True
