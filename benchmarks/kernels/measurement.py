"""One try of the tuner: the launches that lines of the table lead to, what the compiler makes of them, their time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Case, Inputs
from benchmarks.kernels.search import Group, Judge
from benchmarks.kernels.table import Line, key_of, use_lines, watch_lines
from benchmarks.kernels.timing import measure
from model_runtime.errors import ConfigError
from model_runtime.kernels import launch as launches
from model_runtime.kernels.launch import KernelCase, Launch

PACKAGE = "model_runtime.kernels"
MAX_ERROR = 0.05
"""More is no rounding: a tile that gives it is broken."""

FindFault = Callable[[KernelCase], str | None]
"""What is wrong with a launch's machine code; None: nothing."""


class WrongResultError(Exception):
    """A tile's result is far from float64."""


class Measurement:
    """Times the launches of one file within one case, whose inputs are made once."""

    def __init__(self, file: str, case: Case, bench: Bench) -> None:
        self.file, self.bench, self.size = file, bench, case.size
        self.inputs: Inputs = case.setup()
        [self.peer] = [peer for peer in case.peers if peer.name == OURS]

    def __call__(self, lines: Sequence[Line]) -> float:
        """Microseconds of the file's launches in one call of the operator.

        Raises:
            ConfigError: The case starts no kernel of this file.
            WrongResultError: See there.
        """
        with use_lines(lines):
            function = self.peer.make()
            self._check(function)
            kept = [self._record(function, copy) for copy in self.inputs.copies]
        if not kept[0]:
            raise ConfigError(f"nothing of {self.file} is started here")
        calls = [partial(_run_all, some) for some in kept]
        return measure(self.bench.device, calls, seconds=self.bench.row_seconds).us

    def run_once(self) -> None:
        """One call as the operator is, to see what it looks up."""
        self.peer.make()(*self.peer.adapt(*self.inputs.copies[0]))

    def _check(self, function: Callable[..., Any]) -> None:
        if self.inputs.error is None:
            return
        error = self.inputs.error(lambda copy: function(*self.peer.adapt(*copy)))
        if not error <= MAX_ERROR:
            raise WrongResultError(f"{error:.1e} from float64")

    def _record(self, function: Callable[..., Any], copy: tuple[Any, ...]) -> list[Launch]:
        with record_launches() as seen:
            function(*self.peer.adapt(*copy))
        return [launch for launch in seen if file_of(launch) == self.file]


def _run_all(some: Sequence[Launch]) -> None:
    for launch in some:
        launches.run(launch)


@contextmanager
def record_launches() -> Iterator[list[Launch]]:
    """Every launch that is started within the block. They keep their tensors, so that they can be started again."""
    seen: list[Launch] = []
    check = launches.check

    def keep(launch: Launch) -> None:
        check(launch)
        seen.append(launch)

    launches.check = keep
    try:
        yield seen
    finally:
        launches.check = check


def file_of(launch: Launch) -> str:
    """The file of the package in which a launch's kernel is defined."""
    return str(launch.kernel.fn.__module__).removeprefix(f"{PACKAGE}.")


def keep_used(group: Group, measurement: Measurement) -> Group:
    """The group without lines that this case never takes: what was not run is not called measured.

    Raises:
        ConfigError: None is left.
    """
    with watch_lines() as taken:
        measurement.run_once()
    lines = tuple(line for line in group.lines if key_of(line) in taken)
    if not lines:
        raise ConfigError(f"no line of {group.name} is taken here")
    return replace(group, lines=lines, size=measurement.size)


def make_judge(file: str, find_fault: FindFault) -> Judge:
    """Compiles what a file would ship with given lines, as far as it differs from what it ships now."""
    verdicts: dict[Any, str | None] = {specialisation_of(case.launch): None for case in _list_cases(file)}

    def judge(lines: Sequence[Line]) -> str | None:
        try:
            with use_lines(lines):
                cases = _list_cases(file)
        except ConfigError as error:
            return str(error)
        for case in cases:
            key = specialisation_of(case.launch)
            if key not in verdicts:
                verdicts[key] = find_fault(case)
            if reason := verdicts[key]:
                return f"{case.name}: {reason}"
        return None

    return judge


def _list_cases(file: str) -> list[KernelCase]:
    return list(import_module(f"{PACKAGE}.{file}").release_cases())


def specialisation_of(launch: Launch) -> tuple[Any, ...]:
    """What decides about the machine code, as far as tiles can change it."""
    constants = tuple(sorted((name, str(value)) for name, value in launch.constexprs.items()))
    dtypes = tuple(sorted((name, str(tensor.dtype)) for name, tensor in launch.tensors.items()))
    return launch.name, constants, dtypes, launch.num_warps, launch.num_stages


def find_fault(case: KernelCase) -> str | None:
    """Why a case must not be shipped, by an ahead-of-time compile: spills, too much shared memory, no wgmma."""
    from triton import TritonError

    from scripts.compile_gate.compile import compile_launch
    from scripts.compile_gate.gate import find_violations
    from scripts.compile_gate.machine_code import inspect_binary

    try:
        found = inspect_binary(compile_launch(case.launch))
    except (TritonError, RuntimeError, ConfigError) as error:
        return f"not compiled: {type(error).__name__}"
    return next(iter(find_violations(case, found)), None)
