"""The line below a step on the page: start, duration, tokens and cost."""

from collections.abc import Mapping
from dataclasses import dataclass

from cua.step import Step
from cua.tool_step import ToolStep
from cua.trajectory.describe import describe_cost, describe_duration, describe_tokens
from cua.trajectory.run_record import RunRecord

STAGES = ("model", "interpret", "guard", "act", "tools", "settle", "observe", "record")
"""Stages that have a colour of their own; any other is `other`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A piece of a time bar: shares of its length in percent."""

    stage: str
    name: str
    start: float
    length: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What a step took, in words; `since_start` and `duration` are "" where they are not known."""

    since_start: str = ""
    duration: str = ""
    tokens: str = ""
    cost: str = ""
    slices: tuple[Slice, ...] = ()


def step_cost(record: RunRecord, step: Step | ToolStep) -> StepCost:
    """What one step of a run took."""
    usage, since_s = step.reply.usage, step.started_at - record.header.started_at
    return StepCost(
        since_start=describe_duration(max(0.0, since_s)) if step.started_at else "",
        duration=describe_duration(sum(step.timings.values())) if step.timings else "",
        tokens=f"{describe_tokens(usage.input_tokens)} in, {describe_tokens(usage.output_tokens)} out",
        cost=describe_cost(usage.cost_usd),
        slices=time_slices(step.timings),
    )


def run_slices(record: RunRecord) -> tuple[Slice, ...]:
    """The time bar of a whole run."""
    totals: dict[str, float] = {}
    for timings in [step.timings for step in record.steps] + [step.timings for step in record.tool_steps]:
        for stage, seconds in timings.items():
            totals[stage] = totals.get(stage, 0.0) + seconds
    return time_slices(totals)


def time_slices(timings: Mapping[str, float]) -> tuple[Slice, ...]:
    """A bar of the stages in their order; nothing for less than a millisecond."""
    total_s = sum(timings.values())
    if total_s < 1e-3:
        return ()
    slices, start = [], 0.0
    rank = {stage: position for position, stage in enumerate(STAGES)}
    for name in sorted(timings, key=lambda stage: rank.get(stage, len(rank))):
        length = 100 * timings[name] / total_s
        stage = name if name in rank else "other"
        slices.append(Slice(stage=stage, name=name, start=start, length=length, text=describe_duration(timings[name])))
        start += length
    return tuple(slices)
