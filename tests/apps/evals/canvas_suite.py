"""A suite for tests of `cua eval`: clicks on a canvas, and tasks that wait while a file is there."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs import Action, Env, EnvDiedError, EnvSpec, StepResult, Suite, Task, TaskSpec, TaskVerdict
from envs.fake import FakeEnv
from envs.suite import Baseline
from envs.target import ActionCheck


class Canvas(FakeEnv):
    """Its steps wait as long as a file is there."""

    def __init__(self, wait_for: str = "") -> None:
        super().__init__()
        self._gate = Path(wait_for) if wait_for else None

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        while self._gate is not None and self._gate.exists():
            await asyncio.sleep(0.02)
        return await super().step(actions, check)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clicks(Task):
    """Score: the share of a seed's number of clicks that were made."""

    instruction: str
    spec: TaskSpec

    async def evaluate(self, env: Any) -> TaskVerdict:
        if self.spec.id == "canvas/broken":
            raise ZeroDivisionError("in the task's own code")
        if self.spec.id == "canvas/exits":
            sys.exit(0)
        if self.spec.id.startswith("canvas/ends-"):
            await end_loop(self.spec.id.removeprefix("canvas/ends-"))
        if self.spec.id == "canvas/closes":
            os.close(1)
        if self.spec.id == "canvas/closes-stream":
            sys.stdout.close()
        if self.spec.id == "canvas/moves":
            move_away()
            await asyncio.sleep(0.2)
        if self.spec.id == "canvas/gone":
            raise EnvDiedError("the <b>world</b> is gone")
        clicks = [action for action in env.actions if getattr(action, "x_px", None) is not None]
        return TaskVerdict(min(1.0, len(clicks) / (self.spec.seed or 1)))


async def end_loop(how: str) -> None:
    """End the event loop from inside."""

    def exit_now() -> None:
        raise KeyboardInterrupt if how == "interrupt" else SystemExit(0)

    loop = asyncio.get_running_loop()
    if how == "cancel":
        for task in asyncio.all_tasks():
            task.cancel()
    elif how == "stop":
        loop.stop()
    else:
        loop.call_soon(exit_now)
    await asyncio.sleep(0.3)


def move_away() -> None:
    """Leave the process in a folder that is not there any more."""
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    folder.rmdir()


def make_env(spec: EnvSpec) -> Env:
    return Canvas(str(spec.options.get("wait_for", "")))


def make_suite(
    wait_for: str = "",
    tasks: int = 3,
    odd: bool = False,
    hostile: bool = False,
    missing: str = "",
    wording: str = "goal",
    first: str = "",
    last: str = "",
) -> Suite:
    """So many tasks; the last one waits while the file is there.

    `odd`: two more that end in errors; `hostile`: one more that exits, and one that cannot be made; `missing`: what the
    first task lacks; `first`, `last`: a task before or behind all others.
    """
    plain = tuple(f"canvas/click-{number}" for number in range(tasks))

    def make_task(task_id: str, seed: int | None) -> Task:
        if task_id == "canvas/damaged":
            raise ValueError("line 3 of its file is torn")
        options = {"wait_for": wait_for} if wait_for and task_id == plain[-1] else {}
        metadata = {"family": "broken" if task_id not in plain else "click"}
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="canvas", options=options), metadata=metadata)
        return Clicks(instruction=f"Click {seed} times", spec=spec)

    return Suite(
        name="canvas",
        about="clicks",
        task_ids=(
            *((first,) if first else ()),
            *plain,
            *(("canvas/broken", "canvas/gone") if odd else ()),
            *(("canvas/exits", "canvas/damaged") if hostile else ()),
            *((last,) if last else ()),
        ),
        find_unavailable=lambda task_ids: {plain[0]: missing} if missing else {},
        make_task=make_task,
        make_env=make_env,
        seeds=(1, 2),
        revision="7",
        max_steps=5,
        max_time_s=60.0,
        steps_option="wording=steps" if wording == "goal" else "",
        baselines={"null": Baseline(score=0.125, num_episodes=6, command="cua eval canvas --baseline null")},
    )
