"""A swarm from its question to its end, with a scripted model."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ModelAccessError, ModelError
from cua.messages import Message, Reply, Sampling, TextPart, ToolCall, ToolResult, Usage
from cua.model import Tool
from cua.run.budget import Caps
from cua.run.control import Control
from cua.run.events import Watch
from cua.swarm import PRESETS, SwarmOptions, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.swarm.child import NEXT, Child
from cua.swarm.metrics import compute_metrics
from cua.swarm.protocol import ASSIGN_TASK, CREATE_SUBAGENT
from cua.swarm.session import SwarmResult
from cua.trajectory import load_run

Said = Reply | Exception


def call(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id="x", name=tool, arguments=json.dumps(arguments))


NOTHING = Usage()


def calls(*made: ToolCall, usage: Usage = NOTHING) -> Reply:
    return Reply(content="", tool_calls=made, usage=usage)


class Note(Tool):
    """A tool that does nothing but count."""

    name = "note"
    description = "Note something."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(parts=(TextPart(text=f"noted {arguments.get('text', '')}"),))


class Cast:
    """A model that plays the orchestrator of `items` children, and each child for as many calls as its prompt says."""

    name = "cast"

    def __init__(self, items: Sequence[str], *, faults: Mapping[str, list[Said]] | None = None) -> None:
        self.items = items
        self.faults = {key: list(said) for key, said in (faults or {}).items()}
        self.received: list[tuple[Message, ...]] = []

    async def close(self) -> None:
        pass

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        self.received.append(tuple(messages))
        question = next(message.text for message in messages if message.role == "user")
        if self.faults.get(question):
            said = self.faults[question].pop(0)
            if isinstance(said, Exception):
                raise said
            return said
        number = sum(message.role == "assistant" for message in messages)
        if question != "all":
            most = int(question.split()[-1])
            more = number + 1 < most
            use = Usage(input_tokens=90, output_tokens=10, cost_usd=0.01)
            return (
                calls(call("note", text=f"{number}"), usage=use)
                if more
                else Reply(content=f"done {question}", usage=use)
            )
        if not tools:
            return Reply(content="what there is")
        if number == 0:
            return calls(call("create_subagent", name="worker", system_prompt="You work."))
        if number == 1:
            return calls(*(call("assign_task", agent="worker", prompt=item) for item in self.items))
        return Reply(content="\n".join(message.text for message in messages if message.role == "tool"))

    def asked_by(self, question: str) -> list[tuple[Message, ...]]:
        return [messages for messages in self.received if messages[1].text == question]


OPTIONS = SwarmOptions(tools=(lambda place: Note(),))


async def play(tmp_path: Path, model: Any, options: SwarmOptions = OPTIONS, **settings: Any) -> SwarmResult:
    return await run_swarm("all", model=model, options=options, runs_dir=tmp_path, **settings)


async def test_children_work_and_the_parent_answers(tmp_path: Path) -> None:
    done = await play(tmp_path, Cast(["a 3", "b 5", "c 1"]))
    assert done.run.end.status == "unverified"
    assert [child.state for child in done.children] == ["finished"] * 3
    assert "done b 5" in str(done.run.end.answer)
    measures = done.metrics
    assert (measures.critical_steps, measures.total_steps) == (3 + 5, 3 + 9)
    assert measures.num_calls == 1 + 3 + 2 + 4
    assert done.run.usage.total_tokens == 900
    record = load_run(str(done.run.run_dir))
    assert set(record.agents) == {"t001", "t002", "t003"}
    assert record.agents["t002"].parent == "main"


async def test_a_redirect_is_for_the_orchestrator_alone(tmp_path: Path) -> None:
    controls: list[Control] = []

    class Interrupted(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text == "a 1":
                controls[0].redirect("only the first one")
            return await super().generate(messages, tools, sampling)

    model = Interrupted(["a 1"])
    await play(tmp_path, model, watch=Watch(on_control=controls.append))
    told = [any("only the first one" in message.text for message in messages) for messages in model.received]
    assert told == [False, False, False, True]
    assert model.received[-1][1].text == "all"


def test_the_schemas_are_the_published_ones() -> None:
    """Word for word. Source: Kimi K2.5 technical report, Appendix E.8."""

    def text(description: str) -> dict[str, str]:
        return {"type": "string", "description": description}

    role = "System prompt defining the agent's role, capabilities, and boundaries"
    created = {"name": text("Unique name for this agent configuration"), "system_prompt": text(role)}
    assert {
        "name": "create_subagent",
        "description": "Create a custom subagent with specific system prompt and name for reuse.",
        "parameters": {"type": "object", "properties": created, "required": ["name", "system_prompt"]},
    } == CREATE_SUBAGENT
    assigned = {
        "agent": text("Specify which created agent to use."),
        "prompt": text("The task for the agent to perform"),
    }
    assert {
        "name": "assign_task",
        "description": "Launch a new agent.\nUsage notes:\n"
        " 1. You can launch multiple agents concurrently whenever possible, to maximize performance;\n"
        " 2. When the agent is done, it will return a single message back to you.",
        "parameters": {"type": "object", "properties": assigned, "required": ["agent", "prompt"]},
    } == ASSIGN_TASK
    assert {name: (one.orchestrator_calls, one.child_calls) for name, one in PRESETS.items() if name != "standard"} == {
        "browsecomp": (15, 100),
        "widesearch": (100, 100),
        "in-house": (100, 50),
        "k2.6": (600, 100),
    }
    assert SwarmLimits.of(PRESETS["standard"]) == SwarmLimits()
    newer = SwarmLimits.of(PRESETS["k2.6"])
    assert (newer.max_children, newer.max_parallel, newer.run.max_calls) == (300, 300, 4000)


async def test_the_model_is_shown_the_published_schemas_and_children_have_no_swarm_tools(tmp_path: Path) -> None:
    shown: dict[str, list[str]] = {}

    class Watching(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            shown[messages[1].text] = [tool.name for tool in tools]
            for tool in tools:
                if tool.name == "assign_task":
                    assert tool.parameters == ASSIGN_TASK["parameters"]
            return await super().generate(messages, tools, sampling)

    await play(tmp_path, Watching(["a 1"]))
    assert shown == {"all": ["create_subagent", "assign_task", "read_result", "note"], "a 1": ["note"]}


def test_critical_steps_are_those_of_the_worked_example() -> None:
    """1 search; 3 creations; tasks of 12, 30 and 18; tasks of 9 and 7; the answer: 44 of 81."""
    from tests.cua.swarm.shapes import children_of, steps_of

    measures = compute_metrics(steps_of([1, 3, 3, 2, 0]), children_of({4: 12, 5: 30, 6: 18, 7: 9, 8: 7}), wall_s=1.0)
    assert (measures.critical_steps, measures.total_steps) == (44, 81)
    assert measures.step_speedup == pytest.approx(81 / 44)
    assert measures.longest == ("t002", "t004")


async def test_a_failed_child_is_a_result_and_the_others_go_on(tmp_path: Path) -> None:
    broken = ModelError("bad request", retryable=False)
    done = await play(tmp_path, Cast(["a 2", "b 2"], faults={"a 2": [broken]}))
    assert [child.state for child in done.children] == ["failed", "finished"]
    assert "[t001 failed: bad request]" in str(done.run.end.answer)


async def test_an_error_that_may_pass_is_tried_again_where_it_stood(tmp_path: Path) -> None:
    model = Cast(["a 3"], faults={"a 3": [calls(call("note", text="first")), ModelError("down", retryable=True)]})
    done = await play(tmp_path, model)
    child = done.children[0]
    assert (child.state, child.num_tries, child.num_calls) == ("finished", 2, 2)


async def test_a_refused_key_stops_the_run_and_says_so(tmp_path: Path) -> None:
    model = Cast(["a 2", "b 500"], faults={"a 2": [ModelAccessError("the key is not accepted")]})
    done = await play(tmp_path, model)
    assert (done.run.end.status, done.run.end.source) == ("error", "model")
    assert "key is not accepted" in done.run.end.reason
    assert [child.state for child in done.children] == ["suspended", "suspended"]


async def test_a_child_that_loops_ends_alone(tmp_path: Path) -> None:
    same = [calls(call("note", text="again")) for _ in range(10)]
    done = await play(tmp_path, Cast(["a 20", "b 3"], faults={"a 20": same}))
    assert [child.state for child in done.children] == ["capped", "finished"]
    assert "6 times in a row" in done.children[0].reason


async def test_the_parent_has_a_last_call_when_the_budget_is_spent(tmp_path: Path) -> None:
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=20))
    done = await play(tmp_path, Cast(["a 50", "b 50"]), SwarmOptions(tools=OPTIONS.tools, limits=limits))
    assert {child.state for child in done.children} == {"capped"}
    assert (done.run.end.status, done.run.end.cap, done.run.end.answer) == ("capped", "calls", "what there is")
    assert done.metrics.num_calls == 20
    shares = [child.num_calls for child in done.children]
    assert abs(shares[0] - shares[1]) <= 1
    record = load_run(str(done.run.run_dir))
    assert any(note.kind == "budget" for note in record.notes)


async def test_a_child_leaves_the_others_their_share(tmp_path: Path) -> None:
    limits = SwarmLimits(run=Caps(max_steps=None, max_tokens=4000))
    done = await play(tmp_path, Cast(["a 60", "b 5", "c 5"]), SwarmOptions(tools=OPTIONS.tools, limits=limits))
    assert [child.state for child in done.children] == ["capped", "finished", "finished"]


async def test_no_more_children_than_the_ceiling(tmp_path: Path) -> None:
    limits = SwarmLimits(max_children=2)
    done = await play(tmp_path, Cast(["a 1", "b 1", "c 1"]), SwarmOptions(tools=OPTIONS.tools, limits=limits))
    assert len(done.children) == 2
    assert "which is the limit" in str(done.run.end.answer)


async def test_a_long_message_is_cut_and_can_be_read_on(tmp_path: Path) -> None:
    model = Cast(["a 2"], faults={"a 2": [Reply(content="x" * 20_000 + "end")]})
    done = await play(tmp_path, model)
    answer = str(done.run.end.answer)
    assert len(answer) < 15_000
    assert 'read_result(task="t001"' in answer
    assert len(done.children[0].answer) == 20_003


async def test_citations_of_children_carry_their_name(tmp_path: Path) -> None:
    model = Cast(["a 2"], faults={"a 2": [calls(call("note", text="x")), Reply(content="seen [^0^]")]})
    done = await play(tmp_path, model)
    assert "seen [^t001.0^]" in str(done.run.end.answer)


async def test_resume_runs_no_finished_child_again_and_shows_the_parent_the_same(tmp_path: Path) -> None:
    """From after any line, and half of the next one: as a loss of power leaves it."""
    whole = Cast(["a 2", "b 4", "c 3"])
    done = await play(tmp_path / "whole", whole)
    run_dir = Path(str(done.run.run_dir))
    lines = (run_dir / "trajectory.jsonl").read_bytes().splitlines(keepends=True)
    expected = whole.asked_by("all")[-1]
    begun = next(i for i, line in enumerate(lines) if b"t001 created" in line)
    for cut in range(begun, len(lines), 3):
        part = tmp_path / f"cut-{cut}"
        part.mkdir()
        torn = lines[cut][: len(lines[cut]) // 2]
        (part / "trajectory.jsonl").write_bytes(b"".join(lines[:cut]) + torn)
        if load_run(part).result is not None:
            continue
        finished = set(re.findall(rb"(t\d+) finished", b"".join(lines[:cut])))
        model = Cast(["a 2", "b 4", "c 3"])
        again = await resume_swarm(part, model=model, options=OPTIONS)
        prompts = {child.id: child.assignment.prompt for child in again.children}
        assert all(not model.asked_by(prompts[name.decode()]) for name in finished), cut
        assert [child.state for child in again.children] == ["finished"] * 3, cut
        assert len(again.children) == 3
        if model.asked_by("all"):
            assert model.asked_by("all")[-1] == expected, cut  # word for word, numbers of calls and all


def test_final_states_are_left_by_nothing() -> None:
    assert all(not NEXT[state] for state in ("finished", "failed"))
    assert NEXT["capped"] == {"queued"}  # when its limit was raised
    from tests.cua.swarm.shapes import children_of

    child: Child = children_of({1: 1})[0]
    child.state = "finished"
    with pytest.raises(ValueError, match="cannot become"):
        child.check_next("running")


async def test_the_page_leads_to_each_child_and_shows_no_markup_of_theirs(tmp_path: Path) -> None:
    from cua.swarm.report import write_swarm_report

    done = await play(tmp_path, Cast(["<b>a</b> 2", "b 4"]))
    page = write_swarm_report(str(done.run.run_dir))
    text = page.read_text("utf-8")
    assert "<b>a</b>" not in text
    assert text.count('class="bar finished longest"') == 1  # the longest branch
    assert text.count('class="path"') == 1
    for child in done.children:
        assert f'href="children/{child.id}/report.html"' in text
        assert (page.parent / "children" / child.id / "report.html").is_file()


async def test_what_the_answer_cites_leads_to_the_childs_call(tmp_path: Path) -> None:
    from cua.swarm.report import write_swarm_report

    says = [calls(call("note", text="deep")), Reply(content="It is deep [^0^].")]
    model = Cast(["a 2"], faults={"a 2": says})
    done = await play(tmp_path, model)
    text = write_swarm_report(str(done.run.run_dir)).read_text("utf-8")
    assert done.run.end.reason == "the model's answer; nothing checks it but its own evidence"
    link = '<a href="children/t001/report.html#call-0">[^t001.0^]</a>'
    assert f"It is deep {link}." in text.partition("<h2>Answer</h2>")[2].partition("</pre>")[0]
    who = '<a href="children/t001/report.html">t001 worker</a>'
    assert f'<td class="claim">It is deep.</td><td>{who}</td><td><div>{link} <small>note</small>' in text
    child_page = (Path(str(done.run.run_dir)) / "children" / "t001" / "report.html").read_text("utf-8")
    assert 'id="call-0"' in child_page


async def test_a_citation_of_nothing_is_said_to_be_one(tmp_path: Path) -> None:
    from cua.swarm.report import write_swarm_report

    done = await play(tmp_path, Cast(["a 1"], faults={"a 1": [Reply(content="It is [^7^].")]}))
    text = write_swarm_report(str(done.run.run_dir)).read_text("utf-8")
    assert '<span class="lost" title="there is no such result">[^t001.7^]</span>' in text


async def test_a_mark_that_no_sub_agent_brought_is_named_at_the_end(tmp_path: Path) -> None:
    model = Cast(["a 1"], faults={"all": []})
    model.faults["all"] = [
        calls(call("create_subagent", name="worker", system_prompt="You work.")),
        calls(call("assign_task", agent="worker", prompt="a 1")),
        Reply(content="It is [^t001.0^]."),
    ]
    done = await play(tmp_path, model)
    assert done.run.end.reason == "the model's answer; it cites [^t001.0^], and the run has no such result"


async def test_the_answer_of_the_page_is_rendered_and_harmless(tmp_path: Path) -> None:
    from cua.swarm.report import write_swarm_report

    rows = "| river | km |\n|---|---|\n| <b>Rhine</b> | 1233 [^t001.0^] |"
    table = f"The table:\n```markdown\n{rows}\n```\n```\ncode\n```\n![x](http://evil/x.png) [go](javascript:alert(1))"
    model = Cast(["a 3"], faults={"all": []})
    model.faults["all"] = [
        calls(call("create_subagent", name="worker", system_prompt="You work.")),
        calls(call("assign_task", agent="worker", prompt="a 3"), call("assign_task", agent="nobody", prompt="b")),
        Reply(content=table),
    ]
    question = "Which river? " * 40
    done = await run_swarm(question, model=Asked(model, question), options=OPTIONS, runs_dir=tmp_path)
    text = write_swarm_report(str(done.run.run_dir)).read_text("utf-8")
    assert "<td>&lt;b&gt;Rhine&lt;/b&gt;</td>" in text
    assert 'href="children/t001/report.html#call-0"' in text
    assert "<pre><code>code" in text
    assert "<img" not in text
    assert 'href="javascript' not in text
    assert "Which river? ...</h1><details>" in text
    assert question.strip() in text


class Asked:
    """Passes the question of a test on as `all`."""

    name = "asked"

    def __init__(self, inner: Cast, question: str) -> None:
        self._inner, self._question = inner, question

    async def generate(self, messages: Sequence[Message], tools: Any = (), sampling: Any = None) -> Reply:
        if messages[1].text.strip() == self._question.strip():
            messages = [messages[0], Message(role="user", parts=(TextPart(text="all"),)), *messages[2:]]
        return await self._inner.generate(messages, tools, sampling)

    async def close(self) -> None:
        pass
