"""Windows that the browser has begun to open and that Playwright does not show yet."""

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page


class Targets:
    """Counts the pages of a context as the browser itself knows them.

    Playwright speaks of a new window when its first answer has come; the browser does at once.
    """

    def __init__(self) -> None:
        self._session: CDPSession | None = None
        self._context_id: str | None = None
        self._ids: set[str] = set()

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
        if session is not None:
            with contextlib.suppress(Error):
                await session.detach()

    def num_coming(self, num_shown: int) -> int:
        """How many windows are on their way beside those shown."""
        return max(0, len(self._ids) - num_shown)

    def _on_created(self, event: dict[str, Any]) -> None:
        info = event["targetInfo"]
        if info["type"] == "page" and info.get("browserContextId") == self._context_id:
            self._ids.add(info["targetId"])

    def _on_destroyed(self, event: dict[str, Any]) -> None:
        self._ids.discard(event["targetId"])
