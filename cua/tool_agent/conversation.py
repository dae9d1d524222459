"""The conversation as the model is shown it, and what is given up of it when it grows too long.

A pure view of the questions, the steps, and what was given up by one of the report's strategies.
Source: Kimi K2.5 technical report, Appendix E.6.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from cua.errors import ContextOverflowError, TruncatedReplyError, UnusableReplyError
from cua.messages import ImagePart, Message, Part, Reply, Sampling, TextPart, ThinkPart, Usage, VideoPart
from cua.run.end import End
from cua.run.scope import Spent
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.profile import ContextStrategy

HIDDEN = "[The result of this call is no longer shown.]"
CUT = (
    "Your reply was cut at the limit{tokens} for one step. Think less at a time: take one small step now, "
    "with a tool call, or give the answer."
)
CUT_CALL = "This call was ended before it came back, with the question that it was made for: what it did is unknown."
LOST_CALL = (
    "The run broke off while this call was being carried out: its outcome is unknown. What it did inside the sandbox "
    "is undone; what it did elsewhere may stand. Look before you repeat it."
)
ROOM_AGAIN = "The limit was raised. Go on with the question from what is there; tools can be called again."
UNANSWERED = "The question before this one was not answered: {status}, {reason}."
REDIRECT = "(The user says this while you work; go by it from here on.)\n"
SUMMARY_INTRO = "What is known so far; the conversation up to here was summed up, variables and files are as they were:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What of the steps is given up.

    Attributes:
        num_discarded: So many of the first steps are not shown at all.
        num_hidden: Of so many of the first steps the tool results are blanked.
        summary: Stands for the discarded steps.
    """

    num_discarded: int = 0
    num_hidden: int = 0
    summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Something that the user said.

    Attributes:
        parts: Images and words.
        at: So many steps were finished before.
    """

    parts: tuple[Part, ...]
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStart:
    """The record of an earlier part of a run, to go on from.

    Attributes:
        asked: All that was asked, the question that is open last.
        steps: Finished steps.
        spent: What they used.
        cut: Number and reply of a step whose calls were begun and never came back.
        end: How the last question ended, if it did.
        compaction: What of the steps was given up.
    """

    asked: tuple[Asked, ...]
    steps: tuple[ToolStep, ...] = ()
    spent: Spent = field(default_factory=Spent)
    cut: tuple[int, Reply] | None = None
    end: End | None = None
    compaction: Compaction = field(default_factory=Compaction)


Written = dict[int, list[Message]]
"""Steps as messages, by position, where all of a step is shown."""


def to_messages(
    system_prompt: str,
    asked: Sequence[Asked],
    steps: Sequence[ToolStep],
    compaction: Compaction = Compaction(),
    written: Written | None = None,
) -> list[Message]:
    """Write the conversation so far. Questions and earlier answers stay when their steps are given up.

    Args:
        system_prompt: First message.
        asked: What the user said, in order.
        steps: All finished steps of the run.
        compaction: What is given up.
        written: Kept between calls for the same steps, so that each is written once.
    """
    written = {} if written is None else written
    messages = [Message(role="system", parts=(TextPart(text=system_prompt),))]
    said = {at: [one for one in asked if one.at == at] for at in {one.at for one in asked}}
    for position in range(len(steps) + 1):
        if compaction.summary and position == compaction.num_discarded:
            summary = f"{SUMMARY_INTRO}\n\n{compaction.summary}"
            messages.append(Message(role="user", parts=(TextPart(text=summary),)))
        messages += [Message(role="user", parts=one.parts) for one in said.get(position, ())]
        if position < min(compaction.num_discarded, len(steps)):
            is_answer = position + 1 in said and not steps[position].outcomes and not steps[position].remark
            messages += [_answer(steps[position].reply)] if is_answer else []
        elif position < min(compaction.num_hidden, len(steps)):
            messages += _of_step(steps[position], is_hidden=True)
        elif position < len(steps):
            if position not in written:
                written[position] = _of_step(steps[position], is_hidden=False)
            messages += written[position]
    return messages


def remark_on(error: TruncatedReplyError | UnusableReplyError, sampling: Sampling | None) -> str:
    """Text for the model about a reply that cannot be used; "" where the model cannot do better."""
    if isinstance(error, UnusableReplyError):
        return error.remark
    limit = sampling.max_tokens if sampling else None
    return CUT.format(tokens=f" of {limit} tokens" if limit else "") if error.reply else ""


def _answer(reply: Reply) -> Message:
    return Message(role="assistant", parts=(TextPart(text=reply.content),))


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
    """A result with the numbers by which an answer can cite it: the call's own, and one for each image."""
    parts: list[Part] = [TextPart(text=f"[^{outcome.number}^]\n")]
    num_images = 0
    for part in outcome.result.parts:
        if isinstance(part, ImagePart):
            num_images += 1
            parts.append(TextPart(text=f"\n[^{outcome.number}.{num_images}^]\n"))
        parts.append(part)
    return _joined(parts)


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring texts as one part, so that a result without images is plain text on the wire."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(text=last.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


