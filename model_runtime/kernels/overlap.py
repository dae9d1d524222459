"""Two computations that do not need each other, on two streams of one GPU.

At one token the routed experts read 198 MB of INT4 (46 us at 4.3 TB/s) and the shared expert 88 MB of bf16 (20 us). The
bytes add up wherever they are read; what a second stream takes away is the time in which one chain of short kernels
leaves the memory idle: the ends of its grids, and the pauses between its kernels.

A stream waits for the other by events only, so that the host goes on, and a CUDA graph captures fork and join as edges.
The first call on a device makes its second stream: let one run go before a capture, as captures need anyway.

Source: CUDA C++ programming guide, cross-stream dependencies in stream capture.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.compiler import is_compiling

from model_runtime.ops.registry import register


class Streams(Protocol):
    """What is asked of streams; a stream itself has `wait_stream(other)`, as torch's have."""

    def find_current(self) -> Any | None:
        """The stream on which work goes here and now; None where there are no streams."""

    def find_second(self) -> Any:
        """The other stream of the same device, the same at each call."""

    def use(self, stream: Any) -> AbstractContextManager[Any]:
        """Work begun inside goes to `stream`."""

    def keep(self, tensor: Tensor, stream: Any) -> None:
        """The memory of `tensor` must not go to others before what `stream` has been given by then is done."""


class CudaStreams:
    """Those of torch.

    There are none where CUDA has not been started in this process, as no tensor can be on a GPU, and none while
    torch.compile traces, which orders what it has seen by itself.
    """

    def find_current(self) -> torch.cuda.Stream | None:
        """See `Streams`."""
        if is_compiling() or not torch.cuda.is_initialized():
            return None
        return torch.cuda.current_stream()

    def find_second(self) -> torch.cuda.Stream:
        """See `Streams`."""
        return _make_second(torch.cuda.current_device())

    def use(self, stream: torch.cuda.Stream) -> AbstractContextManager[Any]:
        """See `Streams`."""
        return torch.cuda.stream(stream)

    def keep(self, tensor: Tensor, stream: torch.cuda.Stream) -> None:
        """See `Streams`.

        Nothing is to be done in a capture: its memory is its own, and `run_on_streams` gives the second stream work
        only after all that the current one had been given. There torch would keep each layer's result to the end.
        """
        if tensor.is_cuda and not torch.cuda.is_current_stream_capturing():
            tensor.record_stream(stream)


@cache
def _make_second(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@register("run_concurrently", "triton")
def run_concurrently(main: Callable[[], Tensor], side: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Run two computations at once on a GPU, one after the other elsewhere; the current stream may use both results.

    What `side` reads, on the device's second stream, must be there when this is called.
    """
    return run_on_streams(main, side, CudaStreams())


def run_on_streams(main: Callable[[], Tensor], side: Callable[[], Tensor], streams: Streams) -> tuple[Tensor, Tensor]:
    """`beside` on given streams.

    The side goes first: the host is then free to begin the longer chain while the shorter one is under way, and no
    memory that `main` gives back can be taken by `side`. If one of them fails the streams are joined all the same.
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
