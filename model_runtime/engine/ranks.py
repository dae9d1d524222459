"""Worker processes that hold the other ranks of a model.

The parent is rank 0. It sends each step to the workers through a pipe and computes its own part; they meet in the
model's collectives. A worker that ends, however it ends, is noticed at once; workers end with their parent.
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

from model_runtime.engine.contract import EngineOptions
from model_runtime.engine.runner import StepInput
from model_runtime.errors import EngineDead, RuntimeFault

if TYPE_CHECKING:
    from torch import Tensor

    from model_runtime.engine.runner import Runner
    from model_runtime.model.k25 import K25Model
    from model_runtime.placement import Enter

MAX_CACHED_TOKENS = 2**21
"""More room than this is of little use, and a tiny model would otherwise take all memory for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """The model part that every rank loads; see `launch.options.NativeOptions` for what is not named here.

    Attributes:
        size: Ranks.
        options: Sizes of the engine; the number of blocks is settled once all ranks are loaded.
        num_blocks: Blocks of the cache, None for as many as `cache_bytes` hold.
        cache_bytes: Memory for the cache, None for what is free.
        address: `tcp://host:port` where the ranks meet.
        num_threads: Threads of one rank on a CPU; None for torch's own choice.
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
    """A free port on the loopback interface, as `tcp://host:port`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Workers:
    """Ranks 1 to `spec.size` - 1, started and watched.

    Args:
        spec: What they load.
        on_death: Called from another thread, once, with a text, when a worker ends that was not told to.
    """

    def __init__(self, spec: RankSpec, on_death: Callable[[str], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._on_death = on_death
        self._asking = threading.Lock()  # of two threads that ask for an exit code at once, one would get none
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
        """Until every worker has loaded its part; how many cache blocks each has room for.

        Raises:
            RuntimeFault: One could not; the text is its reason.
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

    def send(self, message: StepInput | int) -> None:
        """Give a step to every worker; before the first one, the number of cache blocks.

        Raises:
            EngineDead: One has ended.
        """
        for rank, pipe in enumerate(self._pipes, 1):
            try:
                pipe.send(message)
            except OSError:
                raise EngineDead(self._describe(rank)) from None

    def close(self) -> None:
        """End them all, and leave their group; may be called twice."""
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
        """Which worker has ended, or does so within `patience_s`, as a sentence; None when all live."""
        ended = wait([process.sentinel for process in self.processes], timeout=patience_s)
        with self._asking:
            for rank, process in enumerate(self.processes, 1):
                if process.sentinel in ended:
                    process.join(timeout=2)  # its pipes close a moment before its exit code is known
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
    """One rank's process: load, then compute what the parent sends, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent says when to end
    from model_runtime.engine.runner import Runner
    from model_runtime.placement import find_rank_device, set_device

    try:
        set_device(find_rank_device(spec.device, rank))  # before anything makes a context on the first GPU
        model, room = load_rank(spec, rank)
        pipe.send(room)
        runner = Runner(model, replace(spec.options, num_blocks=pipe.recv()))
        while True:
            runner.run(pipe.recv())
    except RuntimeFault as error:
        with suppress(OSError):  # the parent has the same fault and is gone
            pipe.send(str(error))
    except (EOFError, OSError):
        return  # the parent has ended, or told us to


def load_rank(spec: RankSpec, rank: int, *, enter: "Enter | None" = None) -> "tuple[K25Model, int]":
    """One rank's part of the model, and how many cache blocks it has room for beside it.

    Raises:
        RuntimeFault: The checkpoint or the sizes are wrong.
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
    """How many cache blocks this rank has room for beside its part of the model.

    Raises:
        CapacityError: Too few to work with.
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


class RankedExecutor:
    """This process's runner and the workers', as one `Executor`."""

    def __init__(self, runner: "Runner", workers: Workers) -> None:
        self._runner = runner
        self._workers = workers

    @property
    def encoded(self) -> frozenset[bytes]:
        """Content hashes of media whose features are at hand, the same on every rank."""
        return self._runner.features.keys

    @property
    def can_go_on_after_fault(self) -> bool:
        """No: the ranks would no longer agree."""
        return False

    def run(self, step: StepInput) -> "Tensor":
        """Compute a step on all ranks. See `Executor.run`."""
        self._workers.send(step)
        try:
            return self._runner.run(step)
        except RuntimeError as error:  # a collective whose partner is gone
            dead = self._workers.find_dead(patience_s=2.0)  # the collective may notice before the system tells
            if dead is None:
                raise
            raise EngineDead(dead) from error

    def close(self) -> None:
        """End the workers."""
        self._workers.close()
