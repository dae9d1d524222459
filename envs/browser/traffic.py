"""Which requests of a browser context are under way."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request

_WAITED_FOR = frozenset({"document", "stylesheet", "image", "font", "script", "xhr", "fetch"})
_MAX_SLOW = 200


@dataclass(frozen=True, slots=True)
class _Flight:
    page: "Page | None"
    started_s: float
    is_navigation: bool


class Traffic:
    """Keeps count of requests, so that a page is only waited for as long as something is coming."""

    def __init__(self, context: "BrowserContext") -> None:
        self._flights: dict[Request, _Flight] = {}
        self._slow: set[tuple[str, str]] = set()
        context.on("request", self._on_start)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    def is_navigating(self, page: "Page") -> bool:
        """Whether the page's next document is on its way."""
        return any(flight.is_navigation and flight.page is page for flight in self._flights.values())

    def is_loading(self, page: "Page", since_s: float) -> bool:
        """Whether something that the page asked for at or after `since_s` (monotonic) is on its way."""
        return any(
            flight.page is page and flight.started_s >= since_s and _endpoint(request) not in self._slow
            for request, flight in self._flights.items()
        )

    def give_up_on(self, page: "Page") -> None:
        """Do not wait again for what is on its way now (a long poll, say)."""
        for request, flight in self._flights.items():
            if flight.page is page and not flight.is_navigation and len(self._slow) < _MAX_SLOW:
                self._slow.add(_endpoint(request))

    def forget(self, page: "Page") -> None:
        """The page is gone, and its requests with it."""
        self._flights = {request: flight for request, flight in self._flights.items() if flight.page is not page}

    def committed(self, page: "Page") -> None:
        """The page's next document has come."""
        self._flights = {
            request: flight
            for request, flight in self._flights.items()
            if not (flight.page is page and flight.is_navigation)
        }

    def _on_start(self, request: "Request") -> None:
        if request.resource_type not in _WAITED_FOR:
            return
        page, is_top = _page_of(request)
        if page is not None:
            is_navigation = is_top and request.is_navigation_request()
            self._flights[request] = _Flight(page, time.monotonic(), is_navigation)

    def _on_end(self, request: "Request") -> None:
        self._flights.pop(request, None)


def _page_of(request: "Request") -> "tuple[Page | None, bool]":
    from playwright.async_api import Error

    try:
        frame = request.frame
        return frame.page, frame.parent_frame is None
    except Error:  # a service worker, or a page that is not there yet
        return None, False


def _endpoint(request: "Request") -> tuple[str, str]:
    parts = urlsplit(request.url)
    return request.method, f"{parts.netloc}{parts.path}"
