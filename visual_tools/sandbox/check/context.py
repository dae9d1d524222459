"""Definition of a check and its resources: kernels to attack from, a neighbour to attack, canaries outside."""

import asyncio
import contextlib
import inspect
import json
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

from visual_tools.sandbox.check import preamble
from visual_tools.sandbox.check.canaries import Canaries
from visual_tools.sandbox.contract import CellResult, Kernel, KernelLimits, KernelMaker
from visual_tools.sandbox.syscall_numbers import NUMBERS, number_of

Kind = Literal["attack", "behaviour", "limit"]
"""Kind of check: tries to escape or reach something; tests the contract; tests a resource limit."""

Place = Literal["shared", "own", "alone"]
"""Where a check runs: on the kernel shared by all harmless checks; on its own kernels; with nothing else running."""

CheckFunction = Callable[["CheckContext"], Awaitable[str | None]]
LIMITS = KernelLimits(
    wall_s=10.0,
    cpu_s=120.0,
    memory_bytes=512 * 2**20,
    num_processes=64,
    file_bytes=32 * 2**20,
    disk_bytes=64 * 2**20,
)
"""Small limits, so that checks reach them quickly."""
_HOST_GRACE_S = 30.0  # time beyond a cell's limit that a busy machine may need


class CheckFailed(Exception):
    """Failure of the sandbox in a check; the text says what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCheck:
    """Requirement that every sandbox must meet.

    Attributes:
        name: Sentence that is true when the check passes.
        kind: Attack, behaviour or limit.
        place: Where it may run.
        function: Runs the check; returns a detail to report, raises `CheckFailed` if the sandbox does not pass.
    """

    name: str
    kind: Kind
    place: Place
    function: CheckFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """Outcome of one check.

    Attributes:
        name: Sentence that is true when the check passes.
        kind: Attack, behaviour or limit.
        passed: True if the check passed.
        detail: What refused the attack, or what happened instead.
        duration_s: Duration in seconds.
    """

    name: str
    kind: Kind
    passed: bool
    detail: str = ""
    duration_s: float = 0.0


def check(kind: Kind, name: str, *, place: Place = "shared") -> Callable[[CheckFunction], SandboxCheck]:
    """Decorate a function as a check."""
    return lambda function: SandboxCheck(name=name, kind=kind, place=place, function=function)


def cell_attack(name: str, cell: str, *, at_least: int = 1) -> SandboxCheck:
    """Make a check that runs one cell, all of whose attempts must be refused.

    Args:
        name: Sentence that is true when the check passes.
        cell: Code that calls `attempt`, see `preamble`.
        at_least: Minimum number of attempts; fewer are a failure of the check.
    """

    async def attempt_cell(context: "CheckContext") -> str:
        return (await context.attempt(cell, at_least=at_least)).why_refused()

    return SandboxCheck(name=name, kind="attack", place="shared", function=attempt_cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAnswers:
    """Answers printed by a cell: the result (`open`) or error (`refused`) of each attempt, and other facts."""

    open: dict[str, str]
    refused: dict[str, str]
    facts: dict[str, Any]
    result: CellResult = field(repr=False)

    def why_refused(self) -> str:
        """Describe each attempt with the error that it met."""
        return "; ".join(f"{attempt}: {why}" for attempt, why in self.refused.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """Resources available to a check.

    Attributes:
        maker: Sandbox under test.
        canaries: Objects planted outside.
        shared: Kernel shared by all harmless checks.
        neighbour: Kernel that must not be affected.
    """

    maker: KernelMaker
    canaries: Canaries
    shared: Kernel
    neighbour: Kernel
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    async def run(
        self, cell: str, *, kernel: Kernel | None = None, timeout_s: float | None = None, **facts: object
    ) -> CellResult:
        """Run a cell with the preamble in front.

        Raises:
            CheckFailed: If the call does not return long after the time limit.
        """
        code = _make_code(cell, {**self.canaries.facts(), **facts})
        grace_s = (timeout_s or LIMITS.wall_s) + _HOST_GRACE_S
        try:
            async with asyncio.timeout(grace_s):
                return await (kernel or self.shared).run(code, timeout_s=timeout_s)
        except TimeoutError as error:
            raise CheckFailed(f"the call did not come back within {grace_s:g} s") from error

    async def ask(self, cell: str, *, kernel: Kernel | None = None, **facts: object) -> CellAnswers:
        """Run a cell and collect its answers."""
        return parse_answers(await self.run(cell, kernel=kernel, timeout_s=None, **facts))

    async def attempt(
        self, cell: str, *, at_least: int = 1, kernel: Kernel | None = None, **facts: object
    ) -> CellAnswers:
        """Run a cell whose attempts must all be refused.

        Raises:
            CheckFailed: If an attempt was not refused, or the cell could not make the attempts.
        """
        answers = await self.ask(cell, kernel=kernel, **facts)
        if answers.open:
            raise CheckFailed("; ".join(f"{attempt} worked: {value}" for attempt, value in answers.open.items()))
        if len(answers.refused) < at_least:
            raise CheckFailed(
                f"only {len(answers.refused)} of {at_least} attempts were made: {tell_end(answers.result)}"
            )
        return answers

    @contextlib.asynccontextmanager
    async def kernel(self, *, readable: Sequence[Path] = (), **limits: Any) -> AsyncIterator[Kernel]:
        """Create a kernel for one check in its own folder; given limits override the default ones."""
        folder = self.canaries.base / f"own-{next(self._numbers)}"
        kernel = await self.maker.make_kernel(folder, readable=readable, limits=replace(LIMITS, **limits))
        try:
            yield kernel
        finally:
            await kernel.close()

    async def check_usable(self, kernel: Kernel) -> None:
        """Raise `CheckFailed` unless a kernel still answers, or answers after a restart."""
        result = await self.run("print(6 * 7)", kernel=kernel)
        if result.status != "ok" or "42" not in result.text:
            raise CheckFailed(f"afterwards the kernel cannot be used: {tell_end(result)}")


def parse_answers(result: CellResult) -> CellAnswers:
    """Collect the lines that the preamble printed."""
    reports: dict[str, dict[str, Any]] = {"open": {}, "refused": {}, "fact": {}}
    for line in result.text.splitlines():
        if line.startswith(preamble.MARK):
            kind, name, detail = json.loads(line.removeprefix(preamble.MARK))
            reports[kind][name] = detail
    return CellAnswers(open=reports["open"], refused=reports["refused"], facts=reports["fact"], result=result)


def tell_end(result: CellResult) -> str:
    """Describe on one line how a cell ended."""
    error = f"{result.error.name}: {result.error.message}" if result.error else ""
    return " ".join(filter(None, (result.status, error, result.text[-200:], *result.notes))).replace("\n", " / ")


def _make_code(cell: str, facts: dict[str, object]) -> str:
    machine = platform.machine()
    numbers = {name: number_of(name, machine) for name in NUMBERS}
    known = {name: number for name, number in numbers.items() if number is not None}
    given = f"NUMBERS = {known!r}\nplanted = SimpleNamespace(**{facts!r})\n"
    return f"{inspect.getsource(preamble)}\n{given}\n{dedent(cell)}"
