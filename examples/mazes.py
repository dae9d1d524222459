"""Mazes to try things on: made by four algorithms, square or round, drawn cleanly or as if photographed.

python -m examples.mazes        # draws examples/maze.png and examples/ant-maze.png again
"""

import io
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Cell = tuple[int, int]
Links = set[frozenset[Cell]]
RgbImage = NDArray[np.uint8]


@dataclass(frozen=True)
class Grid:
    """Cells in rows and columns."""

    rows: int
    columns: int

    def cells(self) -> list[Cell]:
        return [(row, column) for row in range(self.rows) for column in range(self.columns)]

    def neighbors(self, cell: Cell) -> list[Cell]:
        row, column = cell
        around = ((row, column + 1), (row + 1, column), (row, column - 1), (row - 1, column))
        return [(r, c) for r, c in around if 0 <= r < self.rows and 0 <= c < self.columns]


@dataclass(frozen=True)
class Rings:
    """Cells in rings around a middle one, (0, 0); twice as many in a ring where they would get too wide."""

    rings: int

    def count(self, ring: int) -> int:
        if ring == 0:
            return 1
        return int(6 * 2 ** math.floor(math.log2(ring) + 0.4))

    def cells(self) -> list[Cell]:
        return [(ring, number) for ring in range(self.rings) for number in range(self.count(ring))]

    def inward(self, cell: Cell) -> Cell:
        ring, number = cell
        return (ring - 1, number * self.count(ring - 1) // self.count(ring))

    def neighbors(self, cell: Cell) -> list[Cell]:
        ring, number = cell
        count = self.count(ring)
        around = [] if ring == 0 else [(ring, (number + 1) % count), (ring, (number - 1) % count), self.inward(cell)]
        if ring + 1 < self.rings:
            outer = self.count(ring + 1)
            around += [(ring + 1, n) for n in range(number * outer // count, (number + 1) * outer // count)]
        return around


Board = Grid | Rings


def backtrack(board: Board, rng: random.Random) -> Links:
    """Walk on until stuck, then step back to the last cell with a way on: long winding corridors."""
    links: Links = set()
    trail = [rng.choice(board.cells())]
    seen = {trail[0]}
    while trail:
        fresh = [cell for cell in board.neighbors(trail[-1]) if cell not in seen]
        if not fresh:
            trail.pop()
            continue
        chosen = rng.choice(fresh)
        links.add(frozenset((trail[-1], chosen)))
        seen.add(chosen)
        trail.append(chosen)
    return links


def prim(board: Board, rng: random.Random) -> Links:
    """Grow from one cell by any edge at the rim: many short dead ends."""
    first = rng.choice(board.cells())
    links, seen = set(), {first}
    rim = [(first, cell) for cell in board.neighbors(first)]
    while rim:
        at = rng.randrange(len(rim))
        rim[at], rim[-1] = rim[-1], rim[at]
        inner, outer = rim.pop()
        if outer not in seen:
            seen.add(outer)
            links.add(frozenset((inner, outer)))
            rim += [(outer, cell) for cell in board.neighbors(outer) if cell not in seen]
    return links


def kruskal(board: Board, rng: random.Random) -> Links:
    """Join any two neighbours that are not joined yet."""
    parent = {cell: cell for cell in board.cells()}

    def root(cell: Cell) -> Cell:
        while parent[cell] != cell:
            parent[cell] = parent[parent[cell]]
            cell = parent[cell]
        return cell

    edges = [(cell, other) for cell in board.cells() for other in board.neighbors(cell) if cell < other]
    rng.shuffle(edges)
    links: Links = set()
    for first, second in edges:
        if root(first) != root(second):
            parent[root(first)] = root(second)
            links.add(frozenset((first, second)))
    return links


def wilson(board: Board, rng: random.Random) -> Links:
    """Random walks with their loops cut out: every maze is equally likely."""
    cells = board.cells()
    rng.shuffle(cells)
    inside, links = {cells[0]}, set()
    for first in cells[1:]:
        leaving, cell = {}, first
        while cell not in inside:
            leaving[cell] = rng.choice(board.neighbors(cell))
            cell = leaving[cell]
        cell = first
        while cell not in inside:
            inside.add(cell)
            links.add(frozenset((cell, leaving[cell])))
            cell = leaving[cell]
    return links


ALGORITHMS: dict[str, Callable[[Board, random.Random], Links]] = {
    "backtrack": backtrack,
    "prim": prim,
    "kruskal": kruskal,
    "wilson": wilson,
}


def braid(board: Board, links: Links, rng: random.Random, share: float) -> Links:
    """Open some more walls, so that there are loops and several ways."""
    walls = [
        frozenset((cell, other))
        for cell in board.cells()
        for other in board.neighbors(cell)
        if cell < other and frozenset((cell, other)) not in links
    ]
    return links | set(rng.sample(walls, round(share * len(walls))))


def draw_grid(
    grid: Grid,
    links: Links,
    *,
    corridor_px: int = 20,
    wall_px: int = 4,
    margin_px: int = 0,
    has_openings: bool = False,
    road: str = "white",
    wall: str = "black",
) -> RgbImage:
    """Draw a square maze; the openings are above the first cell and below the last one."""
    pitch = corridor_px + wall_px
    free = np.zeros((grid.rows * pitch + wall_px, grid.columns * pitch + wall_px), np.uint8)
    for row, column in grid.cells():
        free[_span(row, corridor_px, wall_px), _span(column, corridor_px, wall_px)] = 1
    for link in links:
        (row, column), (row_2, column_2) = sorted(link)
        top, left = wall_px + row * pitch, wall_px + column * pitch
        free[top : wall_px + row_2 * pitch + corridor_px, left : wall_px + column_2 * pitch + corridor_px] = 1
    if has_openings:
        free[:wall_px, _span(0, corridor_px, wall_px)] = 1
        free[-wall_px:, _span(grid.columns - 1, corridor_px, wall_px)] = 1
    colors = np.array([Image.new("RGB", (1, 1), color).getpixel((0, 0)) for color in (wall, road)], np.uint8)
    return colors[np.pad(free, margin_px, constant_values=1)]


def cell_center(cell: Cell, *, corridor_px: int = 20, wall_px: int = 4, margin_px: int = 0) -> tuple[int, int]:
    """Pixel in the middle of a cell of `draw_grid`, x and y."""
    row, column = cell
    offset = margin_px + wall_px + (corridor_px - 1) // 2
    return offset + column * (corridor_px + wall_px), offset + row * (corridor_px + wall_px)


def _span(number: int, corridor_px: int, wall_px: int) -> slice:
    start = wall_px + number * (corridor_px + wall_px)
    return slice(start, start + corridor_px)


def solve(board: Board, links: Links, start: Cell, goal: Cell) -> list[Cell]:
    """The cells of a way with the fewest of them, or an empty list."""
    came_from: dict[Cell, Cell | None] = {start: None}
    front = [start]
    for cell in front:
        for other in board.neighbors(cell):
            if other not in came_from and frozenset((cell, other)) in links:
                came_from[other] = cell
                front.append(other)
    way: list[Cell] = []
    at: Cell | None = goal if goal in came_from else None
    while at is not None:
        way.append(at)
        at = came_from[at]
    return way[::-1]


def draw_rings(
    board: Rings, links: Links, *, ring_px: int = 40, wall_px: int = 5, margin_px: int = 30, has_opening: bool = True
) -> tuple[RgbImage, Callable[[Cell], tuple[int, int]]]:
    """Draw a round maze with smooth edges; and where the middle of each cell is. The opening is in the last cell."""
    smooth = 2
    radius = board.rings * ring_px
    side = 2 * (radius + margin_px)
    image = Image.new("RGB", (side * smooth, side * smooth), "white")
    draw = ImageDraw.Draw(image)
    for ring, number in board.cells():
        count = board.count(ring)
        first, last = 360 * number / count, 360 * (number + 1) / count
        if ring and frozenset(((ring, number), board.inward((ring, number)))) not in links:
            _arc(draw, side * smooth / 2, ring * ring_px * smooth, (first, last), wall_px * smooth)
        if ring and frozenset(((ring, number), (ring, (number + 1) % count))) not in links:
            ends = [_polar(side * smooth / 2, r * ring_px * smooth, last) for r in (ring, ring + 1)]
            draw.line(ends, "black", wall_px * smooth)
    outer = 360 * (board.count(board.rings - 1) - 1) / board.count(board.rings - 1) if has_opening else 360
    _arc(draw, side * smooth / 2, radius * smooth, (0, outer), wall_px * smooth)

    def center(cell: Cell) -> tuple[int, int]:
        if cell[0] == 0:
            return side // 2, side // 2
        x, y = _polar(side / 2, (cell[0] + 0.5) * ring_px, 360 * (cell[1] + 0.5) / board.count(cell[0]))
        return round(x), round(y)

    return np.asarray(image.resize((side, side), Image.Resampling.BOX)), center


def _polar(middle: float, radius: float, angle_deg: float) -> tuple[float, float]:
    turn = math.radians(angle_deg)
    return middle + radius * math.cos(turn), middle + radius * math.sin(turn)


def _arc(draw: Any, middle: float, radius: float, angles_deg: tuple[float, float], width: int) -> None:
    """An arc with round ends, so that it closes up with the lines that meet it."""
    box = (
        middle - radius - width / 2,
        middle - radius - width / 2,
        middle + radius + width / 2,
        middle + radius + width / 2,
    )
    draw.arc(box, *angles_deg, "black", width)
    for angle in angles_deg:
        x, y = _polar(middle, radius, angle)
        draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), "black")


def draw_dot(image: RgbImage, center: tuple[int, int], radius_px: float, color: str) -> RgbImage:
    """A dot with a smooth rim."""
    layer = Image.fromarray(image)
    mask = Image.new("L", (layer.width, layer.height))
    box = [4 * (value + half) for half in (-radius_px, radius_px) for value in (radius_px + 1,) * 2]
    stamp_px = math.ceil(2 * radius_px + 2)
    stamp = Image.new("L", (4 * stamp_px, 4 * stamp_px))
    ImageDraw.Draw(stamp).ellipse(box, 255)
    mask.paste(
        stamp.resize((stamp_px, stamp_px), Image.Resampling.BOX), tuple(round(v - radius_px - 1) for v in center)
    )
    layer.paste(Image.new("RGB", layer.size, color), mask=mask)
    return np.asarray(layer)


def photograph(
    image: RgbImage, rng: np.random.Generator, *, turn_deg: float = 3.0
) -> tuple[RgbImage, NDArray[np.float64]]:
    """What a telephone makes of a page: turned, seen aslant, unevenly lit, soft, noisy, stored as JPEG.

    Returns:
        The image, and the 3 x 3 matrix that takes a point of the page to the image.
    """
    height, width = image.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    turn = math.radians(rng.uniform(-turn_deg, turn_deg))
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    seen = (corners - corners.mean(axis=0)) @ rotation.T * 0.94 + corners.mean(axis=0)
    seen += rng.uniform(-0.015, 0.015, (4, 2)) * (width, height)
    matrix = cv2.getPerspectiveTransform(corners.astype(np.float32), seen.astype(np.float32))
    warped = cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE)
    columns, rows = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    angle = rng.uniform(0, 2 * math.pi)
    light = 0.78 + 0.2 * (math.cos(angle) * columns + math.sin(angle) * rows) / 1.4
    shaded = cv2.GaussianBlur(warped, (0, 0), 0.9) * light[..., None]
    noisy = np.clip(shaded + rng.normal(0, 5, shaded.shape), 0, 255).astype(np.uint8)
    return compress(noisy, 75), matrix


