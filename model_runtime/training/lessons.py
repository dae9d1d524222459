"""Examples with labels, and a batch of them as rows and targets for the losses.

Labels have indices in their own example; `make_targets` converts them to rows of the batch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from model_runtime.training.batch import Example, TrainingBatch

IGNORED = -100  # torch's default `ignore_index`


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberLabel:
    """A number token, and the image token that the model should look at to find it.

    Attributes:
        token_index: Index of the token in its branch, from 1: it is predicted from the token before it.
        value: Exact value, not rounded, in the units of `NumberTokens`.
        look_at: Index in the trunk of the image's token that shows the target; None without an image.
        axis: Index of the number in a point, from 0: each axis has its own attention head.
    """

    token_index: int
    value: float
    look_at: int | None = None
    axis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionTarget:
    """A token that is not a number, and the token that the model should look at to find it.

    Attributes:
        token_index: Index of the token in its branch, from 1: it is predicted from the token before it.
        target_index: Index of the target in the trunk followed by the branch.
        head: Index of the trained head, from 0.
    """

    token_index: int
    target_index: int
    head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPart:
    """A token of one part of a request that asks for several things, or an answer token for that part.

    Attributes:
        token_index: Index of the token in its branch.
        number: Number of the part, from 0.
    """

    token_index: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WordLabel:
    """A word that is read from one token.

    Attributes:
        token_index: Index of the image's token on which the word is centred, in the trunk; for a word of the request,
            index in the branch.
        letters: Class of each letter, `IGNORED` for no label.
        click_point: Click position of the named element, as shares of the screenshot's width and height; None for no
            label.
        is_away: True if that position is not at the word, as for a field with a label.
        is_on: True if the element is ticked, chosen, open or filled; None for no label.
    """

    token_index: int
    letters: tuple[int, ...]
    click_point: tuple[float, float] | None = None
    is_away: bool = False
    is_on: bool | None = None


TokenLabel = TypeVar("TokenLabel", NumberLabel, AttentionTarget, RequestPart, WordLabel)
"""Label of a token in a branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLetters:
    """Letters that patches show, one in each of several adjacent parts; `IGNORED` for no label.

    Attributes:
        classes: (patches, parts) int64.
        orders: (patches, parts) int64, number of letters that follow each in its word.
    """

    classes: Tensor
    orders: Tensor

    @classmethod
    def unknown(cls, num_patches: int, num_parts: int = 1) -> "PatchLetters":
        """Return labels that are all `IGNORED`."""
        nothing = torch.full((num_patches, num_parts), IGNORED)
        return cls(classes=nothing, orders=nothing)

    @classmethod
    def join(cls, pieces: Sequence["PatchLetters"]) -> "PatchLetters":
        """Join the labels of consecutive images; all have the same number of parts."""
        classes, orders = ([getattr(piece, name) for piece in pieces] for name in ("classes", "orders"))
        return cls(classes=torch.cat(classes), orders=torch.cat(orders))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchAttentionTarget:
    """A patch, and the other patch of its image that a head of the vision tower should look at.

    Attributes:
        patch_index: Index of the patch, counted over all images of the lesson.
        target_index: Index of the target patch.
        head: Head, from 0.
    """

    patch_index: int
    target_index: int
    head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """An example with its labels.

    Attributes:
        example: Input of the model.
        first_predicted: First index of each branch's predicted tokens (at least 1).
        numbers: Predicted tokens of each branch that are numbers.
        choices: Indices of each branch's predicted tokens at which answers begin to differ; may be empty. The tokens
            after them are determined.
        copies: Indices of each branch's predicted tokens that are copied from the request.
        attention_targets: Attention targets of each branch's tokens that are not numbers.
        name_words: Words of each branch's request that the answer is about, at their last tokens.
        query_words: The same words for each branch, at the tokens that look for them.
        query_targets: Tokens of each branch that look for such a word, with its position in the request as the target.
        request_parts: Tokens of each branch with a known part of the request.
        letters: Letters in the patches of all its images, or None.
        words: Words to be read from the images.
        letter_targets: Patches in the middle of words, with the patches of their letters.
        click_targets: Patches at words, with the patch at the click position of the named element.
        state_targets: Patches at words, with the patch of the mark that shows if the element is on.
        shown: Shares of each image's width and height that are a screenshot, the rest being the processor's padding;
            empty if there is no padding.
    """

    example: Example
    first_predicted: tuple[int, ...] = ()
    numbers: tuple[tuple[NumberLabel, ...], ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()
    copies: tuple[tuple[int, ...], ...] = ()
    attention_targets: tuple[tuple[AttentionTarget, ...], ...] = ()
    name_words: tuple[tuple[WordLabel, ...], ...] = ()
    query_words: tuple[tuple[WordLabel, ...], ...] = ()
    query_targets: tuple[tuple[AttentionTarget, ...], ...] = ()
    request_parts: tuple[tuple[RequestPart, ...], ...] = ()
    letters: PatchLetters | None = None
    words: tuple[WordLabel, ...] = ()
    letter_targets: tuple[PatchAttentionTarget, ...] = ()
    click_targets: tuple[PatchAttentionTarget, ...] = ()
    state_targets: tuple[PatchAttentionTarget, ...] = ()
    shown: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Labels as rows of a batch, on the host: they can index a GPU's tensors, and counting them needs no
    synchronization.

    Attributes:
        rows: (T,) int64, tokens whose next token is predicted, without numbers.
        tokens: (T,) int64, those next tokens.
        number_rows: (K,) int64, tokens whose next token is a number.
        numbers: (K,) fp32, the numbers.
        choice_rows: (C,) int64, tokens whose next token chooses between answers.
        copy_rows: (P,) int64, tokens whose next token is copied from the request.
        attention_rows: (L,) int64, tokens that should look at another one.
        attention_targets: (L,) int64, the target, as an index in the trunk followed by the branch.
        attention_heads: (L,) int64, index of the trained head; for numbers, that of their axis.
        attention_numbers: (L,) fp32, the number that they look for, NaN if it is not a number.
        name_rows: (A,) int64, last tokens of words that the answer is about.
        name_words: (A, letters) int64, those words, padded with `IGNORED`.
        query_word_rows: (S,) int64, tokens that look for such words.
        query_words: (S, letters) int64, those words, padded with `IGNORED`.
        query_rows: (E,) int64, tokens that look for the position of such a word in the request.
        query_targets: (E,) int64, that position, as an index in the trunk followed by the branch.
        part_rows: (Q,) int64, tokens with a known part of the request.
        request_parts: (Q,) int64, number of the part, from 0.
        letters: Letters in the patches of all images.
        word_rows: (W,) int64, the images' tokens from which words are read.
        words: (W, letters) int64, padded with `IGNORED`.
        click_points: (W, 2) fp32, click position of the named element, NaN for no label.
        are_away: (W,) bool, True if that position is not at the word.
        states: (W,) int64, 1 if the element is on, 0 if it is off, `IGNORED` for no label.
        letter_targets: (pairs, 3) int64: a patch that attends, its target, both counted over all images, and the head.
        click_targets: (R, 3) int64, as `letter_targets`.
        state_targets: (M, 3) int64, as `letter_targets`.
        shown: (images, 2) fp32, shares of width and height that are not padding.
    """

    rows: Tensor
    tokens: Tensor
    number_rows: Tensor
    numbers: Tensor
    choice_rows: Tensor
    copy_rows: Tensor
    attention_rows: Tensor
    attention_targets: Tensor
    attention_heads: Tensor
    attention_numbers: Tensor
    name_rows: Tensor
    name_words: Tensor
    query_word_rows: Tensor
    query_words: Tensor
    query_rows: Tensor
    query_targets: Tensor
    part_rows: Tensor
    request_parts: Tensor
    letters: PatchLetters
    word_rows: Tensor
    words: Tensor
    click_points: Tensor
    are_away: Tensor
    states: Tensor
    letter_targets: Tensor
    click_targets: Tensor
    state_targets: Tensor
    shown: Tensor


def make_targets(lessons: Sequence[Lesson], batch: TrainingBatch) -> Targets:
    """Convert labels of lessons to rows of the batch that was made of their examples.

    Raises:
        ValueError: If a label has an index that its example does not have.
    """
    predicted = [row for lesson, spans in _pair(lessons, batch) for row in _predicted_rows(lesson, spans)]
    numbers = [(row - 1, number) for row, number in _find_in_branches([lesson.numbers for lesson in lessons], batch)]
    attention = [
        (
            row,
            AttentionTarget(token_index=number.token_index, target_index=number.look_at, head=number.axis),
            number.value,
        )
        for row, number in numbers
        if number.look_at is not None
    ]
    attention += [
        (row - 1, target, math.nan)
        for row, target in _find_in_branches([lesson.attention_targets for lesson in lessons], batch)
    ]
    name_rows, name_words = _find_words([lesson.name_words for lesson in lessons], batch)
    query_word_rows, query_words = _find_words([lesson.query_words for lesson in lessons], batch)
    queries = list(_find_in_branches([lesson.query_targets for lesson in lessons], batch))
    parts = list(_find_in_branches([lesson.request_parts for lesson in lessons], batch))
    words = [
        (trunk.start + word.token_index, word)
        for lesson, trunk in zip(lessons, batch.trunks, strict=True)
        for word in lesson.words
    ]
    number_rows = {row for row, _ in numbers}
    rows = torch.tensor([row for row in predicted if row not in number_rows], dtype=torch.int64)
    return Targets(
        rows=rows,
        tokens=batch.token_ids[rows + 1],
        number_rows=torch.tensor([row for row, _ in numbers], dtype=torch.int64),
        numbers=torch.tensor([number.value for _, number in numbers]),
        choice_rows=_find_rows([lesson.choices for lesson in lessons], batch),
        copy_rows=_find_rows([lesson.copies for lesson in lessons], batch),
        attention_rows=torch.tensor([row for row, *_ in attention], dtype=torch.int64),
        attention_targets=torch.tensor([target.target_index for _, target, _ in attention], dtype=torch.int64),
        attention_heads=torch.tensor([target.head for _, target, _ in attention], dtype=torch.int64),
        attention_numbers=torch.tensor([number for *_, number in attention]),
        name_rows=name_rows,
        name_words=name_words,
        query_word_rows=query_word_rows,
        query_words=query_words,
        query_rows=torch.tensor([row - 1 for row, _ in queries], dtype=torch.int64),
        query_targets=torch.tensor([target.target_index for _, target in queries], dtype=torch.int64),
        part_rows=torch.tensor([row for row, _ in parts], dtype=torch.int64),
        request_parts=torch.tensor([part.number for _, part in parts], dtype=torch.int64),
        letters=_join_letters(lessons),
        word_rows=torch.tensor([row for row, _ in words], dtype=torch.int64),
        words=_pad([word.letters for _, word in words]),
        click_points=torch.tensor([word.click_point or (math.nan, math.nan) for _, word in words]).view(-1, 2),
        are_away=torch.tensor([word.is_away for _, word in words], dtype=torch.bool),
        states=torch.tensor([_class_of(word.is_on) for _, word in words], dtype=torch.int64),
        letter_targets=_join_patch_targets(lessons, [lesson.letter_targets for lesson in lessons]),
        click_targets=_join_patch_targets(lessons, [lesson.click_targets for lesson in lessons]),
        state_targets=_join_patch_targets(lessons, [lesson.state_targets for lesson in lessons]),
        shown=torch.tensor([share for lesson in lessons for share in _shown_of(lesson)]).view(-1, 2),
    )


def _pair(lessons: Sequence[Lesson], batch: TrainingBatch) -> Iterator[tuple[Lesson, tuple[slice, ...]]]:
    return zip(lessons, batch.branches, strict=True)


def _predicted_rows(lesson: Lesson, spans: Sequence[slice]) -> Iterator[int]:
    for span, first in zip(spans, lesson.first_predicted, strict=True):
        if not 1 <= first <= span.stop - span.start:
            raise ValueError(
                f"a branch of {span.stop - span.start} tokens has {first} as first predicted token; "
                "expected 1 to the number of its tokens"
            )
        yield from range(span.start + first - 1, span.stop - 1)


def _find_rows(indices: Sequence[Sequence[Sequence[int]]], batch: TrainingBatch) -> Tensor:
    """Return the rows from which the tokens at these indices are predicted, for each branch of each lesson."""
    rows = [
        span.start + index - 1
        for of_lesson, spans in zip(indices, batch.branches, strict=True)
        for of_branch, span in zip(of_lesson, spans, strict=False)
        for index in of_branch
    ]
    return torch.tensor(rows, dtype=torch.int64)


def _find_in_branches(
    labels: Sequence[Sequence[Sequence[TokenLabel]]], batch: TrainingBatch
) -> Iterator[tuple[int, TokenLabel]]:
    """Yield labels of each branch of each lesson, with their rows."""
    for of_lesson, spans in zip(labels, batch.branches, strict=True):
        for of_branch, span in zip(of_lesson, spans, strict=False):
            yield from ((span.start + label.token_index, label) for label in of_branch)


def _find_words(words: Sequence[Sequence[Sequence[WordLabel]]], batch: TrainingBatch) -> tuple[Tensor, Tensor]:
    """Return rows of words in branches, and their letters."""
    labels = list(_find_in_branches(words, batch))
    return torch.tensor([row for row, _ in labels], dtype=torch.int64), _pad([word.letters for _, word in labels])


def _shown_of(lesson: Lesson) -> Sequence[tuple[float, float]]:
    count = len(lesson.example.images)
    if lesson.shown and len(lesson.shown) != count:
        raise ValueError(f"`shown` has {len(lesson.shown)} entries, expected one for each of {count} images")
    return lesson.shown or ((1.0, 1.0),) * count


def _join_letters(lessons: Sequence[Lesson]) -> PatchLetters:
    parts = {lesson.letters.classes.shape[1] for lesson in lessons if lesson.letters is not None}
    if len(parts) > 1:
        raise ValueError(
            f"patches have {' and '.join(map(str, sorted(parts)))} parts, expected the same number in all lessons"
        )
    joined = []
    for lesson in lessons:
        count = _count_patches(lesson)
        letters = lesson.letters or PatchLetters.unknown(count, max(parts, default=1))
        if len(letters.classes) != count:
            raise ValueError(f"{len(letters.classes)} letters for {count} patches")
        joined.append(letters)
    return PatchLetters.join(joined)


def _class_of(state: bool | None) -> int:
    return IGNORED if state is None else int(state)


def _join_patch_targets(lessons: Sequence[Lesson], targets: Sequence[Sequence[PatchAttentionTarget]]) -> Tensor:
    """Join the patch targets of all lessons, with patches counted over all lessons."""
    rows, start = [], 0
    for lesson, own in zip(lessons, targets, strict=True):
        rows += [(start + target.patch_index, start + target.target_index, target.head) for target in own]
        start += _count_patches(lesson)
    return torch.tensor(rows, dtype=torch.int64).view(-1, 3)


def _count_patches(lesson: Lesson) -> int:
    return sum(image.num_patches for image in lesson.example.images)


def _pad(words: Sequence[Sequence[int]]) -> Tensor:
    width = max(map(len, words), default=0)
    padded = [[*word, *([IGNORED] * (width - len(word)))] for word in words]
    return torch.tensor(padded, dtype=torch.int64).view(len(words), width)
