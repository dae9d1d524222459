"""Waiting for a page to settle, and interrupts of that wait by a dialog, a crash or the death of the browser."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

from envs.browser.options import BrowserOptions
from envs.json_fields import Json

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request


Reason = Literal["dialog", "crash", "died"]
T = TypeVar("T")


class Interrupted(Exception):
    """Interruption by a dialog, a crash or the death of the browser before the result."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Interrupts:
    """Race between running work and interrupts.

    Attributes:
        stranded: Interrupted work that is still running (for example a click whose dialog waits).
    """

    def __init__(self) -> None:
        self.stranded: set[asyncio.Future[Any]] = set()
        self._flags: set[asyncio.Future[Reason]] = set()

    def signal(self, reason: Reason) -> None:
        """Signal an interrupt to all waiting races."""
        for flag in self._flags:
            if not flag.done():
                flag.set_result(reason)

    async def race(
        self, work: Coroutine[object, object, T], timeout_s: float, is_waiting: Callable[[], bool] | None = None
    ) -> T:
        """Return the result of `work`.

        Args:
            work: Work to run.
            timeout_s: Timeout of the work.
            is_waiting: True while the work waits for a person; then the timeout restarts.

        Raises:
            Interrupted: If an interrupt came first; the work continues in the background.
            TimeoutError: If it took too long; the work is cancelled.
        """
        task = asyncio.ensure_future(work)
        flag: asyncio.Future[Reason] = asyncio.get_running_loop().create_future()
        self._flags.add(flag)
        try:
            both: tuple[asyncio.Future[Any], ...] = (task, flag)
            await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            while is_waiting is not None and is_waiting() and not (task.done() or flag.done()):
                await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            self._strand(task)
            raise
        finally:
            self._flags.discard(flag)
        if task.done():
            return task.result()
        if flag.done():
            self._strand(task)
            raise Interrupted(flag.result())
        task.cancel()
        self._strand(task)
        raise TimeoutError

    async def rejoin(self, timeout_s: float) -> None:
        """Wait for interrupted work, up to a timeout that does not raise.

        Raises:
            Interrupted: If another interrupt came first.
        """
        if self.stranded:
            with contextlib.suppress(TimeoutError):
                await self.race(_wait_for(set(self.stranded)), timeout_s)

    def drop(self) -> None:
        """Cancel all interrupted work."""
        for task in self.stranded:
            task.cancel()

    def _strand(self, task: asyncio.Future[Any]) -> None:
        self.stranded.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self.stranded.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it


async def _wait_for(tasks: set[asyncio.Future[Any]]) -> None:
    await asyncio.wait(tasks)


_WAITED_FOR = frozenset({"document", "stylesheet", "image", "font", "script", "xhr", "fetch"})
_MAX_SLOW = 200  # remembered slow requests; bounds memory
Cause = Literal["window", "chooser", "document", "resources", "changes"]
_PROBE = "() => window[Symbol.for('k25')]?.soon() ?? null"
_POLL_S = 0.012  # a page is seen to be at rest this late at most; each look costs a round trip
_RESTLESS_S = 0.3  # a page that never rests is not waited for longer than this once it is known
_NO_COMMIT_MS = 400.0  # a navigation that has not begun by then is a download or was cancelled
_NO_CHOOSER_MS = 400.0  # a file chooser that has not opened by then does not come
NOT_RESPONDING = "the page does not respond; it may be busy"
_NOTES = {
    "window": "a new window is still loading",
    "document": "the page is still loading",
    "resources": "the page is still loading",
}


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    page: "Page | None"
    started_s: float
    is_navigation: bool


class Traffic:
    """Tracker of requests, so that a page is only waited for while it has relevant ones."""

    def __init__(self, context: "BrowserContext") -> None:
        self._flights: dict[Request, _PendingRequest] = {}
        self._slow: set[tuple[str, str]] = set()
        context.on("request", self._on_start)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    def is_navigating(self, page: "Page") -> bool:
        """Return True if the page's next document is being requested."""
        return any(flight.is_navigation and flight.page is page for flight in self._flights.values())

    def is_loading(self, page: "Page", actions_started_s: float) -> bool:
        """Return True if a request that the page started at or after `actions_started_s` (monotonic) is in progress."""
        return any(
            flight.page is page and flight.started_s >= actions_started_s and _endpoint(request) not in self._slow
            for request, flight in self._flights.items()
        )

    def give_up_on(self, page: "Page") -> None:
        """Stop waiting for the requests in progress (for example a long poll)."""
        for request, flight in self._flights.items():
            if flight.page is page and not flight.is_navigation and len(self._slow) < _MAX_SLOW:
                self._slow.add(_endpoint(request))

    def forget(self, page: "Page") -> None:
        """Forget the requests of a closed page."""
        self._flights = {request: flight for request, flight in self._flights.items() if flight.page is not page}

    def committed(self, page: "Page") -> None:
        """Forget the navigation requests of a page whose next document has loaded."""
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
            self._flights[request] = _PendingRequest(page, time.monotonic(), is_navigation)

    def _on_end(self, request: "Request") -> None:
        self._flights.pop(request, None)


