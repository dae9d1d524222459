"""The checker of suites lets a good one pass, and names what is wrong with each bad one."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from envs import EnvDiedError, EnvSpec, Suite, Task, TaskSpec, TaskVerdict
from envs.check_suite import SuiteContractError, check_suite
from envs.fake import FakeEnv
from envs.suite import Baseline

ENV = EnvSpec(name="canvas")
_count = itertools.count()


@dataclass(slots=True)
class Chore(Task):
    """A good task, unless it is told otherwise."""

    spec: TaskSpec
    instruction: str = ""
    score: Any = 0.0
    scores: list[float] = field(default_factory=list)
    failing: str = ""
    drawn: str = "Do it"

    async def setup(self, env: Any) -> None:
        self._break("setup")
        self.instruction = self.drawn

    async def evaluate(self, env: Any) -> TaskVerdict:
        self._break("evaluate")
        return TaskVerdict(self.scores.pop(0) if self.scores else self.score)

    async def teardown(self, env: Any) -> None:
        self._break("teardown")

    def _break(self, verb: str) -> None:
        if self.failing == verb:
            raise ZeroDivisionError("in the task")


def make(spec: TaskSpec | None = None, **changed: Any) -> Suite:
    def make_task(task_id: str, seed: int | None) -> Task:
        own = TaskSpec(id=task_id, seed=seed, env=ENV, metadata={"family": "chores"})
        given = {name: value() if callable(value) else value for name, value in changed.items()}
        return Chore(spec or own, **given)

    return Suite(
        name="chores",
        about="",
        task_ids=("a", "b"),
        make_task=make_task,
        make_env=lambda spec: FakeEnv(),
        seeds=(1, 2),
    )


async def test_a_good_suite_passes_and_its_envs_are_used_again() -> None:
    made: list[FakeEnv] = []

    def make_env(spec: EnvSpec) -> FakeEnv:
        made.append(FakeEnv())
        return made[-1]

    await check_suite(make, make_env=make_env)
    assert [env.num_resets for env in made] == [8]
    assert made[0].is_closed
    await check_suite(make, task_ids=["a"], max_seeds=1, make_env=make_env)
    assert made[1].num_resets == 2
    await check_suite(make, sample=1, make_env=make_env)
    assert made[2].num_resets == 4


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"spec": TaskSpec(id="c", env=ENV)},
            "a task says which one it is: a with seed 1: its spec says 'c' with seed",
        ),
        ({"spec": TaskSpec(id="a", seed=1, env=ENV)}, "a task has a family"),
        ({"spec": TaskSpec(id="a", seed=1, metadata={"family": "x"})}, "a task names its environment"),
        ({"drawn": " "}, "a task has an instruction once it is set up"),
        ({"score": 1.0}, "doing nothing scores 0: a with seed 1: an agent that claims success at once gets 1"),
        ({"score": None}, r"a verdict is a number in \[0, 1\]: a with seed 1: it is None"),
        ({"score": "1"}, r"a verdict is a number in \[0, 1\]: .* returned '1'"),
        ({"score": float("nan")}, r"a verdict is a number in \[0, 1\]"),
        ({"score": 2}, r"a verdict is a number in \[0, 1\]"),
        ({"scores": lambda: [0.0, 0.5]}, "evaluating twice gives the same"),
        ({"drawn": lambda: f"Do {next(_count)}"}, "a seed gives the same task each time"),
        ({"failing": "setup"}, "setup raises nothing but an EnvError: .*ZeroDivisionError: in the task"),
        ({"failing": "evaluate"}, "evaluate raises nothing but an EnvError"),
        ({"failing": "teardown"}, "teardown raises nothing but an EnvError"),
    ],
)
async def test_a_bad_suite_is_told_what_is_wrong(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(SuiteContractError, match=text):
        await check_suite(lambda: make(**changed))


async def test_what_cannot_be_helped_is_marked() -> None:
    spec = TaskSpec(id="a", seed=1, env=ENV, metadata={"family": "x", "nondeterministic": True})
    suite = make(spec, drawn=lambda: f"Do {next(_count)}")
    await check_suite(lambda: suite, task_ids=["a"], max_seeds=1)


async def test_lists_and_baselines() -> None:
    with pytest.raises(SuiteContractError, match="a suite made twice is the same: its revision changed"):
        await check_suite(lambda: replace(make(), revision=str(next(_count))))
    baselines = {"null": Baseline(score=1.5, num_episodes=3, command="cua eval")}
    with pytest.raises(SuiteContractError, match="a baseline is a score of episodes"):
        await check_suite(lambda: replace(make(), baselines=baselines))
    with pytest.raises(ValueError, match="has one id twice"):
        replace(make(), task_ids=("a", "a"))


async def test_an_env_that_breaks_is_no_fault_of_the_suite() -> None:
    class Dead(FakeEnv):
        async def reset(self, task: Task) -> Any:
            raise EnvDiedError("gone")

    with pytest.raises(EnvDiedError):
        await check_suite(make, make_env=lambda spec: Dead())
