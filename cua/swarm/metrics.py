"""Figures of a swarm: critical steps by the published formula, speed-up, efficiency, idle time. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cua.messages import Usage
from cua.step import ToolStep
from cua.swarm.child import Child, made_calls, own_seconds
from cua.trajectory.run_record import MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmStage:
    """One reply of the orchestrator, with the children that it started.

    Attributes:
        index: Number of the orchestrator's step.
        children: Ids of the children it started.
        longest: Id of the child with the most steps; "" without children.
        steps: Steps of the longest child.
        seconds: Seconds of model and tools of the orchestrator, plus the seconds of the child that was busy longest.
    """

    index: int
    children: tuple[str, ...] = ()
    longest: str = ""
    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmMetrics:
    """Figures of one swarm.

    `critical_steps` is the sum over all stages of 1 + the steps of the stage's longest child. Source: Kimi K2.5
    technical report, section 3. A step is one reply of a model, with the calls that it makes.

    Attributes:
        critical_steps: Critical steps, as defined above.
        total_steps: Steps of the orchestrator and all children.
        step_speedup: Total steps over critical steps.
        num_calls: Tool calls of all agents.
        critical_s: Seconds along the longest branches: a lower bound for any number of parallel children.
        busy_s: Seconds of model and tools, summed over all agents, waits for each other's processor included.
        wall_s: Seconds of work of all processes of the run.
        efficiency: Busy seconds of children over the seconds for which they were held, waiting in the queue included.
        idle_s: Remaining seconds of those: queue, rate limit, waits for a sandbox.
        longest: The longest branch, stage by stage.
        usage: Tokens and cost of all agents.
        by_state: Number of children by state.
    """

    critical_steps: int
    total_steps: int
    step_speedup: float
    num_calls: int
    critical_s: float
    busy_s: float
    wall_s: float
    efficiency: float
    idle_s: float
    longest: tuple[str, ...]
    usage: Usage
    by_state: Mapping[str, int]
    stages: tuple[SwarmStage, ...]

    def to_json(self) -> dict[str, Any]:
        """Return an object of JSON values."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def compute_metrics(steps: Sequence[ToolStep], children: Sequence[Child], *, wall_s: float) -> SwarmMetrics:
    """Return the figures of a swarm, finished or running.

    Args:
        steps: Steps of the orchestrator, without a stage whose calls are still pending.
        children: All children.
        wall_s: Seconds from begin to now.
    """
    stages = _stages(steps, children)
    main_s = sum(own_seconds(step) for step in steps)
    busy_s = main_s + sum(child.busy_s for child in children)
    critical = sum(1 + stage.steps for stage in stages)
    total = len(stages) + sum(child.num_steps for child in children)
    held_s = sum(max(child.ended_at - child.started_at, child.busy_s) for child in children if child.ended_at)
    child_s = sum(child.busy_s for child in children if child.ended_at)
    usage = sum((step.reply.usage for step in steps), sum((child.usage for child in children), Usage()))
    states = [child.state for child in children]
    return SwarmMetrics(
        critical_steps=critical,
        total_steps=total,
        step_speedup=total / critical if critical else 1.0,
        num_calls=sum(map(made_calls, steps)) + sum(child.num_calls for child in children),
        critical_s=sum(stage.seconds for stage in stages),
        busy_s=busy_s,
        wall_s=wall_s,
        efficiency=child_s / held_s if held_s else 1.0,
        idle_s=held_s - child_s,
        longest=tuple(stage.longest for stage in stages if stage.longest),
        usage=usage,
        by_state={state: states.count(state) for state in dict.fromkeys(states)},
        stages=stages,
    )


def _stages(steps: Sequence[ToolStep], children: Sequence[Child]) -> tuple[SwarmStage, ...]:
    tree = _Tree(children)
    by_call = {child.call: child for child in children if child.parent == MAIN}
    stages = []
    for step in steps:
        started = [by_call.pop(outcome.number) for outcome in step.outcomes if outcome.number in by_call]
        stages.append(tree.stage(step.index, started, own_seconds(step)))
    if by_call:  # the current stage
        stages.append(tree.stage(len(steps) + 1, list(by_call.values()), 0.0))
    return tuple(stages)


class _Tree:
    """Children with their own children, measured by the same formula."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._below: dict[str, dict[int, list[Child]]] = {}
        for child in children:
            self._below.setdefault(child.parent, {}).setdefault(child.stage, []).append(child)

    def steps(self, child: Child) -> int:
        """Return the critical steps of a child: its own plus, for each stage, the steps of its longest child."""
        stages = self._below.get(child.id, {}).values()
        return child.num_steps + sum(max(map(self.steps, below)) for below in stages)

    def seconds(self, child: Child) -> float:
        """Return the critical seconds of a child: its own plus, for each stage, the seconds of its longest child."""
        stages = self._below.get(child.id, {}).values()
        return child.busy_s + sum(max(map(self.seconds, below)) for below in stages)

    def stage(self, index: int, started: Sequence[Child], own_s: float) -> SwarmStage:
        """Return the stage of an orchestrator's step and the children that it started."""
        longest = max(started, key=lambda child: (self.steps(child), self.seconds(child)), default=None)
        return SwarmStage(
            index=index,
            children=tuple(child.id for child in started),
            longest=longest.id if longest else "",
            steps=self.steps(longest) if longest else 0,
            seconds=own_s + max((self.seconds(child) for child in started), default=0.0),
        )
