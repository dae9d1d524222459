"""Training run in a folder: processes, stages, a log, a page of curves, checkpoints, and the exported model."""

import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import torch

from apps.train.course import NUMBER_WIDTH, Course, CourseStage
from apps.train.labels import HALVES, NUM_CLASSES, WORD_LENGTH
from apps.train.lessons import LessonMaker
from apps.train.loader import LessonLoader
from apps.train.nano import SIZES, load_trained, make_config, make_model
from apps.train.predictions import MarkedPredictions, mark_predictions
from apps.train.vocabulary import make_vocabulary
from cua.errors import ConfigError
from model_runtime.json_types import Json
from model_runtime.parallel.comm import Comm, OneRank, close_group, open_group
from model_runtime.placement import set_device
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.loss_weights import LossWeights
from model_runtime.training.losses import AuxiliaryHeads, Losses, NumberTokens, SupervisedHeads
from model_runtime.training.precision import is_bf16_faster, start_rounding
from model_runtime.training.release import export_model
from model_runtime.training.trainer import STATE, StepReport, Trainer, TrainingOptions, read_options

PAGE, CLICKS = "index.html", "look-{stage}.png"
_WIDTH, _HEIGHT, _MAX_POINTS = 420, 160, 400
_STYLE = """body{margin:24px auto;max-width:1300px;padding:0 16px;font:15px/1.45 system-ui,sans-serif;color:#222}
.curves{display:flex;flex-wrap:wrap;gap:16px}figure{margin:0}figcaption{font-weight:600}
svg{background:#f6f7f9;border:1px solid #d9dde3}polyline{fill:none;stroke:#2458c6;stroke-width:1.6}
line{stroke:#b8bec8;stroke-dasharray:3 3}text{font-size:11px;fill:#555}img{max-width:100%;border:1px solid #d9dde3}
td,th{padding:2px 14px 2px 0;text-align:right}th:first-child,td:first-child{text-align:left}"""


def write_page(folder: Path, rows: Sequence[Json], stage: str, seen: MarkedPredictions) -> None:
    """Write `index.html` and the stage's image; images of earlier stages are kept.

    Args:
        folder: Folder of the run.
        rows: Log rows in order, at least one.
        stage: Current stage.
        seen: Current predictions of the model.
    """
    seen.image.save(folder / CLICKS.format(stage=stage))
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    names = list(dict.fromkeys(name for row in rows for name in row["losses"]))
    curves = "\n".join(_draw_curve(name, rows) for name in names)
    table = "".join(_describe_stage([row for row in rows if row["stage"] == name], name) for name in stages)
    accuracy = f"{seen.num_right} of {seen.count} right" if seen.count else "nothing to judge"
    titles = {name: name for name in stages} | {stage: f"{stage}: {accuracy}"}
    images = "\n".join(
        f'<h2>{escape(titles[name])}</h2><img src="{escape(CLICKS.format(stage=name))}" alt="">'
        for name in reversed(stages)
        if (folder / CLICKS.format(stage=name)).is_file()
    )
    html = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Training, step {rows[-1]["step"]}</title><style>{_STYLE}</style></head>
