"""Progress and results of a run, for people and for programs."""

import sys
from collections.abc import Mapping
from dataclasses import asdict

import typer

from apps.cli import terminal
from cua.json_text import Json
from cua.messages import ImagePart
from cua.run.end import RunResult
from cua.run.events import (
    CallReturned,
    CallsStarted,
    Decided,
    Event,
    Listener,
    Noted,
    Observed,
    RunStarted,
    StepDone,
    Thinking,
    ToolStepDone,
)
from cua.trajectory.describe import readable_arguments

_SHOWN_LINES, _SHOWN_CHARS = 12, 200  # of a call's arguments or result on the terminal

COLOURS = {
    "succeeded": typer.colors.GREEN,
    "unverified": typer.colors.YELLOW,
    "failed": typer.colors.RED,
    "capped": typer.colors.YELLOW,
    "stopped": typer.colors.YELLOW,
    "error": typer.colors.RED,
}


def result_object(result: RunResult) -> Json:
    """Return the final JSON object: status, reason, verified, answer, steps, usage, run_dir and others."""
    end = result.end
    return {
        "status": end.status,
        "reason": end.reason,
        "verified": end.score is not None and end.status in ("succeeded", "failed"),
        "score": end.score,
        "answer": end.answer,
        "cap": end.cap,
        "source": end.source,
        "steps": result.num_steps,
        "duration_s": round(result.duration_s, 3),
        "usage": asdict(result.usage),
        "run_dir": result.run_dir,
    }


def terminal_listener() -> Listener:
    """Return a listener that prints progress on stderr: one line for each action and one for its result.

    On a terminal, the answer of a streaming model is shown as it arrives.
    """
    is_terminal = sys.stderr.isatty()
    is_mid_line = False

    def listen(event: Event) -> None:
        nonlocal is_mid_line
        if isinstance(event, Thinking):
            if is_terminal:
                terminal.secho(event.text, err=True, dim=True, nl=False)
                is_mid_line = True
            return
        if is_mid_line:
            terminal.echo(err=True)
            is_mid_line = False
        _print(event, is_terminal)

    return listen


def _print(event: Event, is_terminal: bool) -> None:
    match event:
        case RunStarted(run_dir=run_dir):
            terminal.secho(f"run {run_dir or '(not recorded)'}", err=True, dim=True)
        case Decided(index=index, turn=turn):
            terminal.echo(f"{index:>4}  {_indented(turn.action_text or turn.code)}", err=True)
        case StepDone(step=step):
            total = sum(step.timings.values())
            if step.error:
                terminal.secho(f"      ! {step.error}", err=True, fg=typer.colors.YELLOW)
            if is_terminal:
                model = step.timings.get("model", 0.0)
                terminal.secho(f"      {total:.1f} s, of which model {model:.1f} s", err=True, dim=True)
        case CallsStarted(index=index, reply=reply):
            if reply.content.strip():
                terminal.echo(f"{index:>4}  {_shortened(reply.content.strip())}", err=True)
            for call in reply.tool_calls:
                terminal.echo(f"{index:>4}  {call.name}: {_shortened(readable_arguments(call))}", err=True)
        case CallReturned(outcome=outcome):
            colour = typer.colors.YELLOW if outcome.result.is_error else None
            text = _shortened(outcome.result.display or outcome.result.text)
            terminal.secho(f"      [{outcome.number}] {text}", err=True, fg=colour, dim=colour is None)
        case Noted(kind=kind, text=text) if kind != "refused":
            terminal.secho(f"      {kind.replace('_', ' ')}: {text}", err=True, fg=typer.colors.YELLOW)
        case _:
            pass


def _indented(text: str) -> str:
    return text.replace("\n", "\n      ")


def _shortened(text: str) -> str:
    """Return the first lines, with the following ones indented."""
    lines = text.strip().splitlines()
    more = [f"... {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    return "\n      ".join([line[:_SHOWN_CHARS] for line in lines[:_SHOWN_LINES]] + more)


def stream_listener(*, names_agents: bool = False) -> Listener:
    """Return a listener that prints events on stdout, one JSON object a line; images stay in the run folder.

    Args:
        names_agents: True to start each object with the id of its agent.
    """

    def listen(event: Event) -> None:
        record = event_object(event)
        if record is not None:
            terminal.echo_json({"agent": event.ids.agent_id, **record} if names_agents else record)
            sys.stdout.flush()

    return listen


def print_result(result: RunResult, files: Mapping[str, str]) -> None:
    """Print the result for people: only the answer on stdout, everything else on stderr.

    Args:
        result: Result of the run.
        files: Paths of the written files, by name.
    """
    end = result.end
    cost = "" if not result.usage.cost_usd else f", {result.usage.cost_usd:.4f} USD"
    tokens = "" if not result.usage.total_tokens else f", {result.usage.total_tokens} tokens"
    terminal.secho(end.status, err=True, fg=COLOURS[end.status], bold=True, nl=False)
    terminal.echo(f": {end.reason} ({result.num_steps} steps, {result.duration_s:.1f} s{tokens}{cost})", err=True)
    print_files(files)
    if end.answer is not None and end.status != "failed":  # a failed run's answer is its reason, printed above
        terminal.echo(end.answer)


def print_files(files: Mapping[str, str]) -> None:
    """Print the paths of the written files, by name."""
    for name, path in files.items():
        terminal.echo(f"{name}: {path}", err=True)


def event_object(event: Event) -> Json | None:
    """Return an event as a JSON object; None for events that are not streamed."""
    match event:
        case RunStarted():
            return {"event": "run_started", "instruction": event.instruction, "run_dir": event.run_dir}
        case Observed(index=index, observation=seen):
            size = {"native_px": seen.geometry.native_px, "sent_px": seen.geometry.sent_px}
            return {"event": "observed", "step": index, "url": seen.url, "title": seen.title, **size}
        case Decided(index=index, turn=turn, actions=actions):
            described = [{"verb": type(action).__name__, **asdict(action)} for action in actions]
            turn_object = {"thought": turn.thought, "action": turn.action_text, "code": turn.code}
            return {"event": "decided", "step": index, **turn_object, "actions": described}
        case StepDone(step=step, usage=usage):
            timings = {stage: round(seconds, 4) for stage, seconds in step.timings.items()}
            return {
                "event": "step_done",
                "step": step.index,
                "error": step.error,
                "timings_s": timings,
                "usage": asdict(usage),
            }
        case CallsStarted(index=index, reply=reply):
            calls = [asdict(call) for call in reply.tool_calls]
            return {"event": "calls_started", "step": index, "content": reply.content, "calls": calls}
        case CallReturned(index=index, outcome=outcome):
            result = outcome.result
            facts = {"id": outcome.call.id, "number": outcome.number, "is_error": result.is_error}
            images = sum(isinstance(part, ImagePart) for part in result.parts)
            return {"event": "call_returned", "step": index, **facts, "text": result.text, "pictures": images}
        case ToolStepDone(step=tool_step, usage=usage):
            timings = {stage: round(seconds, 4) for stage, seconds in tool_step.timings.items()}
            facts = {"step": tool_step.index, "error": tool_step.remark, "timings_s": timings}
            return {"event": "step_done", **facts, "usage": asdict(usage)}
        case Noted(kind=kind, text=text):
            return {"event": "note", "kind": kind, "text": text}
        case _:
            return None
