"""Visual rewards: worked numbers, refusals, and baselines that must not be able to farm a reward."""

import json
import random
import string
import time

import numpy as np
import pytest

from envs.rewards import KINDS, RewardError, match_f1
from envs.rewards.shapes import box_ious, point_similarities, polygon_ious
from envs.rewards.values import text_score


def boxes(*corners: tuple[float, ...], label: str = "") -> list[dict[str, object]]:
    return [{"box": [value / 100 for value in box], "label": label} for box in corners]


def score(kind: str, prediction: object, truth: object) -> float:
    return KINDS[kind].score(prediction, KINDS[kind].parse_truth(truth)).score


def test_boxes() -> None:
    truth = boxes((0, 0, 10, 10), (20, 20, 30, 40))
    predicted = boxes((0, 0, 10, 10), (20, 20, 30, 30), (50, 50, 60, 60))
    assert score("boxes", predicted, truth) == pytest.approx(0.6)
    assert score("boxes", boxes(*[(0, 0, 10, 10)] * 20), boxes((0, 0, 10, 10))) == pytest.approx(2 / 21)  # 0.0952
    assert score("boxes", boxes((10, 10, 0, 0)), boxes((0, 0, 10, 10))) == 1.0  # corners in any order
    assert score("boxes", boxes((0, 0, 10, 10), label="cat"), boxes((0, 0, 10, 10), label="dog")) == 0.0


def test_boxes_without_area() -> None:
    lines = np.array([[0.1, 0.1, 0.1, 0.5], [0.2, 0.1, 0.2, 0.5]])
    assert box_ious(lines, lines).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_points() -> None:
    similarities = point_similarities(np.array([[0.0, 5.0], [10.0, 3.0]]), 5.0)
    assert similarities.round(4).tolist() == [[1.0, 0.6065], [0.1353, 0.8353]]
    assert match_f1(similarities) == pytest.approx(0.9176, abs=5e-5)


def test_points_are_compared_in_pixels_of_their_image() -> None:
    def at(width: int, height: int, **extra: object) -> float:
        truth = {"points": [{"point": [0.5, 0.5], **extra}], "size_px": [width, height]}
        return score("points", [{"point": [0.5, 0.55]}], truth)

    assert at(1000, 1000) == pytest.approx(np.exp(-((50 / (0.05 * np.sqrt(2) * 1000)) ** 2) / 2))
    assert at(2000, 500) > at(1000, 1000) > at(500, 2000)
    assert at(1000, 1000, object_size=[0.1, 0.1]) < 1e-3  # a small object has to be hit more exactly


def test_matching_is_optimal_and_not_greedy() -> None:
    assert match_f1(np.array([[0.9, 0.8], [0.85, 0.1]])) == pytest.approx(0.825)


def test_polygons() -> None:
    def square(x: float, y: float) -> tuple[tuple[float, float], ...]:
        return ((x, y), (x + 0.4, y), (x + 0.4, y + 0.4), (x, y + 0.4))

    assert polygon_ious([square(0, 0)], [square(0.2, 0)])[0, 0] == pytest.approx(1 / 3)
    bow_tie = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
    triangles = [((0.0, 0.0), (0.5, 0.5), (0.0, 1.0)), ((1.0, 0.0), (0.5, 0.5), (1.0, 1.0))]
    assert polygon_ious([bow_tie], triangles).tolist() == [pytest.approx([0.5, 0.5], abs=0.002)]
    angles = np.arange(5) * 4 * np.pi / 5
    star = tuple(zip((0.5 + np.sin(angles) / 2).tolist(), (0.5 + np.cos(angles) / 2).tolist(), strict=True))
    inner = [(0.5 - (x - 0.5) * 0.381966, 0.5 - (y - 0.5) * 0.381966) for x, y in star]
    core = tuple(sorted(inner, key=lambda point: np.arctan2(point[0] - 0.5, point[1] - 0.5)))
    assert polygon_ious([star], [core])[0, 0] == pytest.approx(0.0, abs=0.01)  # its core is covered twice: even
    generator = random.Random(0)
    hostile = [tuple((generator.random(), generator.random()) for _ in range(200)) for _ in range(50)]
    began = time.process_time()
    polygon_ious(hostile, hostile)
    assert time.process_time() - began < 10


def test_texts() -> None:
    pairs = {
        ("kitten", "sitting"): 0.5714,
        ("Straße", "strasse"): 0.5714,
        ("", ""): 1.0,
        ("abc", ""): 0.0,
        ("e\u0301", "\u00e9"): 1.0,  # NFC
        ("one\r\n  two", "one two"): 1.0,
    }
    assert {pair: round(text_score(*pair), 4) for pair in pairs} == pairs
    generator = random.Random(0)
    texts = ["".join(generator.choices(string.ascii_letters, k=100_000)) for _ in range(2)]
    began = time.process_time()
    text_score(*texts)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("predicted", "true", "expected"), [(9, 10, 0.9), (12, 10, 0.8), (3, 0, 0.0), (21, 10, 0.0)])
def test_counts(predicted: int, true: int, expected: float) -> None:
    assert score("count", predicted, true) == pytest.approx(expected)


def test_cells() -> None:
    truth = {"a": 100.0, "b": "North  Sea", "c": 0.0}
    assert score("cells", {"a": 104, "b": "north sea", "c": 0}, truth) == 1.0
    assert score("cells", {"a": 106, "b": "north sea", "c": 0, "d": 1}, truth) == pytest.approx(4 / 7)
    assert score("cells", {}, {}) == 1.0
    assert score("cells", {"a": "100"}, {"a": 100.0}) == 0.0


MAZE = {"maze": ["....", ".##.", "...."], "start": [0, 0], "goal": [2, 3]}


