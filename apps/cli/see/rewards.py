"""`cua see reward`: the score of a prediction, as reinforcement learning and benchmarks compute it."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from apps.cli.config import choice
from apps.cli.see.output import AsJson
from apps.cli.terminal import echo

_MAX_BYTES = 100 * 2**20
_KINDS = ("boxes", "points", "polygons", "text", "count", "cells", "path")


def reward(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=", ".join(_KINDS))],
    prediction: Annotated[
        Path, typer.Argument(metavar="PREDICTION", help="JSON file, or .jsonl with one item a line.")
    ],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="File of the same form.")],
    as_json: AsJson = False,
) -> None:
    """Score a prediction against the truth, in [0, 1].

    A prediction that cannot be read scores 0 with the reason. For .jsonl files the mean is printed, beside what three
    baselines score that have not seen the images. The forms are described in docs/rewards.md.
    """
    from cua.errors import ConfigError
    from envs.rewards import KINDS, RewardError

    name = choice("KIND", kind, _KINDS)
    predictions, truths = (_read_items(path) for path in (prediction, truth))
    if len(predictions) != len(truths):
        raise ConfigError(f"{prediction} has {len(predictions)} items and {truth} has {len(truths)}; expected the same")
    parsed = []
    for index, item in enumerate(truths):
        try:
            parsed.append(KINDS[name].parse_truth(item))
        except RewardError as error:
            raise ConfigError(f"{truth}, item {index + 1} is not a truth of {name}: {error}") from error
    results = [KINDS[name].score(item, expected) for item, expected in zip(predictions, parsed, strict=True)]
    mean = math.fsum(result.score for result in results) / len(results)
    baselines = KINDS[name].score_baselines(parsed)
    if as_json:
        echo(json.dumps({"score": mean, "items": [asdict(item) for item in results], "baselines": baselines}))
        return
    echo(f"{mean:.4f}" + (f"  mean of {len(results)}" if len(results) > 1 else ""))
    for index, result in enumerate(results):
        if result.reason:
            echo(f"item {index + 1} scores {result.score:g}: {result.reason}")
    if len(results) > 1:
        echo("without the images: " + ", ".join(f"{key} {value:.4f}" for key, value in baselines.items()))


def _read_items(path: Path) -> list[object]:
    """Return the items of a file: one of .json, one for each line of .jsonl.

    Raises:
        ConfigError: If the file cannot be read, is too large, is not JSON or has no items.
    """
    from cua.errors import ConfigError
    from cua.json_text import read_json

    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} has more than {_MAX_BYTES >> 20} MB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    lines = [(index, line) for index, line in enumerate(text.split("\n"), 1) if line.strip()]
    items = []
    for index, line in lines if path.suffix == ".jsonl" else [(1, text)]:
        try:
            items.append(read_json(line))
        except ValueError as error:
            raise ConfigError(f"{path}, line {index} is not JSON: {error}") from error
    if not items:
        raise ConfigError(f"{path} has no items")
    return items
