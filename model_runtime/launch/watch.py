"""Supervision of a vLLM process: start, output, readiness, signals, and cleanup.

If it does not start, the cause is looked up in its output with a table of known faults and remedies.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO

from model_runtime.errors import EngineDead, RuntimeFault


@dataclass(frozen=True, slots=True)
class KnownFault:
    """An error text of vLLM or its libraries, its meaning, and the remedy."""

    pattern: str
    meaning: str
    advice: str


KNOWN = (
    KnownFault(
        r"unrecognized arguments: (.*)",
        "this vLLM does not know {1}",
        "upgrade vLLM, or leave the option out that this comes from",
    ),
    KnownFault(
        r"invalid (tool call|reasoning) parser|KeyError: 'kimi_k2'",
        "this vLLM has no parser named kimi_k2",
        "upgrade vLLM to 0.20.0 or newer",
    ),
    KnownFault(
        r"Model architectures .* (are not supported|failed to be inspected)|model type `?'?kimi_k25|"
        r"does not recognize this architecture",
        "this vLLM does not know the model's architecture",
        "upgrade vLLM to 0.15.0 or newer; --model must be a folder of Kimi K2.5 itself",
    ),
    KnownFault(
        r"Address already in use|\[Errno 98\]",
        "the port is taken",
        "choose another with --port, or end the program that has it",
    ),
    KnownFault(
        r"libcuda\.so|No CUDA GPUs are available|Failed to infer device type|Found no NVIDIA driver",
        "vLLM sees no GPU",
        "check `nvidia-smi`; in a container give it the GPUs (--gpus all); an empty CUDA_VISIBLE_DEVICES hides them",
    ),
    KnownFault(
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "the NVIDIA driver is older than this vLLM's CUDA",
        "upgrade the driver, or take a vLLM built for an older CUDA",
    ),
    KnownFault(
        r"is less than desired GPU memory utilization",
        "something else already takes memory of a GPU",
        "end what `nvidia-smi` shows, or lower --set gpu_memory_utilization=SHARE",
    ),
    KnownFault(
        r"No available memory for the cache blocks|larger than the available KV cache|"
        r"larger than the maximum number of tokens that can be stored in KV cache",
        "weights fit, but the cache does not hold one sequence of that length",
        "lower --max-model-len, raise --set gpu_memory_utilization=SHARE, or use more GPUs: see `cua serve --plan`",
    ),
    KnownFault(
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|CUDA error: out of memory",
        "a GPU ran out of memory",
        "see what fits with `cua serve --plan`; lower --max-model-len, --set max_num_batched_tokens=N or "
        "--set gpu_memory_utilization=SHARE",
    ),
    KnownFault(
        r"World size \(\d+\) is larger than the number of available GPUs|invalid device ordinal|"
        r"larger than the number of available GPUs",
        "more GPUs are asked for than there are",
        "lower --tp, or join nodes with --ray",
    ),
    KnownFault(
        r"Could not find any running Ray instance|Failed to connect to Ray|placement group .* (cannot|can't)",
        "the Ray cluster is not there or too small",
        "start it: `ray start --head` on this node, `ray start --address HEAD:6379` on the others",
    ),
    KnownFault(
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError",
        "the GPUs cannot talk to each other",
        "run again with NCCL_DEBUG=INFO; over nodes set NCCL_SOCKET_IFNAME to the network card; in a container "
        "give /dev/shm room (--ipc=host)",
    ),
    KnownFault(
        r"operator torchvision::nms does not exist",
        "torchvision was built for another torch",
        "uninstall torchvision, torchaudio and torchcodec there, or install those made for that torch",
    ),
    KnownFault(
        r"cannot import name 'bytes_to_unicode'",
        "the model's own tokenizer code does not know this transformers",
        "upgrade vLLM, or install the transformers it asks for",
    ),
    KnownFault(
        r"No module named '(tiktoken|blobfile)'",
        "the tokenizer's package {1} is missing",
        "pip install {1} in vLLM's environment",
    ),
    KnownFault(
        r"No space left on device|Bus error",
        "a disk or /dev/shm is full",
        "free the disk; in a container give /dev/shm room (--ipc=host or --shm-size 32g)",
    ),
    KnownFault(
        r"SafetensorError|header too large|incomplete metadata|does not exist: .*safetensors",
        "a file of the checkpoint is broken or cut off",
        "compare sizes with the index and fetch that shard again",
    ),
    KnownFault(
        r"Repository Not Found|is not a local folder|Invalid repository ID|couldn't connect to",
        "there is no model of that name",
        "give --model the folder of the checkpoint",
    ),
)
"""Known faults, the most specific first: the first one that matches anywhere in the output is reported."""


def find_fault(lines: Iterable[str]) -> KnownFault | None:
    """Return the first known fault in these lines, with its placeholders filled in."""
    text = "\n".join(lines)
    for fault in KNOWN:
        match = re.search(fault.pattern, text)
        if match:
            first = match.group(1) if match.groups() and match.group(1) else ""
            return KnownFault(
                fault.pattern, fault.meaning.replace("{1}", first), fault.advice.replace("{1}", first or "it")
            )
    return None


def explain_exit(return_code: int, lines: list[str]) -> str:
    """Return one sentence with the exit status, the cause if known, and the remedy."""
    ended = _how_it_ended(return_code)
    fault = find_fault(lines)
    if fault is not None:
        return f"vLLM {ended}: {fault.meaning}. {fault.advice[0].upper()}{fault.advice[1:]}"
    if return_code in (-9, 137):
        return f"vLLM {ended}: the kernel probably killed it for lack of memory (see dmesg). Loading needs free RAM"
    last = next((line for line in reversed(lines) if re.search(r"Error|error:|Exception", line)), "")
    message = last or next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
    return f"vLLM {ended}: {message.strip()}. The lines above say more"


def _how_it_ended(return_code: int) -> str:
    return f"was ended by signal {-return_code}" if return_code < 0 else f"ended with exit code {return_code}"


SHARDS = re.compile(r"checkpoint shards:\s*(\d+)% Completed \| (\d+)/(\d+)")
STOPPED = 130  # exit status after SIGINT: 128 + 2
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that request a shutdown; SIGHUP is sent when the terminal is closed."""
_LAST_LINES_S = 15.0
"""Maximum wait for the output of an exited process."""
KEPT_LINES = 2000  # last lines of the output, in which known failures are searched for; bounds memory
POLL_S = 0.2  # short against the minutes that loading takes


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Timeouts until the server answers (600 GB from a slow disk take long), and until it has exited."""

    ready_timeout_s: float = 3600.0
    stop_timeout_s: float = 30.0


def run_vllm(
    command: Sequence[str],
    environment: Mapping[str, str],
    address: tuple[str, int],
    *,
    emit: Callable[[str], None],
    when_ready: Callable[[], None],
    options: WatchOptions | None = None,
) -> int:
    """Run a server until it exits or is stopped. Must run in the main thread: it handles SIGINT, SIGTERM and SIGHUP.

    Args:
        command: Program and arguments.
        environment: Complete environment.
        address: Host and port that it will listen on.
        emit: Called with each line for the operator.
        when_ready: Called once, when the server answers.
        options: Timeouts.

    Returns:
        130 if it was stopped.

    Raises:
        RuntimeFault: If the port is taken, or the server exited before it served, or did not serve in time.
        EngineDead: If it exited unexpectedly after it had served.
    """
    options = options or WatchOptions()
    check_port(*address)
    try:
        process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its own group: only we forward signals to it, and we can kill all of it
        )
    except OSError as error:
        raise RuntimeFault(f"cannot start {command[0]}: {error.strerror}") from error
    watched = _Watched(process, emit)
    with _forwarded_signals(watched):
        try:
            return _serve(watched, address, when_ready, options)
        finally:
            watched.end(options.stop_timeout_s)


def _serve(watched: "_Watched", address: tuple[str, int], when_ready: Callable[[], None], options: WatchOptions) -> int:
    deadline = time.monotonic() + options.ready_timeout_s
    has_served = False  # set at the first answer, even if the server then exits
    while watched.is_running and not watched.is_asked_to_end and not has_served:
        has_served = _answers(address)
        if has_served:
            when_ready()
        elif time.monotonic() > deadline:
            waited = f"vLLM did not serve within {options.ready_timeout_s:g} s"
            raise RuntimeFault(f"{waited}; {watched.last_line()}. Raise --timeout if it is still loading")
        else:
            time.sleep(POLL_S)
    while watched.is_running and not watched.is_asked_to_end:
        time.sleep(POLL_S)
    if watched.is_asked_to_end:
        return STOPPED
    watched.send(signal.SIGKILL)  # remaining child processes, which would keep the pipe open
    watched.join()
    text = explain_exit(watched.process.returncode, list(watched.lines))
    raise (EngineDead if has_served else RuntimeFault)(text)


def check_port(host: str, port: int) -> None:
    """Check that a server can listen on a port.

    Raises:
        RuntimeFault: If the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            advice = "Choose another --port (or --host), or end the program that has it"
            raise RuntimeFault(f"cannot listen on {host}:{port}: {error.strerror}. {advice}") from error


