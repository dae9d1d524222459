"""What each loss of nano-K2.5's training is worth: a stage of the course, from the same state, with one of its losses
left out at a time.

    python -m benchmarks.nano_losses FOLDER STAGE [--steps 400] [--without attention --without name ...]

FOLDER is that of a training run, interrupted where the stage is to begin (its state is read, nothing there is
changed), or a new one. Each row has the losses that were counted, averaged over the last eighth of the steps; the same
lessons in every row. Without `--without`, the stage as it is comes first and then each of its losses is left out.
"""

import argparse
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import torch

from apps.train.course import CourseStage, LessonStream, make_course
from apps.train.lessons import LessonMaker
from apps.train.run import INITIAL_MODEL, TrainingRun, start_trainer
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.loss_weights import LossWeights
from model_runtime.training.trainer import STATE

LAST = 8
"""The averages are over the last part of so many."""


def find_counted(weights: LossWeights) -> list[str]:
    """Names of the parts that count."""
    return [field.name for field in fields(weights) if getattr(weights, field.name)]


def learn(folder: Path, stage: CourseStage, steps: int, without: str | None) -> tuple[int, dict[str, float], float]:
    """Some steps of a stage: from which one on, the losses at the end, and the seconds of processor."""
    with tempfile.TemporaryDirectory() as copy:
        run = TrainingRun(folder=Path(copy), course=make_course())
        if (folder / INITIAL_MODEL).is_dir():
            shutil.copytree(folder / INITIAL_MODEL, run.folder / INITIAL_MODEL)
        trainer = start_trainer(run)
        if (folder / STATE).is_file():
            trainer.load(folder)
        first, started = trainer.step_number, time.process_time()
        trainer.losses.weights = replace(stage.weights, **({without: 0.0} if without else {}))
        stream = LessonStream(LessonMaker(load_tokenizer(run.folder / INITIAL_MODEL)), run.seed)
        sums: defaultdict[str, float] = defaultdict(float)
        num_last = max(steps // LAST, 1)
        for step in range(first, first + steps):
            lessons = stream.draw(stage, step)
            report = trainer.step(lessons, has_prefix=not stage.is_short, image_rate=stage.image_rate)
            if step >= first + steps - num_last:
                for name, loss in report.losses.items():
                    sums[name] += loss / num_last
        trainer.losses.close()
        return first, dict(sums), time.process_time() - started


def compare(folder: Path, stage: CourseStage, steps: int, left_out: Sequence[str | None]) -> None:
    """Print a table."""
    names = find_counted(stage.weights)
    print(f"`{stage.name}`, {steps} steps\n\n| without | from step | {' | '.join(names)} | s of processor |")
    print("|---" * (len(names) + 3) + "|")
    for without in left_out:
        first, losses, seconds = learn(folder, stage, steps, without)
        cells = (f"{losses[name]:.3f}" if name in losses else "" for name in names)
        print(f"| {without or 'none'} | {first} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)


def main() -> None:
    """See the module."""
    stages = {stage.name: stage for stage in make_course()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stage", choices=stages)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--without", action="append", default=[])
    given = parser.parse_args()
    stage = stages[given.stage]
    torch.set_num_threads(1)
    compare(given.folder, stage, given.steps, given.without or [None, *find_counted(stage.weights)])


if __name__ == "__main__":
    main()
