import asyncio
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cua.answer import AnswerSchema
from cua.api import run_task
from cua.batch.episode import classify_end
from cua.errors import ModelError, TruncatedReplyError
from cua.guard import Guard, GuardVerdict
from cua.gui_agent.agent import Agent, AgentOptions, Start
from cua.gui_agent.protocol import ProtocolOptions, system_prompt
from cua.gui_agent.protocol.prompts import UNTRUSTED_PROMPT
from cua.messages import ImagePart, Message, Reply, Sampling, Usage
from cua.models.scripted import ScriptedModel
from cua.run.budget import Caps
from cua.run.events import Decided, Event, Noted, RunEnded, RunStarted, StepDone, Watch
from cua.secrets import Secret, Secrets
from cua.trajectory import TrajectoryWriter, load_run, resume_steps
from cua.trajectory.run_record import INTERRUPTED
from envs import Click, EnvDiedError, InstructionTask, Observation, Task, TaskSpec, TaskVerdict, Terminate, TypeText
from envs.fake import FakeEnv, FakeOptions
from tests.cua.trajectory import samples

TASK = InstructionTask(instruction="Do it")


def say(code: str, action: str = "Act") -> str:
    return f"## Action:\n{action}\n## Code:\n```python\n{code}\n```"


def click(x: float, y: float = 0.5) -> str:
    return say(f"pyautogui.click({x}, {y})")


DONE = say('computer.terminate(status="success", answer="42")')
GIVE_UP = say('computer.terminate(status="failure", answer="no such button")')


@dataclass
class ScoredTask(Task):
    score: float
    instruction: str = "Do it"
    calls: list[str] = field(default_factory=list)

    async def setup(self, env: Any) -> None:
        self.calls.append("setup")

    async def evaluate(self, env: Any) -> TaskVerdict:
        self.calls.append(f"evaluate {env.terminate}")
        return TaskVerdict(self.score)

    async def teardown(self, env: Any) -> None:
        self.calls.append("teardown")


def make(replies: Sequence[Any], env: FakeEnv | None = None, **options: Any) -> tuple[Agent, FakeEnv, list[Event]]:
    env = env or FakeEnv()
    events: list[Event] = []
    agent_options = {key: options.pop(key) for key in ("caps", "sampling", "answer_schema") if key in options}
    agent = Agent(
        model=ScriptedModel(replies), env=env, options=AgentOptions(**agent_options), listener=events.append, **options
    )
    return agent, env, events


@pytest.mark.parametrize(
    ("task", "last", "status", "score"),
    [
        (TASK, DONE, "unverified", None),
        (TASK, GIVE_UP, "failed", None),
        (ScoredTask(1.0), DONE, "succeeded", 1.0),
        (ScoredTask(1.0), GIVE_UP, "succeeded", 1.0),  # an infeasible task is solved by saying so
        (ScoredTask(0.0), DONE, "failed", 0.0),
        (ScoredTask(0.5), DONE, "failed", 0.5),
    ],
)
async def test_the_tasks_verdict_decides_not_the_agents_word(
    task: Any, last: str, status: str, score: float | None
) -> None:
    agent, env, _ = make([click(0.25), last])
    result = await agent.run(task)
    assert (result.end.status, result.end.score, result.num_steps) == (status, score, 2)
    assert env.actions[0] == Click(x_px=80, y_px=100)


async def test_the_task_is_set_up_evaluated_and_torn_down() -> None:
    task = ScoredTask(1.0)
    agent, _, _ = make([DONE])
    result = await agent.run(task)
    assert result.end.answer == "42"
    assert task.calls == ["setup", f"evaluate {Terminate(status='success', answer='42')}", "teardown"]


async def test_what_a_task_warns_of_is_told_around_the_episode() -> None:
    @dataclass
    class WarningTask(ScoredTask):
        warnings: list[str] = field(default_factory=list)

        async def setup(self, env: Any) -> None:
            self.warnings.append("a command ended with status 3: no such user")

        async def evaluate(self, env: Any) -> TaskVerdict:
            self.warnings.append("x" * 10_000)
            return TaskVerdict(self.score)

    agent, _, events = make([DONE])
    await agent.run(WarningTask(1.0))
    told = [event.text for event in events if isinstance(event, Noted) and event.kind == "task"]
    assert told == ["a command ended with status 3: no such user", "x" * 500]


