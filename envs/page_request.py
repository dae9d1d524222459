"""Outgoing requests of pages, and the check that decides whether they may be sent."""

from dataclasses import dataclass
from typing import Literal, Protocol

READ_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing, by RFC 9110."""
RequestKind = Literal["document", "fetch", "beacon"]
"""`document`: of a tab or a frame, including form submission; `beacon`: sent without waiting for a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Request that the browser holds until it is checked. All texts come from the page.

    Attributes:
        method: `GET`, `POST`, ...
        url: Absolute URL, secrets masked.
        kind: Part of the page that sends it.
        is_top: True for the document of a whole tab or window.
        page_url: URL of the tab that sends it; empty if unknown.
        body: The first 64,000 characters of the body, secrets masked.
        is_by_person: True if the last input came from a person, without a check before it.
        is_from_new_document: True if its tab has opened another document since the last input.
    """

    method: str
    url: str
    kind: RequestKind = "fetch"
    is_top: bool = False
    page_url: str = ""
    body: str = ""
    is_by_person: bool = False
    is_from_new_document: bool = False


class RequestCheck(Protocol):
    """Check of a request before it is sent."""

    async def __call__(self, request: PageRequest) -> str | None:
        """Return why the request must not be sent, or None to allow it."""
        ...
