"""Labels of screens and answers: letters, words and positions in the image, and tokens that matter."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from apps.train.screens.canvas import find_cells
from apps.train.screens.screen import DrawnScreen
from apps.train.screens.widgets import DrawnElement
from model_runtime.media import MediaItem
from model_runtime.training.lessons import IGNORED, PatchAttentionTarget, PatchLetters, WordLabel

NUM_COORDINATES = 1000
PATCH_PX = 14
TOKEN_PX = 2 * PATCH_PX
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
OTHER_LETTER, NO_LETTER = len(LETTERS) + 1, 0
NUM_CLASSES = len(LETTERS) + 2
HALVES = 2
"""Left and right half of a patch: with text of 12 pixels, one patch has two letters."""
WORD_LENGTH = 8
"""Number of letters of a name that are read, counted from its end: there, their distance in tokens does not depend on
where the name begins.
"""
NUM_LETTER_HEADS = WORD_LENGTH // 2
"""Heads of the vision tower that collect the letters of a name in two patches; the tower must have at least as many."""
CLICK_HEAD, STATE_HEAD = 0, 1
"""Heads of the vision tower: one finds the click position of a named element, one the mark that shows if it is on."""
STATEFUL = ("checkbox", "radio", "tab", "item", "field")
"""Kinds that can be ticked, chosen, open or filled."""
GROUND_SHARE = 0.05
"""Share of the patches without a letter that are labelled: they cover most of a screen, and are easy."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A point of a screen in model coordinates: thousandths of width and height."""

    x: float
    y: float

    @classmethod
    def of_target(cls, target: DrawnElement, screen: DrawnScreen) -> "Coordinates":
        """Return the click position of an element."""
        height, width = screen.pixels.shape[:2]
        x, y = target.click_point
        return cls(x / width * NUM_COORDINATES, y / height * NUM_COORDINATES)

    def texts(self) -> tuple[str, str]:
        """Return both coordinates as written in code."""
        return tuple(f"0.{min(int(value), NUM_COORDINATES - 1):03}" for value in (self.x, self.y))  # type: ignore[return-value]


@lru_cache(maxsize=1024)
def letter_class(letter: str) -> int:
    """Return the class of a letter, ignoring case; all characters outside the English alphabet share one class."""
    index = LETTERS.find(letter.lower())
    return index + 1 if index >= 0 else OTHER_LETTER