@pytest.mark.parametrize(
    ("task", "status", "reason"),
    [
        (TASK, "unverified", "the environment ended the episode"),
        (ScoredTask(1.0), "succeeded", "own check passed"),
        (ScoredTask(0.5), "failed", "gave 0.5; the environment ended the episode"),
    ],
)
async def test_an_env_that_ends_an_episode_by_itself_ends_the_run_and_the_task_scores(
    task: Any, status: str, reason: str
) -> None:
    env = FakeEnv(FakeOptions(rewards=(0.0, -1.0), end_at_step=1))
    agent, _, _ = make([click(0.1), click(0.2), click(0.3)], env)
    result = await agent.run(task)
    assert (result.end.status, result.num_steps, result.end.answer) == (status, 2, None)
    assert reason in result.end.reason


async def test_an_env_that_cuts_an_episode_off_caps_the_run_with_its_score() -> None:
    task = ScoredTask(1.0)
    agent, _, _ = make([click(0.1), click(0.2), DONE], FakeEnv(FakeOptions(cut_at_step=1)))
    result = await agent.run(task)
    assert (result.end.status, result.end.cap, result.end.score, result.num_steps) == ("capped", "env", 1.0, 2)
    assert task.calls == ["setup", "evaluate None", "teardown"]


async def test_an_env_that_cannot_be_asked_at_a_limit_is_named_as_what_broke() -> None:
    class Unreachable(ScoredTask):
        async def evaluate(self, env: Any) -> TaskVerdict:
            raise EnvDiedError("the browser is gone", retryable=True)

    agent, _, _ = make([click(0.1), DONE], caps=Caps(max_steps=1))
    end = (await agent.run(Unreachable(1.0))).end
    assert (end.status, end.cap, end.source, end.score, end.retryable) == ("capped", "steps", "env", None, True)
    assert end.reason.endswith("the task's verdict could not be reached: the browser is gone")
    assert classify_end(end) == ("env_error", None)


@pytest.mark.parametrize(
    ("caps", "replies", "cap", "steps"),
    [
        (Caps(max_steps=2), [click(0.1), click(0.2), DONE], "steps", 2),
        (
            Caps(max_tokens=150),
            [Reply(content=click(i / 10), usage=Usage(input_tokens=100)) for i in range(9)],
            "tokens",
            2,
        ),
        (Caps(max_cost_usd=1), [Reply(content=click(i / 10), usage=Usage(cost_usd=0.6)) for i in range(9)], "cost", 2),
        (Caps(max_cost_usd=1), [Reply(content=click(0.1), usage=Usage(cost_usd=None))] * 2, "cost", 1),
        (Caps(max_time_s=0.0), [DONE], "time", 0),
        (Caps(), ["nonsense"] * 5, "parse_errors", 0),
        (Caps(max_parse_errors=2), [click(0.1), "nonsense", say("import os")], "parse_errors", 1),
        (Caps(), [say("pyautogui.press('f5')")] * 9, "loop", 5),
        (Caps(), [say("time.sleep(0.01)")] * 61, "loop", 59),
        (Caps(wait_cap=4), [say(f"time.sleep({turn / 100})") for turn in range(1, 9)], "loop", 3),
    ],
)
async def test_limits_end_a_run_as_capped_and_never_as_success(
    caps: Caps, replies: list[Any], cap: str, steps: int
) -> None:
    task = ScoredTask(1.0)
    png = io.BytesIO()
    Image.new("RGB", (320, 200)).save(png, "PNG")
    agent, _, _ = make(replies, FakeEnv(FakeOptions(screens=(png.getvalue(),))), caps=caps)
    result = await agent.run(task)
    assert (result.end.status, result.end.cap, result.num_steps) == ("capped", cap, steps)
    assert result.end.exit_code == 3
    assert task.calls[-1] == "teardown"


async def test_an_unusable_reply_is_told_to_the_model_and_not_kept_in_the_history() -> None:
    model = ScriptedModel(["no code here", say("__import__('os').system('id')"), click(0.1), DONE])
    agent = Agent(model=model, env=FakeEnv())
    result = await agent.run(TASK)
    assert (result.end.status, result.num_steps) == ("unverified", 2)
    second = [message.text for message in model.received[1]]
    assert "no code here" in second[-2]
    assert "not carried out" in second[-1]
    assert not any("no code here" in message.text for message in model.received[3])


