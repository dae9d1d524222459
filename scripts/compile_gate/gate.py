"""Compile all cases, several at a time, each in a worker process whose kernels are not interpreted, and judge them."""

import importlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from model_runtime.errors import ConfigError
from model_runtime.kernels.launch import MAX_SHARED_BYTES, KernelCase
from scripts.compile_gate.figures import Resources
from scripts.compile_gate.machine_code import inspect_binary


def find_violations(case: KernelCase, found: Resources) -> Iterator[str]:
    """Everything that is wrong with a case's machine code, in words; nothing when it may be shipped."""
    if found.stack_bytes or found.spills:
        text = (
            f"spills: {found.stack_bytes} bytes of stack, {found.spills} loads and stores of local memory, expected 0"
        )
        yield f"{text}; use smaller blocks or more warps"
    if found.hazards:
        text = f"{found.hazards} writes to registers that a wgmma under way still reads: wrong results, no warning"
        yield f"{text}; bring its left operand through shared memory"
    if found.registers > case.max_registers:
        yield f"{found.registers} registers, expected at most {case.max_registers}"
    if found.shared_bytes > MAX_SHARED_BYTES:
        text = f"{found.shared_bytes:,} bytes of shared memory, expected at most {MAX_SHARED_BYTES:,}"
        yield f"{text}; use smaller blocks or fewer stages"
    if case.has_wgmma and not found.hgmma:
        yield f"no HGMMA ({found.hmma} HMMA); it takes at least 64 rows and 4 warps"
    if case.has_async_copy and not found.loop_copies:
        yield "no LDGSTS or UTMALDG in its loop: loads are not pipelined; are strides known to be 1 or multiples of 16?"
    if case.max_int_to_float is not None and found.int_to_float > case.max_int_to_float:
        text = f"{found.int_to_float} conversions of integers to floats, expected at most {case.max_int_to_float}"
        yield f"{text}; put the bits of small integers into a float's"


CASES = "model_runtime.kernels.launch"
"""The module whose `release_cases()` are all that is shipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one case.

    Attributes:
        name: Of the case.
        resources: Of its machine code; None where there is none.
        violations: Rules it breaks, in words.
        seconds: For compiling and inspecting.
    """

    name: str
    resources: Resources | None
    violations: tuple[str, ...]
    seconds: float = 0.0


def run_gate(
    module: str = CASES, only: str = "", workers: int = 2, progress: Callable[[Verdict], None] = lambda _: None
) -> list[Verdict]:
    """Compile every case of a module and judge it.

    Args:
        module: Its `release_cases()` are taken.
        only: Text that a case's name must contain.
        workers: Processes that compile at a time.
        progress: Is told each verdict as soon as it is there.

    Returns:
        Verdicts in the order of the cases.

    Raises:
        ConfigError: There are no such cases, or two of one name.
    """
    with _clean_environment(), ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        names = [name for name in pool.submit(list_cases, module).result() if only in name]
        if not names:
            raise ConfigError(f"{module}.release_cases() has no case whose name contains {only!r}")
        pending = {pool.submit(judge_case, module, name): name for name in names}
        verdicts = {}
        for future in as_completed(pending):
            verdicts[pending[future]] = _take_result(future, pending[future])
            progress(verdicts[pending[future]])
    return [verdicts[name] for name in names]


def _take_result(future: Future[Verdict], name: str) -> Verdict:
    try:
        return future.result()
    except BrokenProcessPool:
        text = "not compiled: a worker process ended abruptly, in this case or in another one reported with it"
        return Verdict(name=name, resources=None, violations=(text,))


@contextmanager
def _clean_environment() -> Iterator[None]:
    """Workers see Triton's defaults: above all no interpreter, which is chosen while a kernel's file is imported."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="k25-aot-") as folder:
        for name in [name for name in os.environ if name.startswith("TRITON_")]:
            del os.environ[name]
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def list_cases(module: str) -> list[str]:
    """Names of a module's cases; runs in a worker."""
    return list(_load_cases(module))


def judge_case(module: str, name: str) -> Verdict:
    """Compile, inspect and judge one case; runs in a worker."""
    from triton import TritonError

    from scripts.compile_gate.compile import compile_launch

    case, started = _load_cases(module)[name], time.monotonic()
    try:
        resources = inspect_binary(compile_launch(case.launch))
    except (TritonError, RuntimeError, ConfigError) as error:
        text = f"not compiled: {type(error).__name__}: {str(error).strip()}"
        return Verdict(name=name, resources=None, violations=(text,), seconds=time.monotonic() - started)
    wrong = tuple(find_violations(case, resources))
    return Verdict(name=name, resources=resources, violations=wrong, seconds=time.monotonic() - started)


@cache
def _load_cases(module: str) -> dict[str, KernelCase]:
    cases: dict[str, KernelCase] = {}
    for case in _find_cases(module)():
        if case.name in cases:
            raise ConfigError(f"{module}.release_cases() has two cases of the name {case.name!r}")
        cases[case.name] = case
    return cases


def _find_cases(module: str) -> Callable[[], Iterator[KernelCase]]:
    found: Callable[[], Iterator[KernelCase]] | None = getattr(importlib.import_module(module), "release_cases", None)
    if found is None:
        raise ConfigError(f"{module} has no release_cases()")
    return found
