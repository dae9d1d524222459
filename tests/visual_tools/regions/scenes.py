"""Rendered images with known objects: circles, ellipses, rods, mixed sizes; touching, noise, uneven light."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import data

KINDS = ("circles", "ellipses", "rods", "mixed")
_GAP_PX = 3
"""Between objects that are kept apart."""


@dataclass(frozen=True)
class Shape:
    """One object: an ellipse, or a rod with round ends; sizes in pixels."""

    x: float
    y: float
    length: float
    width: float
    angle: float
    is_rod: bool

    def window(self, side: int) -> tuple[slice, slice]:
        """Rows and columns of an image that it can touch."""
        reach = self.length / 2 + 3
        spans = [(max(int(at - reach), 0), min(int(at + reach) + 2, side)) for at in (self.y, self.x)]
        return slice(*spans[0]), slice(*spans[1])

    def cover(self, window: tuple[slice, slice]) -> NDArray[np.float64]:
        """(h, w) float, how much of each pixel of a window it covers, from its signed distance."""
        y, x = np.mgrid[window].astype(np.float64)
        along = (x - self.x) * math.cos(self.angle) + (y - self.y) * math.sin(self.angle)
        across = -(x - self.x) * math.sin(self.angle) + (y - self.y) * math.cos(self.angle)
        if self.is_rod:
            half = (self.length - self.width) / 2
            inside = self.width / 2 - np.hypot(np.maximum(np.abs(along) - half, 0), across)
        else:
            a, b = self.length / 2, self.width / 2
            level = np.hypot(along / a, across / b)
            slope = np.hypot(along / a**2, across / b**2) / np.maximum(level, 1e-9)
            inside = (1 - level) / np.maximum(slope, 1e-9)
        return np.clip(inside + 0.5, 0, 1)

    @property
    def area(self) -> float:
        if self.is_rod:
            return (self.length - self.width) * self.width + math.pi * self.width**2 / 4
        return math.pi * self.length * self.width / 4


@dataclass(frozen=True)
class Scene:
    image: NDArray[np.uint8]
    shapes: tuple[Shape, ...]


def load_sample(name: str) -> Any:
    """An image that ships inside scikit-image: "coins", "horse" (a mask of what is not the horse) or "page"."""
    return getattr(data, name)()


def make_scene(
    kind: str, seed: int, *, overlap: float = 0.0, noise: float = 0.0, light: float = 0.0, side: int = 400
) -> Scene:
    """An image.

    Args:
        kind: One of `KINDS`.
        seed: Of everything.
        overlap: Share of the smaller one's area that two objects may share; 0 keeps them apart.
        noise: Standard deviation, grey levels.
        light: How much darker the darkest corner is, 0 to 1.
        side: Of the image, pixels.
    """
    random = np.random.default_rng([seed, *kind.encode()])
    cover, owner = np.zeros((side, side)), np.zeros((side, side), dtype=int)
    shapes: list[Shape] = []
    sizes = [0]
    wanted = int(random.integers(6, 36))
    for _ in range(wanted * 40):
        if len(shapes) == wanted:
            break
        shape = _random_shape(kind, random, side, shapes, overlap)
        window = shape.window(side)
        one = shape.cover(window)
        mask = one > 0.5
        reach = mask if overlap else ndimage.binary_dilation(mask, iterations=_GAP_PX)
        shared = np.bincount(owner[window][reach], minlength=len(sizes))
        size = int(mask.sum())
        if any(shared[index] > overlap * min(size, sizes[index]) for index in range(1, len(sizes))):
            continue
        shapes.append(shape)
        sizes.append(size)
        owner[window][mask] = len(shapes)
        cover[window] = np.maximum(cover[window], one)
    return Scene(_paint(cover, random, noise, light), tuple(shapes))


def _random_shape(kind: str, random: np.random.Generator, side: int, shapes: list[Shape], overlap: float) -> Shape:
    radius = {"circles": 14.0, "ellipses": 13.0, "rods": 7.0, "mixed": 10.0}[kind]
    radius *= float(random.uniform(0.8, 1.25) if kind != "mixed" else random.uniform(0.8, 2.6))
    aspect = {"circles": 1.0, "ellipses": random.uniform(1.3, 2.1), "rods": random.uniform(3, 5), "mixed": 1.0}[kind]
    length, width = 2 * radius * float(aspect), 2 * radius
    margin = length / 2 + 3
    x, y = random.uniform(margin, side - margin, 2).tolist()
    if overlap and shapes and random.random() < 0.5:  # beside one that is there
        near = shapes[int(random.integers(len(shapes)))]
        turn = random.uniform(0, 2 * math.pi)
        reach = (near.width + near.length + width + length) / 4 * random.uniform(0.8, 1.05)
        x = min(max(near.x + reach * math.cos(turn), margin), side - margin)
        y = min(max(near.y + reach * math.sin(turn), margin), side - margin)
    return Shape(x, y, length, width, float(random.uniform(0, math.pi)), kind == "rods")


def _paint(cover: NDArray[np.float64], random: np.random.Generator, noise: float, light: float) -> NDArray[np.uint8]:
    side = cover.shape[0]
    back = random.uniform(40, 215, 3)
    front = random.uniform(20, 235, 3)
    while np.abs(front @ (0.3, 0.6, 0.1) - back @ (0.3, 0.6, 0.1)) < 60:
        front = random.uniform(20, 235, 3)
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    turn = random.uniform(0, 2 * math.pi)
    slope = (x * math.cos(turn) + y * math.sin(turn)) / 1.42
    fall = 1 - light * np.clip(0.3 * (x**2 + y**2) / 2 + 0.7 * (slope + 1) / 2, 0, 1)
    picture = (back + cover[..., None] * (front - back)) * fall[..., None]
    picture += random.normal(0, noise, picture.shape) if noise else 0
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)
