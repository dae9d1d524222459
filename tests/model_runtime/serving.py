"""`cua serve` as a process, for tests that use it as people do."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: the address of its API, its process, and what it has said so far."""

    url: str
    process: "subprocess.Popen[str]"
    said: list[str]


def environment() -> dict[str, str]:
    """A person's, not that of the tests, in which kernels are interpreted; one thread, as tests run side by side."""
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return {**own, "OMP_NUM_THREADS": "1"}


@contextmanager
def serve(model_dir: Path, *arguments: str) -> Iterator[Served]:
    """`cua serve` on a free port; ended at the end, however the test went."""
    command = [sys.executable, "-m", "apps.cli.main", "serve", "--model", str(model_dir), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--set", "device=cpu", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on "), (line, said)
        yield Served(line.removeprefix("listening on ").strip() + "/v1", process, said)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(timeout=5)
        process.stdout.close()
        process.stderr.close()
