"""Carries out the tool calls of one reply: the guard first, then all of them at the same time."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from cua.guard import Guard
from cua.guard.calls import check_call
from cua.messages import ToolCall, ToolResult
from cua.run.scope import RunScope
from cua.tool_step import CallOutcome
from cua.tools.toolset import Toolset, failed

NO_MORE_CALLS = "This call was not made: the run's limit of tool calls is reached."


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Runs calls.

    Attributes:
        returned: Told each outcome as soon as it is there, in order of time.
    """

    toolset: Toolset
    guard: Guard
    scope: RunScope
    is_isolated: bool
    returned: Callable[[CallOutcome], None]

    async def run(self, calls: Sequence[ToolCall], first_number: int) -> tuple[CallOutcome, ...]:
        """All outcomes, in the order of the calls. A person is asked about one call after the other.

        Raises:
            SandboxError: Code cannot be run any more.
            StoppedError: A person stopped the run.
            CapReachedError: The time is used up.
        """
        num_granted = self.scope.budget.take_calls(len(calls))
        refusals = [await self.scope.control.unless_stopped(self._refusal(call)) for call in calls[:num_granted]]
        refusals += [NO_MORE_CALLS] * (len(calls) - num_granted)
        work = [
            self._one(call, number, refusal)
            for number, (call, refusal) in enumerate(zip(calls, refusals, strict=True), start=first_number)
        ]
        return tuple(await self.scope.control.unless_stopped(_all(work)))

    async def _refusal(self, call: ToolCall) -> str | None:
        verdict = await check_call(self.guard, call, is_isolated=self.is_isolated)
        return None if verdict.decision == "allow" else f"This call was refused: {verdict.reason}"

    async def _one(self, call: ToolCall, number: int, refusal: str | None) -> CallOutcome:
        started = time.monotonic()
        result: ToolResult = failed(refusal) if refusal else await self.toolset.call(call)
        outcome = CallOutcome(number=number, call=call, result=result, duration_s=time.monotonic() - started)
        self.returned(outcome)
        return outcome


async def _all(work: Sequence[Coroutine[Any, Any, CallOutcome]]) -> list[CallOutcome]:
    """Await all; when one fails for good the others are cancelled."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
