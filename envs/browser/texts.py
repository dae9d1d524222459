"""Texts of the active page and its frames, read in a way that the page cannot falsify.

A script walks each document in an isolated world, as in `inspector.py`: changes that the page has made to its own
JavaScript world have no effect. Closed shadow roots, images and canvases are not read.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from envs.browser.camera import corner_of, read_script
from envs.browser.inspector import detach
from envs.browser.redact import Redactor
from envs.json_fields import Json
from envs.screen_texts import ScreenText, ScreenTexts, SensitiveArea

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page

MAX_CHARS = 200_000
"""Maximum number of characters of a page, in all its frames together."""
TIMEOUT_S = 1.0  # a step waits for it; the rest of a slow page is marked as not read
_MAX_FRAMES = 30  # each frame costs a round trip to the browser; advertisements make many
_LIMITS = {"chars": MAX_CHARS // 3, "nodes": 60_000, "ms": 250}
_Placed = tuple[tuple[float, float], Json]
"""Corner of a document in the viewport, CSS pixels, and the result of the script there."""
_WORLD, _KEPT = "k25-texts", "k25-texts"


class TextReader:
    """Reader of the texts of pages.

    Args:
        redact: Removes secrets from the texts.
    """

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._sessions: dict[Page, CDPSession] = {}
        self._frames: dict[Frame, tuple[str, CDPSession | None]] = {}
        self._functions: dict[tuple[CDPSession, str], str] = {}

    async def read(self, page: "Page") -> ScreenTexts:
        """Read the texts of a page, those in view first; documents that do not answer within 1 s are missing."""
        from playwright.async_api import Error

        documents: list[_Placed] = []
        is_cut = len(page.frames) > _MAX_FRAMES
        try:
            async with asyncio.timeout(TIMEOUT_S):
                session = self._sessions.get(page)
                if session is None:
                    session = self._sessions[page] = await page.context.new_cdp_session(page)
                documents.append(((0.0, 0.0), await self._read_document(session, "")))
                async for placed in self._read_frames(page, session):
                    documents.append(placed)
        except (TimeoutError, Error):  # the page does not answer, or is gone
            is_cut = True
        return self._put_together(documents, is_cut)

    def forget(self, page: "Page") -> None:
        """Forget a closed page."""
        gone = {self._sessions.pop(page, None)}
        for frame in [frame for frame in self._frames if frame.page is page or frame.is_detached()]:
            gone.add(self._frames.pop(frame)[1])
        self._functions = {key: name for key, name in self._functions.items() if key[0] not in gone}

    async def _read_frames(self, page: "Page", session: "CDPSession") -> AsyncIterator[_Placed]:
        """Yield corner and texts of each frame, in the process of the page or in another one."""
        from playwright.async_api import Error

        if len(page.frames) == 1:
            return
        tree = await session.send("Page.getFrameTree")
        own_ids = _frame_ids(tree["frameTree"])[1:_MAX_FRAMES]
        foreign = [frame for frame in page.frames[1:_MAX_FRAMES] if await self._session_of(page, frame) is not None]
        places: list[tuple[CDPSession, str, Frame | None]] = [(session, frame_id, None) for frame_id in own_ids]
        places += [(own, "", frame) for frame in foreign if (own := self._frames[frame][1]) is not None]
        for own, frame_id, frame in places:
            try:
                texts = await self._read_document(own, frame_id)
                corner = (0.0, 0.0)
                if texts["areas"]:
                    corner = await self._corner(page, frame, texts["href"])
                yield corner, texts
            except Error:  # the frame is gone
                continue

    async def _corner(self, page: "Page", frame: "Frame | None", url: str) -> tuple[float, float]:
        same = [candidate for candidate in page.frames[1:_MAX_FRAMES] if candidate.url == url]
        frame = frame or (same[0] if same else None)
        return await corner_of(frame) if frame is not None else (0.0, 0.0)

    async def _session_of(self, page: "Page", frame: "Frame") -> "CDPSession | None":
        """Return the session of a frame that has its own process; None if it shares the process of its page."""
        from playwright.async_api import Error

        known = self._frames.get(frame)
        if known is not None and known[0] == frame.url:
            return known[1]
        if known is not None and known[1] is not None:
            await detach(known[1])
        try:
            session = await page.context.new_cdp_session(frame)
        except Error:
            session = None
        self._frames[frame] = (frame.url, session)
        return session

    async def _read_document(self, session: "CDPSession", frame_id: str) -> Json:
        """Run the script in a document; its function is kept in the isolated world until the document unloads."""
        from playwright.async_api import Error

        key = (session, frame_id)
        known = self._functions.get(key)
        if known is not None:
            try:
                return await _call(session, known)
            except Error:  # the document was replaced
                self._functions.pop(key, None)
        if not frame_id:
            tree = await session.send("Page.getFrameTree")
            frame_id = str(tree["frameTree"]["frame"]["id"])
        world = {"frameId": frame_id, "worldName": _WORLD}
        context = (await session.send("Page.createIsolatedWorld", world))["executionContextId"]
        evaluation = await session.send(
            "Runtime.evaluate",
            {"expression": f"({read_script('texts.js')}\n)", "contextId": context, "objectGroup": _KEPT},
        )
        name = self._functions[key] = str(evaluation["result"]["objectId"])
        return await _call(session, name)

    def _put_together(self, documents: list[_Placed], is_cut: bool) -> ScreenTexts:
        texts: list[ScreenText] = []
        areas: list[SensitiveArea] = []
        left = MAX_CHARS
        for at, is_hidden in ((0, False), (2, True), (1, False)):
            for _, document in documents:
                text = self._redact(document["texts"][at][:left])
                left -= len(text)
                texts += [ScreenText(text=text, is_hidden=is_hidden)] if text.strip() else []
        for (x_px, y_px), document in documents:
            is_cut = is_cut or document["isCut"]
            for area in document["areas"]:
                left_px, top_px, right_px, bottom_px = area["box"]
                areas.append(
                    SensitiveArea(
                        kind=area["kind"],
                        origin=area["origin"],
                        box_px=(left_px + x_px, top_px + y_px, right_px + x_px, bottom_px + y_px),
                        has_focus=area["focus"],
                    )
                )
        return ScreenTexts(texts=tuple(texts), areas=tuple(areas), is_cut=is_cut or left <= 0)


async def _call(session: "CDPSession", function: str) -> Json:
    answer = await session.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": "function (limits) { return { ...this.call(window, limits), href: location.href } }",
            "objectId": function,
            "arguments": [{"value": _LIMITS}],
            "returnByValue": True,
        },
    )
    if "exceptionDetails" in answer:
        raise RuntimeError(f"a script in the page failed: {answer['exceptionDetails']}")
    value: Json = answer["result"]["value"]
    return value


def _frame_ids(tree: Json) -> list[str]:
    """Return the ids of the frames of a process, outermost first; without recursion, as frames can be nested deeply."""
    frame_ids, waiting = [], [tree]
    while waiting:
        node = waiting.pop(0)
        frame_ids.append(str(node["frame"]["id"]))
        waiting += node.get("childFrames", ())
    return frame_ids
