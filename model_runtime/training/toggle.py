"""Toggle: rewards that alternate between a limit of tokens and none.

Source: Kimi K2.5 report, section 4.4.2, "Token efficient reinforcement learning", and equation 2. In iteration t, with
phase = floor(t / m) mod 2:

    phase 0:  reward * 1{ mean reward of the group < lambda, or tokens <= budget(x) }
    phase 1:  reward
    budget(x) = rho-th percentile of the tokens of correct tries at x, estimated once at the beginning

The report does not publish lambda, m and rho. It is silent on three points. A problem without a correct try has no
limit. The length of a try that was cut off is only a lower bound: it is left out of the budget, and excluded from a
limited group if the answer depends on it. A group has the phase of its submission, not of its last try.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model_runtime.training.policy_loss import PolicyRollout


@dataclass(frozen=True, slots=True, kw_only=True)
class ToggleOptions:
    """Constants of Toggle.

    Attributes:
        iterations: Iterations of a phase, m.
        min_mean: Mean reward of a group from which the budget applies, lambda.
        percentile: Percentile of the correct tries' lengths, rho, in [0, 100].
        correct: Reward from which a try is correct; the report has rewards of 0 and 1.
    """

    iterations: int
    min_mean: float
    percentile: float
    correct: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A try at a problem, as Toggle sees it.

    Attributes:
        reward: Reward in [0, 1].
        num_tokens: Generated tokens, without results of tools.
        is_truncated: True if a limit cut it off, so that `num_tokens` is a lower bound.
    """

    reward: float
    num_tokens: int
    is_truncated: bool = False


def count_generated(rollout: PolicyRollout) -> int:
    """Return the number of generated tokens of a rollout."""
    return sum(int(branch.mask.sum()) for branch in rollout.branches)


def estimate_budget(tries: Iterable[Try], options: ToggleOptions) -> float:
    """Return equation 2, interpolated linearly between lengths; infinite without a correct, complete try."""
    lengths = [each.num_tokens for each in tries if each.reward >= options.correct and not each.is_truncated]
    return float(np.percentile(lengths, options.percentile)) if lengths else math.inf


@dataclass(frozen=True, slots=True)
class TogglePhase:
    """Phase and budget of a group, fixed at its submission."""

    is_limited: bool
    budget: float
    min_mean: float

    def shape_rewards(self, tries: Sequence[Try]) -> list[float | None]:
        """Return the rewards of a group after Toggle, from whose mean the advantages are computed.

        None excludes a try: it was cut off below the budget, so its length is unknown.
        """
        rewards = [each.reward for each in tries]
        if not self.is_limited or not tries or math.fsum(rewards) / len(rewards) < self.min_mean:
            return list(rewards)
        return [self._limit(each) for each in tries]

    def _limit(self, given: Try) -> float | None:
        if given.num_tokens > self.budget:
            return 0.0
        return None if given.is_truncated and given.reward and math.isfinite(self.budget) else given.reward


class TokenToggle:
    """Budgets of the problems of a training, in a file.

    Args:
        path: File of the budgets, next to the checkpoint; read if it exists.
        options: Constants.
    """

    def __init__(self, path: Path, options: ToggleOptions) -> None:
        self.path, self.options = path, options
        saved: dict[str, float | None] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self._budgets = {problem: math.inf if budget is None else budget for problem, budget in saved.items()}

    def estimate(self, problem: str, tries: Iterable[Try]) -> float:
        """Estimate a problem's budget from tries of the initial policy, and save it.

        Raises:
            ValueError: If it has one: a budget is estimated once.
        """
        if problem in self._budgets:
            raise ValueError(f"the budget of {problem!r} has been estimated: {self._budgets[problem]}")
        budget = self._budgets[problem] = estimate_budget(tries, self.options)
        saved = {name: value if math.isfinite(value) else None for name, value in self._budgets.items()}
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(json.dumps(saved, indent=1), "utf-8")
        new.replace(self.path)
        return budget

    def begin_group(self, problem: str, iteration: int) -> TogglePhase:
        """Return the phase of a group that is submitted in an iteration of the optimizer.

        Raises:
            KeyError: If the problem has no budget.
        """
        is_limited = iteration // self.options.iterations % 2 == 0
        return TogglePhase(is_limited, self._budgets[problem], self.options.min_mean)
