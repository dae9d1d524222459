"""A suite whose envs, tasks and model server break in every way that there is a name for, and what must come of it.

Used by a test, and at a larger size by `python -m benchmarks.batch --faults 2000`.
"""

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cua.batch import (
    AgentPlayer,
    BatchOptions,
    BatchSummary,
    EpisodeLog,
    make_env_provider,
    make_episodes,
    run_batch,
)
from cua.batch.executor import ExecutorKind
from cua.messages import Message, Reply, Usage
from cua.models.gate import RetryPolicy
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.run.budget import Caps
from cua.run.scope import RunScope
from envs import (
    Action,
    Env,
    EnvDiedError,
    EnvSetupError,
    EnvSpec,
    Observation,
    StepResult,
    Suite,
    Task,
    TaskSpec,
    TaskVerdict,
)
from envs.fake import FakeEnv
from envs.remote import SuiteRef
from envs.target import ActionCheck
from tests.fake_openai import Exchange, FakeOpenAI, half_stream, raw, status

NUM_TRIES = 3
TIMEOUT_S = 20.0
"""Of an episode; far more than one takes that does not hang, on a busy machine too."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What becomes of an episode with a fault: its kind, its score, and how often it is tried."""

    kind: str
    score: float | None
    num_tries: int


FAULTS: Mapping[str, Expected] = {
    "none": Expected("scored", 1.0, 1),
    "half the work": Expected("scored", 0.5, 1),
    "gives up": Expected("scored", 0.0, 1),
    "garbage for replies": Expected("scored", 0.0, 1),
    "env dies once": Expected("scored", 1.0, 2),
    "env dies always": Expected("env_error", None, NUM_TRIES),
    "process ends once": Expected("scored", 1.0, 2),
    "env not set up": Expected("env_error", None, 1),
    "env hangs": Expected("timeout", None, 1),
    "setup raises": Expected("evaluator_error", None, 1),
    "teardown raises": Expected("evaluator_error", None, 1),
    "evaluator raises": Expected("evaluator_error", None, 1),
    "evaluator gives 7": Expected("evaluator_error", None, 1),
    "evaluator gives numpy's true": Expected("scored", 1.0, 1),
    "evaluator exits": Expected("evaluator_error", None, 1),
    "evaluator raises a cancellation": Expected("evaluator_error", None, 1),
    "evaluator cancels its task": Expected("evaluator_error", None, 1),
    "a task of the evaluator exits": Expected("evaluator_error", None, 1),
    "instruction exits": Expected("evaluator_error", None, 1),
    "task cannot be made": Expected("evaluator_error", None, 1),
    "step raises": Expected("env_error", None, 1),
    "step gives nothing": Expected("env_error", None, 1),
    "evaluator is cut off": Expected("env_error", None, NUM_TRIES),
    "429 once": Expected("scored", 1.0, 1),
    "stream torn once": Expected("scored", 1.0, 1),
    "503 always": Expected("model_error", None, NUM_TRIES),
    "401": Expected("model_error", None, 1),
    "a web page answers": Expected("model_error", None, 1),
}
WITHOUT_RUN = ("task cannot be made", "instruction exits")
"""Faults that come before there is anything to record."""
ENV = EnvSpec(name="faulty")


class FaultyEnv(FakeEnv):
    """Breaks as its task says."""

    async def reset(self, task: Any) -> Observation:
        self.task = task
        if task.fault == "env not set up":
            raise EnvSetupError("this machine has no such screen")
        return await super().reset(task)

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        match self.task.fault:
            case "env dies once" if self.task.is_first_time():
                raise EnvDiedError("the browser is gone")
            case "env dies always":
                raise EnvDiedError("the browser is gone")
            case "process ends once" if self.task.is_first_time():
                if self.task.is_in_process:
                    os._exit(1)
                raise EnvDiedError("as if the process had ended")
            case "env hangs":
                await asyncio.sleep(3600)
            case "step raises":
                raise LookupError("in the env's own code")
            case "step gives nothing":
                return None  # type: ignore[return-value]
        return await super().step(actions, check)


