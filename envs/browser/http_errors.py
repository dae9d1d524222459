"""Pages that are a server's error: an agent is told, as the picture often does not say so."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from envs.secret_forms import without_login

if TYPE_CHECKING:
    from playwright.async_api import Response

_HINTS = {
    401: "it wants a user name and a password by HTTP authentication, for which there is no window; a person can give "
    "them in the setting http_auth",
    407: "the proxy wants a password",
    429: "wait before the next request",
}


def error_note(response: "Response") -> str | None:
    """What to tell of the main document of a tab that came with an error status; None for all else."""
    if response.status < 400 or not _is_page(response):
        return None
    hint = _HINTS.get(response.status)
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
    except Error:  # a new window, which has no frame yet
        return True