def _answers(address: tuple[str, int]) -> bool:
    host, port = address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # do not use a proxy for local ports
    try:
        with opener.open(f"http://{shown}:{port}/health", timeout=2) as answer:
            return int(answer.status) == 200
    except (OSError, urllib.error.URLError):
        return False


class _Watched:
    """A process whose output is read by a thread."""

    def __init__(self, process: "subprocess.Popen[bytes]", emit: Callable[[str], None]) -> None:
        self.process = process
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.is_asked_to_end = False
        self._emit = emit
        self._reader = threading.Thread(target=self._read, name="vllm-output", daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def last_line(self) -> str:
        return f"its last line: {self.lines[-1].strip()}" if self.lines else "it wrote nothing"

    def join(self) -> None:
        """Wait for remaining output; processes that left the process group may keep the pipe open."""
        self._reader.join(timeout=_LAST_LINES_S)

    def _read(self) -> None:
        progress = LoadingProgress()
        stream = self.process.stdout
        for line in _lines_of(stream) if stream else ():
            self.lines.append(line)
            shown = progress.show(line)
            if shown is not None:
                self._emit(shown)

    def ask_to_end(self, number: int) -> None:
        """Forward the first signal; kill the whole group at the second one."""
        self.send(signal.SIGKILL if self.is_asked_to_end else number)
        self.is_asked_to_end = True

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def end(self, timeout_s: float) -> None:
        """Stop the process and its children: terminate, then kill after the timeout."""
        if self.is_running and not self.is_asked_to_end:
            self.send(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)
        self.send(signal.SIGKILL)
        self.process.wait()
        self.join()


@contextlib.contextmanager
def _forwarded_signals(watched: _Watched) -> Iterator[None]:
    def forward(number: int, frame: FrameType | None) -> None:
        watched.ask_to_end(signal.SIGTERM if number == signal.SIGHUP else number)

    before = {number: signal.signal(number, forward) for number in ENDING}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _lines_of(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines as they arrive; a progress bar's carriage return also ends a line."""
    left = b""
    while block := os.read(stream.fileno(), 65_536):
        *lines, left = re.split(rb"[\r\n]+", left + block)
        yield from (line.decode(errors="replace") for line in lines if line.strip())
    if left.strip():
        yield left.decode(errors="replace")


class LoadingProgress:
    """Formatter of vLLM's output: a prefix, and one line for each tenth of the shards."""

    def __init__(self) -> None:
        self._tenth = -1

    def show(self, line: str) -> str | None:
        """Return the text to print for a line of vLLM; None for nothing."""
        shards = SHARDS.search(line)
        if shards is None:
            return f"vllm | {line.rstrip()}"
        percent, done, total = (int(value) for value in shards.groups())
        if percent // 10 == self._tenth:
            return None
        self._tenth = percent // 10
        return f"loading weights: {done} of {total} shards ({percent} %)"