<body><h1>Step {rows[-1]["step"]}, stage {escape(rows[-1]["stage"])}</h1>
<table><tr><th>stage</th><th>steps</th><th>minutes</th><th>last losses</th></tr>{table}</table>
<h2>Losses, smoothed</h2><div class="curves">{curves}</div>
<p>The names on the screens below do not occur in training. Letters: green is read right, red wrong. Clicks: the blue
frame is what was asked for, the cross where the likeliest coordinates are.</p>
{images}</body></html>
"""
    (folder / PAGE).write_text(html, encoding="utf-8")


def read_log(file: Path) -> list[Json]:
    """Read the rows of a log. If an interrupted run repeated a step, only the last row of that step counts."""
    if not file.is_file():
        return []
    rows = {row["step"]: row for row in map(json.loads, file.read_text("utf-8").splitlines())}
    return [rows[step] for step in sorted(rows)]


def _describe_stage(rows: Sequence[Json], name: str) -> str:
    losses = ", ".join(f"{loss} {value:.3f}" for loss, value in rows[-1]["losses"].items())
    minutes = sum(
        max(after["seconds"] - before["seconds"], 0) for before, after in pairwise(rows)
    )  # elapsed time restarts at 0 when a run is resumed
    steps = f"{rows[0]['step']} to {rows[-1]['step']}"
    return f"<tr><td>{escape(name)}</td><td>{steps}</td><td>{minutes / 60:.0f}</td><td>{losses}</td></tr>"


def _draw_curve(name: str, rows: Sequence[Json]) -> str:
    points = [(row["step"], row["losses"][name]) for row in rows if name in row["losses"]]
    points = points[:: max(len(points) // _MAX_POINTS, 1)] + points[-1:]
    last = max(row["step"] for row in rows)
    low, high = min(value for _, value in points), max(value for _, value in points)
    spread = (high - low) or 1.0

    def place(step: float, value: float) -> tuple[float, float]:
        return 4 + (_WIDTH - 8) * step / last, 6 + (_HEIGHT - 12) * (high - value) / spread

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    starts = [after["step"] for before, after in pairwise(rows) if before["stage"] != after["stage"]]
    edges = "".join(
        f'<line x1="{place(s, low)[0]:.1f}" x2="{place(s, low)[0]:.1f}" y1="0" y2="{_HEIGHT}"/>' for s in starts
    )
    return (
        f"<figure><figcaption>{escape(name)}: {points[-1][1]:.3f}</figcaption>"
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{edges}<polyline points="{line}"/>'
        f'<text x="6" y="14">{high:.2f}</text><text x="6" y="{_HEIGHT - 6}">{low:.2f}</text></svg></figure>'
    )


EXIT_GRACE_S = 10.0
"""Timeout for the other processes to exit by themselves."""
RankFunction = Callable[[Comm], None]


@contextmanager
def join_processes(count: int, work: RankFunction) -> Iterator[Comm]:
    """Run this process as the first of several that compute in step; the others end with the block.

    Args:
        count: Total number of processes; 1 starts none.
        work: Function that the other processes run; must be picklable.
    """
    if count == 1:
        yield OneRank()
        return
    context = get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="k25-train-") as folder:
        address = (Path(folder) / "ranks").as_uri()
        others = [context.Process(target=_work, args=(rank, count, address, work)) for rank in range(1, count)]
        for other in others:
            other.start()
        try:
            yield open_group(0, count, address)
            for other in others:
                other.join(EXIT_GRACE_S)
        finally:
            close_group()
            for other in others:
                other.terminate()
                other.join()


def _work(rank: int, count: int, address: str, work: RankFunction) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C and ends this one
    torch.set_num_threads(max((os.cpu_count() or 1) // count, 1))
    comm = open_group(rank, count, address)
    try:
        work(comm)
    finally:
        close_group()


INITIAL_MODEL, INT4_MODEL, BF16_MODEL, LOG = "init", "model", "model-bf16", "log.jsonl"
SAVE_EVERY_S = 300.0  # an interruption loses at most this much work; saving more often would cost time
REPORT_EVERY = 10  # steps; the page and the log stay small
SHARPNESS = 2.0
"""Sharpness of the heads that look at the target: docs/training-experiments.md, "Looking"."""
IMAGE_GRADIENT = 0.1
"""Share of the gradient that passes from the language model to the vision tower. With a tenth, attention to the target
is as accurate as with all of it, and letters are not forgotten. See docs/training-experiments.md, "What the language
model does to the tower".
"""
SMOOTHING = 0.95  # exponential average over about 20 steps
GROUP_SIZE = 32  # values per scale of INT4 experts, as in the release

Emit = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """Configuration of a training run.

    Attributes:
        folder: Folder for all files of the run.
        course: Stages.
        seed: Seed of weights and lessons.
        muon_lr: See `TrainingOptions`.
        adam_lr: See `TrainingOptions`.
        row_rate: See `TrainingOptions`.
        filter_rate: See `TrainingOptions`.
        in_bf16: See `TrainingOptions`; None for the setting with which the run began, by default the faster one on this
            device.
        draws_in_other_processes: True to draw lessons in separate processes.
        processes: Number of processes that train together, each on a part of every batch; limited to the number of
            lessons in the smallest batch.
        size: A key of `SIZES`.
        device: Device of the model, "cpu" or a GPU as torch names it. On a GPU, one process trains, and all processors
            but one draw lessons.
        start: Folder of a trained model to begin with, in INT4 or not; None for random weights.

    Raises:
        ValueError: If a stage with its own rate comes before one without: the schedule would have a gap.
    """

    folder: Path
    course: Course
    seed: int = 0
    muon_lr: float = 0.006
    adam_lr: float = 2e-3
    row_rate: float = 0.25
    filter_rate: float = 0.1
    in_bf16: bool | None = None
    draws_in_other_processes: bool = True
    processes: int = 1
    size: str = "small"
    device: str = "cpu"
    start: Path | None = None

    def __post_init__(self) -> None:
        count = len(self.scheduled)
        if self.course[:count] != self.scheduled:
            late = next(stage.name for stage in self.course[count:] if stage.rate is None)
            raise ValueError(
                f"stage {late} has no rate of its own, but follows one that has; move it before that stage"
            )

    @property
    def is_on_gpu(self) -> bool:
        """True if the device is not the CPU."""
        return self.device != "cpu"

    @property
    def num_steps(self) -> int:
        """Number of steps of all stages."""
        return count_steps(self.course)

    @property
    def scheduled(self) -> Course:
        """Stages whose rates follow the schedule."""
        return tuple(stage for stage in self.course if stage.rate is None)

    @property
    def decay_share(self) -> float:
        """Share of the scheduled steps in which the rates decay: all steps that train the language model."""
        falling = sum(stage.steps for stage in self.scheduled if not stage.weights.needs_vision_only)
        return falling / max(count_steps(self.scheduled), 1)

    def rate_at(self, step: int) -> float | None:
        """Return the rate for `Trainer.step`: a stage's own rate decays linearly; None for the schedule."""
        stage, done = self._find(step)
        return None if stage.rate is None else stage.rate * (1 - done / stage.steps)

    def stage_at(self, step: int) -> CourseStage:
        """Return the stage of a step."""
        return self._find(step)[0]

    def image_rate_at(self, step: int) -> float:
        """Return the image rate for `Trainer.step`: it changes linearly over a stage with a final value."""
        stage, done = self._find(step)
        if not stage.trains_vision(step):
            return 0.0
        last = stage.image_rate if stage.final_image_rate is None else stage.final_image_rate
        return stage.image_rate + (last - stage.image_rate) * done / stage.steps

    def _find(self, step: int) -> tuple[CourseStage, int]:
        """Return the stage of a step, and the number of the stage's steps before it."""
        for stage in self.course:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        return self.course[-1], self.course[-1].steps


