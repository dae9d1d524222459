"""Swarm with fixed assignments: code hands them out, without an orchestrator's tokens."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cua.messages import Reply, ToolCall, ToolResult
from cua.step import CallOutcome
from cua.swarm.child import Assignment, SubagentConfig, assignment_data
from cua.swarm.protocol import ASSIGN_TASK, CREATE_SUBAGENT
from cua.swarm.swarm import NEWS_PATTERN
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.calls import with_call_ids
from cua.tool_agent.conversation import numbered_parts, text_of

_PLAN_NOTE = "the model gets the results of the planned steps in one message"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalStep:
    """Steps after all assignments have ended.

    Attributes:
        call: Orchestrator tool to call first, without arguments; "" for none.
        answer: Makes the answer from the results of the last calls; None to have the model answer from all results.
        note: Text for the model with the results.
    """

    call: str = ""
    answer: Callable[[Sequence[CallOutcome]], str] | None = None
    note: str = ""


def plan_steps(assignments: Sequence[Assignment], then: FinalStep) -> list[tuple[ToolCall, ...]]:
    """Return the calls of an orchestrator that hands out the assignments, step by step."""
    configs = dict.fromkeys(assignment.config for assignment in assignments)
    steps = [
        tuple(_call(CREATE_SUBAGENT["name"], **_given(config)) for config in configs),
        tuple(
            _call(ASSIGN_TASK["name"], agent=assignment.config.name, **_without_empty(assignment_data(assignment)))
            for assignment in assignments
        ),
    ]
    return [*steps, (_call(then.call),)] if then.call else steps


def _given(config: SubagentConfig) -> dict[str, Any]:
    usual = SubagentConfig(name="", system_prompt="")
    overrides = {name: value for name, value in asdict(config).items() if value != getattr(usual, name)}
    return {"name": config.name, "system_prompt": config.system_prompt, **overrides}


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=tool, name=tool, arguments=json.dumps(arguments, ensure_ascii=False))


class PlannedAgent(ToolAgent):
    """Orchestrator with given first steps; then it answers by code, or continues with its model.

    A resumed run continues at the first planned step that is not recorded. If assignments have gone on since the
    answer, the steps after them are done again with the new results.

    Args:
        assignments: Assignments, handed out all at once.
        then: Steps after them.
        agent: Arguments of `ToolAgent`.
    """

    def __init__(self, assignments: Sequence[Assignment], then: FinalStep, **agent: Any) -> None:
        super().__init__(**agent)
        self._planned, self._then = plan_steps(assignments, then), then

    async def _get_reply(self, index: int) -> tuple[Reply, str | None]:
        calls = self._planned_calls(index)
        if not calls and self._then.answer is None:
            self._tell_results()
            return await super()._get_reply(index)
        if not calls:
            reply = Reply(content=self._answer(), finish_reason="stop", model=self.model.name)
        else:
            reply = Reply(content="", tool_calls=calls, finish_reason="tool_calls", model=self.model.name)
        reply = with_call_ids(reply, self.num_calls)
        await self.scope.record.replied(index, reply)
        return reply, None

    def _planned_calls(self, index: int) -> tuple[ToolCall, ...]:
        """Return the calls of a step; empty after the plan. News of assignments start its steps after them again."""
        news = [question.at for question in self.conversation.questions if NEWS_PATTERN.search(text_of(question.parts))]
        steps, number = (self._planned[2:], index - news[-1]) if news else (self._planned, index)
        return steps[number - 1] if number <= len(steps) else ()

    def replace_results(self, results: Mapping[int, ToolResult]) -> None:
        """Replace the results of assignments that have gone on in a resumed run, by the numbers of their calls."""
        steps = []
        for step in self.steps:
            outcomes = (
                replace(outcome, result=results.get(outcome.number, outcome.result)) for outcome in step.outcomes
            )
            steps.append(replace(step, outcomes=tuple(outcomes)))
        self.conversation = replace(self.conversation, steps=tuple(steps))

    async def _last_answer(self, why: str) -> str | None:
        if self._then.answer is not None:
            await self._close_interrupted_step()
            return self._answer()
        if len(self.steps) >= len(self._planned):
            self._tell_results()
        return await super()._last_answer(why)

    def _answer(self) -> str:
        assert self._then.answer is not None
        return self._then.answer(next((step.outcomes for step in reversed(self.steps) if step.outcomes), ()))

    def _tell_results(self) -> None:
        """Replace the planned steps, which the model did not write, by one message with their results."""
        count = len(self._planned)
        compaction = self.conversation.compaction
        if compaction.num_discarded >= count:
            return
        outcomes = [outcome for step in self.steps[1:count] for outcome in step.outcomes]
        texts = [text_of(numbered_parts(outcome)) for outcome in outcomes]
        summary = "\n\n".join(filter(None, (*texts, self._then.note)))
        compaction = replace(compaction, num_discarded=count, summary=summary)
        self.conversation = replace(self.conversation, compaction=compaction)
        self.scope.note("context", _PLAN_NOTE, **asdict(compaction))