def test_paths_are_verified() -> None:
    short = [[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [2, 3]]
    other = [[0, 0], [0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    loop = [*short[:3], [1, 0], *short[2:]]
    scores = [score("path", path, MAZE) for path in (short, other, loop, short[:-1], [*short[:3], *short[4:]], [])]
    assert scores == [1.0, 1.0, 0.75, 0.0, 0.0, 0.0]
    truth = KINDS["path"].parse_truth(MAZE)
    assert KINDS["path"].score([[0, 0], [1, 0], [1, 1], [2, 3]], truth).reason == "cell (1, 1) is a wall or outside"
    closed = {"maze": [".#."], "start": [0, 0], "goal": [0, 2]}
    assert (score("path", [], closed), score("path", [[0, 0], [0, 1], [0, 2]], closed)) == (1.0, 0.0)


def test_both_empty_is_right_and_one_empty_is_wrong() -> None:
    empty = {"points": [], "size_px": [1, 1]}
    one = {"points": [{"point": [0, 0]}], "size_px": [1, 1]}
    assert [score("points", [], empty), score("points", [], one), score("points", one["points"], empty)] == [1, 0, 0]
    assert [score("boxes", [], []), score("boxes", [], boxes((0, 0, 1, 1)))] == [1, 0]


@pytest.mark.parametrize(
    ("kind", "prediction", "reason"),
    [
        ("boxes", [{"box": [10, 20, 300, 400]}], "0.box.0: Input should be less than or equal to 1"),
        ("boxes", [{"box": [0, 0, float("nan"), 1]}], "0.box.2: Input should be"),
        ("boxes", "[[0,0,1,1]]", "Input should be a valid tuple"),
        ("boxes", [{"box": [0, 0, 1, 1]}] * 1001, "Tuple should have at most 1000 items"),
        ("points", [{"point": [0.5]}], "0.point.1: Field required"),
        ("polygons", [{"polygon": [[0, 0], [1, 1]]}], "0.polygon: Tuple should have at least 3 items"),
        ("count", "10 of 12", "Input should be a valid integer"),
        ("count", True, "Input should be a valid integer"),
        ("count", 10**400, "Input should be less than or equal to"),
        ("cells", {"a": float("inf")}, "a"),
        ("text", None, "Input should be a valid string"),
        ("path", [[0, 0, 0]], "0: Tuple should have at most 2 items"),
    ],
)
def test_a_prediction_of_another_form_scores_0_with_the_reason(kind: str, prediction: object, reason: str) -> None:
    truths = {"points": {"points": [], "size_px": [1, 1]}, "count": 3, "cells": {}, "text": "", "path": MAZE}
    result = KINDS[kind].score(prediction, KINDS[kind].parse_truth(truths.get(kind, [])))
    assert result.score == 0.0
    assert result.reason.startswith(reason)


def test_a_truth_of_another_form_is_an_error() -> None:
    with pytest.raises(RewardError, match="maze"):
        KINDS["path"].parse_truth({"maze": ["#"], "start": [0, 0], "goal": [0, 0]})
    with pytest.raises(RewardError, match="valid integer"):
        KINDS["count"].parse_truth("three")
    with pytest.raises(RewardError, match="size_px"):
        KINDS["points"].parse_truth({"points": [], "size_px": [10**400, 1]})


def make_truths(kind: str, generator: random.Random) -> list[object]:
    """Return 60 truths such as a data set has: objects of several sizes and labels anywhere on an image."""

    def spot() -> tuple[float, float, float, float]:
        width, height = generator.uniform(0.03, 0.3), generator.uniform(0.03, 0.3)
        x, y = generator.uniform(0, 1 - width), generator.uniform(0, 1 - height)
        return x, y, x + width, y + height

    def make() -> object:
        spots = [(spot(), generator.choice(("cat", "dog", "cup"))) for _ in range(generator.randint(1, 6))]
        match kind:
            case "boxes":
                return [{"box": box, "label": label} for box, label in spots]
            case "points":
                points = [{"point": box[:2], "label": label} for box, label in spots]
                return {"points": points, "size_px": [1280, 720]}
            case "polygons":
                return [
                    {"polygon": [(x1, y1), (x2, y1), (x2, y2)], "label": label} for (x1, y1, x2, y2), label in spots
                ]
            case "text":
                return " ".join("".join(generator.choices(string.ascii_lowercase, k=6)) for _ in range(12))
            case "count":
                return generator.randint(1, 40)
            case "cells":
                return {
                    name: round(generator.uniform(0, 100), 1) for name in generator.sample(string.ascii_lowercase, 8)
                }
        rows = [["#" if generator.random() < 0.35 else "." for _ in range(12)] for _ in range(12)]
        for step in range(12):  # there is a way, along a staircase
            rows[step][step] = rows[step][min(step + 1, 11)] = "."
        if not generator.randint(0, 9):
            rows[5] = ["#"] * 12
        return {"maze": ["".join(row) for row in rows], "start": [0, 0], "goal": [11, 11]}

    return [make() for _ in range(60)]


@pytest.mark.parametrize("kind", KINDS)
def test_baselines_cannot_farm_a_reward(kind: str) -> None:
    truths = [KINDS[kind].parse_truth(json.loads(json.dumps(truth))) for truth in make_truths(kind, random.Random(1))]
    scores = KINDS[kind].score_baselines(truths)
    assert len(scores) == 3
    # a guess of counts is near many of them, and texts of the same letters share some places
    limits = {"count": {"median": 0.6}, "text": {"most frequent": 0.35}, "path": {"empty": 0.2}}
    above = {name: value for name, value in scores.items() if value >= limits.get(kind, {}).get(name, 0.1)}
    assert above == {}
