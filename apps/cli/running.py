"""Run an agent from the command line: signals, output, report, exit code."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import typer

from apps.cli.approve import terminal_approver
from apps.cli.progress import print_result, result_object, stream_listener, terminal_listener
from cua import RunResult, Watch, resume_task, run_task
from cua.agent import Agent
from envs import Task


def run_and_exit(
    instruction: str | Task | None,
    *,
    url: str | None,
    app: str | None,
    schema: str | None,
    resume: str | None,
    output_format: str,
    write_report: bool,
    flags: Mapping[str, Any],
) -> None:
    """Run (or resume) and end the process with the exit code of the result.

    Raises:
        CuaError: A setting is wrong; nothing was started.
    """
    switch = _StopSwitch()
    listener = stream_listener() if output_format == "stream-json" else terminal_listener()
    watch = Watch(listener=listener, approver=terminal_approver(), on_agent=switch.connect)
    work: Coroutine[Any, Any, RunResult]
    if resume is not None:
        from cua.trajectory.runs import find_run

        work = resume_task(find_run(resume, flags.get("runs_dir")), schema=schema, watch=watch, **flags)
    else:
        assert instruction is not None
        work = run_task(instruction, url=url, app=app, schema=schema, watch=watch, **flags)
    result = asyncio.run(switch.guarded(work))
    report = _report(result) if write_report else None
    if output_format == "text":
        print_result(result, report)
    else:
        final = result_object(result) | {"report": report}
        typer.echo(json.dumps(final if output_format == "json" else {"event": "result", **final}, ensure_ascii=False))
    sys.exit(result.end.exit_code)


class _StopSwitch:
    """Ctrl-C and SIGTERM: the first one stops the agent in an orderly way, the second one cancels everything."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._task: asyncio.Task[RunResult] | None = None
        self._pressed = 0

    def connect(self, agent: Agent) -> None:
        """Signals go to this agent from now on."""
        self._agent = agent
        if self._pressed:
            agent.control.stop()

    async def guarded(self, work: Coroutine[Any, Any, RunResult]) -> RunResult:
        """Await a run with the signals connected."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.get_running_loop().create_task(work)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._press)
        try:
            return await self._task
        except asyncio.CancelledError:
            typer.echo("cancelled", err=True)
            raise SystemExit(130) from None
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)

    def _press(self) -> None:
        self._pressed += 1
        if self._pressed == 1:
            typer.echo("\nstopping (once more to cancel at once)", err=True)
            if self._agent is not None:
                self._agent.control.stop()
        elif self._task is not None:
            self._task.cancel()


def _report(result: RunResult) -> str | None:
    """Write the report; a run without a readable record has none."""
    from cua.errors import TrajectoryError
    from cua.trajectory.report import write_report

    if result.run_dir is None:
        return None
    try:
        return str(write_report(Path(result.run_dir)))
    except TrajectoryError as error:
        typer.echo(f"no report: {error}", err=True)
        return None
