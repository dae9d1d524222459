"""Where a tool-using run is written down: the interface, and a record that keeps nothing."""

from collections.abc import Sequence
from typing import Any, Protocol

from cua.messages import Part, Reply, ToolCall
from cua.run.end import RunResult
from cua.tool_step import ToolStep


class ToolRecord(Protocol):
    """Takes each fact of a run as soon as it is known."""

    @property
    def shown_dir(self) -> str | None:
        """The run's folder as text; None when nothing is kept."""

    def asked(self, question: Sequence[Part]) -> None:
        """The run begins with this question. On disk before the model sees it."""

    def replied(self, index: int, reply: Reply) -> None:
        """The model answered."""

    def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """These calls are about to be carried out. On disk before the first of them is."""

    def called(self, step: ToolStep) -> None:
        """The step is finished."""

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Something that is not a step."""

    def ended(self, result: RunResult) -> None:
        """The run is over."""


class NoToolRecord:
    """Keeps nothing; for throw-away runs."""

    shown_dir: str | None = None

    def asked(self, question: Sequence[Part]) -> None:
        """Forget it."""

    def replied(self, index: int, reply: Reply) -> None:
        """Forget it."""

    def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """Forget it."""

    def called(self, step: ToolStep) -> None:
        """Forget it."""

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Forget it."""

    def ended(self, result: RunResult) -> None:
        """Forget it."""
