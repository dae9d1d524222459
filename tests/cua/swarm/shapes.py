"""Swarms as they would be recorded, by their numbers alone."""

from collections.abc import Mapping, Sequence

from cua.messages import Reply, TextPart, ToolCall, ToolResult
from cua.step import CallOutcome, ToolStep
from cua.swarm.child import Assignment, Child, SubagentConfig


def steps_of(num_calls: Sequence[int]) -> list[ToolStep]:
    """Steps of an orchestrator with so many calls each."""
    steps, number = [], 0
    for index, count in enumerate(num_calls, 1):
        made = [ToolCall(id=str(n), name="assign_task", arguments="{}") for n in range(number, number + count)]
        result = ToolResult(parts=(TextPart(text=""),))
        outcomes = tuple(CallOutcome(number=n, call=one, result=result) for n, one in enumerate(made, number))
        steps.append(ToolStep(index=index, reply=Reply(content="", tool_calls=tuple(made)), outcomes=outcomes))
        number += count
    return steps


def children_of(steps_by_call: Mapping[int, int]) -> list[Child]:
    """Children with so many steps each, by the number of the call that made them."""
    assignment = Assignment(config=SubagentConfig(name="worker", system_prompt=""), prompt="work")
    return [
        Child(id=f"t{number:03}", call=call, assignment=assignment, num_steps=steps)
        for number, (call, steps) in enumerate(steps_by_call.items(), 1)
    ]
