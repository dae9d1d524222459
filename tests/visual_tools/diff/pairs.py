"""Pairs of images with planted changes: drawn screens and edited photographs; how they are spoiled and judged.

A planted change counts as found when a reported difference covers at least 30 % of its box and is itself no larger
than four times that box (with 6 px let off on each side), in the first or the second image. Each reported
difference can find one change only; every one that finds none is false, also a second one on the same change.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import skimage.data
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.optimize import linear_sum_assignment

from examples.scenes import COLOURS, Change, Pair, changed_box
from visual_tools.box import Box
from visual_tools.diff.result import Difference, Differences

Picture = NDArray[np.uint8]
SCREEN_WORDS = (
    "Inbox Reports Orders Invoice Delivery Berlin Oslo Monday Friday Search Export Draft Sent Team Archive Billing"
).split()
PHOTOS = (
    "astronaut",
    "coffee",
    "chelsea",
    "rocket",
    "motorcycle",
    "brick",
    "coins",
    "page",
    "immunohistochemistry",
    "retina",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """Something on a screen."""

    kind: str
    left: int
    top: int
    width: int
    colour: str = "#3f7fc1"
    text: str = ""
    on: bool = True


def draw_screen(elements: list[Element], width: int, height: int) -> Picture:
    picture = Image.new("RGB", (width, height), "#f6f7f9")
    draw: Any = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, width, 44), fill="#24303c")
    draw.rectangle((0, 45, 170, height), fill="#e6eaee")
    for y in range(70, height, 62):
        draw.line((190, y, width - 20, y), fill="#d5dae0")
    for element in elements:
        _draw_element(draw, element)
    return np.asarray(picture)


def _draw_element(draw: Any, one: Element) -> None:
    x, y, font = one.left, one.top, ImageFont.load_default(16)
    if one.kind == "text":
        draw.text((x, y), one.text, fill="#1f2a33", font=font)
    elif one.kind == "button":
        draw.rounded_rectangle((x, y, x + one.width, y + 30), 6, fill=one.colour)
        draw.text((x + one.width / 2, y + 15), one.text, fill="white", font=font, anchor="mm")
    elif one.kind == "check":
        draw.rectangle((x, y, x + 16, y + 16), outline="#52606c", width=2, fill="white")
        if one.on:
            draw.line((x + 3, y + 8, x + 7, y + 13, x + 14, y + 3), fill="#1f7a3f", width=3)
    elif one.kind == "icon":
        draw.ellipse((x, y, x + 26, y + 26), fill=one.colour)
        draw.text((x + 13, y + 13), one.text[:1], fill="white", font=font, anchor="mm")
    elif one.kind == "bar":
        draw.rounded_rectangle((x, y, x + 120, y + 12), 6, fill="#d5dae0")
        draw.rounded_rectangle((x, y, x + one.width, y + 12), 6, fill=one.colour)


def _screen_elements(chance: random.Random, width: int, height: int) -> list[Element]:
    word, colour = (lambda: chance.choice(SCREEN_WORDS)), (lambda: chance.choice(COLOURS[:6]))
    found = [Element(kind="text", left=24, top=y, width=100, text=word()) for y in range(80, height - 60, 52)]
    for y in range(82, height - 70, 62):
        found += [
            Element(kind="icon", left=200, top=y + 6, width=26, colour=colour(), text=word()),
            Element(kind="text", left=246, top=y + 8, width=120, text=f"{word()} {chance.randint(10, 99)}"),
            Element(kind="bar", left=450, top=y + 14, width=chance.randint(30, 110), colour=colour()),
            Element(kind="check", left=620, top=y + 10, width=16, on=chance.random() < 0.5),
            Element(kind="button", left=690, top=y + 4, width=96, colour=colour(), text=word()),
        ]
    return found


def _change_element(one: Element, chance: random.Random) -> tuple[str, Element | None, Element | None]:
    other = chance.choice([colour for colour in COLOURS[:6] if colour != one.colour])
    word = chance.choice([word for word in SCREEN_WORDS if word != one.text.split(" ")[0]])
    ways: dict[str, list[tuple[str, Element | None, Element | None]]] = {
        "text": [("text", one, replace(one, text=word)), ("moved", one, replace(one, left=one.left + 22))],
        "icon": [("recoloured", one, replace(one, colour=other)), ("moved", one, replace(one, left=one.left - 12))],
        "bar": [("resized", one, replace(one, width=(one.width + 60) % 118 + 2))],
        "check": [("changed", one, replace(one, on=not one.on))],
        "button": [("recoloured", one, replace(one, colour=other)), ("text", one, replace(one, text=word))],
    }
    return chance.choice([*ways[one.kind], ("removed", one, None), ("added", None, one)])


def make_screen_pair(seed: int, *, changes: int = 8, width: int = 860, height: int = 640) -> Pair:
    """A drawn window and the same with some of its parts changed."""
    chance = random.Random(seed)
    elements = _screen_elements(chance, width, height)
    picked = set(chance.sample(range(len(elements)), changes))
    before: list[Element] = []
    after: list[Element] = []
    found = []
    for at, element in enumerate(elements):
        kind, old, new = _change_element(element, chance) if at in picked else ("", element, element)
        before += [old] if old else []
        after += [new] if new else []
        if kind:
            empty = draw_screen([], width, height)
            first, second = (draw_screen([one] if one else [], width, height) for one in (old, new))
            found.append(_as_change(kind, first, second, empty))
    return Pair(
        first=draw_screen(before, width, height), second=draw_screen(after, width, height), changes=tuple(found)
    )


def _as_change(kind: str, first: Picture, second: Picture, empty: Picture) -> Change:
    if kind == "moved":
        return Change(kind=kind, first_box=changed_box(first, empty), second_box=changed_box(second, empty))
    box = changed_box(first, second)
    return Change(kind=kind, first_box=box, second_box=box)


def load_photo(name: str) -> Picture:
    """A photograph that comes with scikit-image, brought to about 900 px, (H, W, 3) uint8 RGB."""
    image = skimage.data.stereo_motorcycle()[0] if name == "motorcycle" else getattr(skimage.data, name)()
    image = np.dstack([image] * 3) if image.ndim == 2 else image[:, :, :3]
    factor = 900 / max(image.shape)
    return cv2.resize(
        image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    )


def make_photo_pair(seed: int, name: str, *, changes: int = 6) -> Pair:
    """A photograph and the same with soft-edged retouches, each strong enough to be seen."""
    chance = random.Random(seed)
    first = load_photo(name)
    second = first.copy()
    found: list[Change] = []
    kinds = ["recoloured", "removed", "added", "moved", "text", "changed"]
    for at in range(changes * 30):
        if len(found) == changes:
            break
        kind = kinds[(len(found) + at // 30) % len(kinds)]
        edited, areas = _retouch(second, kind, chance)
        boxes = [_seen(second, edited, area) for area in areas]
        taken = [box for change in found for box in (change.first_box, change.second_box)]
        if any(box is None or any(box.padded(28).intersection(other) for other in taken) for box in boxes):
            continue
        second = edited
        found.append(Change(kind=kind, first_box=boxes[0], second_box=boxes[-1]))  # type: ignore[arg-type]
    return Pair(first=first, second=second, changes=tuple(found))


def _seen(before: Picture, after: Picture, area: Box) -> Box | None:
    """Where a retouch shows, if a third of its area differs by 20 levels or more."""
    if area.width < 8 or area.height < 8:
        return None
    place = slice(area.top, area.bottom), slice(area.left, area.right)
    smooth = [cv2.GaussianBlur(image[place], (5, 5), 0).astype(np.int16) for image in (before, after)]
    visible = np.abs(smooth[0] - smooth[1]).max(axis=2) >= 20
    if visible.mean() < 0.33:
        return None
    box = changed_box(before[place], after[place], 20)
    return box.moved(area.left, area.top)


def _retouch(image: Picture, kind: str, chance: random.Random) -> tuple[Picture, list[Box]]:
    height, width = image.shape[:2]
    radius = chance.randint(16, 38)
    x, y = chance.randint(110, width - 110), chance.randint(110, height - 110)
    area = Box(x - radius, y - radius, x + radius, y + radius)
    edited = image.copy()
    if kind == "removed":
        _blend(edited, _without(image, area), area)
        return edited, [area]
    if kind == "recoloured":
        turned = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
        turned[:, :, 0] = (turned[:, :, 0].astype(np.int16) + chance.choice((50, 90, 130))) % 180
        turned[:, :, 1] = np.maximum(turned[:, :, 1], 120)
        _blend(edited, cv2.cvtColor(turned, cv2.COLOR_HSV2RGB), area)
        return edited, [area]
    if kind == "text":
        picture = Image.fromarray(edited)
        font = ImageFont.load_default(radius)
        ImageDraw.Draw(picture).text((x, y), chance.choice(SCREEN_WORDS), fill="white", font=font, anchor="mm",
                                     stroke_width=2, stroke_fill="black")  # fmt: skip
        edited = np.array(picture)
        box = changed_box(image, edited)
        return edited, [box]
    if kind == "moved":
        turn, far = chance.uniform(0, 2 * math.pi), radius * chance.uniform(2.6, 3.2)
        dx, dy = round(far * math.cos(turn)), round(far * math.sin(turn))
        shifted = np.roll(image, (dy, dx), (0, 1))
        _blend(edited, _without(image, area), area)
        _blend(edited, shifted, area.moved(dx, dy))
        return edited, [area, area.moved(dx, dy).clipped(width, height)]
    other = chance.randint(110, width - 110), chance.randint(110, height - 110)
    from_there = np.roll(image, (y - other[1], x - other[0]), (0, 1))
    _blend(edited, cv2.flip(from_there, 1) if kind == "changed" else from_there, area)
    return edited, [area]


def _without(image: Picture, area: Box) -> Picture:
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.ellipse(
        mask,
        (int(area.center[0]), int(area.center[1])),
        (area.width // 2 + 2, area.height // 2 + 2),
        0,
        0,
        360,
        255,
        -1,
    )
    return cv2.inpaint(image, mask, 5, cv2.INPAINT_TELEA)


def _blend(onto: Picture, source: Picture, area: Box) -> None:
    """Lay an oval of `source` on an image, with a soft edge of a few pixels."""
    mask = np.zeros(onto.shape[:2], np.float32)
    cv2.ellipse(
        mask, (int(area.center[0]), int(area.center[1])), (area.width // 2 - 2, area.height // 2 - 2), 0, 0, 360, 1, -1
    )
    soft = cv2.GaussianBlur(mask, (5, 5), 0)[:, :, None]
    onto[:] = np.rint(onto * (1 - soft) + source * soft).astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoil:
    """What happens to the second image, and to both."""

    scale: float = 1.0
    rotation_deg: float = 0.0
    shift_px: tuple[float, float] = (0.0, 0.0)
    gain: float = 1.0
    offset: float = 0.0
    quality: int = 100


def any_spoil(seed: int, *, turns: bool = True) -> Spoil:
    """JPEG of quality 60 to 95; scale 0.85 to 1.2, turn within 2 degrees, shift, brightness for most."""
    chance = random.Random(seed)
    moves = chance.random() < 0.8
    return Spoil(
        scale=chance.uniform(0.85, 1.2) if moves else 1.0,
        rotation_deg=chance.uniform(-2, 2) if moves and turns else 0.0,
        shift_px=(chance.uniform(-25, 25), chance.uniform(-25, 25)),
        gain=chance.choice((1.0, 1.0, 0.92, 1.08)),
        offset=chance.choice((0.0, 0.0, -8.0, 10.0)),
        quality=chance.randint(60, 95),
    )


def spoil(pair: Pair, how: Spoil) -> Pair:
    """The pair after resampling, a change of brightness and JPEG; planted boxes follow."""
    height, width = pair.first.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), -how.rotation_deg, how.scale)
    size = round(width * how.scale), round(height * how.scale)
    matrix[:, 2] += [size[0] / 2 - width / 2 + how.shift_px[0], size[1] / 2 - height / 2 + how.shift_px[1]]
    flags = cv2.INTER_AREA if how.scale < 1 else cv2.INTER_CUBIC
    second = cv2.warpAffine(pair.second, matrix, size, flags=flags, borderValue=(255, 255, 255))
    second = np.clip(second * how.gain + how.offset, 0, 255).astype(np.uint8)
    changes = [replace(one, second_box=_mapped(one.second_box, matrix)) for one in pair.changes]
    return Pair(first=_jpeg(pair.first, how.quality), second=_jpeg(second, how.quality), changes=tuple(changes))


def _mapped(box: Box, matrix: NDArray[np.float64]) -> Box:
    corners = np.array([[x, y, 1.0] for x in (box.left, box.right) for y in (box.top, box.bottom)]) @ matrix.T
    (left, top), (right, bottom) = np.rint(corners.min(axis=0)), np.rint(corners.max(axis=0))
    return Box(int(left), int(top), int(right), int(bottom))


def _jpeg(image: Picture, quality: int) -> Picture:
    if quality >= 100:
        return image
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a list of differences fares against the planted ones."""

    planted: int
    found: int
    false: int
    missed: tuple[Change, ...]
    false_ones: tuple[Difference, ...]


def judge(result: Differences, changes: tuple[Change, ...]) -> Score:
    """Match reported differences with planted changes one to one."""
    fits: Callable[[Box, Box], float] = _fit
    gain = np.zeros((len(changes), max(result.count, 1)))
    for row, change in enumerate(changes):
        for column, one in enumerate(result.differences):
            gain[row, column] = max(fits(one.first_box, change.first_box), fits(one.second_box, change.second_box))
    rows, columns = linear_sum_assignment(-gain)
    matched = {int(column): int(row) for row, column in zip(rows, columns, strict=True) if gain[row, column] > 0}
    return Score(
        planted=len(changes),
        found=len(matched),
        false=result.count - len(matched),
        missed=tuple(change for row, change in enumerate(changes) if row not in matched.values()),
        false_ones=tuple(one for column, one in enumerate(result.differences) if column not in matched),
    )


def _fit(reported: Box, planted: Box) -> float:
    covered = reported.intersection(planted) / planted.area
    return covered if covered >= 0.3 and reported.area <= 4 * planted.padded(6).area else 0.0
