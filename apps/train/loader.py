"""Loader that draws lessons in other processes during training, in the order of the stream."""

import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path

from apps.train.course import CourseStage, LessonStream
from apps.train.lessons import LessonMaker
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.lessons import Lesson

AHEAD = 4
"""Minimum number of batches in flight; with more processes, one for each. Drawing processes have a lower priority and
run while the training processes wait for each other, so some batches have to be ready.
"""
_stream = threading.local()
"""Lesson stream of a worker."""


class LessonLoader:
    """Batches of a course, drawn ahead by its own processes or by a thread; use as a context manager.

    Args:
        folder: Folder of the tokenizer.
        seed: Seed of the lessons (`LessonStream`, which draws screens and questions).
        stage_at: Function from a step to its stage.
        first_step: Step of the first batch.
        part: Part of each batch that is drawn: with several training processes, that of one of them.
        in_other_processes: False to draw in a thread of this process.
        processes: Number of processes that draw.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        stage_at: Callable[[int], CourseStage],
        first_step: int = 0,
        part: slice = slice(None),
        in_other_processes: bool = True,
        processes: int = 1,
    ) -> None:
        self._stage_at, self._step, self._part = stage_at, first_step, part
        self._pool: Executor
        if in_other_processes:
            self._pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_process, (folder, seed))
        else:
            self._pool = ThreadPoolExecutor(1, "lessons", _start, (folder, seed))
        self._pending: deque[Future[bytes]] = deque()
        for _ in range(max(processes, AHEAD)):
            self._request_batch()

    def __enter__(self) -> "LessonLoader":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def draw(self) -> list[Lesson]:
        """Return the next batch.

        Raises:
            BrokenProcessPool: If a process was killed.
        """
        packed = self._pending.popleft().result()
        self._request_batch()
        return list(pickle.loads(packed))

    def _request_batch(self) -> None:
        self._pending.append(self._pool.submit(_draw, self._stage_at(self._step), self._step, self._part))
        self._step += 1


def _start_process(folder: Path, seed: int) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process reacts to Ctrl-C and ends this one
    os.nice(19)  # training has priority
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _start(folder, seed)


def _end_with_parent() -> None:
    """End this process when the training process ends, also if that is killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _start(folder: Path, seed: int) -> None:
    _stream.lessons = LessonStream(LessonMaker(load_tokenizer(folder)), seed)


def _draw(stage: CourseStage, step: int, part: slice) -> bytes:
    """Return a batch as bytes: otherwise each tensor would take a file descriptor."""
    stream: LessonStream = _stream.lessons
    return pickle.dumps(stream.draw(stage, step, part))
