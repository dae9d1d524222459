"""Going to an address, and saying why that did not work."""

import re
from typing import TYPE_CHECKING

from envs.errors import ActionError

if TYPE_CHECKING:
    from playwright.async_api import Page

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
    "ERR_BLOCKED_BY_CLIENT": "it is blocked",
}


async def open_url(page: "Page", url: str, timeout_s: float) -> None:
    """Go to a complete URL; returns when its document begins to come.

    Raises:
        ActionError: It did not come; the text says why.
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
            if "chrome-error:" in error.message:  # the page of an error before came late
                continue
        return


def explain(message: str) -> str:
    """The cause in a browser's error message, in words."""
    found = re.search(r"net::(ERR_[A-Z_0-9]+)", message)
    code = found[1] if found else ""
    if code.startswith("ERR_CERT"):
        return f"its certificate is not valid ({code}); to accept it anyway, set ignore_https_errors"
    if code in _CAUSES:
        return f"{_CAUSES[code]} ({code})"
    if "invalid URL" in message:
        return "this is not a valid address"
    return code or message.splitlines()[0]
