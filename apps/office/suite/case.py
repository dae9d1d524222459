"""A task of the suite: files, an instruction, a check; and, to prove the check, a solution and a near miss."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.office.package import open_package
from apps.office.safe_xml import OfficeError
from envs.env import EnvSpec, Question, TaskSpec, TaskVerdict
from envs.suite import FAMILY

Check = Callable[[Path, str], list[str]]
Act = Callable[[Path], str | None]
"""Works in a folder and gives an answer, if there is one to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a task is made of.

    Attributes:
        name: Unique, such as `comment-contract`.
        family: `make`, `edit`, `extract`, `convert`, `reconcile` or `annotate`.
        instruction: What the agent is told.
        prepare: Writes the files that it is given into a folder.
        check: What is wrong with the folder and the answer; [] when all is as asked.
        solve: Does it in the folder, and gives the answer: the check finds nothing then.
        miss: Does nearly that: the check must find something.
        lacks: Why it cannot be had here, such as a package that is not installed; "" when it can.
    """

    name: str
    family: str
    instruction: str
    prepare: Act
    check: Check
    solve: Act
    miss: Act
    lacks: Callable[[], str] = str


class OfficeTask(Question):
    """A case as a task of agents with tools."""

    def __init__(self, case: Case, task_id: str) -> None:
        self.case = case
        self.instruction = (
            f"{case.instruction}\n\nThe files lie in the working folder. Save what you make there, under the names "
            "that are asked for; what is to be answered, answer in plain words."
        )
        self.spec = TaskSpec(id=task_id, env=EnvSpec(name="browser"), metadata={FAMILY: case.family})
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that the agent is given; written when they are first asked for."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="k25-task-")
            self.case.prepare(Path(self._folder.name))
        return tuple(sorted(Path(self._folder.name).iterdir()))

    async def evaluate(self, env: Any) -> TaskVerdict:
        """1 when the check finds nothing in the agent's folder, else 0."""
        answer = env.terminate.answer if env.terminate is not None else None
        faults = judge(self.case, getattr(env, "folder", None), answer)
        return TaskVerdict(not faults, info={"faults": faults[:10]})


def judge(case: Case, folder: Path | None, answer: str | None) -> list[str]:
    """What is wrong; a file that is not there or cannot be read is a fault, too."""
    if folder is None:
        return ["there is no folder to look into"]
    try:
        return case.check(folder, answer or "")
    except (OfficeError, OSError, KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        return [f"{type(error).__name__}: {error}"]


@dataclass(slots=True)
class Faults:
    """Collects what is wrong."""

    found: list[str] = field(default_factory=list)

    def expect(self, is_so: object, text: str) -> None:
        """Note a text unless something is so."""
        if not is_so:
            self.found.append(text)


def opened(path: Path) -> Path:
    """A file that was made, after it was opened safely.

    Raises:
        OfficeError: It is not there, or cannot be read.
    """
    open_package(path)
    return path


def nothing(folder: Path) -> None:
    """Prepare nothing."""
