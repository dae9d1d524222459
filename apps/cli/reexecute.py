"""Carry a recorded run out again and say where it went otherwise."""

import asyncio
import sys
from collections.abc import Sequence
from typing import NoReturn

from apps.cli import terminal
from cua.assemble import make_env, make_secrets
from cua.config import load_settings
from cua.trajectory import RunRecord
from cua.trajectory.replay import ReplayedStep, ReplayResult, reexecute
from envs import Action, InstructionTask, Observation


def reexecute_and_exit(record: RunRecord) -> NoReturn:
    """Repeat a run in a fresh world; exit code 0 when every step went as recorded, else 1.

    Raises:
        TrajectoryError: The screen has another size now.
        EnvError: The world could not be started.
    """
    result = asyncio.run(_reexecute(record))
    different = result.first_difference
    terminal.echo(
        f"{len(result.steps)} steps carried out again, "
        + ("all as recorded" if different is None else f"the first difference at step {different}")
        + (f"; not carried out: {', '.join(map(str, result.skipped))}" if result.skipped else "")
    )
    sys.exit(0 if different is None else 1)


async def _reexecute(record: RunRecord) -> ReplayResult:
    settings = load_settings(dict(record.header.settings.get("settings", {}))).settings
    secrets = make_secrets(settings)
    where = record.header.settings
    env = make_env(settings, url=where.get("url"), app=where.get("app"), secrets=secrets, files_dir=None)

    def fill(actions: Sequence[Action], seen: Observation) -> Sequence[Action]:
        return secrets.fill(actions, seen.url)

    try:
        return await reexecute(record, env, InstructionTask(instruction=record.header.instruction), _print, fill)
    finally:
        await env.close()


def _print(replayed: ReplayedStep) -> None:
    alike = "no picture" if replayed.similarity is None else f"{100 * replayed.similarity:.1f} % alike"
    mark = " " if replayed.is_alike else "!"
    terminal.echo(f"{mark} {replayed.step.index:>3}  {alike:>12}  {replayed.step.turn.action_text}", err=True)
    if replayed.error:
        terminal.echo(f"       {replayed.error}", err=True)
