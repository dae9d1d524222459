"""Cartoon scenes in pairs that differ in a known number of places: puzzles for `visual_tools.pixel_diff`.

    python -m examples.scenes [SEED] [FOLDER]

writes spot-left.png, spot-right.png and spot-pair.png (both side by side, with captions). A scene is a list of
things on a landscape; a planted change removes, adds, moves, recolours or resizes one of them, or changes the
text on a sign. Where a change can be seen is measured on the two drawings, not assumed.
"""

import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.box import Box

KINDS = ("removed", "added", "moved", "recoloured", "resized", "text")
COLOURS = ("#d94f3d", "#f2b33d", "#4f9d5d", "#3f7fc1", "#8c5fb0", "#e87fa8", "#2f4858", "#f4f1e6", "#7a4b2a")
WORDS = ("CAFE", "BOOKS", "LAKE", "HOTEL", "FARM", "EXIT", "PARK", "ZOO", "MILK", "PORT")
_FINER = 2  # scenes are drawn this many times larger, then shrunk, so that edges are smooth


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something on the scene: what it is, its middle and its radius in pixels."""

    kind: str
    x_px: float
    y_px: float
    size_px: float
    colour: str
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One planted difference and where it shows; the two boxes are equal unless something moved."""

    kind: str
    first_box: Box
    second_box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two images, (H, W, 3) uint8 RGB, and what was changed between them."""

    first: NDArray[np.uint8]
    second: NDArray[np.uint8]
    changes: tuple[Change, ...]


class Pen:
    """Draws shapes in units of a thing's radius around its middle."""

    def __init__(self, draw: Any, thing: Thing) -> None:
        self.draw, self.thing = draw, thing

    def at(self, *points: float) -> list[tuple[float, float]]:
        thing, pairs = self.thing, zip(points[::2], points[1::2], strict=True)
        return [
            ((thing.x_px + x * thing.size_px) * _FINER, (thing.y_px + y * thing.size_px) * _FINER) for x, y in pairs
        ]

    @property
    def line(self) -> dict[str, Any]:
        return {"outline": "#26323a", "width": 2 * _FINER}

    def oval(self, *corners: float, fill: str) -> None:
        self.draw.ellipse(self.at(*corners), fill=fill, **self.line)

    def box(self, *corners: float, fill: str) -> None:
        self.draw.rounded_rectangle(self.at(*corners), radius=3 * _FINER, fill=fill, **self.line)

    def shape(self, *points: float, fill: str) -> None:
        self.draw.polygon(self.at(*points), fill=fill, **self.line)

    def stroke(self, *points: float, fill: str = "#26323a", width_px: float = 3) -> None:
        self.draw.line(self.at(*points), fill=fill, width=round(width_px * _FINER))


def _star(points: int, inner: float) -> list[float]:
    turns = [math.pi * step / points - math.pi / 2 for step in range(2 * points)]
    radii = [1.0 if step % 2 == 0 else inner for step in range(2 * points)]
    return [
        part
        for turn, radius in zip(turns, radii, strict=True)
        for part in (radius * math.cos(turn), radius * math.sin(turn))
    ]


def draw_sun(pen: Pen, colour: str) -> None:
    pen.shape(*_star(12, 0.72), fill=colour)
    pen.oval(-0.6, -0.6, 0.6, 0.6, fill=colour)


def draw_cloud(pen: Pen, colour: str) -> None:
    for x, y, radius in ((-0.5, 0.1, 0.4), (0.5, 0.1, 0.4), (0, -0.1, 0.5)):
        pen.oval(x - radius, y - radius, x + radius, y + radius, fill=colour)
    pen.draw.rectangle(pen.at(-0.45, 0.1, 0.45, 0.4), fill=colour)


