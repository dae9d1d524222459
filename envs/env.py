"""The contract between an agent and its environment: the env owns the machine, the task owns the goal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envs.actions import Action, Terminate
from envs.observation import Observation, StepResult
from envs.target import Check, Target


class Env(Protocol):
    """A screen that can be looked at and acted on. `envs.check_env` checks this contract.

    One env runs one episode at a time: `reset` may be called again, `close` may be called twice.

    Attributes:
        terminate: The `Terminate` action that ended the current episode, else None.
            `Task.evaluate` reads the agent's answer here.
    """

    terminate: Terminate | None

    async def reset(self, task: "Task") -> Observation:
        """Start the environment if need be, bring it to a clean state, run `task.setup(self)`, and look.

        Raises:
            EnvSetupError: The environment could not be started.
        """
        ...

    async def step(self, actions: Sequence[Action], check: Check | None = None) -> StepResult:
        """Carry out actions in order and look once the screen has settled.

        The first action that fails ends the step: its text is `last_action_error`, the rest is
        not carried out. A `Terminate` sets `terminate` and `terminated`. A step that is cancelled
        begins no further action, and the env can be used on.

        Args:
            actions: What to do.
            check: Asked right before each input that activates something, with what it activates then; an
                earlier action of the same step may have changed that. What it objects to is not carried out
                and counts as an action that failed.

        Raises:
            EnvDiedError: The environment is gone.
        """
        ...

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """What an action would activate if it were carried out now.

        The element under the pointer for the mouse; for keys the focused element, the default button of
        its form, the open dialog. Empty: nothing. `UNKNOWN` or a window: something that cannot be told.
        """
        ...

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """What would get a click there, for guards and reports; None if unknown.

        An element where the env knows it (`button "Delete"`, `link "Next" -> https://...`), else the
        window around it (`window "Title"`).
        """
        ...

    async def close(self) -> None:
        """Stop everything that this env started. Never raises because something is gone already."""
        ...


class Task(Protocol):
    """A goal: how to prepare an environment for it and how to tell whether it was reached."""

    @property
    def instruction(self) -> str:
        """What the agent is told."""
        ...

    async def setup(self, env: Any) -> None:
        """Prepare the environment (open a page, write files)."""
        ...

    async def evaluate(self, env: Any) -> float | None:
        """Score in [0, 1] from the state of the environment; None when this task cannot tell."""
        ...

    async def teardown(self, env: Any) -> None:
        """Undo what `setup` did outside the env."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTask:
    """A task that somebody typed: nothing to prepare, nothing to verify."""

    instruction: str

    async def setup(self, env: Any) -> None:
        """Nothing to prepare."""

    async def evaluate(self, env: Any) -> float | None:
        """No verdict: only the person who typed the instruction knows."""
        return None

    async def teardown(self, env: Any) -> None:
        """Nothing to undo."""
