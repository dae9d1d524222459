"""Image of a model's predictions during training: the letters it reads, or the positions it would click."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from PIL import Image, ImageDraw, ImageFont

from apps.train.course import CourseStage
from apps.train.labels import HALVES, NO_LETTER, NUM_COORDINATES, PATCH_PX
from apps.train.lessons import LessonMaker
from apps.train.screens.screen import DrawnScreen, make_screen
from apps.train.skills import ScreenQuestion, ask_for
from model_runtime.training.batch import forward, forward_vision, make_batch
from model_runtime.training.lessons import IGNORED, Lesson, make_targets
from model_runtime.training.losses import Losses

COLUMNS, CELL_PX, CAPTION_PX = 4, (300, 240), 22
HALF_PX = PATCH_PX // HALVES
RIGHT, WRONG, TARGET = (20, 150, 60), (210, 40, 40), (40, 90, 220)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPredictions:
    """Screens with marked predictions."""

    image: Image.Image
    num_right: int
    count: int


@torch.no_grad()
def mark_predictions(
    losses: Losses, maker: LessonMaker, stage: CourseStage, *, count: int = 12, seed: int = 0
) -> MarkedPredictions:
    """Mark predictions on screens with held-out names: each letter if the stage trains reading, else one click per
    screen.

    A click is at the most likely coordinates; the second one is predicted from the true first one.
    """
    model = losses.model.eval()
    try:
        rng = random.Random(f"look {stage.name} {seed}")
        options = replace(stage.options, held_out_names=True)
        screens = [make_screen(rng, options) for _ in range(count)]
        pad = model.config.media_placeholder_token_id
        if not stage.questions:
            lessons = [maker.make_reading(rng, screen) for screen in screens]
            batch = make_batch([lesson.example for lesson in lessons], pad)
            forward_vision(model, batch)
            read = losses.read_letters(batch.images).argmax(-1).cpu()
            return _show_letters(screens, lessons, read)
        questions = [ask_for(rng, rng.choice(screen.targets)) for screen in screens]
        lessons = [
            maker.make(rng, screen, [question], is_short=stage.is_short)
            for screen, question in zip(screens, questions, strict=True)
        ]
        prefix = () if stage.is_short else maker.prefix
        batch = make_batch([lesson.example for lesson in lessons], pad, prefix)
        hidden = forward(model, batch).hidden[make_targets(lessons, batch).number_rows]
        numbers = model.logits(hidden)[:, losses.numbers.ids].argmax(-1).view(-1, 2) / NUM_COORDINATES
        return _show_clicks(screens, questions, numbers.tolist())
    finally:
        model.train()


def _show_letters(screens: Sequence[DrawnScreen], lessons: Sequence[Lesson], read: torch.Tensor) -> MarkedPredictions:
    shown, num_right, total, start = [], 0, 0, 0
    for screen, lesson in zip(screens, lessons, strict=True):
        assert lesson.letters is not None
        (item,), labels = lesson.example.images, lesson.letters.classes
        _, _, columns = item.grid
        letters = read[start : start + len(labels)]
        start += len(labels)
        image = Image.fromarray(screen.pixels)
        draw = ImageDraw.Draw(image)
        for place, half in ((labels != IGNORED) & (labels != NO_LETTER)).nonzero().tolist():
            is_right = bool(letters[place, half] == labels[place, half])
            top, left = place // columns * PATCH_PX, place % columns * PATCH_PX + half * HALF_PX
            draw.rectangle((left, top, left + HALF_PX - 1, top + PATCH_PX - 1), outline=RIGHT if is_right else WRONG)
            num_right, total = num_right + is_right, total + 1
        shown.append((image, screen.family))
    return MarkedPredictions(image=_tile(shown), num_right=num_right, count=total)


def _show_clicks(
    screens: Sequence[DrawnScreen], questions: Sequence[ScreenQuestion], points: Sequence[Sequence[float]]
) -> MarkedPredictions:
    shown, num_right = [], 0
    for screen, question, (across, down) in zip(screens, questions, points, strict=True):
        assert question.target is not None
        image = Image.fromarray(screen.pixels)
        x, y = across * image.width, down * image.height
        left, top, right, bottom = question.target.box
        is_right = left <= x < right and top <= y < bottom
        draw = ImageDraw.Draw(image)
        draw.rectangle((left - 2, top - 2, right + 1, bottom + 1), outline=TARGET, width=2)
        color = RIGHT if is_right else WRONG
        draw.ellipse((x - 6, y - 6, x + 6, y + 6), outline=color, width=3)
        draw.line((x - 10, y, x + 10, y), fill=color, width=2)
        draw.line((x, y - 10, x, y + 10), fill=color, width=2)
        num_right += is_right
        shown.append((image, question.instruction))
    return MarkedPredictions(image=_tile(shown), num_right=num_right, count=len(shown))


def _tile(shown: Sequence[tuple[Image.Image, str]]) -> Image.Image:
    """Tile images with captions in a grid; larger ones are scaled down."""
    font = ImageFont.load_default(13)
    rows = -(-len(shown) // COLUMNS)
    width, height = CELL_PX
    sheet = Image.new("RGB", (COLUMNS * width, rows * (height + CAPTION_PX)), (255, 255, 255))
    draw = ImageDraw.Draw(sheet)
    for (image, caption), (left, top) in zip(shown, _places(rows), strict=False):
        fitted = image.copy()
        fitted.thumbnail((width - 8, height - 4))
        sheet.paste(fitted, (left, top + CAPTION_PX))
        draw.text((left, top + 4), caption[:44], fill=(0, 0, 0), font=font)
    return sheet


def _places(rows: int) -> Iterator[tuple[int, int]]:
    for place in range(rows * COLUMNS):
        yield place % COLUMNS * CELL_PX[0] + 4, place // COLUMNS * (CELL_PX[1] + CAPTION_PX)