@dataclass
class FaultyTask(Task):
    """Clicks to be made: two."""

    folder: Path
    is_in_process: bool
    spec: TaskSpec

    @property
    def fault(self) -> str:
        return self.spec.id

    @property
    def instruction(self) -> str:  # type: ignore[override]  # as foreign code may have it
        if self.fault == "instruction exits":
            sys.exit(0)
        return f"Click twice. fault: {self.fault}; seed: {self.spec.seed}"

    def is_first_time(self) -> bool:
        """Whatever process asks: true once for this task and seed."""
        try:
            (self.folder / f"{self.fault}-{self.spec.seed}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    async def setup(self, env: Any) -> None:
        if self.fault == "setup raises":
            raise LookupError("no such file in the task's data")

    async def evaluate(self, env: Any) -> TaskVerdict:
        if self.fault == "evaluator raises":
            raise ZeroDivisionError("in the task's own code")
        if self.fault == "evaluator is cut off":
            raise EnvDiedError("gone before the verdict")
        match self.fault:
            case "evaluator exits":
                sys.exit(0)
            case "evaluator raises a cancellation":
                raise asyncio.CancelledError
            case "evaluator cancels its task":
                current = asyncio.current_task()
                assert current is not None
                current.cancel()
                await asyncio.sleep(0)
            case "a task of the evaluator exits":
                await asyncio.create_task(self._exit())
            case "evaluator gives numpy's true":
                return TaskVerdict(np.bool_(True))  # type: ignore[arg-type]
        clicks = sum(type(action).__name__ == "Click" for action in env.actions)
        return TaskVerdict(7.0 if self.fault == "evaluator gives 7" else clicks / 2)

    async def _exit(self) -> None:
        sys.exit(0)

    async def teardown(self, env: Any) -> None:
        if self.fault == "teardown raises":
            raise LookupError("nothing to undo")


def make_suite(folder: str, is_in_process: bool = False) -> Suite:
    def make_task(task_id: str, seed: int | None) -> Task:
        if task_id == "task cannot be made":
            raise LookupError("its file is damaged")
        spec = TaskSpec(id=task_id, seed=seed, env=ENV, metadata={"family": "faults"})
        return FaultyTask(Path(folder), is_in_process, spec)

    def make_env(spec: EnvSpec) -> Env:
        return FaultyEnv()

    return Suite(name="faults", about="", task_ids=tuple(FAULTS), make_task=make_task, make_env=make_env)


CLICK = "pyautogui.click(0.5, 0.5)"
CODE = {
    "half the work": CLICK,
    "gives up": "computer.terminate(status='failure', answer='no')",
}


def answer(messages: Sequence[Message]) -> Reply:
    """What a model says that knows its fault from the instruction."""
    texts = [message.text for message in messages]
    fault, _ = fault_of("\n".join(texts))
    if fault == "garbage for replies":
        return Reply(content="I would rather not.", usage=Usage(input_tokens=9, output_tokens=1))
    is_first = not any(message.role == "assistant" for message in messages)
    code = CODE.get(fault, f"{CLICK}\n{CLICK}") if is_first else "computer.terminate(status='success')"
    return Reply(
        content=f"## Action:\nGo on\n## Code:\n```python\n{code}\n```", usage=Usage(input_tokens=9, output_tokens=1)
    )


def fault_of(text: str) -> tuple[str, str]:
    found = re.search(r"fault: ([^;]+); seed: (\d+)", text)
    assert found is not None, text[:500]
    return found[1], found[2]


class FaultyServer:
    """The fault of each request, by the instruction in it."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()

    async def __call__(self, exchange: Exchange) -> None:
        key = fault_of(json.dumps(json.loads(exchange.body)["messages"]))
        self.seen[key] += 1
        match key[0]:
            case "429 once" if self.seen[key] == 1:
                await status(429, "slow down", "rate_limit", retry_after="0.02")(exchange)
            case "stream torn once" if self.seen[key] == 1:
                await half_stream(abrupt=True)(exchange)
            case "503 always":
                await status(503, "no room")(exchange)
            case "401":
                await status(401, "no such key", "invalid_api_key")(exchange)
            case "a web page answers":
                await raw(b"<html>a proxy's page</html>", "text/html")(exchange)
            case _:
                await exchange.forward()


async def run_faulty(
    folder: Path,
    num_episodes: int,
    *,
    faults: Sequence[str] = tuple(FAULTS),
    num_parallel: int = 8,
    executor: ExecutorKind = "local",
    timeout_s: float = TIMEOUT_S,
) -> tuple[BatchSummary, RunScope]:
    """A batch of that many episodes, the faults in turn."""
    seen = folder / "seen"
    seen.mkdir(parents=True)
    keys = [(faults[number % len(faults)], number, 0) for number in range(num_episodes)]
    options = BatchOptions(num_parallel=num_parallel, max_attempts=NUM_TRIES, backoff_s=0.01, timeout_s=timeout_s)
    scope = RunScope(caps=Caps(max_steps=None))
    ref = SuiteRef(name=f"{__file__}", options={"folder": str(seen), "is_in_process": executor == "process"})
    hosts = make_env_provider(executor, ref, max_idle=num_parallel)
    with FakeOpenAI(answer) as server, EpisodeLog(folder) as log:
        server.always(FaultyServer())
        model = OpenAICompatModel(
            OpenAICompatOptions(
                model="fake",
                base_url=server.base_url,
                api_key="none",
                retry=RetryPolicy(max_retries=2, base_wait_s=0.01),
            )
        )
        episodes = make_episodes(keys, make_task=hosts.make_task, take_env=hosts.take_env, make_model=lambda: model)
        player = AgentPlayer(folder / "runs", approve="yolo", max_steps=20)
        try:
            return await run_batch(episodes, player, log=log, scope=scope, options=options), scope
        finally:
            await hosts.close()
            await model.close()


def account(folder: Path, summary: BatchSummary, scope: RunScope, num_episodes: int) -> list[str]:
    """What is not as it must be; nothing, if every episode and every token is accounted for."""
    wrong = []
    if summary.num_unfinished or len(summary.results) != num_episodes:
        wrong.append(f"{len(summary.results)} of {num_episodes} episodes ended, {summary.num_unfinished} did not")
    for result in summary.results:
        expected = FAULTS[result.task_id]
        if (result.kind, result.score, result.num_tries) != (expected.kind, expected.score, expected.num_tries):
            wrong.append(
                f"{result.task_id} {result.seed}: {result.kind} {result.score} {result.num_tries} {result.reason}"
            )
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()]
    kinds = Counter(line["event"] for line in lines)
    if kinds["ended"] != num_episodes or kinds["begun"] != kinds["ended"] + kinds["tried"]:
        wrong.append(f"the episode log has {dict(kinds)}")
    tokens = sum(line["input_tokens"] + line["output_tokens"] for line in lines if line["event"] in ("ended", "tried"))
    if tokens != scope.budget.usage.total_tokens:
        wrong.append(f"{tokens} tokens in the episode log, {scope.budget.usage.total_tokens} in the budget")
    runs = {path.name for path in (folder / "runs").iterdir()}
    named = {Path(line["run_dir"]).name for line in lines if line.get("run_dir")}
    num_made = sum(result.task_id not in WITHOUT_RUN for result in summary.results)
    if not named <= runs or len(runs) < num_made or len(named) < num_made:
        wrong.append(f"{len(named - runs)} of {len(named)} runs in the episode log have no folder; {len(runs)} folders")
    return wrong
