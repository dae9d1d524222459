"""Tab and document of a screenshot, and the comparison that refuses input decided on another one."""

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from envs.observation import Generation

if TYPE_CHECKING:
    from playwright.async_api import Page

NOTHING_DONE = "so nothing was done. Decide on the new screenshot"
ANOTHER_PAGE = f"the tab went to another page after the screenshot, {NOTHING_DONE}"


class Generations:
    """Counter of the tabs, documents and screenshots of one episode."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._tabs: dict[Page, int] = {}
        self._documents: dict[Page, int] = {}
        self._num_frames = 0
        self._shown: Generation | None = None
        self._shown_overlay: object = None
        self._opening: set[asyncio.Task[None]] = set()

    def watch(self, page: "Page") -> None:
        """Count the documents of a new tab."""
        self._tabs[page] = next(self._numbers)
        self._documents[page] = 1
        task = asyncio.ensure_future(self._listen(page))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def forget(self, page: "Page") -> None:
        """Forget a closed tab."""
        self._tabs.pop(page, None)
        self._documents.pop(page, None)

    def document_of(self, page: "Page") -> tuple[int, int]:
        """Return the number of a tab and of its document; zeros for a closed tab."""
        return self._tabs.get(page, 0), self._documents.get(page, 0)

    def show(self, document: tuple[int, int], overlay: object, *, is_captured: bool) -> Generation:
        """Make the generation of the next observation.

        Args:
            document: Result of `document_of` before the capture.
            overlay: Overlay drawn over the page, or None.
            is_captured: False if the screenshot only says that the page does not respond.
        """
        self._num_frames += is_captured
        frame = self._num_frames if is_captured else 0
        self._shown = Generation(tab=document[0], navigation=document[1], frame=frame)
        self._shown_overlay = overlay
        return self._shown

    def why_outdated(self, decided_on: Generation, page: "Page | None", overlay: object) -> str | None:
        """Return why input must be refused; None if tab, screenshot and overlay are those it was decided on.

        Another document of the tab is checked by `envs.browser.input_position.PositionCheck`.

        Args:
            decided_on: Generation of the observation that led to the input.
            page: Currently active tab.
            overlay: Overlay currently drawn over it.
        """
        if (self.document_of(page)[0] if page is not None else 0) != decided_on.tab:
            return f"another tab came to the front after the screenshot, {NOTHING_DONE}"
        if decided_on != self._shown:
            return f"this was decided on an older screenshot, {NOTHING_DONE}"
        if overlay is not self._shown_overlay:
            change = "went away" if overlay is None else "came up"
            return f"a dialog {change} after the screenshot, {NOTHING_DONE}"
        return None

    async def _listen(self, page: "Page") -> None:
        from playwright.async_api import Error

        def on_navigated(event: dict[str, Any]) -> None:
            if "parentId" not in event["frame"] and page in self._documents:
                self._documents[page] += 1

        try:
            session = await page.context.new_cdp_session(page)
            session.on("Page.frameNavigated", on_navigated)
            await session.send("Page.enable")
        except Error:  # the tab was closed
            return
