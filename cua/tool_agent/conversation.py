"""Conversation of an agent with tools: an immutable value, rendered as messages, compacted when it is too long.

Source of the strategies: Kimi K2.5 technical report, Appendix E.6.
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
TRUNCATED_REPLY = (
    "Your reply was cut at the limit{tokens} for one step. Think less at a time: take one small step now, "
    "with a tool call, or give the answer."
)
INTERRUPTED_CALL = (
    "This call was ended before it came back, with the question that it was made for: what it did is unknown."
)
LOST_CALL = (
    "The run broke off while this call was being carried out: its outcome is unknown. What it did inside the sandbox "
    "is undone; what it did elsewhere may still be in effect. Look before you repeat it."
)
LIMIT_RAISED = "The limit was raised. Go on with the question from what is there; tools can be called again."
UNANSWERED = "The question before this one was not answered: {status}, {reason}."
REDIRECT = "(The user says this while you work; go by it from here on.)\n"
SUMMARY_INTRO = "What is known so far; the conversation up to here was summed up, variables and files are as they were:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Steps that are removed from the conversation.

    Attributes:
        num_discarded: Number of first steps that are not shown at all.
        num_hidden: Number of first steps whose tool results are blanked.
        summary: Text that replaces the discarded steps.
        max_result_chars: Length to which the text of each tool result is cut; None for whole results.
    """

    num_discarded: int = 0
    num_hidden: int = 0
    summary: str | None = None
    max_result_chars: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """User message.

    Attributes:
        parts: Images and text.
        at: Number of steps that were finished before.
    """

    parts: tuple[Part, ...]
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedStep:
    """Step whose calls were started and have not returned.

    Attributes:
        index: 1-based number of the step.
        reply: The reply with the calls.
        is_lost: True if the calls were made by an earlier agent or process, so that their result is unknown.
    """

    index: int
    reply: Reply
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Questions and steps of a run so far. Its methods return a new conversation.

    Attributes:
        questions: All user messages, the open question last.
        steps: Finished steps.
        interrupted_step: Step whose calls have not returned.
        compaction: Steps that are not shown to the model any more.
    """

    questions: tuple[UserMessage, ...] = ()
    steps: tuple[ToolStep, ...] = ()
    interrupted_step: InterruptedStep | None = None
    compaction: Compaction = Compaction()

    @property
    def num_calls(self) -> int:
        """Number of tool calls of the finished steps."""
        return sum(len(step.outcomes) for step in self.steps)

    @property
    def num_redirects(self) -> int:
        """Number of messages that the user sent while the agent worked."""
        return sum(text_of(question.parts).startswith(REDIRECT) for question in self.questions[1:])

    @property
    def opened_at(self) -> int:
        """Number of steps that were finished at the last user message."""
        return self.questions[-1].at

    @property
    def usage(self) -> Usage | None:
        """Tokens that the server counted for the latest reply; None after a later compaction."""
        old = self.compaction
        given_up = max(old.num_discarded, old.num_hidden + 1 if old.num_hidden else 0)
        return self.steps[-1].reply.usage if len(self.steps) > given_up else None

    def with_question(self, parts: Sequence[Part]) -> "Conversation":
        """Add a user message."""
        return replace(self, questions=(*self.questions, UserMessage(parts=tuple(parts), at=len(self.steps))))

    def resumed(self) -> "Conversation":
        """Mark calls that have not returned as lost, for an agent that did not make them."""
        return (
            replace(self, interrupted_step=replace(self.interrupted_step, is_lost=True))
            if self.interrupted_step
            else self
        )

    def with_calls(self, index: int, reply: Reply) -> "Conversation":
        """Record that the calls of a reply are started."""
        return replace(self, interrupted_step=InterruptedStep(index=index, reply=reply))

    def with_step(self, step: ToolStep) -> "Conversation":
        """Add a finished step and clear its started calls."""
        return replace(self, steps=(*self.steps, step), interrupted_step=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """Earlier part of a run to continue from.

    Attributes:
        conversation: Questions and steps.
        spent: Usage of the steps.
        end: End of the last question, if recorded.
    """

    conversation: Conversation = Conversation()
    spent: Spent = field(default_factory=Spent)
    end: End | None = None


class StepMessages:
    """Messages of finished steps, each rendered once for all requests of a run."""

    def __init__(self) -> None:
        self._rendered: dict[tuple[int, bool, int | None], tuple[ToolStep, list[Message]]] = {}

    def of(self, step: ToolStep, *, is_hidden: bool, max_result_chars: int | None = None) -> list[Message]:
        """Return the messages of a step, with its results blanked or cut."""
        key = step.index, is_hidden, max_result_chars
        known, messages = self._rendered.get(key, (None, []))
        if known is not step:
            messages = _step_messages(step, is_hidden=is_hidden, max_result_chars=max_result_chars)
            self._rendered[key] = step, messages
        return messages


def to_messages(system_prompt: str, conversation: Conversation, rendered: StepMessages | None = None) -> list[Message]:
    """Render a conversation as messages. Questions and earlier answers stay when their steps are removed."""
    rendered = rendered or StepMessages()
    steps, compaction = conversation.steps, conversation.compaction
    messages = [Message(role="system", parts=(TextPart(text=system_prompt),))]
    by_position: dict[int, list[UserMessage]] = {}
    for question in conversation.questions:
        by_position.setdefault(question.at, []).append(question)
    for position in range(len(steps) + 1):
        if compaction.summary and position == compaction.num_discarded:
            summary = f"{SUMMARY_INTRO}\n\n{compaction.summary}"
            messages.append(Message(role="user", parts=(TextPart(text=summary),)))
        messages += [Message(role="user", parts=asked.parts) for asked in by_position.get(position, ())]
        if position == len(steps):
            break
        if position < compaction.num_discarded:
            is_answer = position + 1 in by_position and not steps[position].outcomes and not steps[position].remark
            messages += [_answer(steps[position].reply)] if is_answer else []
        else:
            is_hidden = position < compaction.num_hidden
            messages += rendered.of(steps[position], is_hidden=is_hidden, max_result_chars=compaction.max_result_chars)
    return messages


def remark_on(error: TruncatedReplyError | UnusableReplyError, sampling: Sampling | None) -> str:
    """Return a note for the model about a reply that cannot be used; "" if the model cannot fix it."""
    if isinstance(error, UnusableReplyError):
        return error.remark
    limit = sampling.max_tokens if sampling else None
    return TRUNCATED_REPLY.format(tokens=f" of {limit} tokens" if limit else "") if error.reply else ""


def _answer(reply: Reply) -> Message:
    return Message(role="assistant", parts=(TextPart(text=reply.content),))


def _step_messages(step: ToolStep, *, is_hidden: bool, max_result_chars: int | None) -> list[Message]:
    messages = [assistant_message(step.reply)]
    messages += [_outcome_message(outcome, max_result_chars, is_hidden=is_hidden) for outcome in step.outcomes]
    if step.remark:
        messages.append(Message(role="user", parts=(TextPart(text=step.remark),)))
    return messages


def assistant_message(reply: Reply) -> Message:
    """Return a reply as a message with its reasoning; the client decides whether to send the reasoning back."""
    parts: list[Part] = [ThinkPart(text=reply.reasoning)] if reply.reasoning else []
    if reply.content or not reply.tool_calls:
        parts.append(TextPart(text=reply.content or "(no answer)"))
    return Message(role="assistant", parts=tuple(parts), tool_calls=reply.tool_calls)


def _outcome_message(outcome: CallOutcome, max_chars: int | None, *, is_hidden: bool) -> Message:
    parts: tuple[Part, ...] = (TextPart(text=HIDDEN),) if is_hidden else numbered_parts(outcome)
    if max_chars is not None and len(text_of(parts)) > max_chars:
        parts = (TextPart(text=cut_middle(text_of(parts), max_chars)),)  # images go, too
    return Message(role="tool", parts=parts, tool_call_id=outcome.call.id)


def numbered_parts(outcome: CallOutcome) -> tuple[Part, ...]:
    """Return a result with the numbers used to cite it: the number of the call, and one for each image."""
    parts: list[Part] = [TextPart(text=f"[^{outcome.number}^]\n")]
    num_images = 0
    for part in outcome.result.parts:
        if isinstance(part, ImagePart):
            num_images += 1
            parts.append(TextPart(text=f"\n[^{outcome.number}.{num_images}^]\n"))
        parts.append(part)
    return _joined(parts)


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Join adjacent texts to one part, so that a result without images is sent as plain text."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(text=last.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


def cut_middle(text: str, max_chars: int, mark: str = "[{num_left_out} characters left out]") -> str:
    """Return head and tail of a long text with a mark between them, which may name `{num_left_out}` and `{head}`."""
    if len(text) <= max_chars:
        return text
    head = int(0.7 * max_chars)
    tail = max_chars - head
    shown = mark.format(num_left_out=len(text) - max_chars, head=head)
    return f"{text[:head]}\n{shown}\n{text[-tail:] if tail else ''}"


def text_of(parts: Sequence[Part]) -> str:
    """Return the texts of a message, without its images."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))


