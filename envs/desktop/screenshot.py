"""Turn a grab into the screenshot that the agent gets: pointer drawn in, PNG."""

from envs.desktop.arrow import arrow_at
from envs.desktop.backend import Backend, Cursor, Frame, Region
from envs.desktop.png import encode_png


class Camera:
    """Makes screenshots of one region of a screen.

    Args:
        backend: The screen.
        region: The part of it that is shown.
        draw_cursor: Whether the pointer is in the picture.
    """

    def __init__(self, backend: Backend, region: Region, *, draw_cursor: bool) -> None:
        self._backend = backend
        self._region = region
        self._draw_cursor = draw_cursor

    def grab(self) -> Frame:
        """The region's pixels now, without the pointer."""
        return self._backend.grab(self._region)

    def develop(self, frame: Frame, pointer_px: tuple[int, int]) -> bytes:
        """The PNG file of a grab; draws the pointer into the grab in place."""
        if self._draw_cursor:
            draw_cursor(frame, self._region, self._backend.cursor() or arrow_at(*pointer_px))
        return encode_png(frame.bgrx, frame.size_px)


def draw_cursor(frame: Frame, region: Region, cursor: Cursor) -> None:
    """Draw the pointer into a grab, in place.

    Args:
        frame: The grab of `region`.
        region: Where the grab is on the screen.
        cursor: The pointer's picture and place in the screen frame.
    """
    import numpy as np

    width, height = frame.size_px
    cursor_width, cursor_height = cursor.size_px
    left = round((cursor.left_px - region.left_px) * width / region.width_px)
    top = round((cursor.top_px - region.top_px) * height / region.height_px)
    x_begin, x_end = max(left, 0), min(left + cursor_width, width)
    y_begin, y_end = max(top, 0), min(top + cursor_height, height)
    if x_begin >= x_end or y_begin >= y_end:
        return
    screen = np.frombuffer(frame.bgrx, np.uint8).reshape(height, width, 4)[y_begin:y_end, x_begin:x_end, :3]
    picture = np.frombuffer(cursor.bgra, np.uint8).reshape(cursor_height, cursor_width, 4)
    shown = picture[y_begin - top : y_end - top, x_begin - left : x_end - left].astype(np.uint16)
    behind = screen * (255 - shown[:, :, 3:]) // 255
    screen[:] = np.minimum(shown[:, :, :3] + behind, 255).astype(np.uint8)
