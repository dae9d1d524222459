"""Requests of pages, held in the browser until they are checked.

Interception by the browser itself is used (`Fetch` of the DevTools protocol, on the browser): it covers frames,
windows, workers, beacons and requests that are sent while a page unloads, with and without TLS. Not covered: messages
on an open WebSocket or WebRTC channel, scripts, styles and images without a query (always GET), and requests of
extensions.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envs.browser.redact import Redactor
from envs.errors import EnvSetupError
from envs.json_fields import Json
from envs.page_request import READ_METHODS, PageRequest, RequestCheck, RequestKind
from envs.secret_texts import without_login

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession

_KINDS: dict[str, RequestKind] = {"Document": "document", "Ping": "beacon", "CSPViolationReport": "beacon"}
_TYPES = ("Document", "XHR", "Fetch", "Ping", "CSPViolationReport", "Other")
_PATTERNS = [
    *({"urlPattern": "*", "resourceType": name} for name in _TYPES),
    {"urlPattern": r"*\?*", "resourceType": "Image"},
]
_MAX_BODY_CHARS = 64_000  # the guard looks for operations and secrets in this part of a body
_MAX_SHOWN_CHARS = 200  # of an address in a note
_MAX_HELD = 2_000  # a page with more waiting requests is out of control; bounds memory
_OVERRIDES = ("x-http-method-override", "x-http-method", "x-method-override")
"""Headers by which a POST overrides its method."""
_CLOSE_TIMEOUT_S = 2.0  # a page that hangs must not hold up the end


class HeldRequests:
    """Requests of a browser context, held while there is a check.

    Interception must be on before a document is loaded, so it always is; without a check all requests pass.

    Args:
        context: The context, the only one of its browser.
        redact: Masks secrets in the fields of a request.
        note: Called with a line for the agent when a request was dropped.
        is_shared: True if the browser has other contexts too.
    """

    def __init__(
        self, context: "BrowserContext", redact: Redactor, note: Callable[[str], None], *, is_shared: bool
    ) -> None:
        self._context = context
        self._redact = redact
        self._note = note
        self._is_shared = is_shared
        self._check: RequestCheck | None = None
        self._is_over = False
        self._session: CDPSession | None = None
        self._judging: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._tabs: dict[str, str] = {}
        self._opened: set[str] = set()
        self._coming: dict[str, str] = {}
        self._new: set[str] = set()
        self._is_by_person = False

    def is_asking(self) -> bool:
        """Return True while a request is being checked; a person may be deciding about it."""
        return bool(self._judging)

    def on_input(self, *, is_by_person: bool) -> None:
        """Record an input: documents loaded before it no longer count as new."""
        self._is_by_person = is_by_person
        self._coming.clear()
        self._new.clear()

    async def install(self) -> None:
        """Intercept the requests of documents that are loaded from now on."""
        if self._is_shared or self._context.browser is None:
            return
        self._session = session = await self._context.browser.new_browser_cdp_session()
        session.on("Fetch.requestPaused", self._on_paused)
        session.on("Target.targetCreated", self._on_target)
        session.on("Target.targetInfoChanged", self._on_target)
        session.on("Target.targetDestroyed", self._on_target_gone)
        await asyncio.gather(
            session.send("Target.setDiscoverTargets", {"discover": True}),
            session.send("Fetch.enable", {"patterns": _PATTERNS}),
        )

    def start(self, check: RequestCheck) -> None:
        """Hold requests from now on.

        Raises:
            EnvSetupError: If the browser has other contexts, whose requests cannot be distinguished.
        """
        if self._session is None:
            raise EnvSetupError(
                "requests cannot be held in a browser that is shared; use a browser of its own, or approve=yolo"
            )
        self._check = check

    async def why_refused(self, url: str, page_url: str) -> str | None:
        """Return why the agent may not open a URL in a tab, or None; a person may be asked meanwhile."""
        if self._check is None or self._is_over:
            return None
        request = PageRequest(
            method="GET",
            url=self._shown(url),
            kind="document",
            is_top=True,
            page_url=self._shown(page_url),
            is_by_person=self._is_by_person,
        )
        task = asyncio.ensure_future(self._ask(request))
        self._judging.add(waiting := asyncio.ensure_future(_end_of(task)))
        waiting.add_done_callback(self._judging.discard)
        return await task

    async def drop(self) -> None:
        """Drop held requests and later ones that may change something, since the run is over; reading requests pass."""
        self._is_over = self._check is not None
        for task in self._judging:
            task.cancel()
        if work := {*self._judging, *self._sending}:
            await asyncio.wait(work, timeout=_CLOSE_TIMEOUT_S)
        if self._sending:  # the responses to the requests that were just cancelled
            await asyncio.wait(set(self._sending), timeout=_CLOSE_TIMEOUT_S)

    async def close(self) -> None:
        """Stop intercepting; call it only after the context is closed, since held requests would be sent otherwise."""
        session, self._session = self._session, None
        if session is not None:
            await session.detach()

    def _on_target(self, event: Json) -> None:
        info = event["targetInfo"]
        if info["type"] != "page":
            return
        tab, url = info["targetId"], _without_fragment(info["url"])
        if url != _without_fragment(self._tabs.get(tab, "")) and self._coming.get(tab) == url:
            self._new.add(tab)  # the requested document has loaded
        self._tabs[tab] = info["url"]
        if info.get("canAccessOpener"):
            self._opened.add(tab)

    def _on_target_gone(self, event: Json) -> None:
        self._tabs.pop(event["targetId"], None)
        self._opened.discard(event["targetId"])
        self._new.discard(event["targetId"])
        self._coming.pop(event["targetId"], None)

    def _on_paused(self, event: Json) -> None:
        method, frame = event["request"]["method"], event.get("frameId", "")
        is_document = event["resourceType"] == "Document"
        is_top = is_document and frame in self._tabs
        is_bare = method in READ_METHODS and not is_top and "?" not in event["request"]["url"]
        is_plain = self._check is None or is_bare or (self._is_over and method in READ_METHODS)
        request = self._request_of(event, is_top=is_top) if not is_plain else None
        if is_top and frame not in self._opened:
            self._coming[frame] = _without_fragment(event["request"]["url"])
        if request is None:
            self._send("Fetch.continueRequest", requestId=event["requestId"])
        elif len(self._judging) >= _MAX_HELD:
            self._drop(event, request, f"{_MAX_HELD} requests are held already")
        else:
            task = asyncio.ensure_future(self._judge(event, request))
            self._judging.add(task)
            task.add_done_callback(self._judged)

    def _judged(self, task: "asyncio.Task[None]") -> None:
        self._judging.discard(task)
        if not task.cancelled():
            task.exception()  # exception of the check, which its run reports

    def _request_of(self, event: Json, *, is_top: bool) -> PageRequest:
        request, frame = event["request"], event.get("frameId", "")
        headers = {name.lower(): value for name, value in request["headers"].items()}
        sender, kind = headers.get("referer", ""), _KINDS.get(event["resourceType"], "fetch")
        return PageRequest(
            method=_method_of(request["method"], headers),
            url=self._shown(request["url"]),
            kind=kind,
            is_top=is_top,
            page_url=self._shown(self._tabs.get(frame) or sender or headers.get("origin", "")),
            body=self._redact(request.get("postData", "")[:_MAX_BODY_CHARS]),
            is_by_person=self._is_by_person,
            is_from_new_document=self._is_from_new(frame, sender, kind),
        )

    def _is_from_new(self, frame: str, sender: str, kind: RequestKind) -> bool:
        """Return True if a new document sends it; requests of its predecessor while unloading may arrive later."""
        if frame not in self._tabs:
            return bool(self._new)
        is_own = _without_fragment(sender) == _without_fragment(self._tabs[frame])
        tells_origin_only = urlsplit(sender).path == "/"  # for a request to another site
        return frame in self._new and (is_own or (tells_origin_only and kind == "fetch"))

    async def _judge(self, event: Json, request: PageRequest) -> None:
        reason: str | None = "the run is over"
        try:
            reason = await self._ask(request)
        finally:  # a check that fails or is cancelled allows nothing
            if reason is None:
                self._send("Fetch.continueRequest", requestId=event["requestId"])
            else:
                self._drop(event, request, reason)

    async def _ask(self, request: PageRequest) -> str | None:
        if self._is_over or self._check is None:
            return "the run is over"
        return await self._check(request)

    def _drop(self, event: Json, request: PageRequest, reason: str) -> None:
        self._note(f"a request of the page was dropped, {request.method} {request.url[:_MAX_SHOWN_CHARS]}: {reason}")
        self._fail(event)

    def _fail(self, event: Json) -> None:
        # an aborted document leaves the page as it is; a new window has no page and gets an error page
        stays = event["resourceType"] == "Document" and self._tabs.get(event.get("frameId", ""), "") not in ("", ":")
        reason = "Aborted" if stays else "BlockedByClient"
        self._send("Fetch.failRequest", requestId=event["requestId"], errorReason=reason)

    def _send(self, method: str, **parameters: str) -> None:
        task = asyncio.ensure_future(self._send_quietly(method, parameters))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_quietly(self, method: str, parameters: dict[str, str]) -> None:
        from playwright.async_api import Error

        if self._session is not None:
            with contextlib.suppress(Error):  # the page is gone, and the request with it
                await self._session.send(method, parameters)

    def _shown(self, url: str) -> str:
        return self._redact(without_login(url))


def _method_of(method: str, headers: dict[str, str]) -> str:
    """Return the effective method; an override header cannot turn a changing method into a reading one."""
    meant = next((headers[name].strip().upper() for name in _OVERRIDES if name in headers), method)
    return method if meant in READ_METHODS else meant


async def _end_of(task: "asyncio.Future[str | None]") -> None:
    await asyncio.wait({task})


def _without_fragment(url: str) -> str:
    return url.partition("#")[0]
