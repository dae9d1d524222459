"""Task of the suite: files, an instruction, a check, and a solution and a near miss that validate the check."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.office.package import open_package
from apps.office.safe_xml import OfficeError
from envs.env import EnvSpec, QuestionTask, TaskSpec, TaskVerdict
from envs.suite import FAMILY

Check = Callable[[Path, str], list[str]]
Act = Callable[[Path], str | None]
"""Function that works in a folder and returns an answer, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeCase:
    """Definition of a task.

    Attributes:
        name: Unique name, such as `comment-contract`.
        family: `make`, `edit`, `extract`, `convert`, `reconcile` or `annotate`.
        instruction: Instruction of the agent.
        prepare: Function that writes the input files into a folder.
        check: Function that returns the errors in the folder and the answer; [] if there are none.
        solve: Function that solves the task in the folder and returns the answer: the check then finds nothing.
        miss: Function that nearly solves the task: the check must find a fault.
        lacks: Function that returns a missing requirement, such as a package that is not installed; "" if none.
    """

    name: str
    family: str
    instruction: str
    prepare: Act
    check: Check
    solve: Act
    miss: Act
    lacks: Callable[[], str] = str


class OfficeTask(QuestionTask):
    """Case as a task for agents with tools."""

    def __init__(self, case: OfficeCase, task_id: str) -> None:
        self.case = case
        self.instruction = (
            f"{case.instruction}\n\nThe files lie in the working folder. Save what you make there, under the names "
            "that are asked for; what is to be answered, answer in plain words."
        )
        self.spec = TaskSpec(id=task_id, env=EnvSpec(name="browser"), metadata={FAMILY: case.family})
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Input files of the agent, written on first access."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="k25-task-")
            self.case.prepare(Path(self._folder.name))
        return tuple(sorted(Path(self._folder.name).iterdir()))

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Return 1 if the check finds nothing in the agent's folder, else 0."""
        answer = env.terminate.answer if env.terminate is not None else None
        failures = evaluate_case(self.case, getattr(env, "folder", None), answer)
        return TaskVerdict(not failures, info={"faults": failures[:10]})


def evaluate_case(case: OfficeCase, folder: Path | None, answer: str | None) -> list[str]:
    """Return what the check finds wrong; a missing or unreadable file is a failure, too."""
    if folder is None:
        return ["there is no folder to look into"]
    try:
        return case.check(folder, answer or "")
    except (OfficeError, OSError, KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        return [f"{type(error).__name__}: {error}"]


@dataclass(slots=True)
class Failures:
    """Collector of failed expectations."""

    messages: list[str] = field(default_factory=list)

    def expect(self, is_so: object, text: str) -> None:
        """Add a message unless a condition is true."""
        if not is_so:
            self.messages.append(text)


def open_checked(path: Path) -> Path:
    """Return the path of a result file after opening it safely.

    Raises:
        OfficeError: If the file is missing or cannot be read.
    """
    open_package(path)
    return path


def prepare_nothing(folder: Path) -> None:
    """Do nothing: there is nothing to prepare."""
