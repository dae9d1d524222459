"""Messages of a conversation: a request repeats those of the earlier ones, as the same objects."""

from dataclasses import replace

from cua.messages import Reply, TextPart, ToolCall, ToolResult
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.conversation import HIDDEN, Compaction, Conversation, StepMessages, to_messages


def step(index: int, text: str) -> ToolStep:
    call = ToolCall(id=f"functions.note:{index}", name="note", arguments="{}")
    result = ToolResult(parts=(TextPart(text=text),))
    outcome = CallOutcome(number=index, call=call, result=result)
    return ToolStep(index=index, reply=Reply(content="", tool_calls=(call,)), outcomes=(outcome,))


def test_each_step_is_rendered_once() -> None:
    rendered = StepMessages()
    conversation = Conversation().with_question([TextPart(text="Go")])
    earlier = to_messages("s", conversation, rendered)
    for index in range(1, 5):
        conversation = conversation.with_step(step(index, f"result {index}"))
        messages = to_messages("s", conversation, rendered)
        assert messages == to_messages("s", conversation)
        assert all(one is other for one, other in zip(earlier[2:], messages[2:], strict=False))
        assert len(messages) == 2 + 2 * index
        earlier = messages


def test_hidden_results_and_replaced_steps_are_rendered_again() -> None:
    rendered = StepMessages()
    conversation = Conversation().with_question([TextPart(text="Go")]).with_step(step(1, "old"))
    assert to_messages("s", conversation, rendered)[-1].text == "[^1^]\nold"
    hidden = replace(conversation, compaction=Compaction(num_hidden=1))
    assert to_messages("s", hidden, rendered)[-1].text == HIDDEN
    other = replace(conversation, steps=(step(1, "new"),))
    assert to_messages("s", other, rendered)[-1].text == "[^1^]\nnew"
