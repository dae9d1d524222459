"""Keeps the conversation within a number of tokens, by one of the report's strategies.

Source: Kimi K2.5 technical report, Appendix E.6.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from cua.errors import ContextOverflowError
from cua.messages import ImagePart, Message, TextPart, ThinkPart, Usage, VideoPart
from cua.tool_agent.conversation import Fold
from cua.tool_agent.options import ContextStrategy
from cua.tool_step import ToolStep

CHARS_PER_TOKEN = 3.5
TOKENS_PER_IMAGE = 1500
"""Both are used only where a server counts no tokens; a 1024x1024 picture is 1369 tokens for K2.5."""

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


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Tokens by the length of the texts and the number of pictures."""
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


async def fold(
    old: Fold, steps: Sequence[ToolStep], why: str, strategy: ContextStrategy, sum_up: Callable[[], Awaitable[str]]
) -> tuple[Fold, str]:
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
            return Fold(num_discarded=len(steps)), f"{why}: all {len(steps)} steps discarded"
        case "summary" if len(steps) > old.num_discarded:
            summary = await sum_up()
            new = Fold(num_discarded=len(steps), summary=summary)
            return new, f"{why}: {len(steps)} steps summed up in {len(summary)} characters"
    what = "no context management is on" if strategy == "none" else f"{strategy} can give nothing more up"
    raise ContextOverflowError(f"{why}, and {what}")
