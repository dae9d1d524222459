"""Live view of the active tab of a session for a person: one frame per change.

Chromium sends the frames (`Page.startScreencast`) and waits until each one is acknowledged: an idle page costs nothing.
If secrets are masked, the camera, which masks them, captures the page twice a second instead.
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from envs.browser.options import BrowserOptions
from envs.browser.session import BrowserSession
from envs.errors import ActionError, EnvError
from envs.observation import LiveFrame

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

_QUALITY = 70  # JPEG for a person who watches: bandwidth against sharpness
_AWAY_S = 0.1
"""Polling interval for a missing page, a change of the tab and a change of the overlay."""
_MASKED_S = 0.5  # interval while secrets are masked: screenshots replace the stream, at a higher cost
_SILENT_S = 1.0
"""Time until a tab without a frame is shown as such. The first frame arrives within some 50 ms."""


async def watch_session(
    find_session: Callable[[], BrowserSession | None], options: BrowserOptions, max_fps: float
) -> AsyncIterator[LiveFrame]:
    """Yield frames of the active tab until the env is closed.

    Args:
        find_session: Returns the current session, None between two episodes; raises EnvError once the env is closed.
        options: Options of the env.
        max_fps: Maximum number of frames per second.
    """
    cast: Screencast | None = None
    last, sent, started_s = b"", b"", 0.0
    try:
        while True:
            try:
                session = find_session()
                page = session.tabs.active if session is not None else None
            except ActionError:  # between two tabs
                session = page = None
            except EnvError:
                return
            if session is None or page is None:
                await asyncio.sleep(_AWAY_S)
                continue
            if options.masked_texts:
                frame = await _masked(session, page)
                await asyncio.sleep(_MASKED_S)
            else:
                if cast is None or cast.page is not page or not cast.is_on:
                    await _stop(cast)
                    cast = await Screencast.start(page, max_fps)
                    last, started_s = b"", time.monotonic()  # a frame of another tab must not be shown for this one
                last = await cast.next(_AWAY_S) or last
                is_silent = not last and time.monotonic() - started_s > _SILENT_S
                lines = session.failed_pages.lines_of(page) or (("This tab shows nothing yet",) if is_silent else ())
                frame = session.camera.draw_message(lines) if lines else last
            if session.overlay is not None and frame:
                frame = await asyncio.to_thread(session.camera.compose, frame, session.overlay, (0, 0))
            if frame and frame != sent:
                sent = frame
                yield LiveFrame(image=frame, media_type="image/png" if frame[:4] == b"\x89PNG" else "image/jpeg")
    finally:
        await _stop(cast)


class Screencast:
    """Frames of one page.

    Args:
        page: The page.
        session: CDP session of the page; None if the page is gone.
        max_fps: Maximum number of frames per second.
    """

    def __init__(self, page: "Page", session: "CDPSession | None", max_fps: float) -> None:
        self.page = page
        self._session = session
        self._gap_s = 1.0 / max_fps
        self._asked_s = 0.0
        self._shown: dict[str, Any] | None = None
        self._newest: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    @classmethod
    async def start(cls, page: "Page", max_fps: float) -> "Screencast":
        """Start the screencast of a page; a page that is gone sends no frames."""
        from playwright.async_api import Error

        try:
            session = await page.context.new_cdp_session(page)
            cast = cls(page, session, max_fps)
            session.on("Page.screencastFrame", cast._newest.put_nowait)
            await session.send("Page.startScreencast", {"format": "jpeg", "quality": _QUALITY, "everyNthFrame": 1})
        except Error:
            return cls(page, None, max_fps)
        return cast

    @property
    def is_on(self) -> bool:
        """True if the page accepted the screencast."""
        return self._session is not None

    async def next(self, timeout_s: float) -> bytes | None:
        """Return the next frame; None if nothing changed within the timeout."""
        await self._ask()
        try:
            self._shown = await asyncio.wait_for(self._newest.get(), timeout_s)
        except TimeoutError:
            return None
        return base64.b64decode(self._shown["data"])

    async def _ask(self) -> None:
        """Acknowledge the last frame, no earlier than `max_fps` allows; the page sends the next one only then."""
        from playwright.async_api import Error

        shown, self._shown = self._shown, None
        if shown is None or self._session is None:
            return
        await asyncio.sleep(max(0.0, self._asked_s + self._gap_s - time.monotonic()))
        self._asked_s = time.monotonic()
        with contextlib.suppress(Error):  # the page is gone; its last frame remains valid
            await self._session.send("Page.screencastFrameAck", {"sessionId": shown["sessionId"]})

    async def stop(self) -> None:
        """Stop the screencast."""
        from playwright.async_api import Error

        if self._session is not None:
            with contextlib.suppress(Error):
                await self._session.detach()


async def _stop(cast: Screencast | None) -> None:
    if cast is not None:
        await cast.stop()


async def _masked(session: BrowserSession, page: "Page") -> bytes:
    from playwright.async_api import Error

    try:
        return await session.camera.take(page)
    except Error:
        return b""
