"""Ids in K2.5's convention."""

import pytest

from cua.messages import Reply, ToolCall
from cua.models.reply_text import named
from cua.tool_agent.calls import call_id, with_call_ids


def test_foreign_ids_are_rewritten_and_numbered_on() -> None:
    reply = Reply(
        content="",
        tool_calls=(
            ToolCall(id="call_abc", name="ipython", arguments="{}"),
            ToolCall(id="functions.shell:0", name="shell", arguments="{}"),
        ),
    )
    assert [call.id for call in with_call_ids(reply, 5).tool_calls] == ["functions.ipython:5", "functions.shell:6"]


@pytest.mark.parametrize("seen", ["ipython", "functions.ipython", "functions.ipython:3", " ipython\n"])
def test_names_that_parsers_leave_things_on(seen: str) -> None:
    named_call = named(ToolCall(id="", name=seen, arguments="{}"), ())
    reply = Reply(content="", tool_calls=(named_call,))
    assert with_call_ids(reply, 0).tool_calls == (ToolCall(id=call_id("ipython", 0), name="ipython", arguments="{}"),)
