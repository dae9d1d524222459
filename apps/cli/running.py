"""Run an agent from the command line: signals, output, report, exit code."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from apps.cli import terminal
from apps.cli.progress import print_files, print_result, result_object, stream_listener, terminal_listener
from cua import RunResult, Watch
from cua.assemble import make_env, make_secrets
from cua.config import load_settings
from cua.errors import CuaError, ModelError, TrajectoryError
from cua.guard.guard import Approver, GuardVerdict
from cua.run.control import Control
from cua.run.events import Event, RunEnded
from cua.step import Turn
from cua.trajectory import RunRecord, load_run
from cua.trajectory.replay import ReplayedStep, ReplayResult, reexecute
from envs import Action, EnvError, InstructionTask


def terminal_approver(hand_back: Callable[[], None] | None = None) -> Approver | None:
    """Return an approver that asks on the terminal; None if there is no terminal.

    Args:
        hand_back: Called after the person has worked on the screen, so that the agent observes it again. None if they
            cannot take over.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    async def ask(verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        terminal.echo(f"\n  {verdict.reason}\n  {turn.action_text}\n{_indented(turn.code)}", err=True)
        may_take_over = verdict.can_take_over and hand_back is not None
        choices = "[y] allow, [t] take over, [N] refuse" if may_take_over else "[y/N]"
        answer = (await terminal.ask_line(f"  Allow this step? {choices} ")).lower()
        if answer in ("t", "take over") and may_take_over and hand_back is not None:
            await terminal.ask_line("  Work in the agent's window, then press Enter here. ")
            hand_back()
        return answer in ("y", "yes")

    return ask


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())


T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


Work = Callable[[Watch], Coroutine[object, object, RunResult]]


def run_and_exit(make_work: Work, runner: asyncio.Runner, *, output_format: str, write_report: bool) -> None:
    """Execute a run and end the process with the exit code of its result.

    Args:
        make_work: Function that creates the run for a `Watch`.
        runner: Runner of its event loop.
        output_format: `text`, `json` or `stream-json`.
        write_report: True to write `report.html` at the end.

    Raises:
        CuaError: If a setting is wrong; nothing was started.
    """
    result = run_watched(make_work, runner, output_format)
    report = write_run_report(result) if write_report else None
    print_outcome(result, output_format, {"report": report, "fingerprint": fingerprint_of(result)})
    sys.exit(result.end.exit_code)


def run_watched(make_work: Work, runner: asyncio.Runner, output_format: str, *, is_chat: bool = False) -> RunResult:
    """Execute a run with signals, progress and approvals connected.

    Args:
        make_work: Function that creates the run for a `Watch`.
        runner: Runner of its event loop.
        output_format: `text`, `json` or `stream-json`.
        is_chat: True if it takes further questions; a signal between two of them ends it.
    """
    switch = StopSwitch()
    listener = stream_listener() if output_format == "stream-json" else terminal_listener()

    def listen(event: Event) -> None:
        listener(event)
        if is_chat and isinstance(event, RunEnded):
            switch.release()

    watch = Watch(listener=listen, approver=terminal_approver(switch.hand_back), on_control=switch.connect)
    return runner.run(switch.guarded(make_work(watch)))


def print_outcome(
    result: RunResult, output_format: str, more: Mapping[str, object], *, is_printed: bool = False
) -> None:
    """Print the result in the chosen format.

    Args:
        result: Result of the run.
        output_format: `text`, `json` or `stream-json`.
        more: Items that are added to the JSON object, or listed line by line as text.
        is_printed: True if the result was already printed; only `more` is printed.
    """
    if output_format == "text":
        lines = {name: value for name, value in more.items() if isinstance(value, str)}
        print_files(lines) if is_printed else print_result(result, lines)
        return
    final = dict(more) if is_printed else {**result_object(result), **more}
    terminal.echo_json(final if output_format == "json" else {"event": "result", **final})


def run_cancelled_by_signals(work: Coroutine[object, object, T]) -> T:
    """Execute work without an agent; a signal cancels it, so that it can clean up."""
    return asyncio.run(StopSwitch(is_for_agent=False).guarded(work))


