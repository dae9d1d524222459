"""The pointer's picture, through the XFIXES request that python-xlib lacks."""

from typing import Any

from envs.desktop.backend import Cursor
from envs.require import require

_GET_CURSOR_IMAGE = 4  # Source: fixesproto.txt, request GetCursorImage, version 1


class CursorReader:
    """Reads the pointer's picture from a display.

    Args:
        display: python-xlib `Display`.
    """

    def __init__(self, display: Any) -> None:
        xfixes = require("Xlib.ext.xfixes", "desktop")
        self._display = display
        self._available = bool(display.has_extension(xfixes.extname))
        if self._available:
            self._request = _make_request(require("Xlib.protocol.rq", "desktop"))
            self._opcode = display.display.get_extension_major(xfixes.extname)
            display.xfixes_query_version()  # the server wants to be asked before it serves

    def read(self) -> Cursor | None:
        """The picture now; None when the server does not tell."""
        if not self._available:
            return None
        reply = self._request(display=self._display.display, opcode=self._opcode)
        size_px = (reply.width, reply.height)
        return Cursor(
            bgra=bytes(reply.pixels), size_px=size_px, left_px=reply.x - reply.x_hot, top_px=reply.y - reply.y_hot
        )


def _make_request(rq: Any) -> Any:
    class GetCursorImage(rq.ReplyRequest):  # type: ignore[misc]
        _request = rq.Struct(rq.Card8("opcode"), rq.Opcode(_GET_CURSOR_IMAGE), rq.RequestLength())
        _reply = rq.Struct(
            rq.ReplyCode(),
            rq.Pad(1),
            rq.Card16("sequence_number"),
            rq.ReplyLength(),
            rq.Int16("x"),
            rq.Int16("y"),
            rq.Card16("width"),
            rq.Card16("height"),
            rq.Card16("x_hot"),
            rq.Card16("y_hot"),
            rq.Card32("serial"),
            rq.Pad(8),
            rq.Binary("pixels"),
        )

    return GetCursorImage