def draw_balloon(pen: Pen, colour: str) -> None:
    pen.stroke(-0.3, 0.4, -0.2, 0.8)
    pen.stroke(0.3, 0.4, 0.2, 0.8)
    pen.oval(-0.65, -1, 0.65, 0.5, fill=colour)
    pen.oval(-0.25, -1, 0.25, 0.5, fill="#f4f1e6")
    pen.box(-0.25, 0.75, 0.25, 1, fill="#7a4b2a")


def draw_bird(pen: Pen, colour: str) -> None:
    pen.shape(-0.9, -0.3, -0.3, -0.15, -0.7, 0.25, fill=colour)
    pen.oval(-0.6, -0.35, 0.5, 0.35, fill=colour)
    pen.oval(0.25, -0.55, 0.75, -0.05, fill=colour)
    pen.shape(0.72, -0.4, 1, -0.25, 0.72, -0.15, fill="#f2b33d")
    pen.shape(-0.3, -0.1, 0.25, -0.1, -0.25, -0.75, fill="#f4f1e6")


def draw_kite(pen: Pen, colour: str) -> None:
    pen.stroke(0, 0.5, 0.25, 0.7, 0, 1)
    pen.shape(0, -1, 0.6, -0.3, 0, 0.6, -0.6, -0.3, fill=colour)
    pen.stroke(0, -1, 0, 0.6)
    pen.stroke(-0.6, -0.3, 0.6, -0.3)


def draw_tree(pen: Pen, colour: str) -> None:
    pen.box(-0.15, 0.1, 0.15, 1, fill="#7a4b2a")
    for x, y, radius in ((-0.35, 0, 0.4), (0.35, 0, 0.4), (0, -0.45, 0.5)):
        pen.oval(x - radius, y - radius, x + radius, y + radius, fill=colour)


def draw_fir(pen: Pen, colour: str) -> None:
    pen.box(-0.12, 0.6, 0.12, 1, fill="#7a4b2a")
    for top in (0.0, -0.5, -1.0):
        pen.shape(0, top, 0.4 - top * -0.12 + 0.2, top + 0.75, -0.6 + top * -0.12, top + 0.75, fill=colour)


def draw_house(pen: Pen, colour: str) -> None:
    pen.box(-0.8, -0.15, 0.8, 1, fill=colour)
    pen.shape(-1, -0.1, 0, -1, 1, -0.1, fill="#7a4b2a")
    pen.box(-0.15, 0.4, 0.2, 1, fill="#2f4858")
    pen.box(-0.6, 0.15, -0.3, 0.5, fill="#bfe3f2")
    pen.box(0.38, 0.15, 0.65, 0.5, fill="#bfe3f2")


def draw_flower(pen: Pen, colour: str) -> None:
    pen.stroke(0, 0, 0, 1, fill="#3b7a4a", width_px=4)
    for step in range(6):
        x, y = 0.38 * math.cos(step * math.pi / 3), 0.38 * math.sin(step * math.pi / 3) - 0.4
        pen.oval(x - 0.26, y - 0.26, x + 0.26, y + 0.26, fill=colour)
    pen.oval(-0.22, -0.62, 0.22, -0.18, fill="#f2d16b")


def draw_mushroom(pen: Pen, colour: str) -> None:
    pen.box(-0.25, 0, 0.25, 1, fill="#f4f1e6")
    pen.draw.pieslice(pen.at(-0.9, -0.8, 0.9, 1), 180, 360, fill=colour, **pen.line)
    for x, y in ((-0.45, -0.2), (0.1, -0.5), (0.5, -0.15)):
        pen.draw.ellipse(pen.at(x - 0.14, y - 0.14, x + 0.14, y + 0.14), fill="#f4f1e6")


def draw_car(pen: Pen, colour: str) -> None:
    pen.shape(-0.55, 0, -0.35, -0.5, 0.35, -0.5, 0.6, 0, fill="#bfe3f2")
    pen.box(-1, -0.05, 1, 0.45, fill=colour)
    for x in (-0.55, 0.55):
        pen.oval(x - 0.25, 0.2, x + 0.25, 0.7, fill="#2f4858")


