"""Tasks on web apps as data; the evaluation compares all changes of the apps' state."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.actions import Terminate
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.suites.apps.app import Facts

Wording = Literal["goal", "steps"]
AnswerCheck = Callable[[Any], bool]
"""Function that returns True for an accepted value; None represents a removed value."""

IMPOSSIBLE = "impossible"
CROSS_SITE = "cross-site"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTaskConfig:
    """One task.

    Attributes:
        id: `SITE/NAME`, or `cross-site/NAME`.
        instruction: The instruction, in natural language.
        steps: The same as plain steps, one action each, for a model that follows instructions literally.
        sites: Apps that the task needs; it starts on the first one.
        path: Start path on the first app.
        changes: Required changes, by path in the facts: the new value, None for a removal, or a function that accepts
            values. Other changes are not allowed. A sequence gives alternatives.
        answer: Required answer, if any; the agent must also report success.
        is_possible: True if the task can be done; else nothing may change, and the agent must report failure.
        is_signed_in: True if the task starts signed in.
        family: Kind of work, `"create"`; `impossible` for tasks that cannot be done, `cross-site` for tasks on several
            sites.
        difficulty: 1 (a few clicks on the page that is open) to 3 (several pages, something to find out).
        human_steps: Number of actions (click, text, key) for a person who knows the app.
    """

    id: str
    instruction: str
    steps: str
    sites: tuple[str, ...]
    path: str = "/"
    changes: Mapping[str, object] | tuple[Mapping[str, object], ...] = field(default_factory=dict)
    answer: AnswerCheck | None = None
    is_possible: bool = True
    is_signed_in: bool = True
    family: str
    difficulty: Literal[1, 2, 3]
    human_steps: int

    def __post_init__(self) -> None:
        if self.is_possible and not self.changes and self.answer is None:
            raise ValueError(f"the task {self.id!r} has nothing to do: neither changes nor an answer")

    def is_right(self, before: Facts, after: Facts) -> bool:
        """Return True if the required changes were made, and no others."""
        changed = find_changes(before, after)
        ways = self.changes if isinstance(self.changes, tuple) else (self.changes,)
        return any(
            changed.keys() == way.keys() and all(_matches(way[path], changed[path]) for path in way) for way in ways
        )


class AppTask(Task):
    """Task on an `AppsEnv`.

    Args:
        config: Config of the task.
        wording: `goal` for the instruction, `steps` for step-by-step instructions.
    """

    def __init__(self, config: AppTaskConfig, wording: Wording = "goal") -> None:
        self.config = config
        self.sites = config.sites
        self.instruction = config.instruction if wording == "goal" else config.steps
        self.spec = TaskSpec(
            id=config.id,
            env=EnvSpec(name="apps"),
            metadata={
                "family": config.family,
                "difficulty": config.difficulty,
                "human_steps": config.human_steps,
                "sites": list(config.sites),
                "wording": wording,
            },
        )
        self._before: Facts = {}

    async def setup(self, env: Any) -> None:
        """Sign in and open the start page."""
        self._before = await env.facts()
        if self.config.is_signed_in:
            await env.sign_in()
        await env.goto(env.app(self.sites[0]).app.url + self.config.path)

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Return 1.0 if exactly the required changes were made and the answer is right, else 0.0."""
        if not self._is_claim_right(env.terminate):
            return TaskVerdict(0.0)
        return TaskVerdict(self.config.is_right(self._before, await env.facts()))

    def _is_claim_right(self, claim: Terminate | None) -> bool:
        answer = self.config.answer
        if not self.config.is_possible:
            return claim is not None and claim.status == "failure"
        return answer is None or (claim is not None and claim.status == "success" and answer(claim.answer or ""))


def find_changes(before: Facts, after: Facts) -> dict[str, object]:
    """Return new and changed facts with their new value, and removed facts with None."""
    paths = before.keys() | after.keys()
    return {path: after.get(path) for path in paths if before.get(path) != after.get(path)}


def has(*texts: str) -> AnswerCheck:
    """Return a check that a text contains all of these, ignoring case."""
    return lambda value: isinstance(value, str) and all(text.lower() in value.lower() for text in texts)


def says_number(number: float) -> AnswerCheck:
    """Return a check that an answer contains only this number (`19.95`, `19,95`); ticket numbers (`#3`) are ignored."""

    def is_it(answer: object) -> bool:
        numbers = re.findall(r"(?<![#\w.,])\d+(?:[.,]\d+)?(?!\w)", str(answer))
        return len(numbers) > 0 and all(float(text.replace(",", ".")) == number for text in numbers)

    return is_it


def _matches(wanted: object, value: object) -> bool:
    return wanted(value) if callable(wanted) else bool(wanted == value)
