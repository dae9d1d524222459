from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import TrajectoryError
from cua.run.end import End
from cua.secrets import Secret, Secrets
from cua.step import Turn
from cua.trajectory import RunRecord, TrajectoryWriter, load_run
from cua.trajectory.replay import ReplayedStep, actions_of, reexecute, show, similarity
from envs import Action, Click, InstructionTask, Task, TaskVerdict, Terminate, TypeText
from envs.fake import FakeEnv, FakeOptions
from tests.cua.trajectory import samples

TASK = InstructionTask(instruction="Do it")
PLAN: tuple[tuple[Action, ...], ...] = (
    (Click(x_px=20, y_px=20),),
    (TypeText(text="hello"), Click(x_px=200, y_px=100)),
    (Terminate(status="success", answer="42"),),
)


@dataclass
class ScoredTask(Task):
    score: float | None
    instruction: str = "Do it"
    torn_down: list[str] = field(default_factory=list)

    async def evaluate(self, env: Any) -> TaskVerdict:
        return TaskVerdict(self.score)

    async def teardown(self, env: Any) -> None:
        self.torn_down.append("yes")


async def record_of(
    runs_dir: Path, plan: Sequence[tuple[Action, ...]] = PLAN, refused: Sequence[int] = ()
) -> RunRecord:
    """A run that a fake world really went through."""
    env = FakeEnv()
    observation = await env.reset(TASK)
    with TrajectoryWriter.create(runs_dir, samples.HEADER, is_durable=False) as writer:
        for number, actions in enumerate(plan, start=1):
            step = samples.make_step(number, observation=observation, actions=actions)
            writer.observed(number, observation)
            writer.replied(number, step.reply)
            if number in refused:
                writer.acted(replace(step, error="not allowed"))
                continue
            writer.acting(number, step.turn, actions)
            observation = (await env.step(actions)).observation
            writer.acted(replace(step, error=observation.last_action_error))
        writer.ended(samples.ENDED)
    return load_run(writer.run_dir, images=0)


async def test_the_same_world_goes_the_same_way(tmp_path: Path) -> None:
    record = await record_of(tmp_path)
    env, task, seen = FakeEnv(), ScoredTask(1.0), list[ReplayedStep]()
    result = await reexecute(record, env, task, seen.append)
    assert env.actions == [action for actions in PLAN for action in actions]
    assert [(step.step.index, step.similarity, step.error) for step in result.steps] == [
        (1, 1.0, None),
        (2, 1.0, None),
        (3, 1.0, None),
    ]
    assert seen == list(result.steps)
    assert (result.first_difference, result.skipped, result.score, result.recorded_score) == (None, (), 1.0, 1.0)
    assert task.torn_down == ["yes"]


async def test_refused_steps_are_skipped_and_interrupted_ones_are_not(tmp_path: Path) -> None:
    record = await record_of(tmp_path, refused=[2])
    assert [(step.index, actions) for step, actions in actions_of(record)] == [(1, PLAN[0]), (3, PLAN[2])]
    env = FakeEnv()
    result = await reexecute(record, env, TASK)
    assert env.actions == [*PLAN[0], *PLAN[2]]
    assert (result.skipped, result.score) == ((2,), None)
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        samples.write_step(writer, samples.make_step(1), until="acting")
    TrajectoryWriter.reopen(writer.run_dir).close()
    assert [step.index for step, _ in actions_of(load_run(writer.run_dir))] == [1]


async def test_another_screen_is_told(tmp_path: Path) -> None:
    record = await record_of(tmp_path)
    other = samples.png("\n".join(["quite another page " * 3] * 12))
    result = await reexecute(record, FakeEnv(FakeOptions(screens=(other,))), ScoredTask(0.0))
    assert [step.is_alike for step in result.steps] == [False] * 3
    assert result.first_difference == 1 and result.score == 0.0
    assert all(step.similarity is not None and 0 < step.similarity < 1 for step in result.steps)