def _label_patches(rng: random.Random, screen: DrawnScreen, image: MediaItem) -> PatchLetters:
    """Return the letters in the halves of patches, and a sample of the halves without a letter."""
    _, rows, columns = image.grid
    draw = np.random.default_rng(rng.getrandbits(32)).random((rows, HALVES * columns))
    classes = np.where(draw < GROUND_SHARE, NO_LETTER, IGNORED)
    orders = np.full_like(classes, IGNORED)
    cells = list(find_cells(list(screen.letters), PATCH_PX // HALVES, PATCH_PX))
    if cells:
        at_rows, at_columns, letters = zip(*cells, strict=True)
        classes[at_rows, at_columns] = [letter_class(letter.text) for letter in letters]
        orders[at_rows, at_columns] = [min(letter.from_end, WORD_LENGTH) for letter in letters]
    return PatchLetters(
        classes=torch.from_numpy(classes.astype(np.int64).reshape(-1, HALVES)),
        orders=torch.from_numpy(orders.astype(np.int64).reshape(-1, HALVES)),
    )


def label_images(
    rng: random.Random, screens: Sequence[DrawnScreen], images: Sequence[MediaItem], indices: Sequence[int]
) -> dict[str, Any]:
    """Return the fields of a `Lesson` that describe its images.

    Args:
        rng: Source of randomness for the choice of patches without a letter and of words with further labels.
        screens: Screens of the images.
        images: Images as the model receives them.
        indices: Index of each image's first token in the trunk.
    """
    starts = accumulate((image.num_patches for image in images[:-1]), initial=0)
    letters, words, letter_targets, click_targets, state_targets = [], [], [], [], []
    for screen, image, index, start in zip(screens, images, indices, starts, strict=True):
        letters.append(_label_patches(rng, screen, image))
        read = _find_read(screen, image)
        chosen = _choose_for_click_targets(rng, read, image)
        words += _label_words(screen, read, _choose_stateful(rng, read), index)
        letter_targets += _label_letter_targets(screen, read, image, start)
        click_targets += [_label_click_target(read[token], image, start) for token in sorted(chosen)]
        state_targets += [
            _label_state_target(target, image, start) for target in read.values() if target.kind in STATEFUL
        ]
    return {
        "letters": PatchLetters.join(letters),
        "words": tuple(words),
        "letter_targets": tuple(letter_targets),
        "click_targets": tuple(click_targets),
        "state_targets": tuple(state_targets),
        "shown": tuple(map(find_shown, screens, images)),
    }


def find_shown(screen: DrawnScreen, image: MediaItem) -> tuple[float, float]:
    """Return the screen's shares of the padded image's width and height."""
    (height, width), (_, padded_height, padded_width, _) = screen.pixels.shape[:2], image.frames.shape
    return width / padded_width, height / padded_height


def _label_words(screen: DrawnScreen, read: dict[int, DrawnElement], stateful: set[int], first: int) -> list[WordLabel]:
    """Return names at the token on which they are centred, with the click position, and for some the state."""
    height, width = screen.pixels.shape[:2]
    away = _find_away(read, width)
    return [
        WordLabel(
            token_index=first + token,
            letters=label_name(target.name),
            click_point=(target.click_point[0] / width, target.click_point[1] / height),
            is_away=token in away,
            is_on=_is_on(target) if token in stateful else None,
        )
        for token, target in read.items()
    ]


def _find_away(read: dict[int, DrawnElement], width_px: int) -> set[int]:
    """Return the tokens of names that are not at the click position, such as field labels."""
    return {token for token, target in read.items() if find_token(target.click_point, width_px) != token}


def _choose_for_click_targets(rng: random.Random, read: dict[int, DrawnElement], image: MediaItem) -> set[int]:
    """Return the tokens of names away from the click position, and as many others, at least one.

    Most names are at their click position, and a mean over all of them would give the others almost no weight.
    """
    away = _find_away(read, image.frames.shape[2])
    others = sorted(read.keys() - away)
    return away | set(rng.sample(others, min(max(len(away), 1), len(others))))


def _choose_stateful(rng: random.Random, read: dict[int, DrawnElement]) -> set[int]:
    """Return the tokens of elements that are on, and as many of elements that are off, which are the majority."""
    on = {token for token, target in read.items() if target.kind in STATEFUL and _is_on(target)}
    off = sorted(token for token, target in read.items() if target.kind in STATEFUL and not _is_on(target))
    return on | set(rng.sample(off, min(len(on), len(off))))


def _is_on(target: DrawnElement) -> bool:
    return bool(target.value) if target.kind == "field" else target.is_on


def _label_click_target(target: DrawnElement, image: MediaItem, first: int) -> PatchAttentionTarget:
    """Return the patch at the click position, looked at from the token on which the name is centred.

    The look starts from the token's other row, on the right: in a tower of three blocks, the heads in the name's row
    bring letters there.
    """
    return _label_patch_target(target, target.click_point, image, first, side=1, head=CLICK_HEAD)


def _label_state_target(target: DrawnElement, image: MediaItem, first: int) -> PatchAttentionTarget:
    """Return the patch of the mark that shows if an element is on, looked at from the left of the token's other row."""
    return _label_patch_target(target, _find_state_mark(target), image, first, side=0, head=STATE_HEAD)


def _find_state_mark(target: DrawnElement) -> tuple[float, float]:
    """Return the position of the mark: the box of a checkbox or radio button, the start of a field's text, else the
    lower edge.
    """
    left, top, _, bottom = target.box
    if target.kind in ("checkbox", "radio"):
        return left + (bottom - top) / 3, (top + bottom) / 2
    return (left + 10, (top + bottom) / 2) if target.kind == "field" else (target.read_at[0], bottom - 2)


def _label_patch_target(
    target: DrawnElement, point: tuple[float, float], image: MediaItem, first: int, *, side: int, head: int
) -> PatchAttentionTarget:
    """Return the patch at a point, looked at from the row of the name's token that does not hold the name."""
    columns = image.frames.shape[2] // PATCH_PX
    x, y = target.read_at
    row, column = int(y // PATCH_PX) ^ 1, 2 * int(x // TOKEN_PX) + side
    at = int(point[1] // PATCH_PX) * columns + int(point[0] // PATCH_PX)
    return PatchAttentionTarget(patch_index=first + row * columns + column, target_index=first + at, head=head)


def _find_read(screen: DrawnScreen, image: MediaItem) -> dict[int, DrawnElement]:
    """Return elements by the token on which their name is read, without tokens shared by two. An icon's name is read
    from its shape.
    """
    at: dict[int, list[DrawnElement]] = {}
    for target in screen.targets:
        at.setdefault(find_token(target.read_at, image.frames.shape[2]), []).append(target)
    return {token: targets[0] for token, targets in at.items() if len(targets) == 1}


def _label_letter_targets(
    screen: DrawnScreen, read: dict[int, DrawnElement], image: MediaItem, first: int
) -> list[PatchAttentionTarget]:
    """Return the targets of letters: the left and right patch of the token on which a name is centred.

    Each head brings one letter to the right patch, which collects the last letters, and one to the left.
    """
    columns = image.frames.shape[2] // PATCH_PX
    names = {target.read_at for target in read.values()}
    letter_targets = []
    for letter in screen.letters:
        side, head = divmod(letter.from_end, NUM_LETTER_HEADS)
        if letter.from_end < WORD_LENGTH and letter.read_at in names:
            x, y = letter.read_at
            row, column = int(y // PATCH_PX), 2 * int(x // TOKEN_PX) + 1 - side
            at = int(letter.y // PATCH_PX) * columns + int(letter.x // PATCH_PX)
            letter_targets.append(
                PatchAttentionTarget(patch_index=first + row * columns + column, target_index=first + at, head=head)
            )
    return letter_targets


def label_name(name: str) -> tuple[int, ...]:
    """Return the classes of the last letters of a name, last one first."""
    return tuple(letter_class(letter) for letter in reversed(name[-WORD_LENGTH:]))


def find_token(point: tuple[float, float], width_px: int) -> int:
    """Return the index of an image's token that shows a point, in raster order."""
    columns = -(-width_px // TOKEN_PX)
    return int(point[1] // TOKEN_PX) * columns + int(point[0] // TOKEN_PX)


def find_images(token_ids: Sequence[int], placeholder_id: int, images: Sequence[MediaItem]) -> list[int]:
    """Return the index of each image's first row among the tokens of a request."""
    indices, start = [], 0
    for image in images:
        indices.append(token_ids.index(placeholder_id, start))
        start = indices[-1] + image.num_tokens
    return indices


def find_numbers(answer: Sequence[int], ids: Sequence[int]) -> list[int]:
    """Return the indices of tokens in an answer, each after the previous one."""
    indices: list[int] = []
    for token in ids:
        indices.append(answer.index(token, indices[-1] + 1 if indices else 0))
    return indices


def find_choices(answer: Sequence[int], numbers: Sequence[int], forms: Sequence[Sequence[int | None]]) -> list[int]:
    """Return the indices in an answer at which another answer with the same beginning differs.

    Args:
        answer: Tokens of the answer.
        numbers: Indices of its coordinates, which do not count.
        forms: Tokens of all answers, with None for coordinates.
    """
    masked = [None if index in numbers else token for index, token in enumerate(answer)]
    choices = set()
    for form in forms:
        index = next((p for p, (own, other) in enumerate(zip(masked, form, strict=False)) if own != other), None)
        if index is not None:
            choices.add(index)
    return sorted(choices)


def find_within(tokens: Sequence[int], part: Sequence[int]) -> int | None:
    """Return the start of the last occurrence of some tokens that has a token after it; None if there is none."""
    starts = range(len(tokens) - len(part) - 1, -1, -1)
    return next((start for start in starts if list(tokens[start : start + len(part)]) == list(part)), None)