def count_steps(course: Course) -> int:
    """Return the number of steps of all stages."""
    return sum(stage.steps for stage in course)


def train(run: TrainingRun, emit: Emit = lambda text: None) -> Path:
    """Train to the end of the course, resuming an interrupted run in the folder.

    Args:
        run: Configuration of the run.
        emit: Called with each progress line.

    Returns:
        Folder of the exported model in the release's layout with INT4 experts; the folder `BF16_MODEL` has all
        weights in bf16.

    Raises:
        ConfigError: If the folder holds something else, or the device is not available.
        CheckpointError: If the saved state is from another run.
    """
    check_device(run.device)
    set_device(torch.device(run.device))
    run = replace(run, in_bf16=choose_precision(run))
    trainer = start_trainer(run)
    if (run.folder / STATE).is_file():
        trainer.load(run.folder)
        emit(f"resuming after step {trainer.step_number} of {run.num_steps}")
    else:
        trainer.save(run.folder)
        emit(f"beginning, with matrix products in {'bf16' if run.in_bf16 else 'fp32'}")
    most = 1 if run.is_on_gpu else run.processes
    count = min(most, *(stage.smallest_batch for stage in run.course))  # each process has a lesson at every step
    with join_processes(count, partial(_follow, run)) as comm:
        trainer.comm = comm
        _learn(run, trainer, _Meter(run, emit, trainer.step_number))
    vocabulary = make_vocabulary()
    export_model(trainer.model.eval(), run.folder / INT4_MODEL, ranks=vocabulary, group_size=GROUP_SIZE)
    export_model(trainer.model, run.folder / BF16_MODEL, ranks=vocabulary)
    return run.folder / INT4_MODEL


