"""Where a run is written down: the interface, and a record that keeps nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cua.messages import Reply
from cua.run.end import RunResult
from cua.step import Step, Turn
from envs import Action, Observation


class Record(Protocol):
    """Takes each fact of a run as soon as it is known, in this order within a step."""

    def observed(self, index: int, observation: Observation) -> None:
        """Step `index` begins with this observation."""

    def replied(self, index: int, reply: Reply) -> None:
        """The model answered; there may be several answers to a step."""

    def acting(self, index: int, turn: Turn, actions: Sequence[Action]) -> None:
        """These actions are about to be carried out. On disk before the first of them is."""

    def acted(self, step: Step, reward: float, info: Mapping[str, Any]) -> None:
        """The step is finished."""

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Something that is not a step."""

    def ended(self, result: RunResult) -> None:
        """The run is over."""


class NoRecord:
    """Keeps nothing; for throw-away runs."""

    def observed(self, index: int, observation: Observation) -> None:
        """Forget it."""

    def replied(self, index: int, reply: Reply) -> None:
        """Forget it."""

    def acting(self, index: int, turn: Turn, actions: Sequence[Action]) -> None:
        """Forget it."""

    def acted(self, step: Step, reward: float, info: Mapping[str, Any]) -> None:
        """Forget it."""

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Forget it."""

    def ended(self, result: RunResult) -> None:
        """Forget it."""
