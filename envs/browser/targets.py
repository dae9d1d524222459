"""The windows of a context as the browser itself knows them: those on their way, and those that are too many."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

_BEFORE_CLOSING_S = 0.5
"""A window that goes while it is being made leaves the page that opened it waiting for ever."""


class Targets:
    """Counts the pages of a context and closes those beyond a limit.

    Playwright speaks of a new window when its first answer has come, which may be never; the browser does at once.

    Args:
        max_pages: How many there can be.
    """

    def __init__(self, max_pages: int) -> None:
        self._max_pages = max_pages
        self._session: CDPSession | None = None
        self._context_id: str | None = None
        self._ids: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._num_closed = 0
        self._num_own = 0

    @property
    def is_full(self) -> bool:
        """Whether there can be no more."""
        return len(self._ids) >= self._max_pages

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """A page that is opened meanwhile is ours, and stays whatever the limit."""
        self._num_own += 1
        try:
            yield
        finally:
            self._num_own -= 1

    async def watch(self, context: "BrowserContext", page: "Page") -> None:
        """Begin to count; `page` is the first page of the context."""
        if context.browser is None:
            return
        own = await context.new_cdp_session(page)
        self._context_id = (await own.send("Target.getTargetInfo"))["targetInfo"].get("browserContextId")
        await own.detach()
        self._session = await context.browser.new_browser_cdp_session()
        self._session.on("Target.targetCreated", self._on_created)
        self._session.on("Target.targetDestroyed", self._on_destroyed)
        await self._session.send("Target.setDiscoverTargets", {"discover": True})

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
        """How many windows are on their way beside those shown."""
        return max(0, len(self._ids) - num_shown)

    def take_note(self) -> str | None:
        """What to tell the agent of windows that were closed since the last time."""
        count, self._num_closed = self._num_closed, 0
        if not count:
            return None
        tabs = "1 new tab was" if count == 1 else f"{count} new tabs were"
        return f"{tabs} closed at once: there can be {self._max_pages} tabs; close some to open others"

    def _on_created(self, event: dict[str, Any]) -> None:
        info = event["targetInfo"]
        if info["type"] != "page" or info.get("browserContextId") != self._context_id:
            return
        if self.is_full and not self._num_own:
            self._num_closed += 1
            task = asyncio.ensure_future(self._close_target(info["targetId"]))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        else:
            self._ids.add(info["targetId"])

    def _on_destroyed(self, event: dict[str, Any]) -> None:
        self._ids.discard(event["targetId"])

    async def _close_target(self, target_id: str) -> None:
        from playwright.async_api import Error

        await asyncio.sleep(_BEFORE_CLOSING_S)
        if self._session is not None:
            with contextlib.suppress(Error):
                await self._session.send("Target.closeTarget", {"targetId": target_id})
