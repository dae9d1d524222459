"""Players of episodes: the GUI agent in an environment, one agent with tools, or a swarm."""

import contextlib
import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from cua.api import run_task
from cua.batch.episode import Episode
from cua.config import load_settings
from cua.errors import ConfigError
from cua.guard.guard import GuardVerdict
from cua.run.end import End, RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope
from cua.step import Turn
from envs import Action, EnvError, QuestionTask, Task
from envs.env import check_task


class AgentPlayer:
    """`Player` of GUI agents.

    Args:
        runs_dir: Folder of the runs.
        watch: Callbacks that follow the runs; the ids of an event name its run.
        settings: Settings of every run, by name, as for `cua.run_task`. What a task requires in its `spec` is
            added.
    """

    def __init__(self, runs_dir: Path, *, watch: Watch | None = None, **settings: Any) -> None:
        self._settings = {**settings, "runs_dir": runs_dir}
        self._watch = watch

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """Run the agent, from taking its environment to returning it.

        Raises:
            CuaError: If a setting is invalid, or the record cannot be written.
            EnvError: If the environment cannot be created.
            Exception: If the task's own code raises it.
        """
        task, model = episode.make_task(), episode.make_model()
        check_task(task)
        opened = episode.make_env()
        env = await opened if inspect.isawaitable(opened) else opened
        watch = _with_task_approver(self._watch, task)
        try:
            result = await run_task(task, env=env, model=model, watch=watch, scope=scope, **self._settings)
        except BaseException:
            with contextlib.suppress(EnvError):  # the first error is the one to record
                await env.close()
            raise
        try:
            await env.close()
        except EnvError as error:
            if result.end.status != "error":
                end = End(status="error", source="env", reason=str(error), retryable=error.retryable)
                result = replace(result, end=end)
        return result


def _with_task_approver(watch: Watch | None, task: Task) -> Watch | None:
    """Set the task's own approver if the caller has given none."""
    person = task.approve
    if person is None or (watch is not None and watch.approver is not None):
        return watch

    async def approve(verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        return await person(verdict.reason, f"{turn.action_text}\n{turn.code}")

    return replace(watch or Watch(), approver=approve)


class ToolsPlayer:
    """`Player` of one agent with tools, without an environment.

    Must be entered as a context manager; all episodes share one sandbox.

    Args:
        runs_dir: Folder of the runs.
        settings: Settings of every run, by name, as for `cua.ask`.
    """

    def __init__(self, runs_dir: Path, **settings: Any) -> None:
        self._settings = {**settings, "runs_dir": runs_dir}
        self._sandbox: Any = None

    async def __aenter__(self) -> Self:
        """Start the sandbox that all episodes share.

        Raises:
            SandboxError: If code cannot be isolated on this machine.
        """
        from cua.tool_agent.assemble import start_sandbox

        self._sandbox = await start_sandbox(load_settings(self._settings).settings)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sandbox.close()

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """Run the agent.

        Raises:
            CuaError: If a setting is invalid, the record cannot be written, or the task needs a screen.
            EnvError: If resources to find or evaluate the answer are missing.
        """
        from cua.tool_agent.session import ask

        task, model = _check_question(episode.make_task()), episode.make_model()
        return await ask(task, task.inputs, model=model, sandbox=self._sandbox, scope=scope, **self._settings)


class SwarmPlayer:
    """`Player` of swarms, without an environment.

    Args:
        runs_dir: Folder of the runs.
        settings: Settings of every run, by name, as for `cua.ask`; `max_steps` limits the orchestrator's tool calls.
    """

    def __init__(self, runs_dir: Path, **settings: Any) -> None:
        self._settings = {**settings, "runs_dir": runs_dir}

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """Run the swarm; its number of steps is that of the critical path through orchestrator and sub-agents
        (`SwarmMetrics.critical_steps`).

        Raises:
            CuaError: If a setting is invalid, the record cannot be written, or the task needs a screen.
            EnvError: If resources to find or evaluate the answer are missing.
        """
        from cua.swarm import PRESETS, SwarmOptions, run_swarm

        task, model = _check_question(episode.make_task()), episode.make_model()
        preset = PRESETS["standard"]
        calls = self._settings.get("max_steps") or preset.orchestrator_calls
        options = SwarmOptions(preset=replace(preset, orchestrator_calls=calls))
        done = await run_swarm(task, task.inputs, options=options, model=model, scope=scope, **self._settings)
        return replace(done.run, num_steps=done.metrics.critical_steps)


def _check_question(task: Task) -> QuestionTask:
    check_task(task)
    if not isinstance(task, QuestionTask):
        raise ConfigError(f"the task {task.spec.id!r} needs a screen; only `--agent gui` plays it")
    return task
