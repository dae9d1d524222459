"""The tooltip of the element under the pointer, which a headless browser does not paint."""

from envs.browser.overlays.overlay import EDGE, LINE_PX, Box, Canvas, text_width_px, wrap

_MAX_WIDTH_PX = 400
_MAX_LINES = 10
_BELOW_POINTER_PX = 20
_FILL = (255, 255, 240)


def draw_tooltip(canvas: Canvas, text: str, pointer_px: tuple[int, int], viewport_px: tuple[int, int]) -> None:
    """Draw a tooltip below the pointer, or above it where there is no room."""
    lines = wrap(canvas.redact(text), min(_MAX_WIDTH_PX, viewport_px[0] - 16), _MAX_LINES)
    width = max(map(text_width_px, lines)) + 12
    height = len(lines) * LINE_PX + 6
    left = max(0, min(pointer_px[0], viewport_px[0] - width))
    top = pointer_px[1] + _BELOW_POINTER_PX
    if top + height > viewport_px[1]:
        top = max(0, pointer_px[1] - height - 4)
    canvas.box(Box(left=left, top=top, width=width, height=height), _FILL, outline=EDGE, radius_px=3)
    for number, line in enumerate(lines):
        canvas.text(left + 6, top + 4 + number * LINE_PX, line)
