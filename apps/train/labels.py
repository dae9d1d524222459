"""What is known of a screen and of an answer, as labels: letters, words and places in the image, tokens that matter."""

import random
from collections.abc import Sequence

import numpy as np
import torch

from apps.train.screens.canvas import find_cells
from apps.train.screens.screen import Screen
from apps.train.screens.widgets import Target
from model_runtime.media import MediaItem
from model_runtime.training.lessons import IGNORED, Word

PATCH_PX = 14
TOKEN_PX = 2 * PATCH_PX
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
OTHER_LETTER, NO_LETTER = len(LETTERS) + 1, 0
NUM_CLASSES = len(LETTERS) + 2
WORD_LENGTH = 8
GROUND_SHARE = 0.05
"""Share of the patches without a letter that are asked for: they are most of a screen, and easy."""


def letter_class(letter: str) -> int:
    """Class of a letter, upper and lower case alike; one class for all that are not of the English alphabet."""
    place = LETTERS.find(letter.lower())
    return place + 1 if place >= 0 else OTHER_LETTER


def label_patches(rng: random.Random, screen: Screen, image: MediaItem) -> torch.Tensor:
    """Class of the letter in each patch, (patches,) int64; of those without one, a few are asked for.

    Args:
        rng: Which of them.
        screen: What the image shows.
        image: As the model gets it.
    """
    _, rows, columns = image.grid
    draw = np.random.default_rng(rng.getrandbits(32)).random((rows, columns))
    labels = np.where(draw < GROUND_SHARE, NO_LETTER, IGNORED)
    for row, column, letter in find_cells(list(screen.letters), PATCH_PX):
        labels[row, column] = letter_class(letter)
    return torch.from_numpy(labels.astype(np.int64).reshape(-1))


def find_shown(screen: Screen, image: MediaItem) -> tuple[float, float]:
    """Shares of the padded image's width and height that are the screen."""
    (height, width), (_, padded_height, padded_width, _) = screen.pixels.shape[:2], image.frames.shape
    return width / padded_width, height / padded_height


def label_words(screen: Screen, image: MediaItem, first: int) -> list[Word]:
    """Names, read from the token on which they are centred; where two meet, neither."""
    width = image.frames.shape[2]
    at: dict[int, list[Target]] = {}
    for target in screen.targets:
        if target.kind != "icon":
            at.setdefault(find_token(target.read_at, width), []).append(target)
    return [
        Word(place=first + token, letters=label_name(targets[0])) for token, targets in at.items() if len(targets) == 1
    ]


def label_name(target: Target) -> tuple[int, ...]:
    """Classes of the first letters of a name."""
    return tuple(letter_class(letter) for letter in target.name[:WORD_LENGTH])


def find_token(point: tuple[float, float], width_px: int) -> int:
    """Which of a image's tokens shows a point, in raster order."""
    columns = -(-width_px // TOKEN_PX)
    return int(point[1] // TOKEN_PX) * columns + int(point[0] // TOKEN_PX)


def find_numbers(answer: Sequence[int], ids: Sequence[int]) -> list[int]:
    """Places of tokens in an answer, each behind the one before."""
    places: list[int] = []
    for token in ids:
        places.append(answer.index(token, places[-1] + 1 if places else 0))
    return places


def find_choices(answer: Sequence[int], numbers: Sequence[int], forms: Sequence[Sequence[int | None]]) -> list[int]:
    """Places in an answer at which another answer that began in the same way goes on in another.

    Args:
        answer: Token ids.
        numbers: Places of its coordinates.
        forms: All answers, None where coordinates stand.
    """
    masked = [None if place in numbers else token for place, token in enumerate(answer)]
    found = set()
    for form in forms:
        place = next((p for p, (own, other) in enumerate(zip(masked, form, strict=False)) if own != other), None)
        if place is not None:
            found.add(place)
    return sorted(found)


def find_within(tokens: Sequence[int], part: Sequence[int]) -> int | None:
    """Where some tokens last stand in a row with another one behind them; None where they do not."""
    starts = range(len(tokens) - len(part) - 1, -1, -1)
    return next((start for start in starts if list(tokens[start : start + len(part)]) == list(part)), None)
