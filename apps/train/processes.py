"""Processes of this machine that train one model together."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from model_runtime.parallel.comm import Comm, OneRank, close_group, open_group

GOODBYE_S = 10.0
"""For the others to end by themselves."""
Work = Callable[[Comm], None]


@contextmanager
def join_processes(count: int, work: Work) -> Iterator[Comm]:
    """This process as the first of several that compute in step; the others end with the block.

    Args:
        count: Processes in all; with one, none is started.
        work: What the others do; it must be picklable.
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
                other.join(GOODBYE_S)
        finally:
            close_group()
            for other in others:
                other.terminate()
                other.join()


def _work(rank: int, count: int, address: str, work: Work) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process: it ends this one
    torch.set_num_threads(max((os.cpu_count() or 1) // count, 1))
    comm = open_group(rank, count, address)
    try:
        work(comm)
    finally:
        close_group()
