"""The conversation as the model is shown it: a pure view of the question, the steps, and what was given up."""

from collections.abc import Sequence
from dataclasses import dataclass

from cua.messages import ImagePart, Message, Part, Reply, TextPart, ThinkPart
from cua.tool_step import CallOutcome, ToolStep

HIDDEN = "[The result of this call is no longer shown.]"
SUMMARY_INTRO = "What is known so far; the conversation up to here was summed up, variables and files are as they were:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What of the steps is given up.

    Attributes:
        num_discarded: So many of the first steps are not shown at all.
        num_hidden: Of so many of the first steps the tool results are blanked.
        summary: Stands for the discarded steps.
    """

    num_discarded: int = 0
    num_hidden: int = 0
    summary: str | None = None


def to_messages(
    system_prompt: str, question: Sequence[Part], steps: Sequence[ToolStep], fold: Fold = Fold()
) -> list[Message]:
    """Write the conversation so far.

    Args:
        system_prompt: First message.
        question: The user's pictures and words.
        steps: All finished steps of the run.
        fold: What is given up.
    """
    messages = [
        Message(role="system", parts=(TextPart(text=system_prompt),)),
        Message(role="user", parts=tuple(question)),
    ]
    if fold.summary:
        messages.append(Message(role="user", parts=(TextPart(text=f"{SUMMARY_INTRO}\n\n{fold.summary}"),)))
    for position, step in enumerate(steps[fold.num_discarded :], start=fold.num_discarded):
        messages += _of_step(step, is_hidden=position < fold.num_hidden)
    return messages


def _of_step(step: ToolStep, *, is_hidden: bool) -> list[Message]:
    messages = [assistant_message(step.reply)]
    messages += [_of_outcome(outcome, is_hidden=is_hidden) for outcome in step.outcomes]
    if step.remark:
        messages.append(Message(role="user", parts=(TextPart(text=step.remark),)))
    return messages


def assistant_message(reply: Reply) -> Message:
    """A reply as part of the history, its reasoning kept; whether it is sent back is the client's business."""
    parts: list[Part] = [ThinkPart(text=reply.reasoning)] if reply.reasoning else []
    if reply.content or not reply.tool_calls:
        parts.append(TextPart(text=reply.content or "(no answer)"))
    return Message(role="assistant", parts=tuple(parts), tool_calls=reply.tool_calls)


def _of_outcome(outcome: CallOutcome, *, is_hidden: bool) -> Message:
    parts: tuple[Part, ...] = (TextPart(text=HIDDEN),) if is_hidden else numbered_parts(outcome)
    return Message(role="tool", parts=parts, tool_call_id=outcome.call.id)


def numbered_parts(outcome: CallOutcome) -> tuple[Part, ...]:
    """A result with the numbers by which an answer can cite it: the call's own, and one for each picture."""
    parts: list[Part] = [TextPart(text=f"[^{outcome.number}^]\n")]
    num_images = 0
    for part in outcome.result.parts:
        if isinstance(part, ImagePart):
            num_images += 1
            parts.append(TextPart(text=f"\n[^{outcome.number}.{num_images}^]\n"))
        parts.append(part)
    return _joined(parts)


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring texts as one part, so that a result without pictures is plain text on the wire."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(text=last.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)
