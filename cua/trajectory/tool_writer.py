"""Writes the record of a tool-using run; implements `cua.tool_record.ToolRecord`."""

import time
from collections.abc import Mapping, Sequence

from cua.messages import ImagePart, Part, TextPart, ToolCall
from cua.tool_step import CallOutcome, ToolStep
from cua.trajectory.disk_errors import told
from cua.trajectory.events import AskedEvent, CalledEvent, CallingEvent, RecordedOutcome, RecordedPart, SealedEvent
from cua.trajectory.writer import TrajectoryWriter


class ToolTrajectoryWriter(TrajectoryWriter):
    """The record of one tool-using run, being written. Pictures must be PNG."""

    @property
    def shown_dir(self) -> str | None:
        """The run's folder as text."""
        return str(self.run_dir)

    def asked(self, question: Sequence[Part]) -> None:
        """Keep the question. On disk when this returns.

        Raises:
            TrajectoryError: It cannot be written.
        """
        self._append(AskedEvent(at=time.time(), parts=self._recorded(question)), is_durable=True)

    def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """Keep what is about to be called. On disk when this returns.

        Raises:
            TrajectoryError: It cannot be written; do not carry the calls out.
        """
        self._index = index
        self._append(CallingEvent(at=time.time(), index=index, calls=tuple(calls)), is_durable=True)

    def called(self, step: ToolStep) -> None:
        """Keep a finished step.

        Raises:
            TrajectoryError: It cannot be written.
        """
        self._index = step.index
        self._append(
            CalledEvent(
                at=time.time(),
                index=step.index,
                outcomes=tuple(self._outcome(outcome) for outcome in step.outcomes),
                remark=step.remark,
                started_at=step.started_at,
                timings=step.timings,
            )
        )

    def sealed(self, files: Mapping[str, str], *, is_whole: bool) -> None:
        """Keep the hashes of what the code has written. On disk when this returns.

        Args:
            files: SHA-256 by name in `files/`.
            is_whole: Whether those are all.

        Raises:
            TrajectoryError: It cannot be written.
        """
        self._append(SealedEvent(at=time.time(), files=files, is_whole=is_whole), is_durable=True)

    def _outcome(self, outcome: CallOutcome) -> RecordedOutcome:
        return RecordedOutcome(
            number=outcome.number,
            call=outcome.call,
            parts=self._recorded(outcome.result.parts),
            is_error=outcome.result.is_error,
            display=outcome.result.display,
            data=outcome.result.data,
            duration_s=outcome.duration_s,
        )

    def _recorded(self, parts: Sequence[Part]) -> tuple[RecordedPart, ...]:
        return tuple(self._part(part) for part in parts)

    def _part(self, part: Part) -> RecordedPart:
        if isinstance(part, ImagePart):
            with told("write", self.run_dir):
                return RecordedPart(part="image", image=self._images.put(part.data, is_durable=False))
        if isinstance(part, TextPart):
            return RecordedPart(part="text", text=part.text)
        raise TypeError(f"a {type(part).__name__} has no place in the record of a tool-using run")
