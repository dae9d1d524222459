"""Screenshots of pages, with secrets blacked out and overlays drawn."""

import base64
import contextlib
import io
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from envs.browser.options import BrowserOptions
from envs.browser.overlays.overlay import GREY, LINE_PX, CssCanvas, Overlay, draw_tooltip, wrap
from envs.browser.redact import Redactor

if TYPE_CHECKING:
    from PIL.Image import Image
    from playwright.async_api import CDPSession, Frame, Page

Boxes = list[tuple[float, float, float, float]]
# measured: half the time of page.screenshot, 17 against 35 ms at 1280x720
_CAPTURE = {"format": "png", "optimizeForSpeed": True, "captureBeyondViewport": False}
_MARGIN_PX = 48
_POINTER = ((0, 0), (0, 17), (4, 13), (7, 19), (10, 18), (7, 12), (12, 12))


class PageCamera:
    """Camera that takes screenshots of pages."""

    def __init__(self, options: BrowserOptions, redact: Redactor) -> None:
        self._options = options
        self._redact = redact
        self._sessions: dict[Page, CDPSession] = {}

    async def take(self, page: "Page") -> bytes:
        """Capture the visible part of a page as PNG in device pixels."""
        secrets = self._options.masked_texts
        hidden = await _find_secrets(page, secrets) if secrets else []
        screenshot = await self._capture(page)
        if secrets:  # secrets that moved during the capture are covered at both positions
            hidden += await _find_secrets(page, secrets)
        return self._cover(screenshot, hidden) if hidden else screenshot

    def compose(
        self, screenshot: bytes, overlay: Overlay | None, pointer_px: tuple[int, int], tooltip: str = ""
    ) -> bytes:
        """Draw the overlay or the tooltip over a screenshot; return the same bytes if there is nothing to draw."""
        if overlay is None and not tooltip and not self._options.draw_pointer:
            return screenshot
        image = _decode(screenshot)
        canvas = CssCanvas(image, self._scale(image), self._redact)
        if overlay is not None:
            overlay.draw(canvas)
        elif tooltip:
            draw_tooltip(canvas, tooltip, pointer_px, self._options.viewport_px)
        if self._options.draw_pointer:
            _draw_pointer(image, pointer_px, self._scale(image))
        return _encode(image)

    def blank(self) -> bytes:
        """Return a white screenshot, for a page that was never captured."""
        from PIL import Image

        scale = self._options.device_scale
        size = [round(side * scale) for side in self._options.viewport_px]
        return _encode(Image.new("RGB", (size[0], size[1]), (255, 255, 255)))

    def draw_message(self, lines: Sequence[str]) -> bytes:
        """Draw a grey screenshot with a heading and lines of text, in place of a page that cannot be captured."""
        from PIL import Image

        width, height = self._options.viewport_px
        scale = self._options.device_scale
        image = Image.new("RGB", (round(width * scale), round(height * scale)), (241, 243, 244))
        canvas = CssCanvas(image, scale, self._redact)
        canvas.text(_MARGIN_PX, height // 3, lines[0], size_px=24)
        shown = [part for line in lines[1:] for part in wrap(line, width - 2 * _MARGIN_PX, 4)]
        for number, line in enumerate(shown):
            canvas.text(_MARGIN_PX, height // 3 + 44 + number * LINE_PX, line, GREY)
        return _encode(image)

    def forget(self, page: "Page") -> None:
        """Drop the session of a closed page."""
        self._sessions.pop(page, None)

    async def _capture(self, page: "Page") -> bytes:
        from playwright.async_api import Error

        if self._options.device_scale == 1:
            with contextlib.suppress(Error):  # the page changes its process; the slow method waits for that
                return await self._capture_fast(page)
            self._sessions.pop(page, None)
        return await page.screenshot(caret="initial", scale="device")

    async def _capture_fast(self, page: "Page") -> bytes:
        session = self._sessions.get(page)
        if session is None:
            session = self._sessions[page] = await page.context.new_cdp_session(page)
        capture = await session.send("Page.captureScreenshot", _CAPTURE)
        return base64.b64decode(capture["data"])

    def _cover(self, screenshot: bytes, boxes: Boxes) -> bytes:
        from PIL import ImageDraw

        image = _decode(screenshot)
        draw, scale = ImageDraw.Draw(image), self._scale(image)
        for left, top, width, height in boxes:
            corners = (left * scale - 1, top * scale - 1, (left + width) * scale + 1, (top + height) * scale + 1)
            draw.rectangle(corners, fill=(0, 0, 0))
        return _encode(image)

    def _scale(self, image: "Image") -> float:
        return image.width / self._options.viewport_px[0]


def png_size_px(screenshot: bytes) -> tuple[int, int]:
    """Return width and height of a PNG file."""
    width, height = struct.unpack(">II", screenshot[16:24])
    return width, height


@cache
def read_script(name: str) -> str:
    """Return the text of a script that runs in pages."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


async def _find_secrets(page: "Page", secrets: Sequence[str]) -> Boxes:
    from playwright.async_api import Error

    secret_boxes: Boxes = []
    for frame in page.frames:
        try:
            boxes: Boxes = await frame.evaluate(read_script("masks.js"), list(secrets))
            if boxes:
                left, top = await corner_of(frame)
                secret_boxes += [(left + box[0], top + box[1], box[2], box[3]) for box in boxes]
        except Error:  # the frame is gone
            continue
    return secret_boxes


async def corner_of(frame: "Frame") -> tuple[float, float]:
    """Return the top left corner of a frame's content in the viewport."""
    if frame.parent_frame is None:
        return 0.0, 0.0
    element = await frame.frame_element()
    box = await element.bounding_box()
    inset = await element.evaluate("element => [element.clientLeft, element.clientTop]")
    await element.dispose()
    return (box["x"] + inset[0], box["y"] + inset[1]) if box else (0.0, 0.0)


def _draw_pointer(image: "Image", pointer_px: tuple[int, int], scale: float) -> None:
    from PIL import ImageDraw

    outline = [((pointer_px[0] + x) * scale, (pointer_px[1] + y) * scale) for x, y in _POINTER]
    ImageDraw.Draw(image).polygon(outline, fill=(0, 0, 0), outline=(255, 255, 255))


def _decode(screenshot: bytes) -> "Image":
    from PIL import Image

    return Image.open(io.BytesIO(screenshot)).convert("RGB")


def _encode(image: "Image") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
