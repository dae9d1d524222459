"""Where the clicks of a trained nano-K2.5 go wrong: is the name read, is it looked for, is its place known?

    python -m benchmarks.nano_clicks FOLDER [--count 50]

FOLDER is that of a training run (its saved state has the heads that read the model's inside; the exported model has
none). Each row has questions of one kind from the exam of `benchmarks.nano` that are answered with a click at what they
name, and the right answer's tokens are given up to its coordinates. Shares of the questions:

- read: of all names on the screen, the one that the projector's rows are read most like is the one asked for;
- looked at: before the first coordinate, the head that is taught to looks most at the right token of the image;
- aimed: where that token's row says that the name is clicked lies in the element's box;
- pointed: so does what is read behind that head;
- clicked: so do the coordinates.

Then how many of the name's last letters are read rightly, the last one first: at the end of the name in the request,
and where the answer looks for it.
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from apps.train.course import make_course
from apps.train.labels import WORD_LENGTH, find_token, label_name
from apps.train.lessons import LessonMaker
from apps.train.run import INITIAL_MODEL, TrainingRun, start_trainer
from apps.train.screens.screen import DrawnScreen
from apps.train.screens.widgets import DrawnElement
from apps.train.skills import ScreenQuestion
from benchmarks.nano import make_sheets
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.attention import AttentionInputs, compute_scores
from model_runtime.training.batch import TrainingBatch, forward, make_batch
from model_runtime.training.lessons import IGNORED, Targets, make_targets
from model_runtime.training.places import PLACE_BINS

AROUND = 2
"""Bins on either side of the likeliest one over which a place is averaged."""
STAGES = ("read", "looked at", "aimed", "pointed", "clicked")


@dataclass(frozen=True, slots=True)
class Trace:
    """What is inside the model on the way to one click.

    Attributes:
        stages: (stages,) bool, in the order of `STAGES`.
        named: (letters,) bool, right at the end of the name in the request.
        sought: (letters,) bool, right where the answer looks for it.
    """

    stages: Tensor
    named: Tensor
    sought: Tensor


class Tracer:
    """Follows the clicks of a training run's model.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        trainer = start_trainer(TrainingRun(folder=folder, course=make_course()))
        trainer.load(folder)
        self.model, self.losses = trainer.model.eval(), trainer.losses
        self.maker = LessonMaker(load_tokenizer(folder / INITIAL_MODEL))
        self.layer = self.losses.supervised.layer
        self._inputs = AttentionInputs(self.model, (self.layer - 1, self.layer, self.layer + 1))

    @torch.no_grad()
    def follow(self, screen: DrawnScreen, question: ScreenQuestion) -> Trace | None:
        """What the model does with a question; None where it is not answered with a click at what it names."""
        target, subject = question.target, question.subject
        lesson = self.maker.make(random.Random(0), screen, [question])
        batch = make_batch([lesson.example], self.model.config.media_placeholder_token_id, self.maker.prefix)
        targets = make_targets([lesson], batch)
        if target is None or subject is None or len(targets.number_rows) != 2:
            return None
        letters = torch.tensor(label_name(subject.name))
        ends = _find_ends(targets, letters)
        if not len(ends):
            return None

        seen = forward(self.model, batch)
        image, width_px = torch.cat(list(seen.images)), lesson.example.images[0].frames.shape[2]
        names = sorted({find_token(each.read_at, width_px) for each in screen.targets if each.name})
        right = find_token(target.read_at, width_px)
        likeness = self._read(image[names]).log_softmax(-1)[:, torch.arange(len(letters)), letters].mean(1)
        aim, of_layer = self.losses.heads.aim, self._inputs.of_layer
        behind = [_find_point(row) for row in aim(of_layer[self.layer + 1].x[targets.number_rows])]
        logits = self.model.logits(seen.hidden[targets.number_rows])[:, self.losses.numbers.ids]
        x, y = (logits.argmax(-1) / logits.shape[1]).tolist()
        points = (_find_point(aim(image[right])), (behind[0][0], behind[1][1]), (x, y))
        return Trace(
            stages=torch.tensor(
                [
                    names[int(likeness.argmax())] == right,
                    self._looks_at(batch, targets),
                    *(_is_inside(target, point, screen) for point in points),
                ]
            ),
            named=self._is_read(of_layer[self.layer - 1].x[ends[-1]], letters),
            sought=self._is_read(of_layer[self.layer].x[targets.number_rows[0]], letters),
        )

    def _is_read(self, row: Tensor, letters: Tensor) -> Tensor:
        read: Tensor = self._read(row)[: len(letters)].argmax(-1)
        return read == letters

    def _read(self, rows: Tensor) -> Tensor:
        """Scores of letters, the last one first: (..., letters, classes)."""
        scores: Tensor = self.losses.heads.word(rows)
        return scores.view(*scores.shape[:-1], WORD_LENGTH, -1)

    def _looks_at(self, batch: TrainingBatch, targets: Targets) -> bool:
        row, head = targets.number_rows[:1], self.losses.supervised.heads[0]
        scores = compute_scores(self.model.layers[self.layer].attention, self._inputs.of_layer[self.layer], batch, row)
        place = targets.attention_targets[targets.attention_rows == row] + batch.prefix.stop
        return bool(scores[0, head].argmax() == place)


