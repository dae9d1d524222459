"""What a check is, and what it works with: kernels to attack from, a neighbour to attack, canaries outside."""

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
from visual_tools.sandbox.contract import CellResult, Kernel, KernelMaker, Limits
from visual_tools.sandbox.syscall_numbers import NUMBERS, number_of

Kind = Literal["attack", "behaviour", "limit"]
"""Gets out or at something; does what the contract says; stays within what a kernel may use."""

Place = Literal["shared", "own", "alone"]
"""On the kernel that all gentle checks share; on kernels of its own; and nothing else may run meanwhile."""

CheckFunction = Callable[["CheckContext"], Awaitable[str | None]]
LIMITS = Limits(
    wall_s=10.0,
    cpu_s=120.0,
    memory_bytes=512 * 2**20,
    num_processes=64,
    file_bytes=32 * 2**20,
    disk_bytes=64 * 2**20,
)
"""Small, so that it is quickly seen whether they hold."""
_HOST_GRACE_S = 30.0


class CheckFailed(Exception):
    """The sandbox did not pass the check; the text says what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One requirement that every sandbox must meet.

    Attributes:
        name: What holds when it passes, a sentence.
        kind: Attack, behaviour or limit.
        place: Where it may run.
        function: Tries it; returns a detail worth telling, raises `CheckFailed` when the sandbox does not pass.
    """

    name: str
    kind: Kind
    place: Place
    function: CheckFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """How a check ended.

    Attributes:
        name: What holds when it passes.
        kind: Attack, behaviour or limit.
        passed: Whether it holds.
        detail: What refused the attack, or what happened instead.
        duration_s: Seconds.
    """

    name: str
    kind: Kind
    passed: bool
    detail: str = ""
    duration_s: float = 0.0


def check(kind: Kind, name: str, *, place: Place = "shared") -> Callable[[CheckFunction], Check]:
    """Make a check of a function that tries one thing."""
    return lambda function: Check(name=name, kind=kind, place=place, function=function)


def cell_attack(name: str, cell: str, *, at_least: int = 1) -> Check:
    """An attack that is over with one cell: everything that it attempts must be refused.

    Args:
        name: What holds when it passes.
        cell: Code that calls `attempt`, see `preamble`.
        at_least: How many attempts it must have made; fewer are a failure of the check.
    """

    async def attempt_cell(context: "CheckContext") -> str:
        return (await context.attempt(cell, at_least=at_least)).why_refused()

    return Check(name=name, kind="attack", place="shared", function=attempt_cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a cell told: for each attempt what was got (`open`) or why not (`refused`), and other facts."""

    open: dict[str, str]
    refused: dict[str, str]
    facts: dict[str, Any]
    result: CellResult = field(repr=False)

    def why_refused(self) -> str:
        """Each attempt with what it met."""
        return "; ".join(f"{what}: {why}" for what, why in self.refused.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """Everything that a check works with.

    Attributes:
        maker: The sandbox that is checked.
        canaries: What lies outside.
        shared: The kernel of all gentle checks.
        neighbour: A kernel that must notice nothing.
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
            CheckFailed: The call does not come back even long after the time limit.
        """
        code = _make_code(cell, {**self.canaries.facts(), **facts})
        grace_s = (timeout_s or LIMITS.wall_s) + _HOST_GRACE_S
        try:
            async with asyncio.timeout(grace_s):
                return await (kernel or self.shared).run(code, timeout_s=timeout_s)
        except TimeoutError as error:
            raise CheckFailed(f"the call did not come back within {grace_s:g} s") from error

    async def ask(self, cell: str, *, kernel: Kernel | None = None, **facts: object) -> Answers:
        """Run a cell and collect its answers."""
        return parse_answers(await self.run(cell, kernel=kernel, timeout_s=None, **facts))

    async def attempt(self, cell: str, *, at_least: int = 1, kernel: Kernel | None = None, **facts: object) -> Answers:
        """Run a cell, all whose attempts must be refused.

        Raises:
            CheckFailed: One was not, or the cell could not make them.
        """
        answers = await self.ask(cell, kernel=kernel, **facts)
        if answers.open:
            raise CheckFailed("; ".join(f"{what} worked: {value}" for what, value in answers.open.items()))
        if len(answers.refused) < at_least:
            raise CheckFailed(
                f"only {len(answers.refused)} of {at_least} attempts were made: {tell_end(answers.result)}"
            )
        return answers

    @contextlib.asynccontextmanager
    async def kernel(self, *, readable: Sequence[Path] = (), **limits: Any) -> AsyncIterator[Kernel]:
        """A kernel for one check, in a folder of its own, with other limits where they are given."""
        folder = self.canaries.base / f"own-{next(self._numbers)}"
        kernel = await self.maker.make_kernel(folder, readable=readable, limits=replace(LIMITS, **limits))
        try:
            yield kernel
        finally:
            await kernel.close()

    async def check_usable(self, kernel: Kernel) -> None:
        """Raise `CheckFailed` unless a kernel still answers, or answers again."""
        result = await self.run("print(6 * 7)", kernel=kernel)
        if result.status != "ok" or "42" not in result.text:
            raise CheckFailed(f"afterwards the kernel cannot be used: {tell_end(result)}")


def parse_answers(result: CellResult) -> Answers:
    """Gather the lines that the preamble printed."""
    told: dict[str, dict[str, Any]] = {"open": {}, "refused": {}, "fact": {}}
    for line in result.text.splitlines():
        if line.startswith(preamble.MARK):
            kind, what, detail = json.loads(line.removeprefix(preamble.MARK))
            told[kind][what] = detail
    return Answers(open=told["open"], refused=told["refused"], facts=told["fact"], result=result)


def tell_end(result: CellResult) -> str:
    """How a cell ended, on one line."""
    error = f"{result.error.name}: {result.error.message}" if result.error else ""
    return " ".join(filter(None, (result.status, error, result.text[-200:], *result.notes))).replace("\n", " / ")


def _make_code(cell: str, facts: dict[str, object]) -> str:
    machine = platform.machine()
    numbers = {name: number_of(name, machine) for name in NUMBERS}
    known = {name: number for name, number in numbers.items() if number is not None}
    given = f"NUMBERS = {known!r}\nplanted = SimpleNamespace(**{facts!r})\n"
    return f"{inspect.getsource(preamble)}\n{given}\n{dedent(cell)}"
