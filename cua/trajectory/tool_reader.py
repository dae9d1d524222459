"""Reads the steps of a tool-using run back."""

from collections.abc import Sequence

from cua.messages import ImagePart, Part, Reply, TextPart, ToolCall, ToolResult
from cua.tool_step import CallOutcome, ToolStep
from cua.trajectory.events import AskedEvent, CalledEvent, CallingEvent, RecordedOutcome, RecordedPart, RepliedEvent
from cua.trajectory.images import ImageFolder


class ToolReader:
    """Puts events together to steps. A `ValueError` means that an event cannot stand where it stands.

    Args:
        images: Where the pictures are; None leaves them out.

    Attributes:
        question: What was asked.
        steps: Finished steps.
        pending_calls: Calls of a step that was not finished.
    """

    def __init__(self, images: ImageFolder | None) -> None:
        self._images = images
        self.is_open = False
        self.question: tuple[Part, ...] = ()
        self.steps: list[ToolStep] = []
        self.pending_calls: tuple[ToolCall, ...] = ()
        self._reply: tuple[int, Reply] | None = None

    def replied(self, event: RepliedEvent) -> None:
        """Take the model's answer."""
        self._reply = event.index, event.reply

    def read(self, event: AskedEvent | CallingEvent | CalledEvent) -> None:
        """Take the next event."""
        match event:
            case AskedEvent():
                self.is_open, self.question = True, self._parts(event.parts)
            case CallingEvent():
                self.pending_calls = event.calls
            case CalledEvent():
                self._called(event)

    def _called(self, event: CalledEvent) -> None:
        if self._reply is None or self._reply[0] != event.index:
            raise ValueError(f"step {event.index} is finished, and the reply that led to it is missing")
        self.steps.append(
            ToolStep(
                index=event.index,
                reply=self._reply[1],
                outcomes=tuple(self._outcome(outcome) for outcome in event.outcomes),
                remark=event.remark,
                started_at=event.started_at,
                timings=event.timings,
            )
        )
        self._reply, self.pending_calls = None, ()

    def _outcome(self, recorded: RecordedOutcome) -> CallOutcome:
        result = ToolResult(
            parts=self._parts(recorded.parts),
            is_error=recorded.is_error,
            display=recorded.display,
            data=recorded.data,
        )
        return CallOutcome(number=recorded.number, call=recorded.call, result=result, duration_s=recorded.duration_s)

    def _parts(self, recorded: Sequence[RecordedPart]) -> tuple[Part, ...]:
        return tuple(
            TextPart(text=part.text) if part.part == "text" else ImagePart(data=self._picture(part.image))
            for part in recorded
        )

    def _picture(self, sha256: str) -> bytes:
        return b"" if self._images is None else self._images.get(sha256)