def compress(image: RgbImage, quality: int) -> RgbImage:
    """The image after a round through JPEG."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def draw_ant(image: RgbImage, center: tuple[int, int], size_px: float, color: str = "#7a3b12") -> RgbImage:
    """An ant that looks to the right."""
    smooth = 4
    layer = Image.fromarray(image)
    ink = Image.new("L", (layer.width, layer.height))
    side = round(2.4 * size_px)
    stamp = Image.new("L", (side * smooth, side * smooth))
    draw = ImageDraw.Draw(stamp)
    unit = size_px * smooth / 10
    middle = side * smooth / 2

    def at(x: float, y: float) -> tuple[float, float]:
        return middle + x * unit, middle + y * unit

    for x, lean in ((-1.2, -1.6), (0.0, 0.2), (1.2, 1.8)):
        for turned in (-1, 1):
            draw.line(
                [at(x * 0.6, 0), at(x + lean * 0.6, 2.2 * turned), at(x + lean * 1.2, 3.6 * turned)],
                255,
                round(0.5 * unit),
            )
    for turned in (-1, 1):
        draw.line([at(3.4, 0.4 * turned), at(4.9, 1.6 * turned), at(6.0, 1.4 * turned)], 255, round(0.4 * unit))
    for x, wide, high in ((-3.6, 2.5, 1.8), (0.0, 1.6, 1.0), (3.0, 1.5, 1.3)):
        draw.ellipse((*at(x - wide, -high), *at(x + wide, high)), 255)
    ink.paste(stamp.resize((side, side), Image.Resampling.BOX), tuple(round(v - side / 2) for v in center))
    layer.paste(Image.new("RGB", layer.size, color), mask=ink)
    return np.asarray(layer)


def make_maze_image() -> RgbImage:
    """A square maze, 1244 pixels wide, from a green dot to a red one."""
    grid, sizes = Grid(30, 30), {"corridor_px": 32, "wall_px": 8, "margin_px": 18}
    links = backtrack(grid, random.Random(20))
    image = draw_grid(grid, links, **sizes, road="#fdfcf7", wall="#26323f")
    image = draw_dot(image, cell_center((0, 0), **sizes), 11, "#12a150")
    return draw_dot(image, cell_center((29, 29), **sizes), 11, "#e0312f")


def make_ant_image() -> RgbImage:
    """A round maze: an ant outside on the last ring, a crumb in the middle."""
    board = Rings(12)
    links = braid(board, backtrack(board, random.Random(11)), random.Random(11), 0.02)
    image, center = draw_rings(board, links, ring_px=48, wall_px=8, margin_px=48, has_opening=False)
    image = draw_ant(image, center((11, 40)), 30)
    return draw_dot(image, center((0, 0)), 13, "#e8a317")


def main() -> None:
    here = Path(__file__).parent
    for name, image in (("maze", make_maze_image()), ("ant-maze", make_ant_image())):
        Image.fromarray(image).quantize(64).save(here / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