def choose_precision(run: TrainingRun) -> bool:
    """Return True if a run computes in bf16. A resumed run keeps its setting, also on another device.

    Raises:
        CheckpointError: If the saved options in its folder cannot be read.
    """
    if run.in_bf16 is not None:
        return run.in_bf16
    if (run.folder / STATE).is_file():
        return bool(read_options(run.folder).get("in_bf16"))
    return is_bf16_faster(torch.device(run.device))


def check_device(name: str) -> None:
    """Check that a device can be used for training.

    Raises:
        ConfigError: If it is not a device name, or torch does not find it.
    """
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(f"{name!r} is not a device to train on; expected cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if name != "cpu" else 0
    if name != "cpu" and (torch.device(name).index or 0) >= count:
        text = f"torch {torch.__version__} finds {count} GPUs here, and the device is {name}"
        raise ConfigError(f"{text}; use another device or cpu, or install a torch build that supports the GPU")


def _follow(run: TrainingRun, comm: Comm) -> None:
    """Train in another process: the same steps from the same state, without output."""
    trainer = start_trainer(run)
    trainer.load(run.folder)
    trainer.comm = comm
    _learn(run, trainer, None)


def _learn(run: TrainingRun, trainer: Trainer, meter: "_Meter | None") -> None:
    loader = LessonLoader(
        run.folder / INITIAL_MODEL,
        run.seed,
        stage_at=run.stage_at,
        first_step=trainer.step_number,
        part=slice(trainer.comm.rank, None, trainer.comm.size),
        in_other_processes=run.draws_in_other_processes,
        processes=max((os.cpu_count() or 1) - 1, 1) if run.is_on_gpu and run.draws_in_other_processes else 1,
    )
    saved_at = time.monotonic()
    with loader:
        while trainer.step_number < run.num_steps:
            stage = run.stage_at(trainer.step_number)
            trainer.losses.weights = stage.weights
            trainer.losses.numbers = replace(trainer.losses.numbers, width=stage.number_width)
            if stage.rounds_experts:
                start_rounding(trainer.model, GROUP_SIZE)
            report = trainer.step(
                loader.draw(),
                has_prefix=stage.has_prefix(trainer.step_number),
                image_rate=run.image_rate_at(trainer.step_number),
                rate=run.rate_at(trainer.step_number),
                heads_only=stage.heads_only,
            )
            if meter is None:
                continue
            meter.add(trainer.step_number - 1, stage, report)
            if time.monotonic() - saved_at > SAVE_EVERY_S or trainer.step_number == run.num_steps:
                trainer.save(run.folder)
                _update_page(run, trainer, stage)
                saved_at = time.monotonic()


def _update_page(run: TrainingRun, trainer: Trainer, stage: CourseStage) -> None:
    rows = read_log(run.folder / LOG)
    if rows:
        maker = LessonMaker(load_tokenizer(run.folder / INITIAL_MODEL))
        write_page(run.folder, rows, stage.name, mark_predictions(trainer.losses, maker, stage))


def read_losses(folder: Path) -> dict[str, float]:
    """Return the smoothed losses of a run's last logged step.

    Raises:
        ConfigError: If nothing was trained in the folder.
    """
    try:
        last = (folder / LOG).read_text("utf-8").splitlines()[-1]
    except (OSError, IndexError):
        raise ConfigError(f"{folder} has no {LOG}: no training run wrote to it") from None
    return dict(json.loads(last)["losses"])


def start_trainer(run: TrainingRun) -> Trainer:
    """Return an untrained model with its losses, in the folder of the run.

    Raises:
        ConfigError: If the folder holds something else.
    """
    folder = run.folder
    if folder.is_dir() and any(folder.iterdir()) and not (folder / INITIAL_MODEL).is_dir():
        raise ConfigError(f"{folder} holds other files; use a new folder or that of a training run")
    config = make_config(make_vocabulary(), SIZES[run.size])
    if run.start is None:
        model = make_model(folder / INITIAL_MODEL, config, run.seed, run.device)
    else:
        model = load_trained(run.start, folder / INITIAL_MODEL, run.device)
    if model.config.text.hidden_size != config.text.hidden_size:
        raise ConfigError(f"{folder} holds a model of another size than {run.size}; use that size or a new folder")
    torch.manual_seed(run.seed)
    maker = LessonMaker(load_tokenizer(folder / INITIAL_MODEL))
    losses = Losses(
        model,
        AuxiliaryHeads(model, num_letters=NUM_CLASSES, word_length=WORD_LENGTH, patch_parts=HALVES).to(model.device),
        weights=LossWeights(),
        numbers=NumberTokens(ids=maker.number_ids(), width=NUMBER_WIDTH),
        supervised=SupervisedHeads(layer=max(model.config.text.num_hidden_layers - 2, 0), sharpness=SHARPNESS),
    )
    options = TrainingOptions(
        num_steps=count_steps(run.scheduled),
        muon_lr=run.muon_lr,
        adam_lr=run.adam_lr,
        row_rate=run.row_rate,
        filter_rate=run.filter_rate,
        warmup_steps=20,
        decay_share=run.decay_share,
        weight_decay=0.2,  # keeps weights small; relative to small weights, updates are large until the rate falls
        balance_speed=0.01,
        image_gradient=IMAGE_GRADIENT,
        in_bf16=bool(run.in_bf16),
    )
    return Trainer(model, losses, options, prefix=maker.prefix)


class _Meter:
    """Meter that smooths reported losses, writes the log, and estimates the remaining time."""

    def __init__(self, run: TrainingRun, emit: Emit, first_step: int) -> None:
        self._run, self._emit, self._first = run, emit, first_step
        self._smooth: dict[str, float] = {}
        self._started, self._cpu = time.monotonic(), time.process_time()

    def add(self, step: int, stage: CourseStage, report: StepReport) -> None:
        for name, value in report.losses.items():
            self._smooth[name] = SMOOTHING * self._smooth.get(name, value) + (1 - SMOOTHING) * value
        if (step + 1) % REPORT_EVERY and step + 1 < self._run.num_steps:
            return
        seconds, done = time.monotonic() - self._started, step + 1 - self._first
        row = {
            "step": step + 1,
            "stage": stage.name,
            "screens": done * stage.batch,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(time.process_time() - self._cpu, 1),
            "rate": round(report.rate, 4),
            "grad_norm": round(report.grad_norm, 3),
            "imbalance": round(report.imbalance, 2),
            "clipped": report.num_clipped,
            "losses": {name: round(value, 4) for name, value in self._smooth.items()},
        }
        with (self._run.folder / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")
        left = seconds / done * (self._run.num_steps - step - 1)
        losses = "  ".join(f"{name} {value:.3f}" for name, value in self._smooth.items())
        self._emit(f"{stage.name:6} {step + 1:5} of {self._run.num_steps}  {losses}  {left / 60:.0f} min left")
