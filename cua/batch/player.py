"""Plays episodes with the GUI agent, each with a record of its own."""

import inspect
from pathlib import Path
from typing import Any

from cua.api import run_task
from cua.batch.episode import Episode
from cua.run.end import RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope


class AgentPlayer:
    """The `Player` of real agents.

    Args:
        runs_dir: Folder of the runs.
        watch: Who follows them; an event says in its ids whose it is.
        settings: Of every run, by name, as for `cua.run_task`; what a task asks of its env holds besides.
    """

    def __init__(self, runs_dir: Path, *, watch: Watch | None = None, **settings: Any) -> None:
        self._settings = {**settings, "runs_dir": runs_dir}
        self._watch = watch

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """One run of the agent, from taking its env to giving it back.

        Raises:
            CuaError: A setting is wrong, or the record cannot be written.
            EnvError: There is no env.
            Exception: What the task's own code raises.
        """
        task, model = episode.make_task(), episode.make_model()
        made = episode.make_env()
        env = await made if inspect.isawaitable(made) else made
        try:
            return await run_task(task, env=env, model=model, watch=self._watch, scope=scope, **self._settings)
        finally:
            await env.close()
