"""Updates of the policy while rollouts run: partial rollouts of the Kimi K2.5 report, Appendix D."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from cua.rollouts.gateway import Gateway
from cua.rollouts.scheduler import RolloutScheduler
from cua.run.control import Control


@asynccontextmanager
async def policy_update(
    scheduler: RolloutScheduler,
    version: int,
    *,
    gateway: Gateway,
    control: Control | None = None,
    mode: Literal["partial", "finish"] = "partial",
) -> AsyncIterator[None]:
    """Pause rollouts while the body replaces the weights; then they go on with the new version.

    Tool calls and evaluations in flight go on; no new call reaches the engine, and no time of running rollouts is
    counted.

    Args:
        scheduler: Scheduler of the rollouts.
        version: New version, set if the body succeeds.
        gateway: Gateway whose calls are held.
        control: Control of the scope of our agents, which wait before their next call, with their clocks stopped. None:
            their calls wait in the gateway.
        mode: `partial`: calls in flight are left to the engine, which goes on with the new weights if the body asks it
            to (`running="pause"`); their tokens keep the log-probabilities and the version that they were sampled with.
            `finish`: the body begins when they have ended.
    """
    scheduler.set_paused(True)
    if control is not None:
        control.pause()
    try:
        async with gateway.paused(finish=mode == "finish"):
            yield
            scheduler.set_version(version)
    finally:
        if control is not None:
            control.resume()
        scheduler.set_paused(False)
