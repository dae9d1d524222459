"""The embedded model at research: real tools on a generated corpus, alone and with sub-agents."""

from collections.abc import Mapping
from typing import Any

import pytest

from apps.literal import LiteralModel
from apps.literal.research import read_facts, read_task, research, tidy
from benchmarks.widesearch import MeasuredModel
from cua.messages import Message, TextPart, ToolCall, ToolResult
from cua.model import Tool
from cua.research.fetch import Web, make_world_web
from cua.run.budget import Caps
from cua.run.end import RunResult
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.profile import Profile
from cua.tools import Toolset
from cua.tools.research import make_research_tools
from envs.registry import load_suite
from envs.suites.widesearch.tasks import WideSearchTask

pytest.importorskip("trafilatura")

TEXT: Mapping[str, Any] = {"type": "string"}


class CreateSubagent(Tool):
    """As published; keeps the name."""

    name = "create_subagent"
    description = "Create a custom subagent with specific system prompt and name for reuse."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"name": TEXT, "system_prompt": TEXT},
        "required": ["name", "system_prompt"],
    }

    def __init__(self) -> None:
        self.names: list[str] = []

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        self.names.append(arguments["name"])
        return ToolResult(parts=(TextPart(text="success"),))


class AssignTask(Tool):
    """As published; each task is a fresh agent with the same model and tools."""

    name = "assign_task"
    description = "Launch a new agent."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"agent": TEXT, "prompt": TEXT},
        "required": ["agent", "prompt"],
    }

    def __init__(self, web: Web) -> None:
        self._web = web
        self.num_steps: list[int] = []

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        result, _ = await play(arguments["prompt"], make_research_tools(self._web, None))
        self.num_steps.append(result.num_steps)
        return ToolResult(parts=(TextPart(text=result.end.answer or ""),))


async def play(question: str, tools: tuple[Tool, ...]) -> tuple[RunResult, ToolAgent]:
    profile = Profile(system_prompt="Work.", caps=Caps(max_steps=500))
    agent = ToolAgent(model=LiteralModel(), toolset=Toolset(tools), profile=profile)
    return await agent.run([TextPart(text=question)]), agent


def task_of(name: str) -> WideSearchTask:
    task = load_suite("widesearch", num_seeds=1).make_task(f"widesearch/{name}", 0)
    assert isinstance(task, WideSearchTask)
    return task


async def test_alone_it_collects_the_whole_table() -> None:
    task = task_of("universities-tarsia")
    result, agent = await play(task.instruction, make_research_tools(make_world_web(0), None))
    assert task.score(result.end.answer).success == 1.0
    assert agent.num_calls == result.num_steps - 1  # one call a reply
    assert result.end.reason.endswith("its own evidence")  # every citation names a result that exists


async def test_alone_it_may_make_several_calls_a_reply() -> None:
    task, tools = task_of("universities-tarsia"), make_research_tools(make_world_web(0), None)
    profile = Profile(system_prompt="Work.", caps=Caps(max_steps=500))
    agent = ToolAgent(model=MeasuredModel(max_calls=4), toolset=Toolset(tools), profile=profile)
    result = await agent.run([TextPart(text=task.instruction)])
    assert task.score(result.end.answer).success == 1.0
    assert max(len(step.outcomes) for step in agent.steps) == 4
    one_by_one, other = await play(task.instruction, tools)
    assert result.num_steps < one_by_one.num_steps - 4
    assert agent.num_calls == other.num_calls


async def test_with_sub_agents_it_hands_the_things_out() -> None:
    task, web = task_of("bridges-ostland"), make_world_web(0)
    create, assign = CreateSubagent(), AssignTask(web)
    result, agent = await play(task.instruction, (*make_research_tools(web, None), create, assign))
    assert task.score(result.end.answer).success == 1.0
    assert (create.names, len(assign.num_steps)) == (["collector"], 30)
    critical = result.num_steps + max(assign.num_steps)
    assert critical <= 12 and len(agent.steps[-2].outcomes) == 30  # all at the same time


async def test_things_that_are_named_are_searched_for() -> None:
    task = task_of("bridges-tarsia")
    names = [row["Bridge"] for row in task.table.rows[:3]]
    question = f"For each of {'; '.join(names)}: find Length (m) and Designer"
    result, _ = await play(question, make_research_tools(make_world_web(0), None))
    for row in task.table.rows[:3]:
        assert f"{row['Length (m)']} | {row['Designer']}" in (result.end.answer or "")


async def test_a_task_of_another_form_is_refused() -> None:
    result, _ = await play("Write a poem", make_research_tools(make_world_web(0, size="tiny"), None))
    assert "I can only follow tasks such as" in (result.end.answer or "")


async def test_a_list_that_is_not_there_collects_nothing() -> None:
    question = 'Collect Name of all dragons that are listed on "zzz qqq"'
    result, _ = await play(question, make_research_tools(make_world_web(0, size="tiny"), None))
    assert "No list of these things was found" in (result.end.answer or "")


@pytest.mark.parametrize(
    ("value", "is_number", "expected"),
    [
        ("1,234 m", True, "1234"),
        ("3 May 1931", False, "1931-05-03"),
        ("May 3, 1931", False, "1931-05-03"),
        ("[Ada Ost](#3)", False, "Ada Ost"),
        ("<https://a.example/>", False, "https://a.example/"),
        ("3 Foo 1931", False, "3 Foo 1931"),
        ("a | b", False, "a / b"),
    ],
)
def test_values_are_tidied(value: str, is_number: bool, expected: str) -> None:
    assert tidy(value, is_number=is_number) == expected


def test_facts_are_rows_and_lines() -> None:
    text = "| Length | 3 m |\n|---|---|\n| **Mass** | 4 kg |\nOpened: 1931\nhttp://x: no"
    assert read_facts(text) == {"length": "3 m", "mass": "4 kg", "opened": "1931"}


def test_columns_come_from_the_line_of_the_table_when_there_is_one() -> None:
    task = read_task("Collect name and year of all x listed on http://a.test/list.\n| Bridge | Opened |")
    assert task is not None and (task.columns, task.url) == (("Bridge", "Opened"), "http://a.test/list")


@pytest.mark.parametrize("text", ["", "|" * 5000, "<<page 00000000\n", "For each of : find", "x" * 100_000])
def test_any_result_is_survived(text: str) -> None:
    call = ToolCall(id="functions.search:0", name="search", arguments='{"queries": ["L"]}')
    messages = (
        Message(role="user", parts=(TextPart(text='Collect A of all B listed on "L"'),)),
        Message(role="assistant", parts=(), tool_calls=(call,)),
        Message(role="tool", parts=(TextPart(text=text),), tool_call_id=call.id),
    )
    assert research(messages, make_research_tools(make_world_web(0, size="tiny"), None), "literal").content
