"""Observations of a browser: wait until it has settled, take the screenshot, add what it does not show."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from envs.browser.a11y import MAX_DOM_NODES, A11yTree, TooLargeError
from envs.browser.camera import png_size_px
from envs.browser.options import BrowserOptions
from envs.browser.overlays.dialog_box import DialogBox
from envs.browser.overlays.suggestions import Suggestions
from envs.browser.redact import Redactor
from envs.browser.session import BrowserSession
from envs.browser.settle import NOT_RESPONDING, Interrupted, SettledPage
from envs.errors import EnvDiedError
from envs.geometry import ScreenGeometry
from envs.observation import Dialog, Generation, Observation, Tab
from envs.secret_texts import without_login

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")
_Document = tuple[int, int]
"""Number of a tab and of its document."""
_CAPTURE_TIMEOUT_S = 5.0  # a step waits for it; a page that does not respond is shown as such
_LAST_TRY_S = 1.0  # for a page that did not respond before
_WAY_OUT = "Wait for it, or close the tab with Ctrl+W."
_MAX_CAPTURES = 4
"""Captures of a page that navigates meanwhile; the last one counts for the previous document, so input is refused."""
_TREE_TIMEOUT_S = 5.0  # the observation goes on without the tree, and says so
_REJOIN_S = 0.5  # wait for an input that a dialog had interrupted
_QUERY_TIMEOUT_S = 1.0  # pop-ups, tooltip and typed text are skipped on a page that does not answer in time


@dataclass(frozen=True, slots=True)
class PageCapture:
    """Captured page without overlays.

    Attributes:
        document: Number of the tab and of its document.
        screenshot: PNG.
        url: URL of the page.
        taken_s: Time of the capture, monotonic clock.
    """

    document: _Document
    screenshot: bytes = field(repr=False)
    url: str
    taken_s: float


class Observer:
    """Screenshots and observations of one episode.

    Attributes:
        last_shot: Last capture; None before the first one.
        viewport_px: Size of the viewport, CSS pixels.
    """

    def __init__(self, session: BrowserSession, options: BrowserOptions, redact: Redactor) -> None:
        self._session = session
        self._options = options
        self._redact = redact
        self.last_shot: PageCapture | None = None
        self.viewport_px = options.viewport_px

    async def observe(
        self, error: str | None, actions_started_s: float, pointer_px: tuple[int, int]
    ) -> tuple[Observation, dict[str, Any]]:
        """Return the observation once the page has settled, and values for the operator.

        Args:
            error: Why the last action failed.
            actions_started_s: Start of the actions, monotonic clock.
            pointer_px: Pointer position, viewport CSS pixels.

        Raises:
            EnvDiedError: If the browser is gone.
        """
        session = self._session
        began_s = time.monotonic()
        settled, crash = await self._settle(actions_started_s)
        settled_s = time.monotonic()
        is_responding = settled.note != NOT_RESPONDING
        session.clear_overlay()
        tooltip = ""
        if is_responding:  # the page answers while it is captured
            (screenshot, document), tooltip = await asyncio.gather(
                self._screenshot(is_responding=True), self._update_popups(pointer_px)
            )
        else:
            screenshot, document = await self._screenshot(is_responding=False)
        generation = self._show(document)
        if generation.frame:
            await self._within_limit(session.check_typing())
        blocked = session.firewall.take()
        stopped = next((request.as_text() for request in blocked if request.is_navigation), None)
        page = session.tabs.active
        session.tabs.set_title(page, settled.title)
        failure = crash or error or stopped
        notes = [
            *session.notes,
            session.surplus_note(),
            *(session.overlay.notes() if session.overlay else ()),
            session.popups.note,
            *session.downloads.notes(),
            settled.note,
            None if failure else _note_of(session.failed_pages.lines_of(page)),
            None if generation.frame else NOT_RESPONDING,
        ]
        session.notes.clear()
        tree, tree_note = await self._read_tree() if self._options.a11y_tree else (None, None)
        screenshot = session.camera.compose(screenshot, session.overlay, pointer_px, tooltip)
        observation = Observation(
            screenshot=screenshot,
            geometry=ScreenGeometry(native_px=self._options.viewport_px, sent_px=png_size_px(screenshot)),
            pointer_px=pointer_px,
            url=self._redact(without_login(page.url)),
            title=self._redact(session.tabs.title(page)),
            tabs=tuple(self._redacted_tab(tab) for tab in session.tabs.listed()),
            dialog=self._dialog(),
            last_action_error=self._redacted(failure),
            notes=tuple(dict.fromkeys(self._redact(note) for note in (*notes, tree_note) if note)),
            a11y_tree=tree.text if tree else None,
            elements=tree.elements if tree else (),
            generation=generation,
        )
        timings = {"settle": settled_s - began_s, "observe": time.monotonic() - settled_s}
        return observation, {"timings": timings, "blocked": [request.as_text() for request in blocked]}

    async def _settle(self, actions_started_s: float) -> tuple[SettledPage, str | None]:
        """Wait for the active page, even if the actions activated another one."""
        session = self._session
        crash: str | None = None
        for _ in range(4):
            crash = await session.recover() or crash
            try:
                if self._has_dialog():
                    break
                await session.interrupts.rejoin(_REJOIN_S)
                await session.interrupts.race(session.ensure_page(), self._options.settle_timeout_s)
                page = session.tabs.active
                settled = await session.settler.settle(page, actions_started_s)
                session.tabs.set_title(page, settled.title)
                if session.tabs.pages and session.tabs.active is page:
                    return settled, crash
            except Interrupted as interrupt:
                if interrupt.reason == "died":
                    raise EnvDiedError("the browser process is gone") from interrupt
            except TimeoutError:
                return SettledPage(title=None, note=NOT_RESPONDING), crash
        return SettledPage(title=None), crash

    async def _screenshot(self, *, is_responding: bool) -> tuple[bytes, _Document | None]:
        """Return a screenshot of the active page and its document; a drawn one and None if it cannot be captured.

        A dialog blocks the page: the previous capture of the same document is shown behind it, or a blank screen.
        """
        from playwright.async_api import Error

        session = self._session
        for num_left in reversed(range(_MAX_CAPTURES)):
            try:
                await session.interrupts.race(session.ensure_page(), _CAPTURE_TIMEOUT_S)
                page = session.tabs.active
                document = session.generations.document_of(page)
                if self._has_dialog():
                    last = self.last_shot
                    known = last.screenshot if last is not None and last.document == document else None
                    return known or session.camera.blank(), document
                url, taken_s = page.url, time.monotonic()
                screenshot = await self._capture(page, _CAPTURE_TIMEOUT_S if is_responding else _LAST_TRY_S)
            except Interrupted as interrupt:
                if interrupt.reason == "died":
                    raise EnvDiedError("the browser process is gone") from interrupt
                continue
            except TimeoutError:
                break
            except Error as error:  # the page is gone, or changes its process
                if not session.is_connected:
                    raise EnvDiedError("the browser process is gone") from error
                continue
            if session.generations.document_of(page) == document or not num_left:
                self.last_shot = PageCapture(document, screenshot, url, taken_s)
                return screenshot, document
        lines = ("This page does not respond", self._redact(without_login(session.tabs.active.url)), _WAY_OUT)
        return session.camera.draw_message(lines), None

    async def capture_again(self, page: "Page") -> bytes | None:
        """Capture a page without waiting for it to settle; None if it cannot be captured within 1 s."""
        from playwright.async_api import Error

        try:
            return await self._capture(page, _LAST_TRY_S)
        except (Interrupted, TimeoutError, Error):
            return None

    async def _capture(self, page: "Page", timeout_s: float) -> bytes:
        if page.url == "":  # a window without a document cannot be captured
            return self._session.camera.blank()
        if lines := self._session.failed_pages.lines_of(page):
            return self._session.camera.draw_message(lines)
        return await self._session.interrupts.race(self._session.camera.take(page), timeout_s)

    def _show(self, captured: _Document | None) -> Generation:
        session = self._session
        shown = None if session.overlay is None or session.overlay.is_done else session.overlay
        document = captured or session.generations.document_of(session.tabs.active)
        return session.generations.show(document, shown, is_captured=captured is not None)

    def _has_dialog(self) -> bool:
        overlay = self._session.overlay
        return isinstance(overlay, DialogBox) and not overlay.is_done

    async def _update_popups(self, pointer_px: tuple[int, int]) -> str:
        """Update the pop-ups over the page, and return the tooltip at the pointer."""
        session = self._session
        await self._within_limit(session.update_popups())
        if session.overlay is not None:
            return ""
        return await self._within_limit(session.popups.read_tooltip(session.tabs.active, pointer_px)) or ""

    async def _within_limit(self, work: Coroutine[object, object, T]) -> T | None:
        """Await a query of the page; None if the page does not answer in time, which the screenshot shows."""
        from playwright.async_api import Error

        try:
            return await self._session.interrupts.race(work, _QUERY_TIMEOUT_S)
        except Interrupted as interrupt:
            if interrupt.reason == "died":
                raise EnvDiedError("the browser process is gone") from interrupt
        except (TimeoutError, Error):
            pass
        return None

    async def _read_tree(self) -> tuple[A11yTree | None, str | None]:
        """Return the accessibility tree of the current page; or a note that says why there is none."""
        from playwright.async_api import Error

        session = self._session
        if session.overlay is not None and not isinstance(session.overlay, Suggestions):  # the page may not answer
            return None, None
        try:
            return await session.interrupts.race(session.a11y.read(session.tabs.active), _TREE_TIMEOUT_S), None
        except TooLargeError:
            return None, f"the page has more than {MAX_DOM_NODES} nodes, so its accessibility tree was not read"
        except Interrupted as interrupt:
            if interrupt.reason == "died":
                raise EnvDiedError("the browser process is gone") from interrupt
            return None, "the accessibility tree was not read: something came up over the page"
        except (TimeoutError, Error) as error:
            if not session.is_connected:
                raise EnvDiedError("the browser process is gone") from error
            return None, "the accessibility tree could not be read in time"

    def _dialog(self) -> Dialog | None:
        if not isinstance(self._session.overlay, DialogBox):
            return None
        dialog = self._session.overlay.dialog
        return Dialog(
            kind=dialog.kind, message=self._redact(dialog.message), default_text=self._redact(dialog.default_text)
        )

    def _redacted_tab(self, tab: Tab) -> Tab:
        return Tab(title=self._redact(tab.title), url=self._redact(without_login(tab.url)), is_active=tab.is_active)

    def _redacted(self, text: str | None) -> str | None:
        return self._redact(text) if text is not None else None


def _note_of(lines: Sequence[str]) -> str | None:
    """Return a note that says why the tab shows an error page of the browser; None if it does not."""
    return ": ".join(lines) or None
