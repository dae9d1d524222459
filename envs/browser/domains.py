"""Domain rules applied to the requests of a browser context."""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envs.browser.filter_proxy import FilterProxy
from envs.domain_rules import DomainRules
from envs.hosts import DEFAULT_PORTS, host_and_port

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route, WebSocketRoute

_MAX_KEPT = 100  # listed blocked addresses of an episode; bounds memory


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRequest:
    """Blocked request."""

    url: str
    reason: str
    is_navigation: bool

    def as_text(self) -> str:
        """Describe what was blocked and why."""
        return f"{self.url} was {'not opened' if self.is_navigation else 'blocked'}: {self.reason}"


class Firewall:
    """Filter that blocks requests by the domain rules, and records them until they are fetched.

    Requests are stopped by routing, which knows the page and leaves it as it is. Requests that are not routed (a
    redirect, a shared worker, a prefetch, ...) are stopped by the filter proxy when they leave the browser.
    """

    def __init__(self, rules: DomainRules, filter_proxy: FilterProxy | None = None) -> None:
        self._rules = rules
        self._filter_proxy = filter_proxy
        self._blocked: list[BlockedRequest] = []

    async def install(self, context: "BrowserContext") -> None:
        """Apply the rules to a browser context."""
        if not self._rules:
            return
        await context.route("**/*", self._on_route)
        await context.route_web_socket(lambda url: self._rules.why_blocked(url) is not None, self._on_web_socket)
        context.on("requestfailed", self._on_failed)

    def take(self) -> list[BlockedRequest]:
        """Return the requests blocked since the last call."""
        blocked, self._blocked = self._blocked, []
        if self._filter_proxy is not None:
            known = {_origin(request.url) for request in blocked}
            for stopped in self._filter_proxy.take():
                if _origin(stopped.url) not in known:
                    blocked.append(BlockedRequest(url=stopped.url, reason=stopped.reason, is_navigation=False))
        return blocked

    def failure_of(self, url: str) -> str | None:
        """Return why the host of a URL could not be reached, as recorded by the filter proxy."""
        with contextlib.suppress(ValueError):
            return self._filter_proxy.failure_of(*host_and_port(url)) if self._filter_proxy is not None else None
        return None

    async def _on_route(self, route: "Route", request: "Request") -> None:
        reason = self._rules.why_blocked(request.url)
        if reason is None:
            await route.continue_()
            return
        # an aborted navigation leaves the page as it is; a new window has no page and gets an error page
        stays = request.is_navigation_request() and _has_frame(request)
        await route.abort("aborted" if stays else "blockedbyclient")
        self._remember(request, reason)

    async def _on_web_socket(self, socket: "WebSocketRoute") -> None:
        self._keep(
            BlockedRequest(url=socket.url, reason=self._rules.why_blocked(socket.url) or "", is_navigation=False)
        )
        await socket.close(code=1008, reason="blocked")

    def _on_failed(self, request: "Request") -> None:
        reason = self._rules.why_blocked(request.url)
        if reason is not None and request.redirected_from is not None:
            self._remember(request, reason)

    def _remember(self, request: "Request", reason: str) -> None:
        is_navigation = request.is_navigation_request() and _is_top(request)
        self._keep(BlockedRequest(url=request.url, reason=reason, is_navigation=is_navigation))

    def _keep(self, blocked: BlockedRequest) -> None:
        if len(self._blocked) < _MAX_KEPT:
            self._blocked.append(blocked)


def _origin(url: str) -> tuple[str | None, int | None]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def _is_top(request: "Request") -> bool:
    """Return True for a navigation of a tab; a new window has no frame yet."""
    return not _has_frame(request) or request.frame.parent_frame is None


def _has_frame(request: "Request") -> bool:
    from playwright.async_api import Error

    try:
        return request.frame is not None
    except Error:
        return False
