"""What isolation costs: start of a kernel, a cell's round trip, memory of many kernels.

    python benchmarks/sandbox.py [--kernels 100] [--cells 200] [--runs 20]

Beside it, in the same run: a plain kernel as `jupyter_client` starts it, without any isolation, and one bubblewrap
around each kernel instead of a fork. The cells of ours and of the plain kernel take turns.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from visual_tools.sandbox import KernelLimits, Sandbox
from visual_tools.sandbox.contract import Kernel
from visual_tools.sandbox.zygote.process_tree import find_tree, read_memory

CELL = "x = 1 + 1\nprint(x)"


def middle_ms(times: list[float]) -> float:
    return statistics.median(times) * 1000


async def plain_start(folder: Path) -> tuple[AsyncKernelManager, AsyncKernelClient]:
    manager = AsyncKernelManager(transport="ipc", ip=str(folder / "plain"))
    await manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    return manager, client


async def plain_cell(client: AsyncKernelClient) -> None:
    """A cell with its output, as nbclient and papermill do it: until the reply and `idle` have come."""
    request = client.execute(CELL, allow_stdin=False)
    text = ""
    while True:
        message = await client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "stream":
            text += message["content"]["text"]
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    reply = await client.get_shell_msg(timeout=60)
    assert (text, reply["content"]["status"]) == ("2\n", "ok")


async def our_cell(kernel: Kernel) -> None:
    result = await kernel.run(CELL)
    assert (result.text, result.status) == ("2\n", "ok")


async def round_trips(kernel: Kernel, client: AsyncKernelClient, count: int) -> tuple[list[float], list[float]]:
    ours, plain = [], []
    for _ in range(count):
        began = time.perf_counter()
        await our_cell(kernel)
        middle = time.perf_counter()
        await plain_cell(client)
        ours.append(middle - began)
        plain.append(time.perf_counter() - middle)
    return ours[count // 10 :], plain[count // 10 :]


async def starts(sandbox: Sandbox, folder: Path, count: int) -> list[float]:
    times = []
    for number in range(count):
        began = time.perf_counter()
        kernel = await sandbox.make_kernel(folder / f"start{number}")
        times.append(time.perf_counter() - began)
        await kernel.close()
    return times


async def memory_of_many(sandbox: Sandbox, folder: Path, count: int) -> tuple[int, int]:
    """PSS of everything below this process with `count` kernels that have each run a cell, and without."""
    mine = {os.getpid()}
    before = read_memory(tuple(set(find_tree(os.getpid())) - mine))
    kernels = await asyncio.gather(*(sandbox.make_kernel(folder / f"many{number}") for number in range(count)))
    for kernel in kernels:
        await our_cell(kernel)
    after = read_memory(tuple(set(find_tree(os.getpid())) - mine))
    await asyncio.gather(*(kernel.close() for kernel in kernels))
    return after, before


async def exec_starts(folder: Path, count: int) -> list[float]:
    """One bubblewrap for each kernel, the way without a fork."""
    sandbox = await Sandbox.start_as("bubblewrap", "exec", KernelLimits())
    async with sandbox:
        return await starts(sandbox, folder / "exec", count)


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    began = time.perf_counter()
    async with await Sandbox.start(arguments.backend) as sandbox:
        print(f"backend {sandbox.backend}; started, everything imported, in {time.perf_counter() - began:.1f} s")
        kernel = await sandbox.make_kernel(folder / "ours")
        plain_times = []
        for _ in range(3):
            began = time.perf_counter()
            manager, client = await plain_start(folder)
            plain_times.append(time.perf_counter() - began)
            if len(plain_times) < 3:
                client.stop_channels()
                await manager.shutdown_kernel(now=True)
        ours, plain = await round_trips(kernel, client, arguments.cells)
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
        print(
            f"a cell, p50 of {len(ours)}: {middle_ms(ours):.2f} ms; plain kernel: {middle_ms(plain):.2f} ms; ", end=""
        )
        print(f"ours / plain: {statistics.median(ours) / statistics.median(plain):.2f}x")
        forks = await starts(sandbox, folder, arguments.runs)
        print(f"a fresh kernel, p50 of {len(forks)}: {middle_ms(forks):.0f} ms; ", end="")
        print(f"plain kernel, nothing imported: {middle_ms(plain_times):.0f} ms; ", end="")
        print(f"ours / plain: {statistics.median(forks) / statistics.median(plain_times):.2f}x")
        used, base = await memory_of_many(sandbox, folder, arguments.kernels)
        print(f"{arguments.kernels} kernels that ran a cell: {used / 1e9:.2f} GB PSS in all, ", end="")
        print(f"{(used - base) / arguments.kernels / 1e6:.1f} MB each")
    if arguments.backend in ("auto", "bubblewrap"):
        execs = await exec_starts(folder, 3)
        print(f"one bubblewrap for each kernel, everything imported: {middle_ms(execs):.0f} ms; ", end="")
        print(f"ours / that: {statistics.median(forks) / statistics.median(execs):.3f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--backend", choices=("auto", "bubblewrap", "landlock", "none"), default="auto")
    with tempfile.TemporaryDirectory(prefix="k25-bench-") as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
