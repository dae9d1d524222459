"""Two independent computations on two streams of one GPU.

At one token the routed experts read 198 MB of INT4 (46 us at 4.3 TB/s) and the shared expert 88 MB of bf16 (20 us). The
total number of bytes is the same; a second stream removes the time in which one chain of short kernels leaves the
memory idle: the ends of its grids, and the gaps between its kernels.

A stream waits for the other only by events, so that the host does not block, and a CUDA graph captures fork and join as
edges. The first call on a device creates its second stream: do one run before a capture, which captures need anyway.

Source: CUDA C++ programming guide, cross-stream dependencies in stream capture.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Protocol

import torch
from torch import Tensor
from torch.compiler import is_compiling

from model_runtime.ops.registry import register


class Streams(Protocol):
    """Interface of a device's streams; a stream has `wait_stream(other)`, as in torch."""

    def find_current(self) -> "torch.cuda.Stream | None":
        """Return the current stream; None if there are no streams."""

    def find_second(self) -> torch.cuda.Stream:
        """Return the other stream of the same device, the same at each call."""

    def use(self, stream: torch.cuda.Stream) -> AbstractContextManager[object]:
        """Return a context in which work is submitted to `stream`."""

    def keep(self, tensor: Tensor, stream: torch.cuda.Stream) -> None:
        """Prevent reuse of the memory of `tensor` until the work submitted to `stream` so far is done."""


class CudaStreams:
    """Streams of torch.

    There are none if CUDA is not initialized in this process, as no tensor can be on a GPU, and none while
    torch.compile traces, which orders the traced work itself.
    """

    def find_current(self) -> torch.cuda.Stream | None:
        """Return the current stream; see `Streams`."""
        if is_compiling() or not torch.cuda.is_initialized():
            return None
        return torch.cuda.current_stream()

    def find_second(self) -> torch.cuda.Stream:
        """Return the second stream; see `Streams`."""
        return _make_second(torch.cuda.current_device())

    def use(self, stream: torch.cuda.Stream) -> AbstractContextManager[object]:
        """Return a context that uses a stream; see `Streams`."""
        return torch.cuda.stream(stream)

    def keep(self, tensor: Tensor, stream: torch.cuda.Stream) -> None:
        """Keep a tensor's memory for a stream; see `Streams`.

        Does nothing in a capture: a capture has its own memory, and `run_on_streams` submits work to the second stream
        only after all earlier work of the current one. During a capture, torch would keep each layer's result to the
        end.
        """
        if tensor.is_cuda and not torch.cuda.is_current_stream_capturing():
            tensor.record_stream(stream)


@cache
def _make_second(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@register("run_concurrently", "triton")
def run_concurrently(main: Callable[[], Tensor], side: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Run two computations at once on a GPU, one after the other elsewhere; the current stream may use both results.

    The inputs of `side`, which runs on the device's second stream, must be ready when this is called.
    """
    return run_on_streams(main, side, CudaStreams())


def run_on_streams(main: Callable[[], Tensor], side: Callable[[], Tensor], streams: Streams) -> tuple[Tensor, Tensor]:
    """Run two computations on given streams.

    The side is submitted first: the host can then submit the longer chain while the shorter one runs, and memory that
    `main` frees cannot be reused by `side`. If one of them fails, the streams are joined nevertheless.
    """
    if (current := streams.find_current()) is None:
        return main(), side()
    second = streams.find_second()
    second.wait_stream(current)
    try:
        with streams.use(second):
            aside = side()
        out = main()
    finally:
        current.wait_stream(second)
    streams.keep(aside, current)
    return out, aside
