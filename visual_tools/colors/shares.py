"""Result types of colour shares, their short text, and an image that shows the measurement (`draw_share`)."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.box import Box
from visual_tools.colors.areas import Area, Areas
from visual_tools.colors.words import color_name, to_lab
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.images.marks import Font
from visual_tools.packages import cv2

Kind = Literal["pie", "bars", "area"]
_MIN_WRITTEN = 0.004  # share below which a piece of the drawing gets no label
_FADE = 0.72  # towards white, of what is not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One connected part of a colour: a sector, a bar, a patch.

    Attributes:
        share: Share of everything measured, 0 to 1.
        area_px: Number of pixels.
        box_px: Tight bounding box, in pixels of the image.
        center_px: Point well inside it, x and y.
    """

    share: float
    area_px: int
    box_px: Box
    center_px: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Share of one colour.

    Attributes:
        color_rgb: The colour, red, green and blue from 0 to 255.
        color_name: Common name of the colour.
        share: Share of everything measured, 0 to 1.
        area_px: Number of pixels, including text on it.
        label: Name in the legend, or in the text next to it.
        box_px: Tight bounding box of all its pieces, in pixels of the image.
        center_px: Point well inside its largest piece, x and y.
        pieces: Connected parts, largest first.
    """

    color_rgb: tuple[int, int, int]
    color_name: str
    share: float
    area_px: int
    label: str | None
    box_px: Box
    center_px: tuple[int, int]
    pieces: tuple[Piece, ...] = field(repr=False)

    @property
    def color_hex(self) -> str:
        """Colour as hexadecimal code, such as `#1f77b4`."""
        return "#{:02x}{:02x}{:02x}".format(*self.color_rgb)

    def __str__(self) -> str:
        label = f" ({self.label})" if self.label else ""
        return f"{self.color_name}{label} {100 * self.share:.1f} %"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ColorShares:
    """Colours of an image, largest first.

    Attributes:
        shares: One for each colour; they add up to 1.
        background_rgb: Colour that was left out as background; None if there was none.
        method: Description of the measuring method.
        kind: Detected type of the image.
        labels: Number in `shares` of each pixel, -1 for what was left out; (H, W) int16.
    """

    shares: tuple[Share, ...]
    background_rgb: tuple[int, int, int] | None
    method: str
    kind: Kind
    labels: NDArray[np.int16] = field(repr=False)

    def __repr__(self) -> str:
        names = [share.color_name for share in self.shares]
        texts = []
        for share in self.shares:
            is_shared = names.count(share.color_name) > 1 and not share.label
            texts.append(
                str(share)
                if not is_shared
                else f"{share.color_name} {share.color_hex}{str(share)[len(share.color_name) :]}"
            )
        return f"<{', '.join(texts)}; {self.method}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColorMeasurement:
    """Raw measurement of an image, before it is converted to shares.

    Attributes:
        areas: Areas of the image.
        items: Areas that are measured.
        weights: Size of each of them, in any unit.
        rgb: Palette, (N, 3) uint8.
        background: Number of the background's colour.
        color_labels: Text for colours, from the legend.
        item_labels: Text for areas (by their number), from text next to them.
        kind: Detected type of the image.
        method: Description of how the weights were measured.
    """

    areas: Areas
    items: list[Area]
    weights: list[float]
    rgb: NDArray[np.uint8]
    background: int | None
    color_labels: dict[int, str]
    item_labels: dict[int, str]
    kind: Kind
    method: str

    @property
    def colors(self) -> set[int]:
        """Numbers of the measured colours."""
        return {item.color for item in self.items}


def make_shares(
    measured: ColorMeasurement, frame: Box, shape: tuple[int, ...], num_colors: int | None = None
) -> ColorShares:
    """Convert a measurement to shares of the whole image.

    Args:
        measured: Measurement of the crop.
        frame: Position of the crop on the image; the measured crop may be a downscaled copy.
        shape: Rows and columns of the image.
        num_colors: Maximum number of colours; the most similar ones are joined.
    """
    total = sum(measured.weights) or 1.0
    group_of = _join_alike(measured, num_colors)
    groups: dict[int, list[tuple[Area, float]]] = {}
    for item, weight in zip(measured.items, measured.weights, strict=True):
        groups.setdefault(group_of[item.color], []).append((item, weight / total))
    ordered = sorted(groups.items(), key=lambda group: -sum(part for _, part in group[1]))
    number_of = np.full(int(measured.areas.map.max()) + 1, -1, np.int16)
    for index, (_, members) in enumerate(ordered):
        number_of[[item.number for item, _ in members]] = index
    labels = np.full(shape[:2], -1, np.int16)
    numbers = number_of[measured.areas.map]
    if numbers.shape != (frame.height, frame.width):
        numbers = cv2.resize(numbers, (frame.width, frame.height), interpolation=cv2.INTER_NEAREST)
    labels[frame.top : frame.bottom, frame.left : frame.right] = numbers
    background = measured.background
    return ColorShares(
        shares=tuple(_make_share(measured, color, members, frame) for color, members in ordered),
        background_rgb=None if background is None else _rgb(measured.rgb[background]),
        method=measured.method,
        kind=measured.kind,
        labels=labels,
    )


def _join_alike(measured: ColorMeasurement, num_colors: int | None) -> dict[int, int]:
    """Return for each colour the one that replaces it: itself, unless there are too many."""
    group_of = {color: color for color in measured.colors}
    sizes = dict.fromkeys(group_of, 0.0)
    for item, weight in zip(measured.items, measured.weights, strict=True):
        sizes[item.color] += weight
    lab = to_lab(measured.rgb)
    while num_colors is not None and len(sizes) > num_colors:
        pairs = [(a, b) for a in sizes for b in sizes if a != b and sizes[a] >= sizes[b]]
        large, small = min(pairs, key=lambda pair: float(np.linalg.norm(lab[pair[0]] - lab[pair[1]])))
        sizes[large] += sizes.pop(small)
        group_of = {color: large if group == small else group for color, group in group_of.items()}
    return group_of


def _make_share(measured: ColorMeasurement, color: int, members: list[tuple[Area, float]], frame: Box) -> Share:
    members = sorted(members, key=lambda member: -member[1])
    pieces = tuple(_make_piece(measured.areas, item, part, frame) for item, part in members)
    written = dict.fromkeys(measured.item_labels.get(item.number, "") for item, _ in members)
    label = measured.color_labels.get(color) or ", ".join(filter(None, written)) or None
    box = pieces[0].box_px
    for piece in pieces[1:]:
        box = box.union(piece.box_px)
    rgb = _rgb(measured.rgb[color])
    return Share(
        color_rgb=rgb,
        color_name=color_name(rgb),
        share=sum(piece.share for piece in pieces),
        area_px=sum(piece.area_px for piece in pieces),
        label=label,
        box_px=box,
        center_px=pieces[0].center_px,
        pieces=pieces,
    )


def _make_piece(areas: Areas, item: Area, part: float, frame: Box) -> Piece:
    x, y = _find_middle(areas.mask(item))
    wide, high = frame.width / areas.map.shape[1], frame.height / areas.map.shape[0]
    own = item.box_px
    box = Box(round(own.left * wide), round(own.top * high), round(own.right * wide), round(own.bottom * high))
    center = frame.left + int((own.left + x + 0.5) * wide), frame.top + int((own.top + y + 0.5) * high)
    area = round(item.area_px * wide * high)
    return Piece(share=part, area_px=area, box_px=box.moved(frame.left, frame.top), center_px=center)


def _find_middle(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the pixel farthest from the edge; if there are several, the one nearest to their center."""
    away = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1]
    rows, columns = np.nonzero(away >= 0.98 * away.max())
    nearest = int(np.argmin(np.hypot(rows - rows.mean(), columns - columns.mean())))
    return int(columns[nearest]), int(rows[nearest])


