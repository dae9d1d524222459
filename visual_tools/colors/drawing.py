"""`draw_share`: a picture on which a person sees what was measured."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.colors.shares import ColorShares, Share
from visual_tools.errors import ImageError
from visual_tools.images.load import ImageSource, load_image
from visual_tools.require import require

_MIN_WRITTEN = 0.004
_FADE = 0.72


def draw_share(image: ImageSource, result: ColorShares) -> NDArray[np.uint8]:
    """The picture with each colour's areas outlined and their percent written on, and all of them as one bar below.

    What was left out is faded.

    Args:
        image: The picture that was measured, (H, W, 3) uint8 RGB.
        result: What `color_share` said of it.

    Returns:
        The picture, higher by the bar.

    Raises:
        ImageError: The result is of a picture of another size.
    """
    image = load_image(image)
    if image.shape[:2] != result.labels.shape:
        raise ImageError(
            f"found a picture of {image.shape[1]} x {image.shape[0]} pixels and shares of one of "
            f"{result.labels.shape[1]} x {result.labels.shape[0]}; draw on the picture that was measured"
        )
    size = int(np.clip(min(image.shape[:2]) / 28, 12, 40))
    tinted = _tint(image, result, max(size // 10, 1))
    bar_height = 3 * size
    canvas = Image.new("RGB", (image.shape[1], image.shape[0] + bar_height), "white")
    canvas.paste(Image.fromarray(tinted), (0, 0))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size)
    for share in result.shares:
        _write_pieces(draw, share, font, image.shape[1], len(result.shares))
    _draw_bar(draw, result, font, (0, image.shape[0], image.shape[1], image.shape[0] + bar_height))
    return np.asarray(canvas)


def _tint(image: NDArray[np.uint8], result: ColorShares, width: int) -> NDArray[np.uint8]:
    """Fade what was left out, and draw a line around what counts."""
    cv2 = require("cv2", "visual")
    labels = result.labels
    tinted = image.copy()
    left_out = labels < 0
    tinted[left_out] = (image[left_out] * (1 - _FADE) + 255 * _FADE).astype(np.uint8)
    shifted = (labels + 1).astype(np.uint16)
    inner = cv2.erode(shifted, np.ones((3, 3), np.uint8)) != cv2.dilate(shifted, np.ones((3, 3), np.uint8))
    line = cv2.dilate(inner.astype(np.uint8), np.ones((width, width), np.uint8)) > 0
    halo = cv2.dilate(line.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    tinted[halo] = 255
    tinted[line] = (30, 30, 30)
    return tinted


def _write_pieces(draw: Any, share: Share, font: Any, width: int, num_shares: int) -> None:
    """The percent (and label) on the largest piece, the percent alone on others that are large."""
    for index, piece in enumerate(share.pieces):
        if piece.share < _MIN_WRITTEN and index:
            break
        text = f"{100 * piece.share:.1f} %"
        if index == 0 and share.label:
            text = f"{share.label}\n{text}"
        elif index == 0 and num_shares > 1 and len(share.pieces) == 1:
            text = f"{share.color_name}\n{text}"
        _write_plate(draw, piece.center_px, text, font, width)


def _write_plate(draw: Any, center: tuple[int, int], text: str, font: Any, width: int) -> None:
    """Black on a white plate, which hides what was written there, moved so that it stays on the picture."""
    left, top, right, bottom = draw.multiline_textbbox(center, text, font=font, anchor="mm", align="center")
    x = center[0] + max(6 - left, 0) - max(right + 6 - width, 0)
    y = center[1] + max(4 - top, 0)
    half_width, half_height = (right - left) / 2 + 4, (bottom - top) / 2 + 3
    plate = (x - half_width, y - half_height, x + half_width, y + half_height)
    draw.rounded_rectangle(plate, radius=4, fill="white", outline=(90, 90, 90))
    draw.multiline_text((x, y), text, font=font, anchor="mm", align="center", fill="black")


def _draw_bar(draw: Any, result: ColorShares, font: Any, frame: tuple[int, int, int, int]) -> None:
    """One bar of all shares, largest left."""
    left, top, right, bottom = frame
    margin = max((bottom - top) // 8, 2)
    start, length = float(left + margin), right - left - 2 * margin
    for share in result.shares:
        end = start + share.share * length
        place = (round(start), top + margin, max(round(end) - 1, round(start)), bottom - margin)
        draw.rectangle(place, fill=share.color_rgb, outline=(30, 30, 30))
        for text in (f"{share.label or share.color_name} {100 * share.share:.1f} %", f"{100 * share.share:.1f}"):
            if draw.textlength(text, font=font) < end - start - 6:
                middle = (start + end) / 2, (top + bottom) / 2
                draw.text(middle, text, font=font, anchor="mm", fill="black", stroke_width=2, stroke_fill="white")
                break
        start = end