async def test_a_loop_is_first_told_to_the_model() -> None:
    model = ScriptedModel([say("pyautogui.press('f5')")] * 3 + [DONE])
    png = io.BytesIO()
    Image.new("RGB", (320, 200)).save(png, "PNG")
    agent = Agent(model=model, env=FakeEnv(FakeOptions(screens=(png.getvalue(),))))
    result = await agent.run(TASK)
    assert result.end.status == "unverified"
    assert not any("same thing" in message.text for message in model.received[2])
    assert any("same thing on the same screen 3 times" in message.text for message in model.received[3])


async def test_waiting_on_a_still_screen_is_no_loop() -> None:
    model = ScriptedModel([say("time.sleep(0.01)")] * 25 + [DONE])
    png = io.BytesIO()
    Image.new("RGB", (320, 200)).save(png, "PNG")
    agent = Agent(model=model, env=FakeEnv(FakeOptions(screens=(png.getvalue(),))))
    result = await agent.run(TASK)
    assert (result.end.status, result.num_steps) == ("unverified", 26)
    assert not any("same thing" in message.text for request in model.received for message in request)


async def test_only_the_last_three_pictures_are_sent_and_all_text_is_kept() -> None:
    model = ScriptedModel([click(i / 10) for i in range(1, 6)] + [DONE])
    agent = Agent(model=model, env=FakeEnv())
    await agent.run(TASK)
    images = [sum(isinstance(part, ImagePart) for m in request for part in m.parts) for request in model.received]
    assert images == [1, 2, 3, 3, 3, 3]
    assert all(f"# Step {i}:" in "".join(m.text for m in model.received[-1]) for i in range(1, 6))


async def test_a_failed_action_is_told_and_the_run_goes_on() -> None:
    model = ScriptedModel([click(0.1), DONE])
    agent = Agent(model=model, env=FakeEnv(FakeOptions(fail_action=0)))
    result = await agent.run(TASK)
    assert result.end.status == "unverified"
    assert len([m for m in model.received[1] if m.role == "user"][-1].parts) == 3  # image, error, instruction


async def test_a_dead_world_is_an_error_not_a_failure() -> None:
    task = ScoredTask(1.0)
    agent, _, events = make([click(0.1), DONE], FakeEnv(FakeOptions(die_at_step=0)))
    result = await agent.run(task)
    assert (result.end.status, result.end.source, result.end.exit_code) == ("error", "env", 75)
    assert task.calls[-1] == "teardown"
    assert isinstance(events[-1], RunEnded)


@pytest.mark.parametrize(("retryable", "code"), [(True, 75), (False, 1)])
async def test_a_model_that_is_down_is_an_error(retryable: bool, code: int) -> None:
    agent, _, _ = make([click(0.1), ModelError("the server is down", retryable=retryable)])
    result = await agent.run(TASK)
    assert (result.end.status, result.end.source, result.end.exit_code, result.num_steps) == ("error", "model", code, 1)
    assert "the server is down" in result.end.reason


@pytest.mark.parametrize(
    ("sampling", "rooms"),
    [
        (Sampling(max_tokens=100), [100, 200, 400, 400]),
        (Sampling(temperature=0.5), [None] * 4),
        (None, [None] * 4),
    ],
)
async def test_a_truncated_reply_is_asked_for_again_with_more_room_where_it_was_limited(
    sampling: Sampling | None, rooms: list[int | None]
) -> None:
    asked: list[int | None] = []

    class Truncating:
        name = "truncating"

        async def generate(
            self, messages: Sequence[Message], tools: Sequence[Any] = (), sampling: Sampling | None = None
        ) -> Reply:
            asked.append(sampling.max_tokens if sampling else None)
            if len(asked) < 4:
                raise TruncatedReplyError("cut")
            return Reply(content=DONE)

        async def close(self) -> None:
            pass

    agent = Agent(model=Truncating(), env=FakeEnv(), options=AgentOptions(sampling=sampling))
    assert (await agent.run(TASK)).end.status == "unverified"
    assert asked == rooms


