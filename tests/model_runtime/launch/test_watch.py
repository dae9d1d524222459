import os
import signal
import socket
import stat
import sys
from pathlib import Path

import psutil
import pytest

from model_runtime.errors import EngineDead, RuntimeFault
from model_runtime.launch.watch import LoadingProgress, WatchOptions, check_port, run_vllm
from tests.free_port import find_free_port

FAKE = Path(__file__).with_name("fake_vllm.py")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "vllm"
    path.write_text(f"#!{sys.executable} -S\n{FAKE.read_text()}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class Run:
    """One run of the fake, and what came of it."""

    def __init__(self, program: Path, mode: str, *, stop_with: int | None = signal.SIGINT, twice: bool = False) -> None:
        self.program, self.mode, self.stop_with, self.twice = program, mode, stop_with, twice
        self.said: list[str] = []
        self.was_ready = False

    def ready(self) -> None:
        self.was_ready = True
        if self.stop_with is not None:
            os.kill(os.getpid(), self.stop_with)
        if self.twice:
            os.kill(os.getpid(), self.stop_with or signal.SIGINT)

    def go(self, **times: float) -> int:
        port = find_free_port()
        environment = {**os.environ, "FAKE_VLLM": self.mode, "MARK": str(self.program)}
        command = [str(self.program), "serve", "x", "--port", str(port)]
        options = WatchOptions(**{"ready_timeout_s": 30.0, "stop_timeout_s": 10.0, **times})
        address = ("127.0.0.1", port)
        return run_vllm(command, environment, address, emit=self.said.append, when_ready=self.ready, options=options)

    def left(self) -> list[int]:
        return [process.pid for process in psutil.process_iter() if _mark(process) == str(self.program)]


def _mark(process: psutil.Process) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get("MARK")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_server_runs_until_it_is_asked_to_end(program: Path, number: int) -> None:
    run = Run(program, "good", stop_with=number)
    before = signal.getsignal(number)
    assert run.go() == 130
    assert run.was_ready
    assert run.said[0].startswith("vllm | INFO starting with serve x --port")
    assert run.said[1] == "loading weights: 0 of 64 shards (0 %)"
    assert run.said[-1] == "loading weights: 64 of 64 shards (100 %)"
    assert len(run.said) == 12
    assert run.left() == []
    assert signal.getsignal(number) == before


def test_one_that_ignores_signals_is_ended_after_a_while(program: Path) -> None:
    run = Run(program, "stubborn", stop_with=signal.SIGTERM)
    assert run.go(stop_timeout_s=0.5) == 130
    assert run.left() == []


def test_a_second_signal_ends_it_at_once(program: Path) -> None:
    run = Run(program, "stubborn", twice=True)
    assert run.go(stop_timeout_s=60.0) == 130
    assert run.left() == []


def test_what_it_started_does_not_outlive_it(program: Path) -> None:
    run = Run(program, "leaves_child")
    assert run.go() == 130
    assert run.said[0].startswith("vllm | child ")
    assert run.left() == []


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (
            "crash:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "vLLM ended with exit code 1: a GPU ran out of memory. See what fits with `cua serve --plan`",
        ),
        ("crash:OSError: [Errno 98] Address already in use", "the port is taken. Choose another with --port"),
        ("crash:ImportError: libcuda.so.1: cannot open shared object file", "vLLM sees no GPU. Check `nvidia-smi`"),
        (
            "crash:Value error, Model architectures ['KimiK25ForConditionalGeneration'] are not supported for now.",
            "does not know the model's architecture. Upgrade vLLM to 0.15.0",
        ),
        ("crash:vllm serve: error: unrecognized arguments: --frob 3", "this vLLM does not know --frob 3"),
        ("crash:ValueError: something new", "ended with exit code 1: ValueError: something new. The lines above"),
        ("killed", "vLLM was ended by signal 9: the kernel probably killed it for lack of memory"),
    ],
)
def test_a_crash_while_loading_is_explained(program: Path, mode: str, text: str) -> None:
    run = Run(program, mode)
    with pytest.raises(RuntimeFault) as caught:
        run.go()
    assert text in str(caught.value)
    assert not isinstance(caught.value, EngineDead)
    assert (run.was_ready, run.left()) == (False, [])


def test_one_that_never_serves_is_given_up(program: Path) -> None:
    run = Run(program, "hang")
    with pytest.raises(RuntimeFault, match=r"did not serve within 1 s; its last line: Loading .* Raise --timeout"):
        run.go(ready_timeout_s=1.0)
    assert run.left() == []


def test_one_that_dies_after_it_served_is_an_engine_dead(program: Path) -> None:
    run = Run(program, "dies_later", stop_with=None)
    with pytest.raises(EngineDead, match="a GPU ran out of memory"):
        run.go()
    assert (run.was_ready, run.left()) == (True, [])


def test_a_taken_port_is_told_before_anything_starts(program: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeFault, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use"):
            check_port("127.0.0.1", port)
    with pytest.raises(RuntimeFault, match=r"cannot listen on 192.0.2.7:80"):
        check_port("192.0.2.7", 80)


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    path = tmp_path / "vllm"
    path.write_text("#!/nowhere/python\n")
    path.chmod(0o755)
    with pytest.raises(RuntimeFault, match=r"cannot start .*: No such file or directory"):
        run_vllm([str(path)], {}, ("127.0.0.1", find_free_port()), emit=print, when_ready=print)


def test_progress_is_one_line_for_each_tenth() -> None:
    progress, bar = (
        LoadingProgress(),
        "Loading safetensors checkpoint shards: {0}% Completed | {1}/64 [00:10<00:20, 1.0it/s]",
    )
    shown = [progress.show(bar.format(percent, percent * 64 // 100)) for percent in (0, 5, 9, 10, 11, 100)]
    assert shown == [
        "loading weights: 0 of 64 shards (0 %)",
        None,
        None,
        "loading weights: 6 of 64 shards (10 %)",
        None,
        "loading weights: 64 of 64 shards (100 %)",
    ]
    assert progress.show("INFO hello  ") == "vllm | INFO hello"
