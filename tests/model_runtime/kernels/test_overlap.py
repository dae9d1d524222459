"""In which order two streams are told to wait for each other: streams that only write down what they are told."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import overlap
from model_runtime.kernels.overlap import CudaStreams, run_concurrently, run_on_streams
from model_runtime.ops.registry import get_op


class Stream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: "Stream") -> None:
        self.log.append(f"{self.name} waits for {other.name}")


class WrittenDown:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.first, self.second = Stream("first", self.log), Stream("second", self.log)
        self.current = self.first

    def find_current(self) -> Stream:
        return self.current

    def find_second(self) -> Stream:
        return self.second

    @contextmanager
    def use(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def keep(self, tensor: Tensor, stream: Stream) -> None:
        self.log.append(f"keep {tensor.item():.0f} for {stream.name}")

    def work(self, name: str, value: float, fault: Exception | None = None) -> Tensor:
        self.log.append(f"{name} on {self.current.name}")
        if fault:
            raise fault
        return torch.tensor(value)


FORK, JOIN = "second waits for first", "first waits for second"


def test_fork_and_join() -> None:
    streams = WrittenDown()
    found = run_on_streams(lambda: streams.work("main", 1), lambda: streams.work("side", 2), streams)
    assert [value.item() for value in found] == [1, 2]
    assert streams.log == [FORK, "side on second", "main on first", JOIN, "keep 2 for first"]


def test_it_can_be_done_again_and_inside_of_itself() -> None:
    streams = WrittenDown()

    def main() -> Tensor:
        return sum(run_on_streams(lambda: streams.work("main", 1), lambda: streams.work("side", 2), streams))  # type: ignore[return-value]

    assert run_on_streams(main, main, streams) == (3, 3)
    assert streams.log.count(FORK) == streams.log.count(JOIN)
    assert streams.current is streams.first


@pytest.mark.parametrize("fails", ["main", "side"])
def test_a_fault_leaves_nothing_dangling(fails: str) -> None:
    streams = WrittenDown()
    faults = {fails: ValueError(f"{fails} failed")}
    with pytest.raises(ValueError, match=f"{fails} failed"):
        run_on_streams(
            lambda: streams.work("main", 1, faults.get("main")),
            lambda: streams.work("side", 2, faults.get("side")),
            streams,
        )
    ran = ["side on second", "main on first"] if fails == "main" else ["side on second"]
    assert streams.log == [FORK, *ran, JOIN]
    assert streams.current is streams.first


@pytest.fixture
def _without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)


@pytest.mark.usefixtures("_without_cuda")
def test_one_after_the_other_where_there_are_no_streams() -> None:
    log: list[str] = []

    def note(name: str) -> Tensor:
        log.append(name)
        return torch.tensor(len(log))

    assert run_concurrently(lambda: note("main"), lambda: note("side")) == (1, 2)
    assert log == ["main", "side"]
    assert get_op("run_concurrently", ("triton",)) is run_concurrently


@pytest.mark.usefixtures("_without_cuda")
def test_a_process_that_has_not_started_cuda_does_not_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: pytest.fail("this starts CUDA"))
    assert CudaStreams().find_current() is None


def test_a_compiler_sees_two_plain_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "current")
    assert CudaStreams().find_current() == "current"
    monkeypatch.setattr(overlap, "is_compiling", lambda: True)
    assert CudaStreams().find_current() is None


class Tracked:
    """As much of a tensor as `keep` looks at."""

    def __init__(self, is_cuda: bool) -> None:
        self.is_cuda = is_cuda
        self.kept_for: list[object] = []

    def record_stream(self, stream: object) -> None:
        self.kept_for.append(stream)


@pytest.mark.parametrize(
    ("is_cuda", "is_capturing", "kept_for"),
    [(True, False, ["current"]), (True, True, []), (False, False, [])],
)
def test_memory_is_kept_except_in_a_capture(
    is_cuda: bool, is_capturing: bool, kept_for: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: is_capturing)
    tensor = Tracked(is_cuda)
    CudaStreams().keep(tensor, "current")  # type: ignore[arg-type]
    assert tensor.kept_for == kept_for


def test_the_second_stream_of_a_device_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    device = 0
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: made.append(device) or object())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: device)
    overlap._make_second.cache_clear()
    streams = CudaStreams()
    first = streams.find_second()
    assert CudaStreams().find_second() is first
    device = 1
    assert streams.find_second() is not first
    assert made == [0, 1]
    overlap._make_second.cache_clear()
