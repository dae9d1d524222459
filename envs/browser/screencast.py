"""The active tab of a session as it is painted, for a person who watches: frames come when something changes.

Chromium sends them by itself (`Page.startScreencast`) and waits with the next one until the last was taken: a page at
rest costs nothing. Where secrets are masked, the camera that masks them is asked instead, twice a second.
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

_QUALITY = 70
_AWAY_S = 0.1
"""Between looks for a page where there is none, and for a change of the tab or of what is drawn over it."""
_MASKED_S = 0.5
_SILENT_S = 1.0
"""Until a tab without a frame is shown as such. The first one comes within some 50 ms."""


async def watch_session(
    find_session: Callable[[], BrowserSession | None], options: BrowserOptions, max_fps: float
) -> AsyncIterator[LiveFrame]:
    """Frames of whatever tab is active, until the env is closed.

    Args:
        find_session: The session of the current episode, None between two; raises EnvError once there will be none.
        options: Of the env.
        max_fps: At most so many frames a second.
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
                    last, started_s = b"", time.monotonic()  # a frame of another tab is not shown for this one
                last = await cast.next(_AWAY_S) or last
                is_silent = not last and time.monotonic() - started_s > _SILENT_S
                lines = session.failed.lines_of(page) or (("This tab shows nothing yet",) if is_silent else ())
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
        session: A connection to it.
        max_fps: At most so many frames a second.
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
        """Have the page send frames; one that is gone sends none."""
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
        """Whether the page took the wish for frames."""
        return self._session is not None

    async def next(self, timeout_s: float) -> bytes | None:
        """The next frame; None when nothing changed within the time."""
        await self._ask()
        try:
            self._shown = await asyncio.wait_for(self._newest.get(), timeout_s)
        except TimeoutError:
            return None
        return base64.b64decode(self._shown["data"])

    async def _ask(self) -> None:
        """Say that the last frame was taken, not before its time: the page sends no other one until then."""
        from playwright.async_api import Error

        shown, self._shown = self._shown, None
        if shown is None or self._session is None:
            return
        await asyncio.sleep(max(0.0, self._asked_s + self._gap_s - time.monotonic()))
        self._asked_s = time.monotonic()
        with contextlib.suppress(Error):  # the page is gone; its last frame is still good
            await self._session.send("Page.screencastFrameAck", {"sessionId": shown["sessionId"]})

    async def stop(self) -> None:
        """End it; a page that is gone has ended it already."""
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
