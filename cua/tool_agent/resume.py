"""Resuming of a run in a fresh kernel: repeats the recorded cells; reports the variables lost with a kernel."""

import ast
import keyword
import re
import shutil
import symtable
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cua.errors import ConfigError
from cua.evidence.notebook import cell_data, repeating_code
from cua.evidence.recorded_inputs import RestoredInputs, recorded_inputs, restore_inputs
from cua.evidence.verify import describe_difference
from cua.guard.guard import check_call
from cua.run.scope import Spent
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.conversation import Compaction, Conversation, InterruptedStep, RunSnapshot, UserMessage
from cua.tool_agent.profile import ToolContext
from cua.tools.kernel_tools import SPARE_S
from cua.trajectory.chain import FILES
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.run_record import RunRecord
from visual_tools.sandbox.contract import CellResult, Kernel

MAX_LISTED_NAMES = 40
"""Limit of the names in a message; a cell may assign any number of them."""
MAX_PROBLEMS = 10  # differences that the model is shown; all are in the record
_NAMES = "print(*sorted(globals()), sep='\\n')"
_SHELL_VALUE = re.compile(r"=\s*[!%].*$", re.MULTILINE)
_NO_PYTHON = re.compile(r"^[^\S\n]*[!%?].*$|^.*\?[^\S\n]*$", re.MULTILINE)
_ASSIGNED = re.compile(r"^([A-Za-z_]\w*)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)


def load_snapshot(record: RunRecord) -> RunSnapshot:
    """Return the recorded part of a run for its agent to continue from."""
    questions, at = [], 0
    for exchange in record.exchanges:
        questions.append(UserMessage(parts=exchange.question, at=at))
        at += len(exchange.steps)
    steps, pending = record.tool_steps, record.pending_calls
    interrupted = InterruptedStep(index=pending[0], reply=pending[1]) if pending else None
    conversation = Conversation(
        questions=tuple(questions), steps=steps, interrupted_step=interrupted, compaction=_last_compaction(record)
    )
    return RunSnapshot(
        conversation=conversation,
        spent=Spent(
            usage=record.usage,
            num_steps=len(steps),
            num_calls=conversation.num_calls + (len(interrupted.reply.tool_calls) if interrupted else 0),
            time_s=sum(sum(step.timings.values()) for step in steps),
        ),
        end=record.end,
    )


def _last_compaction(record: RunRecord) -> Compaction:
    """Return the last recorded compaction, so that the model is shown the same conversation."""
    data = next((note.data for note in reversed(record.notes) if note.kind == "context" and note.data), {})
    summary = data.get("summary")
    return Compaction(
        num_discarded=int(data.get("num_discarded", 0)),
        num_hidden=int(data.get("num_hidden", 0)),
        summary=summary if isinstance(summary, str) else None,
        max_result_chars=data.get("max_result_chars"),
    )


def restore_files(record: RunRecord) -> RestoredInputs:
    """Make a fresh working folder with unmodified copies of the inputs; keep the old one as `files-1`, ...

    Raises:
        TrajectoryError: If a name in the record leads out of the run's folder.
        ConfigError: If an input is missing.
    """
    folder, fresh = record.run_dir / FILES, record.run_dir / f"{FILES}.new"
    with translate_os_errors("write", record.run_dir):
        if fresh.is_dir() and not fresh.is_symlink():
            shutil.rmtree(fresh)  # left by an interrupted resume
        where_they_lie = [Path(entry.name) for entry in recorded_inputs(record) if not entry.is_copied]
        laid_out = restore_inputs(record, fresh, where_they_lie)
        if folder.is_dir() and any(folder.iterdir()):
            folder.rename(next(path for path in _free_folders(record.run_dir) if not path.exists()))
        elif folder.exists():
            folder.rmdir()
        fresh.rename(folder)
    return laid_out


def _free_folders(run_dir: Path) -> Iterator[Path]:
    for number in range(1, 10_000):
        yield run_dir / f"{FILES}-{number}"
    raise ConfigError(f"{run_dir} was resumed too often; ask again")


async def repeat_cells(
    record: RunRecord, context: ToolContext, agent: ToolAgent, findings: Sequence[str] = ()
) -> str | None:
    """Run the recorded cells and commands again, in order, each within its limits, and compare the results.

    Calls that ran no code in the sandbox are not repeated: their results are in the conversation. A cell during which
    the kernel died is not repeated either.

    Returns:
        Note for the model: results that differ, and variables that are lost or may have changed.

    Raises:
        SandboxError: If code cannot be run.
    """
    problems, differing, num_cells = list(findings), set[str](), 0
    for outcome in record.call_outcomes:
        code = repeating_code(outcome, limit_s=context.limits.wall_s)
        if code is None or cell_data(outcome).status == "died":
            continue
        num_cells += 1
        why = await _repeat(outcome, code, context, agent)
        if why:
            problems.append(f"[^{outcome.number}^] {why}")
            differing |= assigned_names(code, with_imports=False) if cell_data(outcome).kind == "ipython" else set()
    present = await _present_names(context.kernel)
    lost = names_after(record.tool_steps, only_sure=True) - present
    note = _describe(problems, lost, differing & present)
    agent.scope.note("resumed", f"{num_cells} cells were run again" + (f". {note}" if note else ", all as before"))
    if note is None:
        return None
    return f"This run broke off and was resumed: its cells were run again in a fresh Python, on fresh files. {note}"


async def _repeat(outcome: CallOutcome, code: str, context: ToolContext, agent: ToolAgent) -> str:
    """Repeat a call; return the difference between the results, or "" if they are equal."""
    verdict = await check_call(agent.guard, outcome.call, is_isolated=agent.is_isolated)
    if verdict.decision != "allow":
        return f"it was not run again: {verdict.reason}"
    result: CellResult
    if cell_data(outcome).kind == "ipython":
        result = await context.kernel.run(code)
    else:
        result = await context.second_kernel.run(code, timeout_s=context.limits.wall_s + SPARE_S)
    return describe_difference(outcome, result)


async def describe_lost_variables(kernel: Kernel, steps: Sequence[ToolStep]) -> str | None:
    """Return a note for the model if the kernel ended since its last cell; None if its variables are kept."""
    if not names_after(steps):
        return None
    result = await kernel.run("pass", store_history=False)
    if not result.is_state_lost:
        return None
    names = names_after(steps) - await _present_names(kernel)
    return f"The kernel ended since the last question and was restarted. {_describe((), names, ())} Files are kept."


def _describe(problems: Sequence[str], lost: Iterable[str], changed: Iterable[str]) -> str | None:
    pieces = [f"Not as before: {'; '.join(problems[:MAX_PROBLEMS])}."] if problems else []
    pieces[:0] = (
        [f"{len(problems)} results differ, the first {MAX_PROBLEMS} are:"] if len(problems) > MAX_PROBLEMS else []
    )
    pieces += [f"These variables are gone: {_listed(lost)}."] if lost else []
    pieces += [f"These may hold other values than before: {_listed(changed)}."] if changed else []
    return " ".join(pieces) or None


def _listed(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - MAX_LISTED_NAMES} more" if len(known) > MAX_LISTED_NAMES else ""
    return ", ".join(known[:MAX_LISTED_NAMES]) + more


async def _present_names(kernel: Kernel) -> set[str]:
    """Return the variables of the kernel; its output is untrusted, so only names are taken from it."""
    result = await kernel.run(_NAMES, store_history=False)
    return {line for line in result.text.split("\n") if line.isidentifier()}


def names_after(steps: Sequence[ToolStep], *, only_sure: bool = False) -> set[str]:
    """Return names assigned by cells, by static analysis; `only_sure`: only by cells that completed."""
    names: set[str] = set()
    for outcome in (outcome for step in steps for outcome in step.outcomes):
        data = cell_data(outcome)
        if outcome.result.data.get("is_state_lost") is True:
            names = set()
        if data.kind == "ipython" and data.status != "died" and (data.status == "ok" or not only_sure):
            names = (names - _deleted_names(data.code)) | assigned_names(data.code)
    return names


def assigned_names(code: str, *, with_imports: bool = True) -> set[str]:
    """Return names assigned at the top level of a cell: assignments, functions, classes, imports."""
    plain = _to_python(code)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the code are for its author
            symbols = symtable.symtable(plain, "cell", "exec").get_symbols()
        names = {
            symbol.get_name() for symbol in symbols if symbol.is_assigned() or (with_imports and symbol.is_imported())
        }
        return names - _deleted_names(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {name for name in _ASSIGNED.findall(plain) if not keyword.iskeyword(name)}


def _deleted_names(code: str) -> set[str]:
    """Return names that the top level of a cell deletes."""
    try:
        body = ast.parse(_to_python(code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    targets = [target for node in body if isinstance(node, ast.Delete) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _to_python(code: str) -> str:
    """Remove IPython syntax from a cell: `%time`, `!ls`, `x = !ls`; a `%%bash` cell is not Python at all."""
    first, _, rest = code.lstrip().partition("\n")
    if first.startswith("%%"):
        code = rest if first.split()[0] in ("%%time", "%%timeit", "%%capture", "%%prun") else ""
    return _NO_PYTHON.sub("", _SHELL_VALUE.sub("= None", code))
