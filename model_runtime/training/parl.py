"""Reward of parallel-agent reinforcement learning (PARL), for the orchestrator of a swarm.

Source: Kimi K2.5 report, section 3:

    reward = lambda1 * r_parallel + lambda2 * r_finish + r_perf
    critical steps = sum over stages of (steps of the orchestrator + maximum of the stage's sub-agents)

Only the orchestrator is trained; sub-agents are frozen, and their reports are observations. The first reward prevents
serial collapse, in which the orchestrator never starts a sub-agent; the second prevents sub-agents that are started for
the first. Both weights are annealed to zero, and training and evaluation have a budget of critical steps. The report
has neither the formula of r_parallel, nor the weights, nor their schedule; those here are this project's own:
`examples/serial_collapse.py` shows why the weights must not fall before a decomposition has been found.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_FINISH = 0.8
"""Mean finish rate at which the auxiliary rewards end."""
FINISH_RANGE = 0.5
"""Range of the mean finish rate, below `MAX_FINISH`, in which they fall."""


def find_parallel_reward(num_spawned: int, reference: int = 8) -> float:
    """Return the reward for sub-agents: their share of a reference number, at most 1."""
    return min(1.0, num_spawned / reference)


def find_finish_rate(num_finished: int, num_assigned: int) -> float:
    """Return the share of assignments that ended by themselves with a result that was accepted; 0 without any."""
    return num_finished / num_assigned if num_assigned else 0.0


def count_critical_steps(stages: Sequence[tuple[int, Sequence[int]]]) -> int:
    """Return the critical steps of stages, each the orchestrator's steps and the steps of each of its sub-agents."""
    return sum(own + max(of_children, default=0) for own, of_children in stages)


@dataclass(slots=True)
class ParlReward:
    """Reward with weights that fall with progress.

    Both weights are multiplied by the minimum, over all updates, of clip((0.8 - m) / 0.5, 0, 1), where m is the moving
    average of the finish rate: they fall as assignments succeed, and never rise again.

    Attributes:
        parallel_weight: Initial weight of the parallel reward, lambda1.
        finish_weight: Initial weight of the finish rate, lambda2.
        reference: See `find_parallel_reward`.
        decay: Decay of the moving average.
        finish_mean: Moving average of the finish rate, starting at 0.
        share: Current share of the initial weights.
    """

    parallel_weight: float = 0.3
    finish_weight: float = 0.3
    reference: int = 8
    decay: float = 0.95
    finish_mean: float = 0.0
    share: float = 1.0

    def compute(self, performance: float, *, num_spawned: int, num_finished: int) -> float:
        """Return the reward of an episode; each sub-agent has one assignment."""
        parallel = self.parallel_weight * find_parallel_reward(num_spawned, self.reference)
        finish = self.finish_weight * find_finish_rate(num_finished, num_spawned)
        return performance + self.share * (parallel + finish)

    def update(self, finish_rate: float) -> None:
        """Update the weights by the finish rate of an iteration's episodes."""
        self.finish_mean += (1 - self.decay) * (finish_rate - self.finish_mean)
        self.share = min(self.share, max(0.0, (MAX_FINISH - self.finish_mean) / FINISH_RANGE))
