"""What a child may be: an agent of the user's own, one with children of its own, one on a desktop."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ConfigError, ModelError
from cua.messages import Message, Reply, TextPart, Usage
from cua.run.budget import Caps
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.swarm.child import Child
from cua.swarm.custom_agent import ChildTask
from cua.swarm.metrics import compute_metrics
from cua.trajectory import load_run
from envs import EnvSpec
from envs.fake import FakeEnv, FakeOptions
from tests.cua.swarm.shapes import children_of, steps_of
from tests.cua.swarm.test_children import CLICK, DONE, conversations, make_worker
from tests.cua.swarm.test_swarm import OPTIONS, Cast, call, calls, play

COST = Usage(input_tokens=90, output_tokens=10, cost_usd=0.01)


async def notes_twice(task: ChildTask) -> str:
    """Asks once, notes what it was asked and what it got, and says so."""
    reply = await task.ask([Message(role="user", parts=(TextPart(text=task.prompt),))], task.tools)
    results = await task.call(*reply.tool_calls)
    (task.folder / "out.txt").write_text(f"{task.system_prompt} {results[0].text}")
    return f"{task.id}: {results[0].text}"


async def test_an_agent_of_the_users_own_is_counted_and_recorded_as_any(tmp_path: Path) -> None:
    made = call("create_subagent", name="own", system_prompt="You note.", kind="twice")
    assign = call("assign_task", agent="own", prompt="child", returns=["out.txt"])
    note = calls(call("note", text="it"), usage=COST)
    model = conversations(every=[calls(made), calls(assign), "all done"], child=[note])
    options = replace(OPTIONS, agents={"twice": notes_twice})
    done = await run_swarm("every", model=model, options=options, runs_dir=tmp_path)
    (child,) = done.children
    assert (child.state, child.answer, child.num_steps, child.num_calls) == ("finished", "t001: noted it", 1, 1)
    assert done.run.usage == child.usage == COST
    assert (Path(str(done.run.run_dir)) / "files" / "t001" / "out.txt").read_text() == "You note. noted it"
    (step,) = load_run(str(done.run.run_dir)).agents["t001"].tool_steps
    assert [outcome.result.text for outcome in step.outcomes] == ["noted it"]


async def test_what_breaks_in_the_users_code_is_that_child_alone(tmp_path: Path) -> None:
    async def breaks(task: ChildTask) -> str:
        raise ZeroDivisionError("by nothing")

    async def silent(task: ChildTask) -> Any:
        return None

    made = [call("create_subagent", name=name, system_prompt="You.", kind=name) for name in ("breaks", "silent")]
    assigned = [call("assign_task", agent=name, prompt="child") for name in ("breaks", "silent")]
    model = conversations(every=[calls(*made), calls(*assigned), "all done"])
    options = replace(OPTIONS, agents={"breaks": breaks, "silent": silent})
    done = await run_swarm("every", model=model, options=options, runs_dir=tmp_path)
    assert [child.state for child in done.children] == ["failed", "failed"]
    assert "ZeroDivisionError: by nothing (test_kinds.py" in done.children[0].message
    assert "returned NoneType; expected its message" in done.children[1].message
    assert done.run.end.answer == "all done"


async def test_an_agent_of_the_users_own_has_the_same_limits(tmp_path: Path) -> None:
    async def endless(task: ChildTask) -> str:
        while True:
            reply = await task.ask([Message(role="user", parts=(TextPart(text="note 99"),))])
            await task.call(*reply.tool_calls)

    made = call("create_subagent", name="own", system_prompt="You.", kind="endless")
    model = Cast([], faults={"all": [calls(made), calls(call("assign_task", agent="own", prompt="child"))]})
    model.faults["note 99"] = [calls(call("note", text=str(number))) for number in range(50)]
    limits = SwarmLimits(child_calls=7)
    done = await play(tmp_path, model, replace(OPTIONS, agents={"endless": endless}, limits=limits))
    assert (done.children[0].state, done.children[0].num_calls) == ("capped", 7)


def test_a_kind_that_there_is_already_is_refused() -> None:
    with pytest.raises(ConfigError, match="'browser' is an existing kind of agent"):
        SwarmOptions(agents={"browser": notes_twice})


NESTED = {
    "every": [calls(make_worker()), calls(call("assign_task", agent="worker", prompt="middle")), "all done"],
    "middle": [
        calls(call("create_subagent", name="worker", system_prompt="You work below.")),
        calls(*(call("assign_task", agent="worker", prompt=f"low {letter}") for letter in "ab")),
        "middle done",
    ],
    "low a": [calls(call("note", text="x")), "a done"],
    "low b": ["b done"],
}


async def test_children_have_children_only_when_that_is_asked_for(tmp_path: Path) -> None:
    deep = replace(OPTIONS, limits=SwarmLimits(max_depth=2, max_parallel=1))
    done = await run_swarm("every", model=conversations(**NESTED), options=deep, runs_dir=tmp_path / "deep")
    assert [(child.id, child.parent, child.depth, child.answer) for child in done.children] == [
        ("t001", "main", 1, "middle done"),
        ("t002", "t001", 2, "a done"),
        ("t003", "t001", 2, "b done"),
    ]
    assert (done.metrics.critical_steps, done.metrics.total_steps) == (3 + (3 + 2), 3 + 3 + 2 + 1)
    flat = await run_swarm("every", model=conversations(**NESTED), options=OPTIONS, runs_dir=tmp_path / "flat")
    assert len(flat.children) == 1
    results = load_run(str(flat.run.run_dir)).agents["t001"].tool_steps[0].outcomes
    assert "There is no tool 'create_subagent'" in results[0].result.text


async def test_a_swarm_with_depth_goes_on_after_any_line(tmp_path: Path) -> None:
    deep = replace(OPTIONS, limits=SwarmLimits(max_depth=2))
    done = await run_swarm("every", model=conversations(**NESTED), options=deep, runs_dir=tmp_path / "whole")
    lines = (Path(str(done.run.run_dir)) / "trajectory.jsonl").read_bytes().splitlines(keepends=True)
    begun = next(i for i, line in enumerate(lines) if b"t001 created" in line)
    for cut in range(begun, len(lines) - 4, 3):
        part = tmp_path / f"cut-{cut}"
        part.mkdir()
        (part / "trajectory.jsonl").write_bytes(b"".join(lines[:cut]))
        if load_run(part).result is not None:
            continue
        again = await resume_swarm(part, model=conversations(**NESTED), options=deep)
        told = [(child.id, child.parent, child.state, child.answer) for child in again.children]
        assert told == [(child.id, child.parent, child.state, child.answer) for child in done.children], cut
        assert again.run.end.answer == "all done"


def test_critical_steps_count_what_is_below_a_child() -> None:
    """A task of 5 steps that starts two of 7 and 9 together and one of 4 later: 5 + 9 + 4; beside it one of 12."""
    children = children_of({1: 5, 2: 12})
    below = [*children_of({3: 7, 4: 9}), *children_of({5: 4})]
    for child, stage in zip(below, (2, 2, 4), strict=True):
        child.id, child.parent, child.stage = f"b{child.call}", "t001", stage
    measures = compute_metrics(steps_of([1, 2, 0]), [*children, *below], wall_s=1.0)
    assert (measures.critical_steps, measures.total_steps) == (1 + (1 + 18) + 1, 3 + 5 + 12 + 7 + 9 + 4)
    assert measures.longest == ("t001",)


async def test_a_second_try_in_an_env_begins_anew_under_a_name_of_its_own(tmp_path: Path) -> None:
    """The first env dies in its second step; the record of both tries can be read, and both are paid for."""
    made: list[FakeEnv] = []

    def make_env(spec: EnvSpec) -> FakeEnv:
        made.append(FakeEnv(FakeOptions(die_at_step=1 if not made else None)))
        return made[-1]

    clicker = call("create_subagent", name="clicker", system_prompt="You click.", kind="browser")
    assign = call("assign_task", agent="clicker", prompt="page")
    done_text = DONE.replace("{{question}}", "it")
    model = conversations(
        every=[calls(clicker), calls(assign), "all done"],
        page=[Reply(content=text, usage=COST) for text in (CLICK, CLICK, done_text)],
    )
    options = replace(OPTIONS, make_env=make_env, limits=SwarmLimits(child_calls=3))
    done = await run_swarm("every", model=model, options=options, runs_dir=tmp_path, approve="yolo")
    (child,) = done.children
    assert (child.state, child.num_tries, child.agent_id) == ("finished", 2, "t001.2"), child.reason
    assert done.run.usage.cost_usd == child.usage.cost_usd == pytest.approx(0.05)
    agents = load_run(str(done.run.run_dir)).agents
    assert [len(agents[name].steps) for name in ("t001", "t001.2")] == [1, 3]


async def test_steps_in_an_env_are_calls_of_the_run(tmp_path: Path) -> None:
    clicker = call("create_subagent", name="clicker", system_prompt="You click.", kind="browser")
    assigned = [call("assign_task", agent="clicker", prompt=f"page {name}") for name in "ab"]
    model = conversations(
        every=[calls(clicker), calls(*assigned), "all done"],
        **{f"page {name}": [CLICK] * 20 for name in "ab"},
    )
    limits = SwarmLimits(child_calls=4, run=Caps(max_steps=None, max_calls=100))
    options = replace(OPTIONS, make_env=lambda spec: FakeEnv(FakeOptions()), limits=limits)
    done = await run_swarm("every", model=model, options=options, runs_dir=tmp_path, approve="yolo")
    assert [(child.state, child.num_calls) for child in done.children] == [("capped", 4), ("capped", 4)]
    assert done.metrics.num_calls == 1 + 2 + 8


async def test_what_was_given_up_is_paid_for_and_a_name_of_its_own_can_be_resumed(tmp_path: Path) -> None:
    down = ModelError("down", retryable=True)
    model = Cast(["a 3"], faults={"a 3": [calls(call("note", text="first"), usage=COST), down]})
    done = await play(tmp_path, model)
    (child,) = done.children
    assert (child.num_tries, child.num_steps, child.usage.total_tokens) == (2, 3, 300)
    assert isinstance(child, Child)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="no Xvfb")
async def test_children_on_desktops_of_their_own(tmp_path: Path) -> None:
    """Each types its name into a terminal of its own display, which writes it to a file."""
    typist = call("create_subagent", name="typist", system_prompt="You type.", kind="desktop")
    assigned = [
        call(
            "assign_task", agent="typist", prompt=f"desk {name}", app=f"xterm -e 'read x; echo $x > {tmp_path}/{name}'"
        )
        for name in ("one", "two")
    ]
    typed = "## Action:\nType\n## Code:\n```python\npyautogui.write('{0}')\npyautogui.press('enter')\n```"
    model = conversations(
        every=[calls(typist), calls(*assigned), "all done"],
        **{f"desk {name}": [typed.format(name), DONE.replace("{{question}}", name)] for name in ("one", "two")},
    )
    done = await run_swarm("every", model=model, options=OPTIONS, runs_dir=tmp_path / "runs", approve="yolo")
    assert [(child.state, child.answer) for child in done.children] == [
        ("finished", "seen one"),
        ("finished", "seen two"),
    ]
    assert [(tmp_path / name).read_text().strip() for name in ("one", "two")] == ["one", "two"]