def _find_ends(targets: Targets, letters: Tensor) -> Tensor:
    """Rows at which the request has said the whole name."""
    if targets.name_words.shape[1] < len(letters):
        return targets.name_rows[:0]
    wanted = torch.full((targets.name_words.shape[1],), IGNORED)
    wanted[: len(letters)] = letters
    return targets.name_rows[(targets.name_words == wanted).all(1)]


def _find_point(scores: Tensor) -> tuple[float, float]:
    """Where bins say that something is, as shares of width and height.

    Args:
        scores: (2 * `PLACE_BINS`,).
    """
    shares = []
    for chances in scores.view(2, PLACE_BINS).softmax(-1):
        first = max(int(chances.argmax()) - AROUND, 0)
        near = chances[first : int(chances.argmax()) + AROUND + 1]
        middles = torch.arange(first, first + len(near)) + 0.5
        shares.append(float((near * middles).sum() / near.sum()) / PLACE_BINS)
    return shares[0], shares[1]


def _is_inside(target: DrawnElement, point: tuple[float, float], screen: DrawnScreen) -> bool:
    height, width = screen.pixels.shape[:2]
    left, top, right, bottom = target.box
    return bool(left <= point[0] * width < right and top <= point[1] * height < bottom)


def _show(rights: list[Tensor]) -> str:
    """Per cent of those that there are, place by place."""
    padded = torch.nn.utils.rnn.pad_sequence([right.float() for right in rights], padding_value=torch.nan)
    return " | ".join(f"{100 * share:.0f}" for share in padded.nanmean(1).tolist())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=50)
    given = parser.parse_args()
    tracer, of_kind = Tracer(given.folder), {}
    for sheet in make_sheets(given.count):
        followed = [tracer.follow(screen, question) for screen, questions in sheet.items for question in questions]
        of_kind[sheet.name] = [trace for trace in followed if trace is not None]
    print(f"| kind | clicks | {' | '.join(STAGES)} |\n|{'---|' * (2 + len(STAGES))}")
    for kind, traces in of_kind.items():
        if traces:
            print(f"| {kind} | {len(traces)} | {_show([trace.stages for trace in traces])} |")
    letters = " | ".join(str(number + 1) for number in range(WORD_LENGTH))
    print(f"\n| letter from the end | {letters} |\n|{'---|' * (1 + WORD_LENGTH)}")
    every = [trace for traces in of_kind.values() for trace in traces]
    print(f"| at the name's end | {_show([trace.named for trace in every])} |")
    print(f"| where it is looked for | {_show([trace.sought for trace in every])} |")


if __name__ == "__main__":
    main()