def words_of(parts: Sequence[Part]) -> str:
    """The texts of a question, without its images."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))


CHARS_PER_TOKEN = 3.5
TOKENS_PER_IMAGE = 1500
"""Both are used only where a server counts no tokens; a 1024x1024 image is 1369 tokens for K2.5."""

SUMMARY_REQUEST = (
    "The conversation is about to be cut. Sum up what you need to go on: the question as you understand it, what you "
    "have found out with numbers and with the [^n^] marks of the results it rests on, what is in variables and files, "
    "what is left to do. Write the summary only; call no tool."
)


def count_tokens(messages: Sequence[Message], last_usage: Usage | None) -> int:
    """Tokens that the conversation takes.

    Args:
        messages: The conversation.
        last_usage: What the server counted for the latest call, whose reply is the last assistant message; what
            came after it is estimated. None or zero: all is estimated.
    """
    if last_usage is None or not last_usage.total_tokens:
        return estimate_tokens(messages)
    last_reply = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return last_usage.total_tokens + estimate_tokens(messages[last_reply + 1 :])


def last_usage(steps: Sequence[ToolStep], compaction: Compaction) -> Usage | None:
    """What the server counted for the latest call of an earlier process; None when something was given up since."""
    given_up = max(compaction.num_discarded, compaction.num_hidden + 1 if compaction.num_hidden else 0)
    return steps[-1].reply.usage if len(steps) > given_up else None


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Tokens by the length of the texts and the number of images."""
    num_chars, num_images = 0, 0
    for message in messages:
        num_chars += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
        for part in message.parts:
            match part:
                case TextPart(text=text) | ThinkPart(text=text):
                    num_chars += len(text)
                case ImagePart() | VideoPart():
                    num_images += 1
    return int(num_chars / CHARS_PER_TOKEN) + num_images * TOKENS_PER_IMAGE


async def compact(
    old: Compaction,
    steps: Sequence[ToolStep],
    why: str,
    strategy: ContextStrategy,
    sum_up: Callable[[], Awaitable[str]],
) -> tuple[Compaction, str]:
    """Give old parts of the conversation up.

    Args:
        old: What is given up already.
        steps: All finished steps.
        why: What is too long, one clause.
        strategy: See `ContextStrategy`.
        sum_up: Asks the model for a summary.

    Returns:
        What is given up now, and a line about it for the record.

    Raises:
        ContextOverflowError: The strategy is `none`, or has nothing left to give up.
    """
    match strategy:
        case "hide-tool-result" if len(steps) - 1 > old.num_hidden:
            hidden = replace(old, num_hidden=len(steps) - 1)
            return hidden, f"{why}: results of steps {old.num_hidden + 1} to {len(steps) - 1} hidden"
        case "discard-all" if len(steps) > old.num_discarded:
            return Compaction(num_discarded=len(steps)), f"{why}: all {len(steps)} steps discarded"
        case "summary" if len(steps) > old.num_discarded:
            summary = await sum_up()
            new = Compaction(num_discarded=len(steps), summary=summary)
            return new, f"{why}: {len(steps)} steps summed up in {len(summary)} characters"
    what = "no context management is on" if strategy == "none" else f"{strategy} can give nothing more up"
    raise ContextOverflowError(f"{why}, and {what}")