async def test_a_stop_ends_a_thinking_model_at_once() -> None:
    events: list[Event] = []
    agent = Agent(model=Slow(), env=FakeEnv(), listener=events.append)
    running = asyncio.ensure_future(agent.run(TASK))
    await until(lambda: len(events) >= 2)
    agent.control.stop("enough")
    result = await asyncio.wait_for(running, 2)
    assert (result.end.status, result.end.reason, result.end.exit_code) == ("stopped", "enough", 130)


async def test_the_time_limit_ends_a_thinking_model() -> None:
    task = ScoredTask(0.0)
    agent = Agent(model=Slow(), env=FakeEnv(), options=AgentOptions(caps=Caps(max_time_s=0.2)))
    result = await asyncio.wait_for(agent.run(task), 5)
    assert (result.end.status, result.end.cap, result.end.reason) == ("capped", "time", "0 of 0.2 s used")
    assert (result.num_steps, task.calls[-1]) == (0, "teardown")


async def test_the_time_limit_ends_a_reset_and_nothing_is_judged() -> None:
    class Hanging(FakeEnv):
        async def reset(self, task: Any) -> Observation:
            await asyncio.sleep(60)
            raise AssertionError("not reached")

    task = ScoredTask(1.0)
    agent, _, _ = make([DONE], Hanging(), caps=Caps(max_time_s=0.1))
    result = await asyncio.wait_for(agent.run(task), 5)
    assert (result.end.status, result.end.cap, result.end.score) == ("capped", "time", None)
    assert task.calls == ["teardown"]


@pytest.mark.parametrize("by", ["time", "stop"])
async def test_a_step_is_ended_in_the_middle_and_the_record_says_so(by: str, tmp_path: Path) -> None:
    caps = Caps(max_time_s=0.3 if by == "time" else None)
    events: list[Event] = []
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        agent = Agent(
            model=ScriptedModel([click(0.1), DONE]),
            env=FakeEnv(FakeOptions(slow_s=60)),
            options=AgentOptions(caps=caps),
            record=writer,
            listener=events.append,
        )
        running = asyncio.ensure_future(agent.run(TASK))
        if by == "stop":
            await until(lambda: any(isinstance(event, Decided) for event in events))
            agent.control.stop()
        result = await asyncio.wait_for(running, 5)
    why = "0 of 0.3 s used" if by == "time" else "stopped by the user"
    assert (result.end.status, result.end.reason) == ("capped" if by == "time" else "stopped", why)
    record = load_run(writer.run_dir)
    assert [(note.kind, note.text) for note in record.notes] == [
        ("cut", f"step 1 was cut off: some of its 1 actions may be done ({why})")
    ]
    steps, note = resume_steps(record)
    assert [(step.index, step.actions, step.error) for step in steps] == [(1, (Click(x_px=32, y_px=100),), INTERRUPTED)]
    assert note is not None and "they are not repeated" in note


async def test_pause_holds_before_the_next_call_and_redirect_changes_the_instruction() -> None:
    model = ScriptedModel([click(0.1), click(0.2), DONE])
    env = FakeEnv()
    agent: Agent
    paused = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, StepDone) and event.step.index == 1:
            agent.control.pause()
            paused.set()

    agent = Agent(model=model, env=env, listener=listen)
    running = asyncio.ensure_future(agent.run(TASK))
    await asyncio.wait_for(paused.wait(), 2)
    await asyncio.sleep(0.1)
    assert len(model.received) == 1
    agent.control.redirect("Do something else")
    agent.control.resume()
    result = await asyncio.wait_for(running, 2)
    assert result.end.status == "unverified"
    assert "Do it" in model.received[0][-1].text
    assert "Do something else" in model.received[1][-1].text


async def test_a_person_who_worked_on_the_screen_makes_the_agent_look_and_decide_anew(tmp_path: Path) -> None:
    model = ScriptedModel([click(0.1), click(0.9), DONE])
    env = FakeEnv()
    events: list[Event] = []
    decided = asyncio.Event()

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Decided) and not decided.is_set():
            agent.control.pause()
            decided.set()

    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        agent = Agent(model=model, env=env, listener=listen, record=writer)
        running = asyncio.ensure_future(agent.run(TASK))
        await asyncio.wait_for(decided.wait(), 2)
        await asyncio.sleep(0.05)
        assert env.actions == []  # a pause holds before the action, too
        await env.step([Click(x_px=7, y_px=8)])
        agent.control.hand_back([Click(x_px=7, y_px=8), TypeText(text="***")])
        agent.control.resume()
        result = await asyncio.wait_for(running, 2)
    assert result.end.status == "unverified"
    assert [action for action in env.actions if isinstance(action, Click)] == [
        Click(x_px=7, y_px=8),
        Click(x_px=288, y_px=100),  # the first decision was made on another screen: it is not carried out
    ]
    assert "a person worked on the screen: click at (7, 8)" in model.received[1][-1].text
    record = load_run(writer.run_dir)
    assert [(note.kind, [action["kind"] for action in note.data["actions"]]) for note in record.notes] == [
        ("person", ["click", "type_text"])
    ]
    assert [step.index for step in record.steps] == [1, 2]


