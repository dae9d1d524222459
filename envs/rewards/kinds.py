"""Kinds of visual rewards: what a prediction and a truth look like as JSON, the score, and the baselines."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from envs.rewards.matching import keep_labels, match_f1
from envs.rewards.shapes import box_ious, point_similarities, polygon_ious
from envs.rewards.values import Cell, cells_score, count_score, path_score, text_score

Prediction = TypeVar("Prediction")
Truth = TypeVar("Truth")

SIGMA = 0.05
"""Width of the Gaussian of points: a fraction of the diagonal of the image, or of the object where its size is known.
At 0.05 of a 16:9 image, one click in the centre scores 0.04 on uniformly placed points."""
RELATIVE_TOLERANCE = 0.05
"""Largest relative error of a number read from a chart (the "relaxed accuracy" of ChartQA, arXiv 2203.10244)."""
MAX_SHAPES, MAX_POLYGONS, MAX_CORNERS = 1000, 50, 200
"""Longer predictions score 0: matching takes cubic time, and areas of polygons square time."""
MAX_CELLS = 10_000
MAX_MAZE_SIDE = 300
MAX_NUMBER = 10**12
"""Limit on counts and sizes in pixels: JSON has integers that no float can represent."""


class RewardError(ValueError):
    """A prediction or a truth that cannot be read; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisualReward:
    """Score of one prediction.

    Attributes:
        score: Value in [0, 1].
        reason: Why a prediction was refused; "" if it was compared.
    """

    score: float
    reason: str = ""


Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Pixels = Annotated[int, Field(gt=0, le=MAX_NUMBER)]


