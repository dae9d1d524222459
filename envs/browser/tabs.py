"""Tabs of a browser context: their order, the active one, opening ones, and surplus ones."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envs.errors import ActionError
from envs.json_fields import Json
from envs.observation import Tab

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

_BEFORE_CLOSING_S = 0.5
"""Delay before a surplus window is closed; closing it during its creation would block its opener forever."""


class Tabs:
    """Pages in the order of their tabs; a new one becomes active."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self._active: Page | None = None
        self._in_front: Page | None = None
        self._titles: dict[Page, str] = {}
        self._openers: dict[Page, Page] = {}
        self._is_selected = False

    @property
    def active(self) -> "Page":
        """Active page.

        Raises:
            ActionError: If there is none at the moment.
        """
        if self._active is None:
            raise ActionError("the tab was closed")
        return self._active

    def add(self, page: "Page", *, after: "Page | None" = None, is_opened: bool = False) -> bool:
        """Add a new page and make it active; return False if it is already known or closed.

        Args:
            page: The page.
            after: Page to insert it after; None: at the end.
            is_opened: True if the active page has opened it.
        """
        if page in self.pages or page.is_closed():
            return False
        at = self.pages.index(after) + 1 if after in self.pages else len(self.pages)
        self.pages.insert(at, page)
        if is_opened and self._active is not None:
            self._openers[page] = self._active
            self._is_selected = False
        self._active = page
        return True

    def opener_of(self, page: "Page") -> "Page | None":
        """Return the page that opened a page; None for a tab that was opened by hand."""
        return self._openers.get(page)

    def remove(self, page: "Page") -> None:
        """Remove a closed page; if it was active, activate the page that opened it, or else its neighbour.

        As in Chrome, openers count only until another tab is selected by hand.
        """
        if page not in self.pages:
            return
        at = self.pages.index(page)
        self.pages.remove(page)
        self._titles.pop(page, None)
        opener = self._openers.pop(page, None)
        if self._active is page and opener in self.pages and not self._is_selected:
            self._active = opener
        elif self._active is page:
            self._active = self.pages[min(at, len(self.pages) - 1)] if self.pages else None

    def select(self, number: int) -> None:
        """Make a tab active; the number counts from 0 and wraps around."""
        self._is_selected = True
        self._active = self.pages[number % len(self.pages)]

    def activate(self, page: "Page") -> None:
        """Make a page active."""
        if page in self.pages:
            self._active = page

    def step(self, by: int) -> None:
        """Select the next (1) or previous (-1) tab."""
        self.select(self.pages.index(self.active) + by)

    async def bring_to_front(self) -> None:
        """Bring the active page to the front of the browser, if needed."""
        if self._active is not None and self._active is not self._in_front:
            await self._active.bring_to_front()
            self._in_front = self._active

    def set_title(self, page: "Page", title: str | None) -> None:
        """Record a page's title."""
        if title is not None and page in self.pages:
            self._titles[page] = title

    def title(self, page: "Page") -> str:
        """Return a page's last recorded title."""
        return self._titles.get(page, "")

    def listed(self) -> tuple[Tab, ...]:
        """Return the tabs for an observation."""
        return tuple(Tab(title=self.title(page), url=page.url, is_active=page is self._active) for page in self.pages)


class PageLimiter:
    """Counter of the pages of a context that closes pages beyond a limit.

    Playwright reports a new window after its first response, which may never come; the browser reports it at once.

    Args:
        max_pages: Maximum number of pages.
        loading_timeout_s: Time limit for a window without a response (for example 204 No Content).
    """

    def __init__(self, max_pages: int, loading_timeout_s: float) -> None:
        self._loading_timeout_s = loading_timeout_s
        self._max_pages = max_pages
        self._session: CDPSession | None = None
        self._context_id: str | None = None
        self._ids: dict[str, float] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._num_closed = 0
        self._num_own = 0

    @property
    def is_opening_own(self) -> bool:
        """True while this program, and not another page, opens a page."""
        return self._num_own > 0

    @property
    def is_full(self) -> bool:
        """True if the limit is reached."""
        return len(self._ids) >= self._max_pages

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """Mark pages opened in the block as own pages, which are kept beyond the limit."""
        self._num_own += 1
        try:
            yield
        finally:
            self._num_own -= 1

    async def watch(self, context: "BrowserContext", page: "Page") -> None:
        """Start counting; `page` is the first page of the context."""
        if context.browser is None:
            return
        own, session = await asyncio.gather(context.new_cdp_session(page), context.browser.new_browser_cdp_session())
        self._session = session
        self._context_id = (await own.send("Target.getTargetInfo"))["targetInfo"].get("browserContextId")
        session.on("Target.targetCreated", self._on_created)
        session.on("Target.targetDestroyed", self._on_destroyed)
        await asyncio.gather(own.detach(), session.send("Target.setDiscoverTargets", {"discover": True}))

    async def close(self) -> None:
        """Stop counting."""
        from playwright.async_api import Error

        session, self._session = self._session, None
        for task in self._closing:
            task.cancel()
        if session is not None:
            with contextlib.suppress(Error):
                await session.detach()

    def num_coming(self, num_shown: int) -> int:
        """Return the number of windows that are opening, in addition to those shown."""
        actions_started_s = time.monotonic() - self._loading_timeout_s
        num_recent = sum(created_s > actions_started_s for created_s in self._ids.values())
        return max(0, min(len(self._ids) - num_shown, num_recent))

    def take_note(self) -> str | None:
        """Return a note for the agent on windows that were closed since the last call."""
        count, self._num_closed = self._num_closed, 0
        if not count:
            return None
        tabs = "1 new tab was" if count == 1 else f"{count} new tabs were"
        return f"{tabs} closed at once: there can be {self._max_pages} tabs; close some to open others"

    def _on_created(self, event: Json) -> None:
        info = event["targetInfo"]
        if info["type"] != "page" or info.get("browserContextId") != self._context_id:
            return
        if self.is_full and not self._num_own:
            self._num_closed += 1
            task = asyncio.ensure_future(self._close_target(info["targetId"]))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        else:
            self._ids[info["targetId"]] = time.monotonic()

    def _on_destroyed(self, event: Json) -> None:
        self._ids.pop(event["targetId"], None)

    async def _close_target(self, target_id: str) -> None:
        from playwright.async_api import Error

        await asyncio.sleep(_BEFORE_CLOSING_S)
        if self._session is not None:
            with contextlib.suppress(Error):
                await self._session.send("Target.closeTarget", {"targetId": target_id})