# Estimate before the server has counted: low, so that a conversation is shortened early rather than refused
CHARS_PER_TOKEN = 3.5
TOKENS_PER_IMAGE = 1500
"""Estimates for servers that report no token counts; a 1024x1024 image is 1369 tokens for K2.5."""

SUMMARY_REQUEST = (
    "The conversation is about to be cut. Sum up what you need to go on: the question as you understand it, what you "
    "have found out with numbers and with the [^n^] marks of the results it rests on, what is in variables and files, "
    "what is left to do. Write the summary only; call no tool."
)


def count_tokens(messages: Sequence[Message], last_usage: Usage | None) -> int:
    """Return the number of tokens of the conversation.

    Args:
        messages: The conversation.
        last_usage: Server's count for the latest call, whose reply is the last assistant message; later messages are
            estimated. None or zero: everything is estimated.
    """
    if last_usage is None or not last_usage.total_tokens:
        return estimate_tokens(messages)
    last_reply = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return last_usage.total_tokens + estimate_tokens(messages[last_reply + 1 :])


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Estimate tokens from the length of the texts and the number of images."""
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
    conversation: Conversation,
    why: str,
    strategy: ContextStrategy,
    summarize: Callable[[], Awaitable[str]],
) -> tuple[Conversation, str]:
    """Remove old parts of a conversation.

    Returns:
        The shorter conversation, and a note about it for the record.

    Raises:
        ContextOverflowError: If the strategy is `none`, or nothing is left to remove or cut.
    """
    old, num_steps = conversation.compaction, len(conversation.steps)
    match strategy:
        case "hide-tool-result" if num_steps - 1 > old.num_hidden:
            new = replace(old, num_hidden=num_steps - 1)
            change = f"results of steps {old.num_hidden + 1} to {num_steps - 1} hidden"
        case "discard-all" if num_steps > old.num_discarded:
            new, change = Compaction(num_discarded=num_steps), f"all {num_steps} steps discarded"
        case "summary" if num_steps > old.num_discarded:
            new = Compaction(num_discarded=num_steps, summary=await summarize())
            change = f"{num_steps} steps summed up in {len(new.summary or '')} characters"
        case "none":
            raise ContextOverflowError(f"{why}, and no context management is on")
        case _:
            cut = _with_cut_results(conversation)
            if cut is None:
                raise ContextOverflowError(f"{why}, and {strategy} can give nothing more up")
            new, change = cut.compaction, f"results cut to {cut.compaction.max_result_chars} characters"
    return replace(conversation, compaction=new), f"{why}: {change}"


MIN_RESULT_CHARS = 400
"""Length below which results are not cut further."""


def shrink(conversation: Conversation) -> Conversation | None:
    """Cut all results to half their length or, once they are short, discard the older half of the steps.

    Returns:
        The shorter conversation; None if there is nothing left to remove.
    """
    cut = _with_cut_results(conversation)
    old = conversation.compaction
    num_shown = len(conversation.steps) - old.num_discarded
    if cut is not None or not num_shown:
        return cut
    new = replace(old, num_discarded=old.num_discarded + (num_shown + 1) // 2)
    return replace(conversation, compaction=new)


def _with_cut_results(conversation: Conversation) -> Conversation | None:
    """Cut the results that are still shown to half their length; None if they are short."""
    old = conversation.compaction
    shown = conversation.steps[max(old.num_discarded, old.num_hidden) :]
    longest = max((len(outcome.result.text) for step in shown for outcome in step.outcomes), default=0)
    now = min(longest, old.max_result_chars or longest)
    if now <= MIN_RESULT_CHARS:
        return None
    return replace(conversation, compaction=replace(old, max_result_chars=max(MIN_RESULT_CHARS, now // 2)))