def _sort_corners(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = box
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class LabelledBox(_Strict):
    """Box (x1, y1, x2, y2) in fractions of the image's width and height."""

    box: Annotated[tuple[Fraction, Fraction, Fraction, Fraction], AfterValidator(_sort_corners)]
    label: str = ""


class LabelledPoint(_Strict):
    """Point (x, y) in fractions of the image's width and height."""

    point: tuple[Fraction, Fraction]
    label: str = ""


class TruePoint(LabelledPoint):
    """Point with the size (width, height) of its object, in fractions of the image's, if known."""

    object_size: tuple[Fraction, Fraction] | None = None


class PointsTruth(_Strict):
    """Points of one image.

    Attributes:
        points: Points of the truth.
        size_px: Width and height of the image, which distances need.
    """

    points: Annotated[tuple[TruePoint, ...], Field(max_length=MAX_SHAPES)]
    size_px: tuple[Pixels, Pixels]


class LabelledPolygon(_Strict):
    """Polygon of at least three corners (x, y) in fractions of the image's width and height."""

    polygon: Annotated[tuple[tuple[Fraction, Fraction], ...], Field(min_length=3, max_length=MAX_CORNERS)]
    label: str = ""


class MazeTruth(_Strict):
    """Maze as rows of characters, "#" for walls, with its start and goal as (row, column)."""

    maze: Annotated[tuple[Annotated[str, Field(max_length=MAX_MAZE_SIDE)], ...], Field(max_length=MAX_MAZE_SIDE)]
    start: Cell
    goal: Cell

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        for row, column in (self.start, self.goal):
            if not (0 <= row < len(self.maze) and 0 <= column < len(self.maze[row]) and self.maze[row][column] != "#"):
                raise ValueError(f"({row}, {column}) is a wall or outside of the maze")
        return self


Boxes = Annotated[tuple[LabelledBox, ...], Field(max_length=MAX_SHAPES)]
Points = Annotated[tuple[LabelledPoint, ...], Field(max_length=MAX_SHAPES)]
Polygons = Annotated[tuple[LabelledPolygon, ...], Field(max_length=MAX_POLYGONS)]
CellValue = Annotated[float, Field(allow_inf_nan=False)] | str
Cells = Annotated[dict[str, CellValue], Field(max_length=MAX_CELLS)]
Path = Annotated[tuple[Cell, ...], Field(max_length=MAX_MAZE_SIDE**2)]
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardKind(Generic[Prediction, Truth]):
    """One kind of visual reward.

    Attributes:
        prediction: Reads a prediction.
        truth: Reads a truth.
        compare: Returns the score in [0, 1], and why a prediction is refused or "".
        guesses: Returns for a truth the prediction of each baseline, by name: what somebody predicts who has not seen
            the image and knows the labels of the data set.
    """

    prediction: TypeAdapter[Prediction]
    truth: TypeAdapter[Truth]
    compare: Callable[[Prediction, Truth], tuple[float, str]]
    guesses: Callable[[Truth, Sequence[Truth]], Mapping[str, object]]

    def parse_truth(self, data: object) -> Truth:
        """Return a truth.

        Raises:
            RewardError: If it is not of this kind.
        """
        try:
            return self.truth.validate_python(data)
        except ValidationError as error:
            raise RewardError(_first_reason(error)) from error

    def score(self, prediction: object, truth: Truth) -> VisualReward:
        """Compare a prediction, as parsed from JSON; one that is not of this kind scores 0."""
        try:
            parsed = self.prediction.validate_python(prediction)
        except ValidationError as error:
            return VisualReward(score=0.0, reason=_first_reason(error))
        score, reason = self.compare(parsed, truth)
        return VisualReward(score=score, reason=reason)

    def score_baselines(self, truths: Sequence[Truth]) -> dict[str, float]:
        """Return the mean score of each baseline on a data set of at least one truth."""
        rows = [
            {name: self.score(guess, truth).score for name, guess in self.guesses(truth, truths).items()}
            for truth in truths
        ]
        return {name: math.fsum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _first_reason(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def _compare_boxes(prediction: Boxes, truth: Boxes) -> tuple[float, str]:
    corners = [np.array([shape.box for shape in shapes], float).reshape(-1, 4) for shapes in (prediction, truth)]
    return _match(box_ious(corners[0], corners[1]), prediction, truth)


def _compare_points(prediction: Points, truth: PointsTruth) -> tuple[float, str]:
    size = np.array(truth.size_px, float)
    places = [
        np.array([shape.point for shape in shapes]).reshape(-1, 2) * size for shapes in (prediction, truth.points)
    ]
    distances = np.linalg.norm(places[0][:, None] - places[1][None], axis=-1)
    diagonals = [
        np.linalg.norm(size * (shape.object_size if shape.object_size and all(shape.object_size) else (1.0, 1.0)))
        for shape in truth.points
    ]
    similarities = point_similarities(distances, SIGMA * np.array(diagonals, float))
    return _match(similarities, prediction, truth.points)


def _compare_polygons(prediction: Polygons, truth: Polygons) -> tuple[float, str]:
    ious = polygon_ious([shape.polygon for shape in prediction], [shape.polygon for shape in truth])
    return _match(ious, prediction, truth)


Labelled = LabelledBox | LabelledPoint | LabelledPolygon


def _match(similarity: np.ndarray, prediction: Sequence[Labelled], truth: Sequence[Labelled]) -> tuple[float, str]:
    labels = [[shape.label for shape in shapes] for shapes in (prediction, truth)]
    return match_f1(keep_labels(similarity, labels[0], labels[1])), ""


def _compare_maze(path: Path, truth: MazeTruth) -> tuple[float, str]:
    columns = max(map(len, truth.maze), default=0)
    is_open = np.array([[character != "#" for character in row.ljust(columns, "#")] for row in truth.maze], bool)
    return path_score(path, is_open.reshape(len(truth.maze), columns), truth.start, truth.goal)


CENTRE = (0.25, 0.25, 0.75, 0.75)
SPRAY = [(x / 10, y / 10, (x + 1) / 10, (y + 1) / 10) for x in range(10) for y in range(10)]
"""Boxes that baselines predict: half of the width and height around the centre, and a grid of 100."""


def _labels(truths: Sequence[Sequence[Labelled]]) -> list[str]:
    """Return the labels of a data set, the most frequent one first."""
    return [label for label, _ in Counter(shape.label for shapes in truths for shape in shapes).most_common()] or [""]


def _guess_boxes(truth: Boxes, truths: Sequence[Boxes]) -> dict[str, object]:
    del truth
    labels = _labels(truths)
    spray = [{"box": box, "label": label} for label in labels for box in SPRAY]
    return {"centre": [{"box": CENTRE, "label": labels[0]}], "spray": spray[:MAX_SHAPES], "empty": []}


def _guess_points(truth: PointsTruth, truths: Sequence[PointsTruth]) -> dict[str, object]:
    del truth
    labels = _labels([other.points for other in truths])
    spray = [{"point": ((x1 + x2) / 2, (y1 + y2) / 2), "label": label} for label in labels for x1, y1, x2, y2 in SPRAY]
    return {"centre": [{"point": (0.5, 0.5), "label": labels[0]}], "spray": spray[:MAX_SHAPES], "empty": []}


def _guess_polygons(truth: Polygons, truths: Sequence[Polygons]) -> dict[str, object]:
    del truth
    label = _labels(truths)[0]

    def square(box: tuple[float, float, float, float]) -> dict[str, object]:
        x1, y1, x2, y2 = box
        return {"polygon": ((x1, y1), (x2, y1), (x2, y2), (x1, y2)), "label": label}

    return {"centre": [square(CENTRE)], "spray": [square(box) for box in SPRAY[:MAX_POLYGONS]], "empty": []}


def _guess_text(truth: str, truths: Sequence[str]) -> dict[str, object]:
    del truth
    frequent = Counter(truths).most_common(1)[0][0]
    return {"most frequent": frequent, "spray": " ".join(sorted(set(truths)))[:1000], "empty": ""}


def _guess_count(truth: int, truths: Sequence[int]) -> dict[str, object]:
    del truth
    return {"median": sorted(truths)[len(truths) // 2], "spray": 10**6, "empty": None}


def _guess_cells(truth: Cells, truths: Sequence[Cells]) -> dict[str, object]:
    """Guess the most frequent value for the names of this table, then for those of all tables."""
    values = Counter(value for cells in truths for value in cells.values())
    frequent = values.most_common(1)[0][0] if values else 0.0
    names = list(dict.fromkeys(name for cells in truths for name in cells))[:MAX_CELLS]
    return {"one value": dict.fromkeys(truth, frequent), "spray": dict.fromkeys(names, frequent), "empty": {}}


def _guess_path(truth: MazeTruth, truths: Sequence[MazeTruth]) -> dict[str, object]:
    """Guess the way along two straight lines, a visit of every cell, and no way."""
    del truths
    (row, column), (last_row, last_column) = truth.start, truth.goal
    down = [(index, column) for index in range(row, last_row, 1 if last_row > row else -1)]
    across = [(last_row, index) for index in range(column, last_column, 1 if last_column > column else -1)]
    visits = [(index, other) for index in range(len(truth.maze)) for other in range(len(truth.maze[index]))]
    return {"straight": [*down, *across, truth.goal], "spray": [truth.start, *visits, truth.goal], "empty": []}


KINDS: Mapping[str, RewardKind] = {  # type: ignore[type-arg]  # each kind has types of its own
    "boxes": RewardKind(
        prediction=TypeAdapter(Boxes), truth=TypeAdapter(Boxes), compare=_compare_boxes, guesses=_guess_boxes
    ),
    "points": RewardKind(
        prediction=TypeAdapter(Points), truth=TypeAdapter(PointsTruth), compare=_compare_points, guesses=_guess_points
    ),
    "polygons": RewardKind(
        prediction=TypeAdapter(Polygons),
        truth=TypeAdapter(Polygons),
        compare=_compare_polygons,
        guesses=_guess_polygons,
    ),
    "text": RewardKind(
        prediction=TypeAdapter(str),
        truth=TypeAdapter(str),
        compare=lambda prediction, truth: (text_score(prediction, truth), ""),
        guesses=_guess_text,
    ),
    "count": RewardKind(
        prediction=TypeAdapter(Count),
        truth=TypeAdapter(Count),
        compare=lambda prediction, truth: (count_score(prediction, truth), ""),
        guesses=_guess_count,
    ),
    "cells": RewardKind(
        prediction=TypeAdapter(Cells),
        truth=TypeAdapter(Cells),
        compare=lambda prediction, truth: (cells_score(prediction, truth, RELATIVE_TOLERANCE), ""),
        guesses=_guess_cells,
    ),
    "path": RewardKind(
        prediction=TypeAdapter(Path), truth=TypeAdapter(MazeTruth), compare=_compare_maze, guesses=_guess_path
    ),
}
"""Kinds of rewards by name."""
