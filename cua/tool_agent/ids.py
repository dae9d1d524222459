"""Ids of tool calls in K2.5's convention: `functions.name:idx`, idx counted over the whole conversation from 0.

The model imitates the ids that it sees in its history, and parsers accept this form only; so every id that a
server made up is rewritten before the reply becomes history. Source: reference tool guide of Kimi K2.
"""

from collections.abc import Sequence
from dataclasses import replace

from cua.messages import Reply, ToolCall


def call_id(name: str, number: int) -> str:
    """The id of call `number` (from 0 over the whole conversation)."""
    return f"functions.{name}:{number}"


def with_own_ids(reply: Reply, num_earlier: int) -> Reply:
    """The reply with its calls renamed and numbered on.

    Args:
        reply: As the server sent it.
        num_earlier: Tool calls before it.
    """
    return replace(reply, tool_calls=_renamed(reply.tool_calls, num_earlier))


def _renamed(calls: Sequence[ToolCall], num_earlier: int) -> tuple[ToolCall, ...]:
    named = [(call, bare_name(call.name)) for call in calls]
    return tuple(
        replace(call, id=call_id(name, number), name=name) for number, (call, name) in enumerate(named, num_earlier)
    )


def bare_name(name: str) -> str:
    """A tool's name without what some parsers leave on it: `functions.ipython:3` is `ipython`."""
    return name.strip().removeprefix("functions.").partition(":")[0]