@dataclass
class DrawnTask(ScoredTask):
    """Its world draws what is to be done."""

    drawn: str = "Click the red one"
    spec: TaskSpec = field(default_factory=lambda: TaskSpec(id="drawn/one", seed=3))

    async def setup(self, env: Any) -> None:
        self.instruction = self.drawn


async def test_an_instruction_that_is_known_after_the_reset_is_told_and_recorded(tmp_path: Path) -> None:
    model = ScriptedModel([click(0.1), DONE])
    told: list[Event] = []
    task = DrawnTask(1.0, instruction="drawn/one, seed 3")
    watch = Watch(listener=told.append)
    result = await run_task(task, model=model, env=FakeEnv(), watch=watch, runs_dir=str(tmp_path))
    assert result.end.status == "succeeded"
    for messages in model.received:
        shown = "\n".join(message.text for message in messages)
        assert "Click the red one" in shown and "drawn/one, seed 3" not in shown
    assert [event.text for event in told if isinstance(event, Noted)] == ["Click the red one"]
    record = load_run(Path(result.run_dir or ""))
    assert record.header.instruction == "drawn/one, seed 3"
    assert record.instruction == record.task_instruction == "Click the red one"
    assert record.steps[0].index == 1 and record.notes[0].kind == "instruction"


async def test_a_redirect_stands_over_an_instruction_that_came_late(tmp_path: Path) -> None:
    model = ScriptedModel([DONE])
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        agent = Agent(model=model, env=FakeEnv(), record=writer)
        agent.control.redirect("Do something else")
        await agent.run(DrawnTask(1.0, instruction="drawn/one, seed 3"))
    assert "Do something else" in model.received[0][-1].text
    record = load_run(writer.run_dir)
    assert (record.instruction, record.task_instruction) == ("Do something else", "Click the red one")


async def test_a_task_that_says_nothing_once_it_is_set_up_is_an_error_of_its_env() -> None:
    agent, _, _ = make([DONE])
    result = await agent.run(DrawnTask(1.0, instruction="drawn/one, seed 3", drawn=" "))
    assert (result.end.status, result.end.source, result.end.retryable) == ("error", "env", False)
    assert result.end.reason == "the task 'drawn/one' has no instruction once it is set up; expected a text"


async def test_a_refused_step_is_not_carried_out_and_the_model_is_told() -> None:
    env = FakeEnv(FakeOptions(points={(0, 0, 320, 200): 'button "Delete"'}))
    model = ScriptedModel([click(0.1), GIVE_UP])
    agent = Agent(model=model, env=env, guard=Guard())
    result = await agent.run(TASK)
    assert result.end.status == "failed"
    assert env.actions == [Terminate(status="failure", answer="no such button")]
    assert any("not allowed: risky (delete)" in message.text for message in model.received[1])


async def test_what_a_step_finds_midway_is_refused_there_and_told() -> None:
    """The second click lands on what the first has opened."""

    class Menu(FakeEnv):
        async def describe_point(self, x_px: int, y_px: int) -> str | None:
            return 'menu item "Delete"' if self.actions else 'button "More"'

    env = Menu()
    model = ScriptedModel([say("pyautogui.click(0.1, 0.5)\npyautogui.click(0.2, 0.5)\npyautogui.write('x')"), GIVE_UP])
    events: list[Event] = []
    agent = Agent(model=model, env=env, guard=Guard(), listener=events.append)
    await agent.run(TASK)
    assert env.actions == [Click(x_px=32, y_px=100), Terminate(status="failure", answer="no such button")]
    told = "\n".join(message.text for message in model.received[1])
    assert r"not allowed: risky (delete): menu item \"Delete\"; there is no person to approve it" in told
    assert "This is action 2 of 3; action 1 before it was carried out, none after it" in told
    assert [event.text for event in events if isinstance(event, Noted)] == [
        'after 1 action: not allowed: risky (delete): menu item "Delete"; there is no person to approve it'
    ]


