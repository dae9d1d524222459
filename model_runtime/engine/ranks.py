"""Worker processes for the other ranks of a model.

The parent is rank 0. It sends each step to the workers through a pipe and computes its own part; they synchronize in
the model's collectives. The exit of a worker is detected at once, whatever its cause; workers exit with their parent.
"""

import multiprocessing
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING

from model_runtime.engine.contract import EngineOptions, WeightUpdate
from model_runtime.engine.runner import StepInput
from model_runtime.errors import CheckpointError, EngineDead, RuntimeFault

if TYPE_CHECKING:
    from torch import Tensor

    from model_runtime.engine.runner import Runner
    from model_runtime.model.k25 import K25Model
    from model_runtime.placement import Enter

MAX_CACHED_TOKENS = 2**21
"""Maximum number of cached tokens: more is of little use, and a tiny model would otherwise take all memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """Model part that every rank loads; see `launch.options.NativeOptions` for the other fields.

    Attributes:
        size: Number of ranks.
        options: Sizes of the engine; the number of blocks is set after all ranks are loaded.
        num_blocks: Blocks of the cache; None for as many as fit in `cache_bytes`.
        cache_bytes: Memory for the cache; None for the free memory.
        address: Rendezvous address of the ranks, `tcp://host:port`.
        num_threads: Threads of one rank on a CPU; None for torch's default.
    """

    model_dir: Path
    size: int
    device: str
    dtype: str | None
    latent_norm_eps: float | None
    kernels: str
    options: EngineOptions
    kernel_cache_dir: Path | None = None
    num_blocks: int | None = None
    cache_bytes: int | None = None
    address: str = ""
    num_threads: int | None = None


def find_address() -> str:
    """Return a free port on the loopback interface, as `tcp://host:port`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class RankProcesses:
    """Ranks 1 to `spec.size` - 1 as monitored processes.

    Args:
        spec: Model part to load.
        on_death: Called from another thread, once, with a text, if a worker exits unexpectedly.
    """

    def __init__(self, spec: RankSpec, on_death: Callable[[str], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._on_death = on_death
        self._asking = threading.Lock()  # if two threads ask for an exit code at once, one of them gets none
        self._is_closing = False
        self._pipes: list[Connection] = []
        self.processes: list[SpawnProcess] = []
        for rank in range(1, spec.size):
            ours, theirs = context.Pipe()
            process = context.Process(target=run_worker, args=(spec, rank, theirs), name=f"rank-{rank}", daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        threading.Thread(target=self._watch, name="ranks", daemon=True).start()

    def wait_loaded(self) -> list[int]:
        """Wait until every worker has loaded its part; return the number of cache blocks that fit on each.

        Raises:
            RuntimeFault: If a worker failed to load; the text is its reason.
        """
        room = []
        for rank, pipe in enumerate(self._pipes, 1):
            try:
                answer = pipe.recv()
            except EOFError:
                raise EngineDead(f"rank {rank} ended while it loaded") from None
            if isinstance(answer, str):
                raise RuntimeFault(f"rank {rank}: {answer}")
            room.append(answer)
        return room

    def send(self, message: StepInput | WeightUpdate | int) -> None:
        """Send a step or new weights to every worker; before the first step, the number of cache blocks.

        Raises:
            EngineDead: If a worker has exited.
        """
        for rank, pipe in enumerate(self._pipes, 1):
            try:
                pipe.send(message)
            except OSError:
                raise EngineDead(self._describe(rank)) from None

    def close(self) -> None:
        """Stop all workers and leave the process group; may be called twice."""
        from model_runtime.parallel.comm import close_group

        self._is_closing = True
        for pipe in self._pipes:
            pipe.close()
        close_group()
        for process in self.processes:
            process.join(timeout=2)
            if process.is_alive():
                process.kill()
                process.join()

    def find_dead(self, patience_s: float = 0.0) -> str | None:
        """Return a sentence on the worker that has exited, or exits within `patience_s`; None if all are alive."""
        ended = wait([process.sentinel for process in self.processes], timeout=patience_s)
        with self._asking:
            for rank, process in enumerate(self.processes, 1):
                if process.sentinel in ended:
                    process.join(timeout=2)  # its pipes close a moment before its exit code is available
                    return self._describe(rank)
        return None

    def _watch(self) -> None:
        wait([process.sentinel for process in self.processes])
        if not self._is_closing:
            self._on_death(self.find_dead(patience_s=2.0) or "a rank ended")

    def _describe(self, rank: int) -> str:
        code = self.processes[rank - 1].exitcode
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return f"rank {rank} ended ({how}); requests in flight are lost. Start the server again"


def run_worker(spec: RankSpec, rank: int, pipe: Connection) -> None:
    """Run one rank's process: load, then compute the steps from the parent until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides when to exit
    from model_runtime.engine.runner import Runner
    from model_runtime.placement import find_rank_device, set_device

    try:
        set_device(find_rank_device(spec.device, rank))  # before any context is created on the first GPU
        model, room = load_rank(spec, rank)
        pipe.send(room)
        runner = Runner(model, replace(spec.options, num_blocks=pipe.recv()))
        while True:
            message = pipe.recv()
            if isinstance(message, WeightUpdate):
                runner.update(message)
            else:
                runner.run(message)
    except RuntimeFault as error:
        with suppress(OSError):  # the parent has the same fault and has exited
            pipe.send(str(error))
    except (EOFError, OSError):
        return  # the parent has exited, or closed the pipe


def load_rank(spec: RankSpec, rank: int, *, enter: "Enter | None" = None) -> "tuple[K25Model, int]":
    """Load one rank's part of the model, and return it with the number of cache blocks that fit in the remaining
    memory.

    Raises:
        RuntimeFault: If the checkpoint or the sizes are invalid.
    """
    import torch

    from model_runtime.model import load_model
    from model_runtime.parallel.comm import OneRank, open_group
    from model_runtime.placement import find_rank_device, use_device

    if spec.num_threads is not None:
        torch.set_num_threads(spec.num_threads)
    device = find_rank_device(spec.device, rank)
    with (enter or use_device)(device):
        comm = open_group(rank, spec.size, spec.address, device=str(device)) if spec.size > 1 else OneRank()
        model = load_model(
            spec.model_dir,
            device=device,
            dtype=spec.dtype,
            comm=comm,
            kernels=spec.kernels,
            kernel_cache_dir=spec.kernel_cache_dir,
            latent_norm_eps=spec.latent_norm_eps,
        )
        return model, spec.num_blocks or kv_cache_capacity(spec, model)


def kv_cache_capacity(spec: RankSpec, model: "K25Model") -> int:
    """Return the number of cache blocks that fit on this rank in addition to its part of the model.

    Raises:
        CapacityError: If there are too few.
    """
    from model_runtime.engine.kv_cache import find_block_bytes, find_free_bytes, find_num_blocks

    text, sizes = model.config.text, spec.options
    free = spec.cache_bytes
    if free is None:
        free = find_free_bytes(model.device) // (spec.size if model.device.type == "cpu" else 1)
    return find_num_blocks(
        find_block_bytes(text, sizes.block_size, model.dtype),
        free,
        block_size=sizes.block_size,
        max_tokens=min(MAX_CACHED_TOKENS, sizes.max_num_seqs * (sizes.max_model_len or text.max_position_embeddings)),
    )


class RankedRunner:
    """`Executor` of this process's runner and the workers'."""

    def __init__(self, runner: "Runner", workers: RankProcesses) -> None:
        self._runner = runner
        self._workers = workers

    @property
    def encoded(self) -> frozenset[bytes]:
        """Content hashes of media with cached features, the same on every rank."""
        return self._runner.features.keys

    @property
    def can_go_on_after_fault(self) -> bool:
        """Always False: the ranks would no longer be consistent."""
        return False

    def run(self, step: StepInput) -> "Tensor":
        """Compute a step on all ranks. See `Executor.run`."""
        self._workers.send(step)
        try:
            return self._runner.run(step)
        except RuntimeError as error:  # a collective whose partner has exited
            dead = self._workers.find_dead(patience_s=2.0)  # the collective may fail before the exit is detected
            if dead is None:
                raise
            raise EngineDead(dead) from error

    def update(self, update: WeightUpdate) -> None:
        """Replace the weights on all ranks from a folder. See `Executor.update`."""
        if not isinstance(update.source, Path):
            raise CheckpointError("several ranks take new weights from a folder only, not from memory")
        self._runner.update(update)  # first here, where the check of the folder can refuse it
        self._workers.send(update)

    def close(self) -> None:
        """Stop the workers."""
        self._workers.close()