def _page_of(request: "Request") -> "tuple[Page | None, bool]":
    from playwright.async_api import Error

    try:
        frame = request.frame
        return frame.page, frame.parent_frame is None
    except Error:  # a service worker, or a page that does not exist yet
        return None, False


def _endpoint(request: "Request") -> tuple[str, str]:
    parts = urlsplit(request.url)
    return request.method, f"{parts.netloc}{parts.path}"


class PendingPages(Protocol):
    """Pages and dialogs opened by a page."""

    def is_page_coming(self) -> bool:
        """Return True while a page is prepared without a request."""
        ...

    def num_windows(self) -> int:
        """Return the number of windows that are about to open."""
        ...

    def has_overlay(self) -> bool:
        """Return True if there is an overlay over the page."""
        ...

    def is_asking(self) -> bool:
        """Return True while a request is held, about which a person may be asked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledPage:
    """Result of waiting for a page.

    Attributes:
        title: Title of the document; None if the page did not answer.
        note: Note for the agent ("still loading").
    """

    title: str | None
    note: str | None = None


class PageSettler:
    """Detector of settled pages, with a record of pages that never settle."""

    def __init__(
        self, options: BrowserOptions, traffic: Traffic, interrupts: Interrupts, pending: PendingPages
    ) -> None:
        self._options = options
        self._traffic = traffic
        self._interrupts = interrupts
        self._pending = pending
        self._given_up: set[tuple[str, str]] = set()

    async def settle(self, page: "Page", actions_started_s: float) -> SettledPage:
        """Wait until everything that started at or after `actions_started_s` (monotonic) has ended.

        A page has settled if no next document is requested, the current one is parsed and loaded, its requests are
        answered, it has not changed for `quiet_s`, and no short animation is running.

        Raises:
            Interrupted: If a dialog opened, or the page or the browser died.
        """
        from playwright.async_api import Error

        began_s = time.monotonic()
        title = None
        while True:
            probe: Json | None = None
            try:
                probing = page.evaluate(_PROBE)
                probe = await self._interrupts.race(probing, self._options.settle_timeout_s, self._pending.is_asking)
            except TimeoutError:
                return SettledPage(title=None, note=NOT_RESPONDING)
            except Error:  # the document was replaced during the call
                if page.is_closed():
                    return SettledPage(title=None)
            title = probe["title"] if probe else title
            if self._pending.is_asking():
                began_s = time.monotonic()  # the time of a person does not count
                await asyncio.sleep(_POLL_S)
                continue
            cause = self._cause(page, probe, actions_started_s)
            if cause is None:
                self._given_up.clear()
                return SettledPage(title=title)
            if time.monotonic() - began_s > self._limit_s(page, cause):
                return SettledPage(title=title, note=self._give_up(page, cause))
            await asyncio.sleep(_POLL_S)

    def _cause(self, page: "Page", probe: Json | None, actions_started_s: float) -> Cause | None:
        """Return what is still waited for, if anything."""
        if self._pending.num_windows():
            return "window"
        if self._traffic.is_navigating(page) or self._pending.is_page_coming():
            return "document"
        if probe is None:
            return "document" if page.url not in ("", "about:blank") else None
        if probe["is_loading"] or 0 < probe["leaving_ms"] < _NO_COMMIT_MS:
            return "document"
        if 0 < probe["choosing_ms"] < _NO_CHOOSER_MS and not self._pending.has_overlay():
            return "chooser"
        if not probe["is_complete"] or self._traffic.is_loading(page, actions_started_s):
            return "resources"
        if probe["age_ms"] < self._options.quiet_s * 1000 or probe["is_animating"]:
            return "changes"
        return None

    def _limit_s(self, page: "Page", cause: Cause) -> float:
        was_given_up = (page.url, cause) in self._given_up
        if cause == "document" and not was_given_up:
            return self._options.navigation_timeout_s
        if cause in ("changes", "window") and was_given_up:
            return min(_RESTLESS_S, self._options.settle_timeout_s)
        return self._options.settle_timeout_s

    def _give_up(self, page: "Page", cause: Cause) -> str | None:
        """Give up on a cause and wait less for it next time; return a note for the agent."""
        self._given_up.add((page.url, cause))
        if cause == "resources":
            self._traffic.give_up_on(page)
        return _NOTES.get(cause)
