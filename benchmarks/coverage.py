"""Coverage of the intervals that `cua eval` prints: how often an interval "at 95 %" holds the true score.

    python -m benchmarks.coverage            # about 15 minutes on an idle machine; --draws 100 for a rough look

Evaluations are drawn with a known true score: tasks that are alike, that differ in difficulty, or that are all or
nothing, and scores between 0 and 1, each with 1 to 4 seeds and true scores from 0.1 to 0.9. The column `t` is the usual
interval of Student's t over the means of tasks, `boot` the percentile bootstrap over tasks, from the same draws.
"""

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from apps.evals.statistics import Interval, difference_interval, mean_interval

Array = NDArray[np.float64]
NUM_TASKS = (3, 5, 10, 30, 100, 361)
SEEDS = (1, 2, 3, 4)
RATES = tuple(number / 10 for number in range(1, 10))
PAIRS = ((0.1, 0.1), (0.5, 0.5), (0.3, 0.4), (0.5, 0.7), (0.8, 0.95), (0.2, 0.8))
NUM_BOOTSTRAPS = 200
QUANTILES = np.linspace(0, 1, 20_001)


@lru_cache
def quantiles(rate: float, concentration: float) -> Array:
    """Quantiles of a Beta distribution with this mean."""
    found: Array = stats.beta.ppf(QUANTILES, rate * concentration, (1 - rate) * concentration)
    return found


@lru_cache
def student(freedom: int) -> float:
    """Two-sided quantile of Student's t at 95 %."""
    return float(stats.t.ppf(0.975, freedom))


@dataclass(frozen=True, slots=True)
class Population:
    """A way in which tasks and scores vary.

    Attributes:
        name: As the table shows it.
        concentration: Of the Beta distribution of the success rates of tasks: infinite for tasks that are alike, 0 for
            tasks that always succeed or always fail.
        is_graded: Scores are Beta-distributed around the rate instead of 0 or 1.
    """

    name: str
    concentration: float
    is_graded: bool = False

    def draw(self, rng: np.random.Generator, rate: float, shape: tuple[int, int], *, places: Array) -> Array:
        """Scores of tasks and seeds with this mean; `places` are the quantiles of the tasks' rates."""
        if self.concentration == 0:
            rates = (places < rate).astype(float)
        elif np.isinf(self.concentration):
            rates = np.full(shape[0], rate)
        else:
            rates = np.interp(places, QUANTILES, quantiles(rate, self.concentration))
        rates = np.broadcast_to(rates[:, None], shape)
        if not self.is_graded:
            return (rng.random(shape) < rates).astype(float)
        return rng.beta(np.maximum(rates * 4, 1e-9), np.maximum((1 - rates) * 4, 1e-9))


POPULATIONS = (
    Population("alike", np.inf),
    Population("mixed", 3),
    Population("spread", 0.7),
    Population("all or nothing", 0),
    Population("graded", np.inf, is_graded=True),
    Population("graded, mixed", 3, is_graded=True),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """Coverage and mean width at one point of the grid."""

    ours: float
    width: float
    student: float
    bootstrap: float


def measure(
    draw: Callable[[], Array], truth: float, interval: Callable[[list[list[float]]], Interval | None], num_runs: int
) -> Cell:
    """Coverage over that many draws.

    Args:
        draw: Gives scores or differences, tasks by seeds.
        truth: Their true mean.
        interval: Ours.
        num_runs: Draws.
    """
    rng = np.random.default_rng(1)
    hits, widths = np.zeros(3), 0.0
    for _ in range(num_runs):
        scores = draw()
        found = interval(scores.tolist())
        assert found is not None and found.high > found.low
        means = scores.mean(axis=1)
        half = student(len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
        drawn = means[rng.integers(0, len(means), (NUM_BOOTSTRAPS, len(means)))].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        tiny = 1e-9
        hits += [
            found.low - tiny <= truth <= found.high + tiny,
            abs(means.mean() - truth) <= half + tiny,
            low - tiny <= truth <= high + tiny,
        ]
        widths += found.high - found.low
    return Cell(hits[0] / num_runs, widths / num_runs, hits[1] / num_runs, hits[2] / num_runs)


def means_of(num_tasks: int, num_runs: int) -> list[Cell]:
    """The grid of mean scores for one number of tasks."""

    def draw(population: Population, rate: float, seeds: int, rng: np.random.Generator) -> Array:
        return population.draw(rng, rate, (num_tasks, seeds), places=rng.random(num_tasks))

    cells = []
    for number, (population, seeds, rate) in enumerate(itertools.product(POPULATIONS, SEEDS, RATES)):
        rng = np.random.default_rng([num_tasks, number])
        cells.append(measure(partial(draw, population, rate, seeds, rng), rate, mean_interval, num_runs))
    return cells


def differences_of(num_tasks: int, num_runs: int) -> list[Cell]:
    """The grid of paired differences: half of it with tasks that are hard for both, half with unrelated ones."""

    def draw(
        population: Population, pair: tuple[float, float], seeds: int, is_related: bool, rng: np.random.Generator
    ) -> Array:
        places = rng.random(num_tasks)
        others = places if is_related else rng.random(num_tasks)
        before = population.draw(rng, pair[0], (num_tasks, seeds), places=places)
        return population.draw(rng, pair[1], (num_tasks, seeds), places=others) - before

    cells = []
    for number, (population, seeds, pair, is_related) in enumerate(
        itertools.product(POPULATIONS, SEEDS, PAIRS, (True, False))
    ):
        rng = np.random.default_rng([num_tasks, number])
        draws = partial(draw, population, pair, seeds, is_related, rng)
        cells.append(measure(draws, pair[1] - pair[0], difference_interval, num_runs))
    return cells


def main() -> None:
    """Print the tables."""
    grids = {"means": means_of, "differences": differences_of}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=grids, help="one of the two tables")
    parser.add_argument("--draws", type=int, default=1000, help="evaluations at each point; fewer above 30 tasks")
    given = parser.parse_args()
    for name in [given.only] if given.only else grids:
        print(f"\n{name}\n\n| tasks | coverage | lowest | 10 % are below | width | t | boot |")
        print("|---|---|---|---|---|---|---|")
        for num_tasks in NUM_TASKS:
            cells = grids[name](num_tasks, max(20, min(given.draws, 30 * given.draws // num_tasks)))
            ours = 100 * np.array([cell.ours for cell in cells])
            peers = [100 * np.mean([getattr(cell, name) for cell in cells]) for name in ("student", "bootstrap")]
            print(
                f"| {num_tasks} | {ours.mean():.1f} % | {ours.min():.0f} % | {np.quantile(ours, 0.1):.0f} % "
                f"| {100 * np.mean([cell.width for cell in cells]):.1f} points | {peers[0]:.1f} % | {peers[1]:.1f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
