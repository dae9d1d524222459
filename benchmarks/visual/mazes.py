"""Mazes of all kinds: how many are solved rightly, and how quick the search is beside other libraries.

    python -m benchmarks.visual.mazes [--per-kind 12] [--side 4000] [--no-speed] [--no-sweep]

A maze counts as right when the way passes `check_path` (valid and provably none shorter), its length is what SciPy's
csgraph finds on the same mask, it crosses no wall of the maze as it was generated (for a photograph: mapped back to
the page) and its ends are where they were put; or, for a maze made unsolvable, when no way is found.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import visual_tools as vt
from examples import mazes
from examples.mazes import Cell, Grid, Links, RgbImage, Rings
from visual_tools.errors import VisualError


@dataclass(frozen=True)
class Case:
    """An image and what is asked about it."""

    kind: str
    image: RgbImage
    start: Any
    goal: Any
    page: "Page"
    is_solvable: bool


@dataclass(frozen=True)
class Page:
    """The maze as it was drawn at first, to judge a way by."""

    image: RgbImage
    road: str
    wall_px: int
    ends_px: tuple[tuple[int, int], tuple[int, int]]
    reach_px: float
    to_page: NDArray[np.float64]

    def find_fault(self, points: NDArray[Any]) -> str:
        """What is wrong with a way on the image, or an empty text."""
        there = np.column_stack([points, np.ones(len(points))]) @ self.to_page.T
        there = there[:, :2] / there[:, 2:]
        for end, point in zip(self.ends_px, (there[0], there[-1]), strict=True):
            if math.dist(end, point) > self.reach_px:
                return f"an end at {point.round()}, expected {end}"
        road = np.array(Image.new("RGB", (1, 1), self.road).getpixel((0, 0)), np.int16)
        wall = np.abs(self.image - road).sum(axis=2) > 150 if self.wall_px > 1 else (self.image != road).any(axis=2)
        depth = cv2.distanceTransform(wall.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        core = depth >= math.ceil(self.wall_px / 2) - 0.1
        columns, rows = np.rint(np.concatenate([there, (there[1:] + there[:-1]) / 2])).astype(int).T
        columns, rows = columns.clip(0, wall.shape[1] - 1), rows.clip(0, wall.shape[0] - 1)
        crossed = np.flatnonzero(core[rows, columns])
        return f"crosses a wall at {(columns[crossed[0]], rows[crossed[0]])}" if len(crossed) else ""


def make_cases(per_kind: int) -> Iterator[Case]:
    """All kinds, the same ones in every run."""
    kinds = [
        *("dots", "points", "openings", "openings-margin", "letters", "ant", "black-road", "thin-walls", "thick-walls"),
        *(
            "one-pixel",
            "loops",
            "jpeg",
            "photo",
            "photo-openings",
            "colours",
            "round",
            "round-photo",
            "unsolvable",
            "large",
        ),
    ]
    for kind in kinds:
        for number in range(per_kind if kind != "large" else max(1, per_kind // 6)):
            yield make_case(kind, random.Random(f"{kind} {number}"))


def make_case(kind: str, rng: random.Random) -> Case:
    """One case of a kind."""
    if kind.startswith("round"):
        return make_round_case(kind, rng)
    rows, columns = rng.randrange(6, 26), rng.randrange(6, 26)
    corridor, wall = {
        "thin-walls": (rng.randrange(6, 30), rng.choice((1, 2))),
        "thick-walls": (rng.randrange(8, 24), rng.randrange(12, 30)),
        "one-pixel": (1, 1),
        "large": (rng.randrange(9, 16), rng.randrange(2, 6)),
    }.get(kind, (rng.randrange(14, 36), rng.randrange(3, 9)))
    if kind == "large":
        rows, columns = 4400 // (corridor + wall), 4400 // (corridor + wall)
    margin = 0 if kind in ("openings", "one-pixel") else rng.randrange(2, 60)
    board = Grid(rows, columns)
    algorithm = rng.choice(list(mazes.ALGORITHMS))
    links = mazes.ALGORITHMS[algorithm](board, rng)
    if kind in ("loops", "photo") or rng.random() < 0.2:
        links = mazes.braid(board, links, rng, rng.uniform(0.02, 0.3))
    ends = ((0, 0), (rows - 1, columns - 1))
    if kind not in ("openings", "openings-margin", "photo-openings"):
        ends = (rng.choice(board.cells()), rng.choice(board.cells()))
        while ends[0] == ends[1]:
            ends = (ends[0], rng.choice(board.cells()))
    if kind == "unsolvable":
        links = cut(board, links, *ends, rng)
    sizes = {"corridor_px": corridor, "wall_px": wall, "margin_px": margin}
    return draw_case(kind, board, links, ends, sizes, rng)


def cut(board: Grid, links: Links, start: Cell, goal: Cell, rng: random.Random) -> Links:
    """The same maze with walls built until there is no way."""
    links = set(links)
    while way := mazes.solve(board, links, start, goal):
        at = rng.randrange(len(way) - 1)
        links.remove(frozenset(way[at : at + 2]))
    return links


def draw_case(
    kind: str, board: Grid, links: Links, ends: tuple[Cell, Cell], sizes: dict[str, int], rng: random.Random
) -> Case:
    """Draw a square maze with its ends, and blur what the kind says."""
    colors = {"black-road": ("black", "white"), "colours": rng.choice(COLOR_PAIRS)}.get(kind, ("white", "black"))
    openings = kind in ("openings", "openings-margin", "photo-openings")
    image = page = mazes.draw_grid(board, links, **sizes, has_openings=openings, road=colors[0], wall=colors[1])
    start, goal = (mazes.cell_center(cell, **sizes) for cell in ends)
    asked: tuple[Any, Any] = (start, goal)
    if kind in ("dots", "jpeg", "photo", "colours", "loops", "thin-walls", "thick-walls", "unsolvable", "large"):
        radius = min(rng.uniform(0.25, 0.5) * sizes["corridor_px"], sizes["corridor_px"] / 2 - 1)
        names = rng.choice((("green", "red"), ("blue", "red"), ("#00aa44", "#d02020"), ("orange", "purple")))
        if kind == "colours":
            names = ("magenta", "cyan")
        image = mazes.draw_dot(mazes.draw_dot(image, start, radius, names[0]), goal, radius, names[1])
        asked = names
    if kind == "letters":
        image = write(write(image, start, "S", sizes["corridor_px"]), goal, "E", sizes["corridor_px"])
        asked = ("S", "E")
    if kind == "ant":
        image = mazes.draw_ant(image, start, 0.62 * sizes["corridor_px"], color=rng.choice(("black", "#7a3b12")))
    if openings:
        asked = (None, None)
    to_page = np.eye(3)
    if kind.startswith("photo"):
        image, matrix = mazes.photograph(image, np.random.default_rng(rng.randrange(2**32)))
        to_page = np.linalg.inv(matrix)
    elif kind == "jpeg":
        image = mazes.compress(image, rng.randrange(30, 91))

    reach_px = 1.1 * (sizes["corridor_px"] + sizes["wall_px"]) + 1 if openings else 3
    drawn = Page(page, colors[0], sizes["wall_px"], (start, goal), reach_px, to_page)
    return Case(kind, image, *asked, drawn, kind != "unsolvable")


COLOR_PAIRS = (
    *(
        ("#fff4d6", "#26323f"),
        ("#ffe866", "#ffffff"),
        ("#2b3a67", "#b8c4e0"),
        ("white", "#1f4fd0"),
        ("#d9f2d9", "#2e6b2e"),
    ),
    *(("#dddddd", "#999999"), ("#303030", "#e8a020")),
)


def write(image: RgbImage, center: tuple[int, int], text: str, corridor_px: int) -> RgbImage:
    """A letter in the middle of a corridor."""
    layer = Image.fromarray(image)
    ImageDraw.Draw(layer).text(center, text, "black", ImageFont.load_default(0.8 * corridor_px), anchor="mm")
    return np.asarray(layer)


def make_round_case(kind: str, rng: random.Random) -> Case:
    """A round maze: from a point on the outer ring, or from the opening, to the middle."""
    board = Rings(rng.randrange(5, 14))
    links = mazes.ALGORITHMS[rng.choice(list(mazes.ALGORITHMS))](board, rng)
    ring, wall, margin = rng.randrange(24, 50), rng.randrange(4, 8), rng.randrange(20, 60)
    first = (board.rings - 1, board.count(board.rings - 1) - 1)
    page_image, center = mazes.draw_rings(board, links, ring_px=ring, wall_px=wall, margin_px=margin)
    image = mazes.draw_dot(page_image, center((0, 0)), 0.25 * ring, "red")
    shown, to_page = image, np.eye(3)
    if kind == "round-photo":
        shown, matrix = mazes.photograph(image, np.random.default_rng(rng.randrange(2**32)))
        to_page = np.linalg.inv(matrix)
    page = Page(page_image, "white", wall, (center(first), center((0, 0))), 1.1 * ring, to_page)
    return Case(kind, shown, None, "red", page, True)


def judge(case: Case) -> str:
    """What is wrong with the answer, or an empty text."""
    try:
        result = vt.shortest_path(case.image, start=case.start, goal=case.goal, connectivity=4)
    except VisualError as error:
        return f"{type(error).__name__}: {error}"
    if not case.is_solvable:
        return f"found a way of {result.num_steps} steps where there is none" if result.found else ""
    if not result.found:
        return result.reason
    proof = vt.check_path(result.mask, result.points_px, start=result.start_px, goal=result.goal_px)
    if not proof.is_shortest:
        return "; ".join(proof.problems)
    if (
        result.mask.size < 2_000_000
        and csgraph_length(result.mask, result.start_px, result.goal_px) != result.num_steps
    ):
        return "SciPy finds another length"
    return case.page.find_fault(result.points_px)


def make_graph(free: NDArray[np.bool_]) -> tuple[Any, NDArray[np.int32]]:
    """The mask as SciPy wants it: a sparse matrix of neighbours, and the number of each pixel."""
    from scipy import sparse

    numbers = np.cumsum(free.ravel(), dtype=np.int32).reshape(free.shape) - 1
    across, down = free[:, 1:] & free[:, :-1], free[1:] & free[:-1]
    one = np.concatenate([numbers[:, :-1][across], numbers[:-1][down]])
    other = np.concatenate([numbers[:, 1:][across], numbers[1:][down]])
    size = int(numbers.max()) + 1
    return sparse.csr_matrix((np.ones(len(one), np.int8), (one, other)), (size, size)), numbers


def csgraph_length(free: NDArray[np.bool_], start: tuple[int, int], goal: tuple[int, int]) -> int:
    """Steps of the shortest way, by SciPy."""
    from scipy.sparse import csgraph

    graph, numbers = make_graph(free)
    first, last = numbers[start[::-1]], numbers[goal[::-1]]
    _, before = csgraph.breadth_first_order(graph, first, directed=False)
    steps = 0
    while last != first:
        last = before[last]
        steps += 1
    return steps


def skimage_length(free: NDArray[np.bool_], start: tuple[int, int], goal: tuple[int, int]) -> int:
    """Steps of the shortest way, by scikit-image."""
    from skimage.graph import route_through_array

    way, _ = route_through_array(np.where(free, 1.0, -1.0), start[::-1], goal[::-1], fully_connected=False)
    return len(way) - 1


def networkx_length(free: NDArray[np.bool_], start: tuple[int, int], goal: tuple[int, int]) -> int:
    """Steps of the shortest way, by NetworkX, graph building counted."""
    import networkx

    graph = networkx.grid_2d_graph(*free.shape)
    graph.remove_nodes_from(zip(*np.nonzero(~free), strict=True))
    return int(networkx.shortest_path_length(graph, start[::-1], goal[::-1]))


def our_length(free: NDArray[np.bool_], start: tuple[int, int], goal: tuple[int, int], **options: Any) -> int:
    """Steps of the shortest way, by us."""
    return vt.shortest_path(free, start=start, goal=goal, **options).num_steps


def time_s(runs: int, call: Callable[[], int]) -> tuple[float, int]:
    """Median seconds of a call, and what it gave."""
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        given = call()
        took.append(time.perf_counter() - started)
    return statistics.median(took), given


def measure_speed(side_px: int, peers: dict[str, Callable[..., int]]) -> None:
    """The same mask through all libraries, corner to corner."""
    cells = side_px // 10
    board, sizes = Grid(cells, cells), {"corridor_px": 7, "wall_px": 3}
    free = mazes.draw_grid(board, mazes.backtrack(board, random.Random(1)), **sizes)[..., 0] > 0
    ends = [mazes.cell_center(cell, **sizes) for cell in ((0, 0), (cells - 1, cells - 1))]
    our_length(free, *ends)  # compile
    ours_s, steps = time_s(5, partial(our_length, free, *ends))
    print(f"\nmaze of {free.shape[1]} x {free.shape[0]} px, {free.size / 1e6:.0f} megapixels, {steps} steps")
    print(f"  shortest_path bfs      {ours_s:8.3f} s")
    for name, peer in peers.items():
        peer_s, peer_steps = time_s(3 if side_px < 2000 else 1, partial(peer, free, *ends))
        assert peer_steps == steps, (name, peer_steps, steps)
        print(f"  {name:22} {peer_s:8.3f} s; ours / that: {ours_s / peer_s:.4f}")
    for options in ({"method": "astar"}, {"connectivity": 8}, {"method": "centered"}):
        other_s, _ = time_s(1, partial(our_length, free, *ends, **options))
        print(f"  shortest_path {options!s:34} {other_s:8.3f} s")


def sweep(per_kind: int) -> None:
    """Solve all cases and count."""
    right: dict[str, list[bool]] = {}
    for case in make_cases(per_kind):
        wrong = judge(case)
        right.setdefault(case.kind, []).append(not wrong)
        if wrong:
            print(f"  {case.kind} {len(right[case.kind]) - 1} {case.image.shape}: {wrong[:300]}")
    for kind, answers in right.items():
        print(f"{kind:16} {sum(answers):4} of {len(answers)} right")
    print(f"{'all':16} {sum(map(sum, right.values())):4} of {sum(map(len, right.values()))} right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-kind", type=int, default=12)
    parser.add_argument("--side", type=int, default=4000)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--no-sweep", action="store_true")
    arguments = parser.parse_args()
    if not arguments.no_sweep:
        sweep(arguments.per_kind)
    if not arguments.no_speed:
        peers = {"skimage": skimage_length, "scipy csgraph": csgraph_length}
        measure_speed(1000, peers | {"networkx": networkx_length})
        measure_speed(arguments.side, peers)


if __name__ == "__main__":
    main()
