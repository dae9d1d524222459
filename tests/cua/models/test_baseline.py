"""Agents without skill: each does what its name says, and the same again."""

import pytest

from cua.check_model import check_model
from cua.errors import ConfigError
from cua.gui_agent.agent import Agent, AgentOptions
from cua.messages import TextPart
from cua.models.make import make_model
from cua.models.scripted import NUM_CLICKS, NUM_ROWS, NUM_SEARCHES, BaselineModel
from cua.research.fetch import make_web
from cua.run.budget import Caps
from cua.run.end import RunResult
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.profile import Profile
from cua.tools import Toolset
from cua.tools.research import make_research_tools
from envs import Action, Click, InstructionTask
from envs.fake import FakeEnv
from envs.registry import load_suite
from envs.suites.widesearch.scoring import read_table
from envs.suites.widesearch.tasks import WideSearchTask


async def play(name: str) -> tuple[RunResult, list[Action]]:
    env = FakeEnv()
    agent = Agent(model=make_model(name), env=env, options=AgentOptions(caps=Caps(max_steps=20)))
    result = await agent.run(InstructionTask(instruction="Do it"))
    return result, env.actions


async def test_null_says_success_and_fail_says_failure_at_once() -> None:
    null, _ = await play("baseline:null")
    assert (null.end.status, null.num_steps) == ("unverified", 1)
    fail, _ = await play("baseline:fail")
    assert (fail.end.status, fail.num_steps) == ("failed", 1)


async def test_random_clicks_and_then_says_success() -> None:
    result, actions = await play("baseline:random")
    assert (result.end.status, result.num_steps) == ("unverified", NUM_CLICKS + 1)
    clicks = [(action.x_px, action.y_px) for action in actions if isinstance(action, Click)]
    assert len(set(clicks)) == NUM_CLICKS
    assert (await play("baseline:random"))[1] == actions
    assert (await play("baseline:random:7"))[1] != actions


async def test_it_is_a_model() -> None:
    await check_model(lambda: BaselineModel("random"), ignores=("max_tokens", "stop", "seed"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("baseline:nul", "no baseline 'nul'; expected one of null, fail, random.*'null'"),
        ("baseline:", "no baseline ''"),
        ("baseline:random:x", "no seed"),
        ("baseline:null:3", "no seed"),
        ("baseline:random:-1", "no seed"),
    ],
)
def test_a_wrong_name_is_told(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_model(name)


async def test_offered_tools_they_answer_in_words_and_get_nothing() -> None:
    suite = load_suite("widesearch", size="tiny", num_seeds=1)
    task = suite.make_task(suite.task_ids[0], 0)
    assert isinstance(task, WideSearchTask)
    tools = make_research_tools(make_web(task.search), None)
    calls = {}
    for kind in ("null", "fail", "random"):
        profile = Profile(system_prompt="", caps=Caps(max_steps=20))
        agent = ToolAgent(model=BaselineModel(kind), toolset=Toolset(tools), profile=profile, task=task)
        result = await agent.run([TextPart(text=task.instruction)])
        assert (result.end.status, result.end.score) == ("failed", 0.0)
        calls[kind] = agent.num_calls
    assert calls == {"null": 0, "fail": 0, "random": NUM_SEARCHES}
    rows = read_table(result.end.answer or "")
    assert rows is not None and (len(rows[0]), len(rows[1])) == (len(task.columns), NUM_ROWS)
