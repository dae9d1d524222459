"""Export of a run in the result layout of the OSWorld harness, so that its tools can read the run.

Source: xlang-ai/OSWorld, lib_run_single.py and run_multienv_kimi_k25.py (layout, names, one line an action).
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cua.errors import TrajectoryError
from cua.gui_agent.interpreter.render import to_pyautogui
from cua.json_text import Json
from cua.step import Step
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import check_name
from cua.trajectory.run_record import ActionsOutcome, RunRecord
from envs import Action, Terminate, Wait

ACTION_SPACE, OBSERVATION_TYPE = "pyautogui", "screenshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class OSWorldNames:
    """Variable parts of a result's path in OSWorld's result tree."""

    domain: str
    task_id: str
    model: str


def export_osworld(record: RunRecord, result_dir: Path | str, names: OSWorldNames) -> Path:
    """Write `traj.jsonl`, the screenshots and, if the run has a score, `result.txt`.

    Without a score (unverified, interrupted, an error) there is no `result.txt`, which the harness
    reads as "not done yet": a missing score is not zero.

    Raises:
        TrajectoryError: If a name is not a valid folder name, the folder cannot be written, or the run has no screens.
    """
    if record.is_tool_run:
        raise TrajectoryError(f"{record.run_dir.name} is a run of `cua ask`: it has no screens")
    parts = (ACTION_SPACE, OBSERVATION_TYPE, names.model, names.domain, names.task_id)
    for part in parts:
        try:
            check_name(part)
        except TrajectoryError as error:
            raise TrajectoryError(
                f"{part!r} cannot name a folder of results; use letters, digits, '-' and '_'"
            ) from error
    folder = Path(result_dir).joinpath(*parts)
    with translate_os_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(line, ensure_ascii=False) for line in _lines(record, folder, names)]
        write_atomically(folder / "traj.jsonl", "".join(f"{line}\n" for line in lines).encode())
        score = record.end.score if record.end else None
        if score is not None:
            write_atomically(folder / "result.txt", f"{float(score)}\n".encode())
    return folder


def split_special(step: Step) -> Iterator[tuple[str, Sequence[Action]]]:
    """Split a step as the harness counts actions: one piece of code, then `WAIT`, `DONE` or `FAIL`."""
    plain = tuple(action for action in step.actions if not isinstance(action, Terminate))
    if plain and all(isinstance(action, Wait) for action in plain) and "computer.wait" in step.turn.code:
        yield "WAIT", plain
    elif plain:
        yield to_pyautogui(plain), plain
    for action in step.actions:
        if isinstance(action, Terminate):
            yield ("DONE" if action.status == "success" else "FAIL"), (action,)


def _lines(record: RunRecord, folder: Path, names: OSWorldNames) -> Iterator[Json]:
    for position, (step, outcome) in enumerate(zip(record.steps, record.outcomes, strict=True)):
        if outcome.carried_out:
            yield from _step_lines(record, position, step, outcome, folder)
    if record.end and record.end.status == "error":
        yield {"Error": f"{names.domain}/{names.task_id} - {record.end.reason}"}


def _step_lines(record: RunRecord, position: int, step: Step, outcome: ActionsOutcome, folder: Path) -> Iterator[Json]:
    pieces = list(split_special(step))
    # One image per step: the screen after its last action, which is what the next step saw.
    after = _index_after(record, position)
    is_last_step = position == len(record.steps) - 1
    for number, (action, _) in enumerate(pieces):
        done = action in ("DONE", "FAIL")
        stamp = _stamp(outcome.finished_at, number)
        name = f"step_{step.index}_{stamp}.png"
        image = record.image(after) if after is not None else b""
        if image:
            write_atomically(folder / name, image)
        yield {
            "step_num": step.index,
            "action": action,
            "natural_language_action": step.turn.action_text,
            "action_timestamp": stamp,
            "response": {"role": "assistant", "content": step.reply.content, "reasoning_content": step.reply.reasoning},
            "reward": outcome.reward if number == len(pieces) - 1 else 0.0,
            "done": done or (is_last_step and number == len(pieces) - 1 and record.result is not None),
            "info": {
                **outcome.info,
                **({"done": True} if done else {}),
                **({"error": step.error} if step.error else {}),
            },
            "screenshot_file": name if image else None,
        }


def _index_after(record: RunRecord, position: int) -> int | None:
    """Return the number of the observation that followed a step; its own number if nothing followed."""
    index = record.steps[position].index
    later = [seen for seen in record.images if seen > index]
    return min(later, default=index)


def _stamp(unix_s: float, number: int) -> str:
    """Return `YYYYmmdd@HHMMSS` and microseconds, which distinguish two actions of one step."""
    micros = int(unix_s * 1_000_000) + number
    return time.strftime("%Y%m%d@%H%M%S", time.localtime(micros // 1_000_000)) + f"{micros % 1_000_000:06d}"
