"""Serial collapse and its cure: a table of an orchestrator's decisions, trained by the policy loss and the PARL reward.

    python -m examples.serial_collapse [--seeds 6] [--iterations 600] [--figure FILE.png]

An episode has 24 critical steps. A wide task has 12 items and a chain 6; the orchestrator's own work takes four steps
an item, so that it can do half of a wide task and all of a chain. It may also start 2, 4 or 8 sub-agents with one of 64
prompts. With one prompt, a sub-agent does an item of a wide task in 3 to 6 steps (in 95 % of cases); with another, it
returns at once without a result; with the others, and in a chain, it works 6 steps in vain. The table begins as a
model trained as a single agent: 13 % of its decisions start sub-agents. A good prompt is found by chance, and until
then every start costs more than it brings.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model_runtime.training.parl import ParlReward
from model_runtime.training.policy_loss import PolicyBatch, PolicyLossOptions, compute_policy_loss

BUDGET = 24  # critical steps
ITEMS = np.array([12, 6])  # of a wide task, of a chain
STEPS_PER_ITEM = 4
SPAWNS = np.array([0, 2, 4, 8])  # sub-agents by action; 0 is the orchestrator's own work
SINGLE_AGENT_LOGIT = 3.0
SUCCESS = 0.95
WANDERING = 6  # steps of a sub-agent that works in vain
GROUP = 16
LEARNING_RATE = 30.0
GOOD, EMPTY = 0, 1  # prompts


@dataclass(frozen=True, slots=True)
class Episodes:
    """A group of wide tasks and a group of chains; decisions are (stages, episodes)."""

    kinds: NDArray[np.int64]
    left: NDArray[np.int64]
    actions: NDArray[np.int64]
    prompts: NDArray[np.int64]
    is_taken: NDArray[np.bool_]
    num_spawned: NDArray[np.int64]
    num_finished: NDArray[np.int64]
    score: NDArray[np.float64]


class Orchestrator:
    """Softmax tables: the action by kind of task and items left, the prompt by kind of task."""

    def __init__(self, num_prompts: int) -> None:
        self.actions = torch.zeros(len(ITEMS), max(ITEMS) + 1, len(SPAWNS))
        self.actions[:, :, 0] = SINGLE_AGENT_LOGIT
        self.prompts = torch.zeros(len(ITEMS), num_prompts)
        self.tables = (self.actions.requires_grad_(), self.prompts.requires_grad_())

    def play(self, rng: np.random.Generator) -> Episodes:
        """Play an episode of each member of both groups."""
        actions, prompts = (table.detach().softmax(-1).double().numpy() for table in self.tables)
        kinds = np.repeat(np.arange(len(ITEMS)), GROUP)
        left, steps, work = ITEMS[kinds].copy(), np.zeros(len(kinds), int), np.zeros(len(kinds), int)
        num_spawned, num_finished = np.zeros(len(kinds), int), np.zeros(len(kinds), int)
        stages = []
        while (is_active := (steps < BUDGET) & (left > 0)).any():
            action, prompt = _draw(actions[kinds, left], rng), _draw(prompts[kinds], rng)
            stages.append((left.copy(), action, prompt, is_active))
            spawned = np.where(is_active, SPAWNS[action], 0)
            is_own = is_active & (spawned == 0)
            steps, work = steps + is_active, work + is_own
            is_done = is_own & (work % STEPS_PER_ITEM == 0)
            found, slowest = _run_sub_agents(spawned, prompt, kinds, BUDGET - steps, rng)
            steps, left = steps + slowest, np.maximum(left - is_done - found, 0)
            num_spawned, num_finished = num_spawned + spawned, num_finished + found
        items, action, prompt, is_taken = (np.stack(column) for column in zip(*stages, strict=True))
        score = 1.0 - left / ITEMS[kinds]
        return Episodes(kinds, items, action, prompt, is_taken, num_spawned, num_finished, score)

    def find_logprobs(self, played: Episodes) -> Tensor:
        """Return the log-probabilities of all decisions: actions, then prompts; of those not taken, too."""
        kinds = torch.from_numpy(np.broadcast_to(played.kinds, played.left.shape).copy())
        left, actions, prompts = map(torch.from_numpy, (played.left, played.actions, played.prompts))
        of_actions = self.actions.log_softmax(-1)[kinds, left, actions]
        return torch.cat((of_actions.flatten(), self.prompts.log_softmax(-1)[kinds, prompts].flatten()))


def _draw(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    bounds = shares.cumsum(-1)[:, :-1]  # without the last: its sum may be slightly below 1
    drawn: NDArray[np.int64] = (bounds < rng.random((len(shares), 1))).sum(-1)
    return drawn


def _run_sub_agents(
    spawned: NDArray[np.int64],
    prompt: NDArray[np.int64],
    kinds: NDArray[np.int64],
    max_steps: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sub-agents that finished within the budget, and the steps of the slowest."""
    shape = (len(spawned), max(SPAWNS))
    is_there = np.arange(shape[1]) < spawned[:, None]
    is_good = ((prompt == GOOD) & (kinds == 0))[:, None]
    is_able = is_good & (rng.random(shape) < SUCCESS)
    steps = np.where(is_good, rng.integers(3, 7, shape), np.where(prompt == EMPTY, 1, WANDERING)[:, None])
    slowest = (steps * is_there).max(-1)
    return (is_there & is_able & (steps <= max_steps[:, None])).sum(-1), slowest


