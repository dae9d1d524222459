"""Draws lessons in another process while the model learns from those before; the order is the stream's own."""

import pickle
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from apps.train.course import LessonStream, Stage
from apps.train.lessons import LessonMaker
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.lessons import Lesson

_stream = threading.local()
"""The one of a worker."""


class LessonLoader:
    """The batches of a course, one drawn ahead. Use as a context manager: it has a process of its own.

    Args:
        folder: Of the tokenizer.
        seed: Of the stream.
        stage_at: Which stage a step belongs to.
        first_step: Where it begins.
        state: Where the stream stands then, as `state` gave it; empty or None at the beginning.
        in_process: Whether they are drawn in a process of their own, which takes seconds to start; else in a thread.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        stage_at: Callable[[int], Stage],
        first_step: int = 0,
        state: Mapping[str, Any] | None = None,
        in_process: bool = True,
    ) -> None:
        self._stage_at, self._step = stage_at, first_step
        self._pool: Executor
        if in_process:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start_process, (folder, seed))
        else:
            self._pool = ThreadPoolExecutor(1, "lessons", _start, (folder, seed))
        self._state = dict(state or {})  # empty: the stream's beginning
        self._coming = self._order()

    def __enter__(self) -> "LessonLoader":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def draw(self) -> list[Lesson]:
        """The next batch.

        Raises:
            BrokenProcessPool: The process was killed.
        """
        packed, self._state = self._coming.result()
        self._step += 1
        self._coming = self._order()
        return list(pickle.loads(packed))

    def state(self) -> dict[str, Any]:
        """Where the stream stands behind the batches that were given out; empty before the first."""
        return self._state

    def _order(self) -> "Future[tuple[bytes, dict[str, Any]]]":
        return self._pool.submit(_draw, self._stage_at(self._step), self._state)


def _start_process(folder: Path, seed: int) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that trains: it ends this one
    torch.set_num_threads(1)
    _start(folder, seed)


def _start(folder: Path, seed: int) -> None:
    _stream.made = LessonStream(LessonMaker(load_tokenizer(folder)), seed)


def _draw(stage: Stage, state: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """A batch as bytes (else each tensor would take a file descriptor), and where the stream stands behind it."""
    stream: LessonStream = _stream.made
    if state:
        stream.restore(state)
    return pickle.dumps(stream.draw(stage)), stream.state()