async def test_a_person_is_asked_midway_about_that_action_alone() -> None:
    asked: list[tuple[str, Sequence[Any]]] = []

    async def person(verdict: GuardVerdict, turn: Any, actions: Sequence[Any]) -> bool:
        asked.append((verdict.reason, actions))
        return True

    class Menu(FakeEnv):
        async def describe_point(self, x_px: int, y_px: int) -> str | None:
            return 'menu item "Delete"' if self.actions else 'button "More"'

    env = Menu()
    model = ScriptedModel([say("pyautogui.click(0.1, 0.5)\npyautogui.click(0.2, 0.5)"), GIVE_UP])
    await Agent(model=model, env=env, guard=Guard(approver=person)).run(TASK)
    assert asked == [('risky (delete): menu item "Delete"', (Click(x_px=64, y_px=100),))]
    assert env.actions[:2] == [Click(x_px=32, y_px=100), Click(x_px=64, y_px=100)]


async def test_secrets_are_filled_below_the_model() -> None:
    env = FakeEnv()
    model = ScriptedModel([say("pyautogui.write('{{pin}}')"), DONE])
    agent = Agent(model=model, env=env, guard=Guard(mode="yolo"), secrets=Secrets({"pin": Secret(value="9876")}))
    await agent.run(TASK)
    assert env.actions[0] == TypeText(text="9876")
    texts = [message.text for request in model.received for message in request]
    assert not any("9876" in text for text in texts)
    assert any("{{pin}}" in text for text in texts)


async def test_an_answer_that_does_not_fit_the_schema_is_sent_back() -> None:
    replies = [DONE, say("""computer.terminate(status="success", answer='{"total": 1}')""")]
    agent, _, events = make(replies, answer_schema=AnswerSchema({"type": "object", "required": ["total"]}))
    result = await agent.run(TASK)
    assert (result.end.status, result.end.answer, result.num_steps) == ("unverified", '{"total": 1}', 2)
    assert any(isinstance(event, Noted) and "does not satisfy the schema" in event.text for event in events)


async def test_a_resumed_run_counts_on_and_keeps_its_usage() -> None:
    first, _, events = make([Reply(content=click(0.1), usage=Usage(input_tokens=10))] * 1, caps=Caps(max_steps=1))
    await first.run(TASK)
    steps = [event.step for event in events if isinstance(event, StepDone)]
    model = ScriptedModel([DONE])
    agent = Agent(model=model, env=FakeEnv())
    result = await agent.run(TASK, Start(steps=steps, usage=Usage(input_tokens=10), note="The run was resumed."))
    assert (result.num_steps, result.usage.input_tokens) == (2, 10)
    request = model.received[0]
    assert any("# Step 1:" in message.text for message in request)
    assert "The run was resumed." in request[-1].text


async def test_events_come_in_order() -> None:
    agent, _, events = make([click(0.1), DONE])
    await agent.run(TASK)
    names = [type(event).__name__ for event in events]
    assert names == ["RunStarted", *["Observed", "Decided", "StepDone"] * 2, "RunEnded"]
    assert isinstance(events[0], RunStarted)


class Slow:
    name = "slow"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Any] = (), sampling: Sampling | None = None
    ) -> Reply:
        await asyncio.sleep(60)
        return Reply(content=DONE)

    async def close(self) -> None:
        pass


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(2):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("is_marked", [True, False])
async def test_the_setting_mark_untrusted_ends_the_system_prompt_and_is_recorded(
    tmp_path: Path, is_marked: bool
) -> None:
    model = ScriptedModel([DONE])
    task = InstructionTask(instruction="Do it")
    more = {} if is_marked else {"mark_untrusted": False}  # on by default
    result = await run_task(task, model=model, env=FakeEnv(), runs_dir=str(tmp_path), **more)
    published = system_prompt(ProtocolOptions())
    assert model.received[0][0].text == (f"{published}\n\n{UNTRUSTED_PROMPT}" if is_marked else published)
    assert result.run_dir is not None
    header = load_run(Path(result.run_dir)).header
    assert header.protocol["mark_untrusted"] is is_marked