def draw_sign(pen: Pen, colour: str) -> None:
    pen.box(-0.08, 0, 0.08, 1, fill="#7a4b2a")
    pen.box(-1, -0.6, 1, 0.3, fill=colour)
    thing = pen.thing
    font = ImageFont.load_default(thing.size_px * 0.55 * _FINER)
    pen.draw.text(pen.at(0, -0.15)[0], thing.word, fill=_ink_on(colour), font=font, anchor="mm")


def _ink_on(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#1c2429" if 0.3 * red + 0.6 * green + 0.1 * blue > 130 else "#fdfbf4"


SKY: dict[str, Callable[[Pen, str], None]] = {
    "sun": draw_sun, "cloud": draw_cloud, "balloon": draw_balloon, "bird": draw_bird, "kite": draw_kite,
}  # fmt: skip
GROUND: dict[str, Callable[[Pen, str], None]] = {
    "tree": draw_tree, "fir": draw_fir, "house": draw_house, "flower": draw_flower,
    "mushroom": draw_mushroom, "car": draw_car, "sign": draw_sign,
}  # fmt: skip


def draw_scene(width: int, height: int, seed: int, things: list[Thing]) -> NDArray[np.uint8]:
    """The landscape of a seed with these things on it, (height, width, 3) uint8 RGB."""
    chance = random.Random(seed)
    image = Image.new("RGB", (width * _FINER, height * _FINER))
    draw = ImageDraw.Draw(image)
    top, low = chance.choice((("#8ecae6", "#e8f4f8"), ("#f7c59f", "#fbeee0"), ("#b8c6ee", "#f0eefb")))
    sky = np.linspace(_rgb(top), _rgb(low), image.height // 2)[:, None].repeat(image.width, axis=1)
    image.paste(Image.fromarray(sky.astype(np.uint8)), (0, 0))
    for level, colour in ((0.45, "#a9cf9a"), (0.52, "#8fbf7f"), (0.68, "#79ad68")):
        phase, waves = chance.uniform(0, 6), chance.uniform(1, 2.5)
        xs = np.linspace(0, image.width, 80)
        ys = image.height * (level + 0.03 * np.sin(phase + waves * 6.28 * xs / image.width))
        draw.polygon([(0, image.height), *zip(xs.tolist(), ys.tolist(), strict=True), image.size], fill=colour)
    for thing in things:
        (SKY | GROUND)[thing.kind](Pen(draw, thing), thing.colour)
    return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def _rgb(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def place_things(width: int, height: int, chance: random.Random, count: int) -> list[Thing]:
    """Up to `count` things that keep clear of each other and of the edge."""
    things: list[Thing] = []
    for _ in range(count * 40):
        in_sky = chance.random() < 0.35
        kind = chance.choice(sorted(SKY if in_sky else GROUND))
        size = chance.uniform(0.032, 0.075) * height
        low, high = (0.13, 0.36) if in_sky else (0.55, 0.86)
        x, y = chance.uniform(0.12, 0.88) * width, chance.uniform(low, high) * height
        thing = Thing(kind=kind, x_px=x, y_px=y, size_px=size, colour=chance.choice(COLOURS), word=chance.choice(WORDS))
        if len(things) < count and _is_clear(thing, things):
            things.append(thing)
    return things


def _is_clear(thing: Thing, others: list[Thing]) -> bool:
    return all(
        math.dist((thing.x_px, thing.y_px), (other.x_px, other.y_px)) > 1.45 * (thing.size_px + other.size_px) + 12
        for other in others
    )


def _change_thing(kind: str, thing: Thing, others: list[Thing], chance: random.Random) -> Thing | None:
    """The thing after a change of this kind; None where it cannot be changed so."""
    if kind == "recoloured":
        return replace(thing, colour=chance.choice([colour for colour in COLOURS if colour != thing.colour]))
    if kind == "resized":
        return replace(thing, size_px=thing.size_px * chance.choice((0.6, 0.7, 1.35)))
    if kind == "text" and thing.kind == "sign":
        return replace(thing, word=chance.choice([word for word in WORDS if word != thing.word]))
    if kind == "moved":
        turn, far = chance.uniform(0, 2 * math.pi), chance.uniform(0.5, 2.2) * thing.size_px
        moved = replace(thing, x_px=thing.x_px + far * math.cos(turn), y_px=thing.y_px + far * math.sin(turn))
        return moved if _is_clear(moved, others) else None
    return None


def make_pair(seed: int, *, width: int = 960, height: int = 720, changes: int = 10, things: int = 30) -> Pair:
    """A scene and the same scene with up to `changes` planted changes, without noise."""
    chance = random.Random(seed)
    before = place_things(width, height, chance, things)
    after: list[Thing | None] = list(before)
    left: list[Thing | None] = list(before)
    kinds = [KINDS[at % len(KINDS)] for at in range(changes)]
    order = [at for at, thing in enumerate(before) if thing.kind == "sign"][::-1]
    order += chance.sample([at for at in range(len(before)) if at not in order], len(before) - len(order))
    planted: list[tuple[str, int]] = []
    for kind in sorted(kinds, key=lambda name: name != "text"):
        for at in order:
            if any(at == used for _, used in planted):
                continue
            thing = before[at]
            others = [thing for other, thing in enumerate(before) if other != at]
            if kind == "removed":
                after[at] = None
            elif kind == "added":
                left[at] = None
            elif (changed := _change_thing(kind, thing, others, chance)) is not None:
                after[at] = changed
            else:
                continue
            planted.append((kind, at))
            break
    first = draw_scene(width, height, seed, [thing for thing in left if thing])
    second = draw_scene(width, height, seed, [thing for thing in after if thing])
    base = [None] * len(before)
    boxes = []
    for kind, at in planted:
        alone = [draw_scene(width, height, seed, [scene[at]] if scene[at] else []) for scene in (left, after, base)]
        boxes.append(_seen_change(kind, *alone))
    return Pair(first=first, second=second, changes=tuple(boxes))


def _seen_change(kind: str, first: NDArray[np.uint8], second: NDArray[np.uint8], empty: NDArray[np.uint8]) -> Change:
    if kind == "moved":
        return Change(kind=kind, first_box=changed_box(first, empty), second_box=changed_box(second, empty))
    box = changed_box(first, second)
    return Change(kind=kind, first_box=box, second_box=box)


def changed_box(first: NDArray[np.uint8], second: NDArray[np.uint8], least: int = 12) -> Box:
    """The box around all pixels that differ by at least `least` levels in some channel."""
    mask = np.abs(first.astype(np.int16) - second).max(axis=2) >= least
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def side_by_side(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Both on one white sheet, with a caption above each and unequal margins, as puzzles are printed."""
    height, width = first.shape[:2]
    sheet = Image.new("RGB", (2 * width + 75, height + 80), "white")
    draw: Any = ImageDraw.Draw(sheet)
    for left, image, caption in ((20, first, "Here is one"), (width + 50, second, "Find the differences")):
        sheet.paste(Image.fromarray(image), (left, 55))
        draw.text((left + width / 2, 28), caption, fill="#1c2429", font=ImageFont.load_default(26), anchor="mm")
    return np.asarray(sheet)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent
    pair = make_pair(seed, width=640, height=480, changes=10, things=26)
    sheet = side_by_side(pair.first, pair.second)
    for name, image in (("left", pair.first), ("right", pair.second), ("pair", sheet)):
        Image.fromarray(image).save(folder / f"spot-{name}.png", optimize=True)
    for number, change in enumerate(pair.changes, start=1):
        print(number, change.kind, change.first_box, change.second_box)


if __name__ == "__main__":
    main()
