"""Requests that pages are about to send, and the check that decides whether they may leave."""

from dataclasses import dataclass
from typing import Literal, Protocol

READ_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing, by RFC 9110."""
RequestKind = Literal["document", "fetch", "beacon"]
"""`document`: of a tab or a frame, form submission included; `beacon`: sent without waiting for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request that the browser holds back until it is judged. All texts come from the page.

    Attributes:
        method: `GET`, `POST`, ...
        url: Absolute address, secrets masked.
        kind: What part of the page sends it.
        is_top: True for the document of a whole tab or window.
        page_url: Address of the tab that sends it; empty where that is unknown.
        body: The first 64,000 characters of the body, secrets masked.
        is_by_person: True if the last input was one of a person, who was not asked before it.
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
    """Decides about a request before it leaves the browser."""

    async def __call__(self, request: PageRequest) -> str | None:
        """Return why the request must not leave, or None to let it go."""
        ...