def _rgb(color: NDArray[np.uint8]) -> tuple[int, int, int]:
    return int(color[0]), int(color[1]), int(color[2])


def draw_share(image: ImageSource, result: ColorShares) -> NDArray[np.uint8]:
    """Draw the outline and percentage of each colour's areas on the image, and one bar of all colours below.

    Parts that were left out are faded.

    Args:
        image: Image that was measured, (H, W, 3) uint8 RGB.
        result: Result of `color_share` for it.

    Returns:
        The image, extended by the bar.

    Raises:
        ImageError: If the result is of an image of another size.
    """
    image = load_image(image)
    if image.shape[:2] != result.labels.shape:
        raise ImageError(
            f"found an image of {image.shape[1]} x {image.shape[0]} pixels and shares of one of "
            f"{result.labels.shape[1]} x {result.labels.shape[0]}; draw on the image that was measured"
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
    """Fade parts that were left out, and draw an outline around the others."""
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


def _write_pieces(
    draw: ImageDraw.ImageDraw,
    share: Share,
    font: Font,
    width: int,
    num_shares: int,
) -> None:
    """Draw the percentage (and label) on the largest piece, and the percentage alone on other large pieces."""
    for index, piece in enumerate(share.pieces):
        if piece.share < _MIN_WRITTEN and index:
            break
        text = f"{100 * piece.share:.1f} %"
        if index == 0 and share.label:
            text = f"{share.label}\n{text}"
        elif index == 0 and num_shares > 1 and len(share.pieces) == 1:
            text = f"{share.color_name}\n{text}"
        _write_plate(draw, piece.center_px, text, font, width)


def _write_plate(
    draw: ImageDraw.ImageDraw,
    center: tuple[int, int],
    text: str,
    font: Font,
    width: int,
) -> None:
    """Draw black text on a white plate, which hides text below it, moved to stay on the image."""
    left, top, right, bottom = draw.multiline_textbbox(center, text, font=font, anchor="mm", align="center")
    x = center[0] + max(6 - left, 0) - max(right + 6 - width, 0)
    y = center[1] + max(4 - top, 0)
    half_width, half_height = (right - left) / 2 + 4, (bottom - top) / 2 + 3
    plate = (x - half_width, y - half_height, x + half_width, y + half_height)
    draw.rounded_rectangle(plate, radius=4, fill="white", outline=(90, 90, 90))
    draw.multiline_text((x, y), text, font=font, anchor="mm", align="center", fill="black")


def _draw_bar(
    draw: ImageDraw.ImageDraw,
    result: ColorShares,
    font: Font,
    frame: tuple[int, int, int, int],
) -> None:
    """Draw one bar of all shares, largest left."""
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