def make_batch(played: Episodes, rewards: NDArray[np.float64], logprobs: Tensor) -> PolicyBatch:
    """Return the decisions of a group of each kind with their advantages."""
    means = rewards.reshape(-1, GROUP).mean(-1).repeat(GROUP)
    mask = np.concatenate((played.is_taken, played.is_taken & (played.actions > 0))).flatten()
    advantages = np.tile(rewards - means, 2 * len(played.left))
    return PolicyBatch(
        ids=torch.from_numpy(np.concatenate((played.actions, played.prompts)).flatten()),
        mask=torch.from_numpy(mask),
        old_logprobs=logprobs.detach(),
        advantages=torch.from_numpy(advantages).float(),
        lengths=(len(mask),),
        num_tokens=float(mask.sum()),
    )


def train(
    reward: ParlReward, *, seed: int, iterations: int, num_prompts: int = 64, is_annealed: bool = True
) -> NDArray[np.float64]:
    """Train a new orchestrator.

    Returns:
        (iterations, 4): mean score of wide tasks and of chains, mean sub-agents of wide tasks and of chains.
    """
    rng, policy, curve = np.random.default_rng(seed), Orchestrator(num_prompts), []
    options = PolicyLossOptions()
    for _ in range(iterations):
        played = policy.play(rng)
        rewards = [
            reward.compute(score, num_spawned=int(spawned), num_finished=int(finished))
            for score, spawned, finished in zip(played.score, played.num_spawned, played.num_finished, strict=True)
        ]
        logprobs = policy.find_logprobs(played)
        loss = compute_policy_loss(logprobs, make_batch(played, np.array(rewards), logprobs), options)
        gradients = torch.autograd.grad(loss, policy.tables)
        with torch.no_grad():
            for table, gradient in zip(policy.tables, gradients, strict=True):
                table -= LEARNING_RATE * gradient
        if is_annealed and played.num_spawned.any():
            reward.update(float(played.num_finished.sum() / played.num_spawned.sum()))
        groups = [values.reshape(-1, GROUP).mean(-1) for values in (played.score, played.num_spawned)]
        curve.append(np.concatenate(groups))
    return np.stack(curve)


RUNS = ("outcome only", "PARL, weights fall with the finish rate", "PARL, constant weights")


def train_all(run: str, seeds: int, iterations: int) -> NDArray[np.float64]:
    """Train one of `RUNS` with several seeds: (seeds, iterations, 4)."""
    weight = 0.0 if run == RUNS[0] else 0.3
    return np.stack(
        [
            train(
                ParlReward(parallel_weight=weight, finish_weight=weight, reference=12),
                seed=seed,
                iterations=iterations,
                is_annealed=run != RUNS[2],
            )
            for seed in range(seeds)
        ]
    )


def draw(curves: dict[str, NDArray[np.float64]], path: Path) -> None:
    """Draw scores of wide tasks and sub-agents of both kinds, a thin line for each seed."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for number, (name, values) in enumerate(curves.items()):
        for axis, column in zip(axes, (0, 2, 3), strict=True):
            smooth = np.stack([np.convolve(line, np.full(15, 1 / 15), "valid") for line in values[:, :, column]])
            axis.plot(smooth.T, color=f"C{number}", alpha=0.25, linewidth=0.8)
            axis.plot(smooth.mean(0), color=f"C{number}", label=name)
    titles = ("score of wide tasks", "sub-agents in wide tasks", "sub-agents in chains")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(title=title, xlabel="iteration")
    axes[1].legend(loc="center right", fontsize="small")
    figure.savefig(path, dpi=110)


def summarize(curve: NDArray[np.float64]) -> Sequence[float]:
    """Return the number of seeds above 0.9 in wide tasks, and the means of the last 20 iterations."""
    ends = curve[:, -20:].mean(1)
    return [int((ends[:, 0] > 0.9).sum()), *ends.mean(0).tolist()]


def main() -> None:
    """Train all runs, print a table and draw the curves."""
    parser = argparse.ArgumentParser(prog="python -m examples.serial_collapse")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--figure", type=Path)
    flags = parser.parse_args()
    curves = {}
    print("| run | seeds > 0.9 | wide | chain | sub-agents wide | chain |")
    for run in RUNS:
        curves[run] = train_all(run, flags.seeds, flags.iterations)
        count, *means = summarize(curves[run])
        print(f"| {run} | {count}/{flags.seeds} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)
    if flags.figure:
        draw(curves, flags.figure)


if __name__ == "__main__":
    main()