async def test_an_action_that_fails_only_this_time_is_told(tmp_path: Path) -> None:
    record = await record_of(tmp_path)
    result = await reexecute(record, FakeEnv(FakeOptions(fail_action=1)), TASK)
    assert [step.error is None for step in result.steps] == [True, False, True]
    assert result.first_difference == 2


async def test_another_screen_size_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    record = await record_of(tmp_path)
    env, task = FakeEnv(FakeOptions(screen_px=(640, 400))), ScoredTask(1.0)
    with pytest.raises(TrajectoryError, match=r"320x200 px at \(0, 0\), this one has 640x400 px"):
        await reexecute(record, env, task)
    assert env.actions == [] and task.torn_down == ["yes"]


async def test_secrets_are_filled_in_below_the_record(tmp_path: Path) -> None:
    record = await record_of(tmp_path, plan=[(TypeText(text="{{pin}}"),)])
    secrets = Secrets({"pin": Secret(value="hunter2")})

    env = FakeEnv()
    result = await reexecute(record, env, TASK, fill=secrets.fill)
    assert env.actions == [TypeText(text="hunter2")]
    assert result.steps[0].step.actions == (TypeText(text="{{pin}}"),)


def test_similarity() -> None:
    one, other = samples.png("one"), samples.png("two")
    assert similarity(one, one) == 1.0
    assert 0.9 < (similarity(one, other) or 0) < 1.0
    assert similarity(one, b"") is similarity(b"", one) is None
    assert similarity(one, samples.png("one", (321, 200))) is None


def test_a_run_told_as_text(tmp_path: Path) -> None:
    step = samples.make_step(1, observation=samples.make_observation(1, url="http://x/1", last_action_error="slow"))
    refused = samples.make_step(2, error="not allowed", turn=Turn(thought="", action_text="Pay", code="a\nb"))
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        samples.write_step(writer, step)
        writer.observed(2, refused.observation)
        writer.note("guard", "denied: pay")
        writer.acted(refused)
        writer.ended(samples.ENDED)
    assert (
        "\n".join(show(load_run(writer.run_dir)))
        == f"""\
run {writer.run_dir.name}
instruction: Add two items
model: literal   env: browser

step 1  http://x/1
  last action failed: slow
  thought: thought 1
  action: Act 1
    | pyautogui.click(1, 5)
    -> click at (1, 5)
  750 ms, 110 tokens, $0.5000
  * guard: denied: pay

step 2  http://x/2
  action: Pay
    | a
    | b
    -> click at (2, 5)  (not carried out)
  error: not allowed
  750 ms, 110 tokens, $0.5000

succeeded: the task's own check passed
score: 1
answer: 42
2 steps, 3.5 s, 220 tokens, $1.00"""
    )


def test_text_of_a_page_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;title\x07\r\u202egone\u009b31m"
    turn = Turn(thought=evil, action_text=evil, code=f"a{evil}")
    step = samples.make_step(1, turn=turn, observation=samples.make_observation(1, url=evil), error=evil)
    end = End(status="failed", reason=evil, answer=evil)
    header = replace(samples.HEADER, instruction=evil)
    with TrajectoryWriter.create(tmp_path, header) as writer:
        samples.write_step(writer, step)
        writer.note(evil, evil)
        writer.ended(replace(samples.ENDED, end=end))
    text = "\n".join(show(load_run(writer.run_dir)))
    assert not set("\x1b\x07\r\u202e\u009b") & set(text)
    assert "␛[2J" in text


@pytest.mark.parametrize("until", ["nothing", "observed", "acting"])
def test_a_run_without_an_end_says_so(tmp_path: Path, until: str) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        if until != "nothing":
            samples.write_step(writer, samples.make_step(1), until=until)
    assert list(show(load_run(writer.run_dir)))[-1] == "the record has no end: the run is going on, or its process died"
