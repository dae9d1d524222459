"""Which of OSWorld's tasks cannot be evaluated on this machine: known from their files, before a guest is started."""

import importlib.util
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping

from envs.errors import EnvSetupError
from envs.suites.osworld.local import why_impossible
from envs.suites.osworld.local_sandbox import GUEST_PATH, shims
from envs.suites.osworld.local_tasks import load_local_tasks
from envs.suites.osworld.setup_steps import why_impossible_step
from envs.suites.osworld.task_file import TaskFile

_NO_ANSWER = "who does nothing"
"""Begins the reason of a task that is left out of the list `local` although it can be evaluated."""
_FROM_WEB = "from the web"
_SHELL_MARKS = frozenset("|&;<>()$`\\\"'*?[]#~=%\n")


def find_unavailable(
    files: Mapping[str, TaskFile],
    provider: str,
    why_not_judged: Callable[[TaskFile], str | None],
    *,
    has_web: bool = False,
) -> dict[str, str]:
    """Return by task id the reason why it cannot be evaluated, in one clause; tasks that can be are left out.

    Args:
        files: The tasks by id.
        provider: Where guests come from.
        why_not_judged: What a verdict needs that is not there, as `Judging.why_unavailable`.
        has_web: Local guests reach the web.

    Raises:
        EnvSetupError: No guest of this provider can be made here.
    """
    _check_provider(provider)
    reasons = {id: next(_reasons(file, provider, why_not_judged, has_web), None) for id, file in files.items()}
    return {id: reason for id, reason in reasons.items() if reason is not None}


def _check_provider(provider: str) -> None:
    if provider == "local" and (why := why_impossible()) is not None:
        raise EnvSetupError(why)
    if provider in ("docker", "vmware") and importlib.util.find_spec("desktop_env") is None:
        raise EnvSetupError(f"the provider {provider!r} needs upstream's package: pip install desktop-env")


def _reasons(
    file: TaskFile, provider: str, why_not_judged: Callable[[TaskFile], str | None], has_web: bool
) -> Iterator[str]:
    for step in (*file.setup, *file.postconfig):
        if (why := why_impossible_step(step.kind)) is not None:
            yield f"needs {why}"
    if any(
        source.get("type") == "googledrive_file" for one in file.metrics for source in (one.result, one.expected or {})
    ):
        yield "needs an account at Google Drive"
    if (why := why_not_judged(file)) is not None:
        yield f"needs {why}"
    if provider == "local":
        yield from _missing_in_local_guest(file, has_web)


def _missing_in_local_guest(file: TaskFile, has_web: bool) -> Iterator[str]:
    """What a local guest is known to lack, by a trial of the task or because a program is not on this machine."""
    tried = load_local_tasks().get(file.key)
    why = tried.why_not if tried is not None else None
    if why is not None and not why.startswith(_NO_ANSWER) and not (has_web and why.endswith(_FROM_WEB)):
        yield f"does not work in a local guest: {why}"
    for step in (*file.setup, *file.postconfig):
        program = _program_of(step.parameters.get("command")) if step.kind == "launch" else ""
        if program and program not in shims() and shutil.which(program, path=GUEST_PATH) is None:
            yield f"needs the program {program}, which is not on this machine"


def _program_of(command: object) -> str:
    """Return the program that a command starts; "" where a shell decides."""
    if isinstance(command, str) and not _SHELL_MARKS & set(command):
        command = shlex.split(command)
    return str(command[0]) if isinstance(command, list) and command and not _SHELL_MARKS & set(str(command[0])) else ""
