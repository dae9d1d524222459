"""Run the checks against a sandbox and say how each ended."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from visual_tools.errors import VisualError
from visual_tools.sandbox.check.canaries import plant
from visual_tools.sandbox.check.checks import CHECKS
from visual_tools.sandbox.check.context import LIMITS, Check, CheckContext, CheckFailed, CheckOutcome
from visual_tools.sandbox.contract import KernelMaker

Say = Callable[[str], None]
MakeSandbox = Callable[[], Awaitable[KernelMaker]]

_NUM_OWN_AT_ONCE = 6


async def check_sandbox(
    make: MakeSandbox | KernelMaker, *, say: Say | None = None, checks: Sequence[Check] = CHECKS
) -> list[CheckOutcome]:
    """Try to break out of a sandbox, to use up the machine, and to find it wanting.

    Files, listeners, a process and a secret are planted outside; code runs in real kernels and goes for them. An attack
    that succeeds does no harm beyond what was planted for it: bombs stop at a few times the limit, calls that would
    change the machine are made such that they fail after the permission check.

    Args:
        make: Makes the sandbox, after the secret is planted; it is closed in the end. Or a sandbox, which stays open
            and whose processes do not know the secret if it was started before.
        say: Gets one line for each check as it ends.
        checks: Which ones.

    Returns:
        One outcome for each, in the order of `checks`.

    Raises:
        SandboxError: Not even the first kernels can be made.
    """
    outcomes: dict[str, CheckOutcome] = {}

    async def report(check: Check, context: CheckContext) -> None:
        outcome = outcomes[check.name] = await _run_check(check, context)
        if say is not None:
            say(f"{'ok  ' if outcome.passed else 'FAIL'} {check.kind:<9}  {check.name} ({outcome.duration_s:.1f} s)")

    async with _open_context(make) as context:
        gate = asyncio.Semaphore(_NUM_OWN_AT_ONCE)

        async def in_turn() -> None:
            for check in checks:
                if check.place == "shared":
                    await report(check, context)

        async def through_gate(check: Check) -> None:
            async with gate:
                await report(check, context)

        async with asyncio.TaskGroup() as group:
            group.create_task(in_turn())
            for check in checks:
                if check.place == "own":
                    group.create_task(through_gate(check))
        for check in checks:
            if check.place == "alone":
                await report(check, context)
    return [outcomes[check.name] for check in checks]


async def _run_check(check: Check, context: CheckContext) -> CheckOutcome:
    started, passed = time.monotonic(), False
    try:
        detail = await check.function(context) or ""
        passed = True
    except CheckFailed as error:
        detail = str(error)
    except (VisualError, OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        detail = f"the sandbox raised {type(error).__name__}: {error}"
    took_s = time.monotonic() - started
    return CheckOutcome(name=check.name, kind=check.kind, passed=passed, detail=detail, duration_s=took_s)


@contextlib.asynccontextmanager
async def _open_context(make: MakeSandbox | KernelMaker) -> AsyncIterator[CheckContext]:
    async with contextlib.AsyncExitStack() as stack:
        canaries = stack.enter_context(plant())
        if callable(make):
            maker = await make()
            stack.push_async_callback(maker.close)
        else:
            maker = make
        shared, neighbour = [
            await maker.make_kernel(canaries.base / name, limits=LIMITS) for name in ("shared", "neighbour")
        ]
        stack.push_async_callback(shared.close)
        stack.push_async_callback(neighbour.close)
        yield CheckContext(maker=maker, canaries=canaries, shared=shared, neighbour=neighbour)
