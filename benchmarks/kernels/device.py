"""The device that is measured, and what a measurement was made with."""

import gc
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import torch

Call = Callable[[], Any]


class Device(Protocol):
    """Where operators run and how their time is taken."""

    torch_device: torch.device
    is_gpu: bool
    l2_bytes: int

    def name(self) -> str:
        """Of the machine's processor."""

    def free_bytes(self) -> int | None:
        """Memory that can be allocated; None where that is not asked."""

    def wait(self) -> None:
        """Until everything that was started has ended."""

    def time(self, call: Call) -> float:
        """Seconds from the start of what `call` starts to its end."""

    def record(self, calls: Sequence[Call]) -> Call:
        """The calls as one that repeats them without their work on the host.

        Raises:
            RuntimeError: One of them waits for the device, or does something else that cannot be recorded.
        """

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """torch.compile of a function for the shapes that come next."""

    def tidy(self) -> None:
        """Give memory back that nothing refers to."""


class CudaDevice:
    """An NVIDIA GPU."""

    is_gpu = True

    def __init__(self, index: int = 0) -> None:
        self.torch_device = torch.device("cuda", index)
        torch.cuda.set_device(self.torch_device)
        self.l2_bytes = int(torch.cuda.get_device_properties(self.torch_device).L2_cache_size)

    def name(self) -> str:
        """The product's name."""
        return torch.cuda.get_device_name(self.torch_device)

    def free_bytes(self) -> int | None:
        """Free on the card, and what torch holds without use."""
        held = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(torch.cuda.mem_get_info()[0] + held)

    def wait(self) -> None:
        """Faults of earlier kernels show here."""
        torch.cuda.synchronize()

    def time(self, call: Call) -> float:
        """Between two events on the current stream."""
        make: Callable[..., Any] = torch.cuda.Event
        start, end = make(enable_timing=True), make(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def record(self, calls: Sequence[Call]) -> Call:
        """Into a CUDA graph; each call must have run before."""
        self.wait()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                for call in calls:
                    call()
        finally:
            torch.cuda.set_stream(stream)  # which a recording that failed does not give back
        return graph.replay

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """With inductor, for fixed shapes: its best; what was compiled for other shapes is forgotten."""
        torch.compiler.reset()
        return torch.compile(function, dynamic=False)

    def tidy(self) -> None:
        """Also what torch keeps for later."""
        gc.collect()
        torch.cuda.empty_cache()


class CpuDevice:
    """A CPU: shows that the command works, measures nothing."""

    is_gpu = False
    torch_device = torch.device("cpu")
    l2_bytes = 0

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock

    def name(self) -> str:
        """No machine's name, since nothing is measured."""
        return "CPU"

    def free_bytes(self) -> int | None:
        """Toy sizes fit."""
        return None

    def wait(self) -> None:
        """Calls on a CPU return when they are done."""

    def time(self, call: Call) -> float:
        """By the clock."""
        start = self.clock()
        call()
        return self.clock() - start

    def record(self, calls: Sequence[Call]) -> Call:
        """One after the other."""

        def run() -> None:
            for call in calls:
                call()

        return run

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Traced, but not compiled: a C++ compiler need not be there."""
        torch.compiler.reset()
        return torch.compile(function, backend="eager", dynamic=False)

    def tidy(self) -> None:
        """Memory is given back by itself."""


ROOT = Path(__file__).parents[2]


def find_versions() -> dict[str, str]:
    """Of everything that figures depend on."""
    found = {"torch": torch.__version__, "triton": _package("triton"), "transformers": _package("transformers")}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
        found["driver"] = _ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]
    return found | {"python": platform.python_version()}


def find_commit() -> str:
    """The repository's, and whether files were changed since."""
    commit = _ask("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    is_changed = _ask("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return f"{commit} with changes" if commit != UNKNOWN and is_changed not in ("", UNKNOWN) else commit


UNKNOWN = "unknown"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