class StopSwitch:
    """Switch for Ctrl-C, SIGTERM and similar signals: the first one stops the agent, the second cancels everything.

    Args:
        is_for_agent: False for work without an agent, which the first signal cancels.
    """

    def __init__(self, *, is_for_agent: bool = True) -> None:
        self._is_for_agent = is_for_agent
        self._control: Control | None = None
        self._task: asyncio.Task[object] | None = None
        self._pressed = 0

    def connect(self, control: Control) -> None:
        """Send signals to this run from now on."""
        self._control, self._is_for_agent = control, True
        if self._pressed:
            control.stop()

    def hand_back(self) -> None:
        """Make the run observe again because a person has worked on the screen."""
        if self._control is not None:
            self._control.hand_back()

    def release(self) -> None:
        """Disconnect a finished run; a signal without a connected run cancels the remaining work."""
        self._control, self._is_for_agent, self._pressed = None, False, 0

    @property
    def is_pressed(self) -> bool:
        """True if a signal was received."""
        return self._pressed > 0

    async def guarded(self, work: Coroutine[object, object, T]) -> T:
        """Await work with the signals connected."""
        loop = asyncio.get_running_loop()
        task: asyncio.Task[T] = loop.create_task(work)
        self._task = task
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._hang_up if number == signal.SIGHUP else self._press)
        try:
            return await task
        except asyncio.CancelledError:
            if not self.is_pressed:
                raise
            terminal.echo("cancelled", err=True)
            raise SystemExit(130) from None
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)

    def _hang_up(self) -> None:
        """Redirect output to the null device, since the terminal is gone, and stop."""
        for stream in (sys.stdout, sys.stderr):
            if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode):  # a lost terminal is no longer reported as a terminal
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        self._press()

    def _press(self) -> None:
        self._pressed += 1
        if self._pressed == 1 and self._is_for_agent:
            terminal.echo("\nstopping (press again to cancel immediately)", err=True)
            if self._control is not None:
                self._control.stop()
        elif self._task is not None:
            asyncio.get_running_loop().set_exception_handler(_forget)
            self._task.cancel()


def _forget(loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
    """Drop the errors of what cancelled work leaves behind, such as calls to a browser that is closed."""


def write_run_report(result: RunResult) -> str | None:
    """Write the report; return None for a run without a readable record."""
    from cua.trajectory.report import write_report

    if result.run_dir is None:
        return None
    try:
        return str(write_report(Path(result.run_dir)))
    except TrajectoryError as error:
        terminal.echo(f"no report: {error}", err=True)
        return None


def fingerprint_of(result: RunResult) -> str | None:
    """Return the fingerprint of a run's record; None if it cannot be read."""
    if result.run_dir is None:
        return None
    try:
        chain = load_run(result.run_dir, images=0).chain
    except TrajectoryError:
        return None
    return chain.fingerprint if chain.status == "whole" else None


def reexecute_and_exit(record: RunRecord) -> NoReturn:
    """Repeat a run in a fresh environment; exit with 0 if every step matched the record, else 1.

    Raises:
        TrajectoryError: If the screen size has changed.
        EnvError: If the environment could not be started.
    """
    result = run_cancelled_by_signals(_reexecute(record))
    different = result.first_difference
    terminal.echo(
        f"{len(result.steps)} steps executed again, "
        + ("all as recorded" if different is None else f"the first difference at step {different}")
        + (f"; not executed: {', '.join(map(str, result.skipped))}" if result.skipped else "")
    )
    sys.exit(0 if different is None else 1)


async def _reexecute(record: RunRecord) -> ReplayResult:
    settings = load_settings(dict(record.header.settings.get("settings", {}))).settings
    secrets = make_secrets(settings)
    start = record.header.settings
    env = make_env(settings, url=start.get("url"), app=start.get("app"), secrets=secrets, files_dir=None)

    try:
        task = InstructionTask(instruction=record.header.instruction)
        return await reexecute(record, env, task, _print, secrets.fill)
    finally:
        await env.close()


def _print(replayed: ReplayedStep) -> None:
    alike = "no image" if replayed.similarity is None else f"{100 * replayed.similarity:.1f} % similar"
    mark = " " if replayed.is_alike else "!"
    terminal.echo(f"{mark} {replayed.step.index:>3}  {alike:>12}  {replayed.step.turn.action_text}", err=True)
    if replayed.error:
        terminal.echo(f"       {replayed.error}", err=True)


def exit_code_of(error: Exception) -> int | None:
    """Return 2 for an error that the user can fix, 75 for a temporary one, None for a defect of this program."""
    from model_runtime.errors import EngineDead, RuntimeFault
    from visual_tools.errors import VisualError

    if isinstance(error, EngineDead) or (isinstance(error, ModelError | EnvError) and error.retryable):
        return 75
    return 2 if isinstance(error, CuaError | EnvError | VisualError | RuntimeFault) else None
