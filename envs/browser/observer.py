"""From a browser to observations: wait until it is at rest, take the screenshot, say what it does not show."""

import time
from typing import Any

from envs.browser.a11y import MAX_DOM_NODES, A11yTree, TooLargeError
from envs.browser.camera import png_size_px
from envs.browser.options import BrowserOptions
from envs.browser.overlays import DialogBox
from envs.browser.redact import Redactor
from envs.browser.session import BrowserSession
from envs.browser.settle import Interrupted, Settled
from envs.errors import EnvDiedError
from envs.geometry import ScreenGeometry
from envs.observation import Dialog, Observation, Tab
from envs.secret_texts import without_login

_CAPTURE_TIMEOUT_S = 5.0
_TREE_TIMEOUT_S = 5.0
_REJOIN_S = 0.5


class Observer:
    """Eyes of one episode."""

    def __init__(self, session: BrowserSession, options: BrowserOptions, redact: Redactor) -> None:
        self._session = session
        self._options = options
        self._redact = redact
        self._last_screenshot: bytes | None = None

    async def look(
        self, error: str | None, since_s: float, pointer_px: tuple[int, int]
    ) -> tuple[Observation, dict[str, Any]]:
        """The observation once the page has settled, and facts for the operator.

        Args:
            error: Why the last action failed.
            since_s: When the actions began, monotonic clock.
            pointer_px: Where the pointer is, viewport CSS pixels.

        Raises:
            EnvDiedError: The browser is gone.
        """
        session = self._session
        began_s = time.monotonic()
        settled, crash = await self._settle(since_s)
        settled_s = time.monotonic()
        screenshot, screenshot_note = await self._screenshot()
        blocked = session.firewall.take()
        stopped = next((found.as_text() for found in blocked if found.is_navigation), None)
        session.clear_overlay()
        page = session.tabs.active
        session.tabs.set_title(page, settled.title)
        notes = [
            *session.notes,
            session.surplus_note(),
            *(session.overlay.notes() if session.overlay else ()),
            settled.note,
            screenshot_note,
        ]
        session.notes.clear()
        tree, tree_note = await self._read_tree() if self._options.a11y_tree else (None, None)
        screenshot = session.camera.compose(screenshot, session.overlay, pointer_px)
        observation = Observation(
            screenshot=screenshot,
            geometry=ScreenGeometry(native_px=self._options.viewport_px, sent_px=png_size_px(screenshot)),
            pointer_px=pointer_px,
            url=self._redact(without_login(page.url)),
            title=self._redact(session.tabs.title(page)),
            tabs=tuple(self._redacted_tab(tab) for tab in session.tabs.listed()),
            dialog=self._dialog(),
            last_action_error=self._redacted(crash or error or stopped),
            notes=tuple(dict.fromkeys(self._redact(note) for note in (*notes, tree_note) if note)),
            a11y_tree=tree.text if tree else None,
            elements=tree.elements if tree else (),
        )
        timings = {"settle": settled_s - began_s, "observe": time.monotonic() - settled_s}
        return observation, {"timings": timings, "blocked": [found.as_text() for found in blocked]}

    async def _settle(self, since_s: float) -> tuple[Settled, str | None]:
        """Wait for the active page, also when the actions changed which one that is."""
        session = self._session
        crash: str | None = None
        for _ in range(4):
            crash = await session.recover() or crash
            try:
                if isinstance(session.overlay, DialogBox) and not session.overlay.is_done:
                    break
                await session.interrupts.rejoin(_REJOIN_S)
                await session.interrupts.race(session.ensure_page(), self._options.settle_timeout_s)
                page = session.tabs.active
                settled = await session.settler.settle(page, since_s)
                session.tabs.set_title(page, settled.title)
                if session.tabs.pages and session.tabs.active is page:
                    return settled, crash
            except Interrupted as up:
                if up.reason == "died":
                    raise EnvDiedError("the browser process is gone") from up
            except TimeoutError:
                return Settled(title=None, note="the page does not answer; it may be busy"), crash
        return Settled(title=None), crash

    async def _screenshot(self) -> tuple[bytes, str | None]:
        """The page's screenshot; the last one when the page cannot be asked."""
        from playwright.async_api import Error

        session = self._session
        note = None
        for _ in range(2):
            if isinstance(session.overlay, DialogBox) and not session.overlay.is_done:
                break
            try:
                await session.interrupts.race(session.ensure_page(), _CAPTURE_TIMEOUT_S)
                screenshot = await session.interrupts.race(session.camera.take(session.tabs.active), _CAPTURE_TIMEOUT_S)
            except Interrupted as up:
                if up.reason == "died":
                    raise EnvDiedError("the browser process is gone") from up
            except TimeoutError:
                note = "the page does not answer; the image is an older one"
                break
            except Error as error:  # the page went away, or changes its process
                if not session.is_connected:
                    raise EnvDiedError("the browser process is gone") from error
                note = "no image could be taken; this is an older one"
            else:
                self._last_screenshot = screenshot
                return screenshot, None
        return self._last_screenshot or session.camera.blank(), note

    async def _read_tree(self) -> tuple[A11yTree | None, str | None]:
        """The accessibility tree of the page that is shown; or a note that says why there is none."""
        from playwright.async_api import Error

        session = self._session
        if session.overlay is not None:  # it stands over the page, which may not answer
            return None, None
        try:
            return await session.interrupts.race(session.a11y.read(session.tabs.active), _TREE_TIMEOUT_S), None
        except TooLargeError:
            return None, f"the page has more than {MAX_DOM_NODES} nodes, so its accessibility tree was not read"
        except Interrupted as up:
            if up.reason == "died":
                raise EnvDiedError("the browser process is gone") from up
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
