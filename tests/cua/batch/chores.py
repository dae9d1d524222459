"""A suite as a user writes it, with an env of its own; loaded by path in several processes."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs import Action, Env, EnvSpec, Observation, StepResult, Suite, Task, TaskSpec, TaskVerdict
from envs.fake import FakeEnv, FakeOptions
from envs.target import ActionCheck

ENV = EnvSpec(name="canvas")


class Canvas(FakeEnv):
    """Knows where its process is, so that a test can end it."""

    async def reset(self, task: Task) -> Observation:
        self.task = task
        return await super().reset(task)

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        print("a task's print is no answer")
        return await super().step(actions, check)

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """The right half deletes as soon as something was clicked."""
        return 'button "Delete all"' if x_px >= 160 and self.actions else 'button "Next"'


@dataclass(slots=True)
class Click(Task):
    """Clicked in the left half, by a seed's number of clicks."""

    instruction: str
    spec: TaskSpec
    warnings: list[str] = field(default_factory=list)

    async def setup(self, env: Any) -> None:
        self.instruction = f"Click {self.spec.seed} times"  # known only now
        self.warnings = ["set up"]

    async def evaluate(self, env: Any) -> TaskVerdict:
        self.warnings.append("judged")
        if self.spec.id == "click/broken":
            raise ZeroDivisionError("in the task's own code")
        if self.spec.id == "click/dying":
            os.kill(os.getpid(), signal.SIGKILL)
        clicks = [action for action in env.actions if getattr(action, "x_px", None) is not None]
        score = min(1.0, len(clicks) / max(1, self.spec.seed or 1))
        return TaskVerdict(score, other_scores={"half": score / 2, "too much": 2.0})


def make_env(spec: EnvSpec) -> Env:
    return Canvas(FakeOptions(has_generations=True))


def make_suite(log: str | None = None) -> Suite:
    def make_task(task_id: str, seed: int | None) -> Task:
        if log is not None:
            with Path(log).open("a") as file:
                file.write(f"{task_id} {seed}\n")
        return Click("Click", TaskSpec(id=task_id, seed=seed, env=ENV, metadata={"family": "click"}))

    return Suite(
        name="chores",
        about="Clicks on a canvas",
        task_ids=("click/left", "click/right", "click/broken"),
        make_task=make_task,
        make_env=make_env,
        seeds=(1, 2),
        revision="1",
    )
